// SPDX-License-Identifier: Apache-2.0
// Reads a few flat fields of a JSON answer that holds keys. jansson is not used here: it copies
// strings to memory that it does not wipe, and these strings are secrets.
#pragma once

#include "store/s3/auth/secret.h"

struct s3_json_field {
    const char *name;
    char *to; // receives a string's text, unescaped, or a number as it is written
    size_t size;
    bool found; // false for null
};

// Accepts one object and nothing after it; skips other fields of any type. Returns NULL, or what is
// wrong without quoting the text.
const char *s3_json_fields(struct bytes text, struct s3_json_field *fields, size_t count);

// Reads the answer of a container's or instance's metadata service, or of a credential_process
// (which must have Version 1). ERR_DENIED: the service reports why it has no keys. ERR_UNAVAILABLE:
// the answer is malformed.
MUST_USE enum err s3_json_keys(struct bytes text, bool process, struct s3_source_answer *out,
                               char *why, size_t why_len);
