// SPDX-License-Identifier: Apache-2.0
// What an S3 answer means for us: one table, no I/O.
#pragma once

#include "base/err.h"
#include "net/http.h"

#include <stdbool.h>

// What was asked, as far as it changes the meaning of an answer.
enum s3_ask {
    S3_CREATE = 1, // PUT with If-None-Match: *
    S3_WRITE = 2,  // PUT
    S3_READ = 4,   // GET and HEAD of an object
    S3_LIST = 8,   // GET of the bucket
    S3_DELETE = 16 // DELETE, and POST ?delete=
};

// What is to be done about it, before the caller is told.
enum s3_next {
    S3_TELL,       // nothing: the answer stands
    S3_AGAIN,      // send it again after a while
    S3_AGAIN_SLOW, // the same, and everybody else slows down too
    S3_SET_CLOCK,  // our clock is wrong: sign with the time of this answer
    S3_NEW_KEYS,   // the keys are not good, or no longer
    S3_MOVE,       // the bucket is in another region
};

struct s3_class {
    enum err err;
    enum s3_next next;
};

// code: S3's name of the error, "" when there was none (HEAD has no body). sends: how often the
// request was put on a connection.
struct s3_class s3_classify(enum s3_ask ask, enum http_end end, int status, const char *code,
                            int sends);
