// SPDX-License-Identifier: Apache-2.0
// Every error of the project: one code per action that the caller can take.
#pragma once

#define ERR_LIST(X) /* title, text, http, exit */                                                  \
    X(OK, "ok", "ok", 200, 0)                                                                      \
    X(INVALID, "invalid request", "the request is malformed; fix it", 400, 2)                      \
    X(NOT_FOUND, "not found", "no such queue, message or object", 404, 3)                          \
    X(CONFLICT, "conflict", "precondition failed; reload and decide", 409, 4)                      \
    X(FENCED, "fenced", "a newer holder has this; stop", 410, 5)                                   \
    X(LIMIT, "limit reached", "a stated limit was reached; back off", 429, 6)                      \
    X(UNAVAILABLE, "unavailable", "not applied; try again later", 503, 7)                          \
    X(UNKNOWN, "outcome unknown", "may have been applied; send it again", 504, 8)                  \
    X(CORRUPT, "damaged data", "stored bytes fail their check; halt", 500, 9)                      \
    X(DENIED, "not allowed", "credentials or scope do not allow this", 403, 10)

enum err {
#define ERR_ENUM(name, title, text, http, exit) ERR_##name,
    ERR_LIST(ERR_ENUM)
#undef ERR_ENUM
        ERR_COUNT
};

// Marks a function whose returned error must not be ignored: that is a warning.
#define MUST_USE __attribute__((warn_unused_result))

const char *err_name(enum err e);  // "UNKNOWN"
const char *err_title(enum err e); // two words for a person: "outcome unknown"
const char *err_text(enum err e);  // the sentence in the table
int err_http(enum err e);
int err_exit(enum err e);

// What the answer to a repeated request says about the request as a whole, while an earlier attempt
// with the same request id may still take effect. LIMIT, UNAVAILABLE and DENIED can be answered
// without an entry. Then they say only that the repeat had no effect, so the result is UNKNOWN.
enum err err_repeated(enum err e);
