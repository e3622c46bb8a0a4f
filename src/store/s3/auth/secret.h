// SPDX-License-Identifier: Apache-2.0
// Memory that held a secret: wiped when released, and never moved, since moving leaves a copy.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "store/s3/auth/credentials.h"

#define S3_NEVER          INT64_MAX
#define SECRET_ANSWER_MAX ((size_t)64 << 10)

// What one source answered.
struct s3_fetched {
    struct s3_keys keys;
    int64_t expires_ms;    // S3_NEVER: it does not say
    char role[S3_KEY_MAX]; // "": the source has no names
};

void s3_fetched_wipe(struct s3_fetched *f);
// Keys that can be signed with and sent in a header. NULL, or what is wrong, without the value.
const char *s3_keys_problem(const struct s3_keys *keys);

void secret_init(struct buf *b, size_t limit); // takes all of its memory at once
void secret_done(struct buf *b);
// Errno values, 0 when done; EFBIG past the limit.
MUST_USE int secret_read_fd(int fd, struct buf *to);
MUST_USE int secret_read_file(const char *path, struct buf *to);
// An http_call whose answer may hold keys.
void secret_call_init(struct http_call *call, const char *method, const char *url);
void secret_call_done(struct http_call *call);
// Text without a zero inside, as a string. False: it does not fit or has one.
bool secret_copy(char *to, size_t size, struct bytes from);
