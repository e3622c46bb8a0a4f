// SPDX-License-Identifier: Apache-2.0
// Every error of the project: one code per action that the caller can take.
#pragma once

#define ERR_LIST(X) /* http, exit */                                                               \
    X(OK, "ok", 200, 0)                                                                            \
    X(INVALID, "the request is malformed; fix it", 400, 2)                                         \
    X(NOT_FOUND, "no such queue, message or object", 404, 3)                                       \
    X(CONFLICT, "precondition failed; reload and decide", 409, 4)                                  \
    X(FENCED, "a newer holder has this; stop", 410, 5)                                             \
    X(LIMIT, "a stated limit was reached; back off", 429, 6)                                       \
    X(UNAVAILABLE, "not applied; try again later", 503, 7)                                         \
    X(UNKNOWN, "may have been applied; send it again", 504, 8)                                     \
    X(CORRUPT, "stored bytes fail their check; halt", 500, 9)                                      \
    X(DENIED, "credentials or scope do not allow this", 403, 10)

enum err {
#define ERR_ENUM(name, text, http, exit) ERR_##name,
    ERR_LIST(ERR_ENUM)
#undef ERR_ENUM
        ERR_COUNT
};

// Marks a function whose returned error must not be ignored: that is a warning.
#define MUST_USE __attribute__((warn_unused_result))

const char *err_name(enum err e); // "UNKNOWN"
const char *err_text(enum err e); // the sentence in the table
int err_http(enum err e);
int err_exit(enum err e);

// What the answer to a repeated request says about the request as a whole, while an earlier attempt
// with the same request id may still take effect. LIMIT, UNAVAILABLE and DENIED can be answered
// without an entry. Then they say only that the repeat had no effect, so the result is UNKNOWN.
enum err err_repeated(enum err e);
