// SPDX-License-Identifier: Apache-2.0
// Bytes as text in base64.
#pragma once

#include "base/bytes.h"

void base64_put(struct buf *to, struct bytes of);
// Reads RFC 4648's plain alphabet, padded, without line breaks. Returns false if the text is not
// that, or if `to` is full. `to` then holds the bytes before the fault.
bool base64_read(struct bytes text, struct buf *to);
