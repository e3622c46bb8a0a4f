// SPDX-License-Identifier: Apache-2.0
// Memory that holds a secret. It is wiped on release. It is never moved, because a move leaves a
// copy.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "store/s3/auth/credentials.h"

#define S3_NEVER          INT64_MAX
#define SECRET_ANSWER_MAX ((size_t)64 << 10)

// The answer of one source.
struct s3_source_answer {
    struct s3_keys keys;
    int64_t expires_ms;    // S3_NEVER: the source sets no expiry
    char role[S3_KEY_MAX]; // "": the source has no role names
};

void s3_fetched_wipe(struct s3_source_answer *f);
// Checks that the keys can sign and fit into a header. Returns NULL, or what is wrong without the
// value.
const char *s3_keys_problem(const struct s3_keys *keys);

void secret_init(struct buf *b, size_t limit); // allocates all of its memory at once
void secret_done(struct buf *b);
// Return 0 or an errno value; EFBIG if the content exceeds the limit.
MUST_USE int secret_read_file(const char *path, struct buf *to);
// An http_call for an answer that may hold keys.
void secret_call_init(struct http_call *call, const char *method, const char *url);
void secret_call_done(struct http_call *call);
// Copies the text as a string. Returns false if it does not fit or contains a zero byte.
bool secret_copy(char *to, size_t size, struct bytes from);
