// SPDX-License-Identifier: Apache-2.0
// The few flat fields of a JSON answer that holds keys. A reader of our own: the library then needs
// no JSON library, and no secret is copied to memory that nobody wipes.
#pragma once

#include "store/s3/auth/secret.h"

struct s3_json_field {
    const char *name;
    char *to; // a string's text, unescaped; a number as it is written
    size_t size;
    bool found; // null is not found
};

// Strict: one object and nothing after it; other fields are skipped, of any shape. NULL, or what is
// wrong, without the text.
const char *s3_json_fields(struct bytes text, struct s3_json_field *fields, size_t count);

// The answer of a container's or instance's metadata service, or of a credential_process (which
// must say version 1). ERR_DENIED: the service says why there are none. ERR_UNAVAILABLE: nonsense.
MUST_USE enum err s3_json_keys(struct bytes text, bool process, struct s3_fetched *out, char *why,
                               size_t why_len);
