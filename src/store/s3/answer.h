// SPDX-License-Identifier: Apache-2.0
// Classifies the answers of S3: one table, no I/O.
#pragma once

#include "base/err.h"
#include "net/http.h"

// The kinds of request that differ in the meaning of an answer.
enum s3_ask {
    S3_CREATE = 1, // PUT with If-None-Match: *
    S3_WRITE = 2,  // PUT
    S3_READ = 4,   // GET and HEAD of an object
    S3_LIST = 8,   // GET of the bucket
    S3_DELETE = 16 // DELETE, and POST ?delete=
};

// What the exchange does before the caller gets the answer.
enum s3_next {
    S3_FINAL,      // nothing: the answer is final
    S3_AGAIN,      // send the request again after a pause
    S3_AGAIN_SLOW, // the same, and the whole handle slows down
    S3_SET_CLOCK,  // our clock is wrong: sign with the time of this answer
    S3_NEW_KEYS,   // the keys are invalid or expired: fetch new ones
    S3_MOVE,       // the bucket is in another region
};

struct s3_class {
    enum err err;
    enum s3_next next;
};

// code: S3's name of the error; "" if there was none (the answer to a HEAD has no body). sends: how
// many times the request was written to a connection.
struct s3_class s3_classify(enum s3_ask ask, enum http_end end, int status, const char *code,
                            int sends);
