// SPDX-License-Identifier: Apache-2.0
// A text for a service's credentials: from an environment variable, or from the file that another
// variable names.
#pragma once

#include "base/err.h"

#include <stddef.h>

#define SECRET_TEXT_MAX 1024 // bytes

// file_name may be NULL. If neither variable is set, `to` is empty. INVALID: why has the sentence,
// which never has a part of the text.
MUST_USE enum err secret_text_read(char to[static SECRET_TEXT_MAX + 1], const char *name,
                                   const char *file_name, char *why, size_t why_len);
