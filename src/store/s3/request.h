// SPDX-License-Identifier: Apache-2.0
// One signed exchange with a bucket, and the loop that repeats exchanges that are safe to repeat.
#pragma once

#include "base/rng.h"
#include "net/http.h"
#include "store/s3/answer.h"
#include "store/s3/auth/credentials.h"
#include "store/s3/auth/sigv4.h"
#include "store/s3/pace.h"
#include "store/s3/url.h"
#include "store/s3/xml.h"
#include "store/store.h"

#include <pthread.h>

#define S3_QUERY_MAX   6
#define S3_HEADERS_MAX 3
#define S3_LINES_MAX   (S3_HEADERS_MAX + 4)
#define S3_ANSWER_MAX  ((size_t)4 << 20) // the longest XML document that is read

// State that all exchanges of a handle share.
struct s3_client {
    struct http *http;
    struct http *metadata; // for metadata services: uses no proxy
    struct s3_credentials *credentials;
    int64_t (*wall_ms)(void);
    int64_t timeout_ms;
    const struct store *store;    // its until_ms bounds every exchange
    char base[S3_PREFIX_MAX + 2]; // prefix of every key: "prefix/" or ""
    pthread_mutex_t lock;         // guards the fields below
    struct s3_place place;
    struct s3_pace pace;
    struct rng rng;
    // The store has reported its time. From then on the wall clock is not read.
    bool time_known;
    int64_t offset_ms; // store time minus the boot clock
    // An answer was wrong: until this time, by clock_boot_ms, requests use new connections.
    int64_t fresh_until_ms;
};

// One request and its answer: set the request's fields, perform, read the answer. Can be used
// again.
struct s3_exchange {
    enum s3_ask ask;
    const char *method;
    const char *key; // below the base; NULL: the bucket itself
    struct sigv4_pair query[S3_QUERY_MAX];
    size_t query_len;
    struct sigv4_pair headers[S3_HEADERS_MAX];
    size_t headers_len;
    struct bytes body;
    size_t body_max; // limit of the answer's body

    struct s3_class answer_class;
    struct s3_error error;
    struct http_call call;

    // Working state of the exchange.
    struct s3_place place;
    struct s3_keys keys;
    struct sigv4_signature sign;
    struct buf url;
    struct buf lines;
    const char *line[S3_LINES_MAX];
    char payload[65]; // SHA-256 of the body, in hex
    bool clock_set, keys_changed, moved, repeated;
};

void s3_exchange_init(struct s3_exchange *x, enum s3_ask ask, const char *method, const char *key);
void s3_exchange_done(struct s3_exchange *x);
void s3_query(struct s3_exchange *x, const char *name, const char *value);
void s3_header(struct s3_exchange *x, const char *name, const char *value);

// Performs the whole exchange. Repeats it where that is safe, and sets why if it fails. Adds the
// cost and the store's time to the answer.
MUST_USE enum err s3_perform(struct s3_client *c, struct s3_exchange *x, struct store_answer *a);

// The same in three steps, without repeats, so that several exchanges can run at once. Between
// s3_begin and s3_conclude the caller performs x->call. s3_explain sets why and returns the error.
MUST_USE enum err s3_begin(struct s3_client *c, struct s3_exchange *x, struct store_answer *a);
void s3_conclude(struct s3_client *c, struct s3_exchange *x, struct store_answer *a);
MUST_USE enum err s3_explain(const struct s3_exchange *x, struct store_answer *a);

// Last-Modified, as an interval of one second; the whole of time if the header is missing.
struct interval s3_modified(const struct s3_exchange *x, struct store_answer *a);
// The answer shows an object of that time. So the answer is at least as late, even if its Date is
// earlier.
void s3_note_shown(struct store_answer *a, struct interval modified);
