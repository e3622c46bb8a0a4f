// SPDX-License-Identifier: Apache-2.0
// The messages of a send as the caller gave them: checks and a copy.
#pragma once

#include "base/bytes.h"
#include "sluice.h"

struct bytes text_or_empty(const char *t); // NULL is empty
// INVALID: a message cannot be sent; error names the field.
enum sluice_code sends_check(const struct sluice_send *messages, size_t len,
                             struct sluice_error *error);
// Encodes the headers. INVALID: they are too long, or one has no name.
enum sluice_code headers_encode(const struct sluice_send *m, struct buf *out,
                                struct sluice_error *error);
// A copy in one allocation.
struct sluice_send *sends_copy(const struct sluice_send *messages, size_t len);
