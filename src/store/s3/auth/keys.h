// SPDX-License-Identifier: Apache-2.0
// Reads the keys in a JSON answer. No secret of it is copied to memory that is not wiped.
#pragma once

#include "store/s3/auth/secret.h"

// Reads the answer of a container's or instance's metadata service, or of a credential_process
// (which must have Version 1). ERR_DENIED: the service reports why it has no keys. ERR_UNAVAILABLE:
// the answer is malformed.
MUST_USE enum err s3_keys_read(struct bytes text, bool process, struct s3_source_answer *out,
                               char *why, size_t why_len);
