// SPDX-License-Identifier: Apache-2.0
// The table of answers. A write without a clear answer is UNKNOWN: it may have been applied, or may
// be applied later. Only sending it again can decide.
#include "store/s3/answer.h"

#include <stddef.h>
#include <string.h>

#define WRITES (S3_CREATE | S3_WRITE | S3_DELETE)
#define PUTS   (S3_CREATE | S3_WRITE)
#define READS  (S3_READ | S3_LIST)
#define ALL    (WRITES | READS)

struct s3_answer_row {
    int status_lo, status_hi;
    const char *code; // NULL: any
    unsigned asks;
    struct s3_class answer_class;
};

// The first row that matches decides.
static const struct s3_answer_row rows[] = {
    {200, 299, NULL, ALL, {ERR_OK, S3_FINAL}},

    // A create that lost. Some older servers answer 304, as they would to a GET.
    {412, 412, NULL, S3_CREATE, {ERR_CONFLICT, S3_FINAL}},
    {304, 304, NULL, S3_CREATE, {ERR_CONFLICT, S3_FINAL}},
    // "A conflicting conditional operation is in progress": this request was not applied, and the
    // other one is not decided yet.
    {409, 409, NULL, PUTS, {ERR_UNAVAILABLE, S3_AGAIN}},

    {404, 404, "NoSuchBucket", ALL, {ERR_DENIED, S3_FINAL}},
    {404, 404, NULL, S3_READ, {ERR_NOT_FOUND, S3_FINAL}},
    {404, 404, NULL, S3_DELETE, {ERR_OK, S3_FINAL}},
    {404, 404, NULL, ALL, {ERR_DENIED, S3_FINAL}}, // not the address of a bucket
    {416, 416, NULL, S3_READ, {ERR_OK, S3_FINAL}}, // the range starts past the end
    {403, 403, "RequestTimeTooSkewed", ALL, {ERR_DENIED, S3_SET_CLOCK}},
    {400, 403, "ExpiredToken", ALL, {ERR_DENIED, S3_NEW_KEYS}},
    {400, 403, "InvalidToken", ALL, {ERR_DENIED, S3_NEW_KEYS}},
    {400, 403, "TokenRefreshRequired", ALL, {ERR_DENIED, S3_NEW_KEYS}},
    {400, 403, "InvalidAccessKeyId", ALL, {ERR_DENIED, S3_NEW_KEYS}},
    {400, 400, "AuthorizationHeaderMalformed", ALL, {ERR_DENIED, S3_MOVE}},
    {300, 399, NULL, ALL, {ERR_DENIED, S3_MOVE}},

    // Limits. The store read such a request and refused it.
    {400, 403, "EntityTooLarge", ALL, {ERR_LIMIT, S3_FINAL}},
    {403, 403, "QuotaExceeded", PUTS, {ERR_LIMIT, S3_FINAL}},
    {413, 413, NULL, ALL, {ERR_LIMIT, S3_FINAL}},
    {507, 507, NULL, PUTS, {ERR_LIMIT, S3_FINAL}},

    // The body did not arrive as it was sent.
    {400, 400, "BadDigest", ALL, {ERR_UNAVAILABLE, S3_AGAIN}},
    {400, 400, "IncompleteBody", ALL, {ERR_UNAVAILABLE, S3_AGAIN}},
    {400, 400, "XAmzContentSHA256Mismatch", ALL, {ERR_UNAVAILABLE, S3_AGAIN}},
    {400, 400, "RequestTimeout", READS, {ERR_UNAVAILABLE, S3_AGAIN}},
    {400, 400, "RequestTimeout", WRITES, {ERR_UNKNOWN, S3_AGAIN}},

    {401, 403, NULL, ALL, {ERR_DENIED, S3_FINAL}},
    {405, 405, NULL, ALL, {ERR_DENIED, S3_FINAL}},
    {408, 408, NULL, READS, {ERR_UNAVAILABLE, S3_AGAIN}},
    {408, 408, NULL, WRITES, {ERR_UNKNOWN, S3_AGAIN}},
    {501, 501, NULL, ALL, {ERR_INVALID, S3_FINAL}},
    {400, 400, "NotImplemented", ALL, {ERR_INVALID, S3_FINAL}},

    {429, 429, NULL, READS, {ERR_UNAVAILABLE, S3_AGAIN_SLOW}},
    {429, 429, NULL, WRITES, {ERR_UNKNOWN, S3_AGAIN_SLOW}},
    {503, 503, NULL, READS, {ERR_UNAVAILABLE, S3_AGAIN_SLOW}},
    {503, 503, NULL, WRITES, {ERR_UNKNOWN, S3_AGAIN_SLOW}},
    // An answer without an S3 error code does not come from the store, but from a proxy or gateway.
    {400, 499, "", READS, {ERR_UNAVAILABLE, S3_AGAIN}},
    {400, 499, "", WRITES, {ERR_UNKNOWN, S3_AGAIN}},
    {400, 499, NULL, ALL, {ERR_INVALID, S3_FINAL}},
};

// Every other answer that is incomplete or unclear: 5xx, a lost connection.
static struct s3_class unclear(enum s3_ask ask)
{
    return (struct s3_class){ask & READS ? ERR_UNAVAILABLE : ERR_UNKNOWN, S3_AGAIN};
}

static struct s3_class look_up(enum s3_ask ask, int status, const char *code)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct s3_answer_row *r = &rows[i];
        if (status < r->status_lo || status > r->status_hi || !(r->asks & ask)) continue;
        if (!r->code || strcmp(r->code, code) == 0) return r->answer_class;
    }
    return unclear(ask);
}

struct s3_class s3_classify(enum s3_ask ask, enum http_end end, int status, const char *code,
                            int sends)
{
    if (end == HTTP_NOT_SENT) return (struct s3_class){ERR_UNAVAILABLE, S3_AGAIN};
    if (end == HTTP_LOST) return unclear(ask);
    struct s3_class v = look_up(ask, status, code);
    if (end == HTTP_TOO_LONG && v.err == ERR_OK) {
        // A write is applied even if its answer is too long to read.
        if (ask & READS) v = (struct s3_class){ERR_LIMIT, S3_FINAL};
    }
    // The request was on the wire more than once, because the server had closed a kept connection,
    // and the last one was refused. An earlier one may have been applied: a 412 may be caused by
    // our own object. The caller sends it again and reads what is stored.
    if (sends > 1 && (ask & PUTS) && v.err != ERR_OK) v.err = ERR_UNKNOWN;
    return v;
}
