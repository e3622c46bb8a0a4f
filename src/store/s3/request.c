// SPDX-License-Identifier: Apache-2.0
// Builds, signs, sends and classifies a request, and repeats it where that is safe. A put is never
// repeated after an answer that leaves open whether it was applied: the caller of the store decides
// what to do.
#include "store/s3/request.h"

#include "base/check.h"
#include "net/digest.h"
#include "os/clock.h"
#include "os/lock.h"
#include "store/backend.h"
#include "store/s3/auth/times.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRIES           11 // of a read or a delete: about six seconds in total
#define PUT_TRIES       5  // of a put that was answered "not applied"
#define RETRY_AFTER_MAX 60000
#define DATE_LATE_MS    10 // a Date can be this much older than the moment it was written
#define LINES_LEN_MAX   ((size_t)32 << 10)
#define URL_LEN_MAX     ((size_t)16 << 10)

void s3_exchange_init(struct s3_exchange *x, enum s3_ask ask, const char *method, const char *key)
{
    *x = (struct s3_exchange){.ask = ask, .method = method, .key = key, .body_max = S3_ANSWER_MAX};
    http_call_init(&x->call, method, "");
    sigv4_signed_init(&x->sign);
    buf_init(&x->url, URL_LEN_MAX);
    buf_init(&x->lines, LINES_LEN_MAX);
}

void s3_exchange_done(struct s3_exchange *x)
{
    http_call_done(&x->call);
    sigv4_signed_done(&x->sign);
    buf_done(&x->url);
    if (x->lines.data) explicit_bzero(x->lines.data, x->lines.len); // it holds the session token
    buf_done(&x->lines);
    explicit_bzero(&x->keys, sizeof x->keys);
}

void s3_query(struct s3_exchange *x, const char *name, const char *value)
{
    CHECK(x->query_len < S3_QUERY_MAX);
    x->query[x->query_len++] = (struct sigv4_pair){name, value};
}

void s3_header(struct s3_exchange *x, const char *name, const char *value)
{
    CHECK(x->headers_len < S3_HEADERS_MAX);
    x->headers[x->headers_len++] = (struct sigv4_pair){name, value};
}

static struct interval whole_second(struct bytes text)
{
    int64_t ms;
    if (!s3_time_http(text, &ms)) return (struct interval){TIME_UNKNOWN, TIME_NEVER};
    return (struct interval){ms, ms + 999};
}

void s3_note_shown(struct store_answer *a, struct interval modified)
{
    bool known = modified.lo != TIME_UNKNOWN;
    if (known && modified.lo > a->time.hi) a->time.hi = modified.hi;
}

struct interval s3_modified(const struct s3_exchange *x, struct store_answer *a)
{
    struct interval modified = whole_second(http_header(&x->call, "last-modified"));
    s3_note_shown(a, modified);
    return modified;
}

static void line_put(struct s3_exchange *x, size_t at[S3_LINES_MAX], size_t *count,
                     const char *name, const char *value)
{
    CHECK(*count < S3_LINES_MAX);
    at[(*count)++] = x->lines.len;
    buf_put(&x->lines, bytes_str(name));
    buf_put(&x->lines, bytes_str(": "));
    buf_put(&x->lines, bytes_of(value, strlen(value) + 1));
}

static const char *text_of(const struct buf *b)
{
    return (const char *)b->data;
}

static void build_lines(struct s3_exchange *x)
{
    size_t at[S3_LINES_MAX], count = 0;
    buf_clear(&x->lines);
    for (size_t i = 0; i < x->headers_len; i++)
        line_put(x, at, &count, x->headers[i].name, x->headers[i].value);
    line_put(x, at, &count, "Authorization", text_of(&x->sign.authorization));
    line_put(x, at, &count, "x-amz-content-sha256", x->payload);
    line_put(x, at, &count, "x-amz-date", x->sign.date);
    if (x->keys.session_token[0])
        line_put(x, at, &count, "x-amz-security-token", x->keys.session_token);
    CHECK(!x->lines.bad);
    for (size_t i = 0; i < count; i++)
        x->line[i] = text_of(&x->lines) + at[i];
    x->call.headers = x->line;
    x->call.headers_len = count;
}

static void hash_body(struct s3_exchange *x)
{
    if (x->payload[0]) return; // a repeat has the same body
    uint8_t hash[SHA256_LEN];
    sha256(x->body, hash);
    hex_print(bytes_of(hash, sizeof hash), x->payload);
}

static void build(struct s3_client *c, struct s3_exchange *x, int64_t now_ms)
{
    char path[S3_BUCKET_MAX + S3_PREFIX_MAX + STORE_KEY_MAX + 8];
    int len = snprintf(path, sizeof path, "%s%s/%s%s", x->place.path_style ? "/" : "",
                       x->place.path_style ? x->place.bucket : "", x->key ? c->base : "",
                       x->key ? x->key : "");
    CHECK(len > 0 && (size_t)len < sizeof path);
    hash_body(x);
    const struct sigv4_request r = {
        .method = x->method,
        .host = x->place.host,
        .path = path,
        .query = x->query,
        .query_len = x->query_len,
        .headers = x->headers,
        .headers_len = x->headers_len,
        .region = x->place.region,
        .service = "s3",
        .time_ms = now_ms,
        .payload_sha256 = x->payload,
    };
    const struct sigv4_keys keys = {x->keys.access_key, x->keys.secret_key, x->keys.session_token};
    sigv4_sign(&r, &keys, &x->sign);
    build_lines(x);
    buf_clear(&x->url);
    buf_put(&x->url, bytes_str(x->place.https ? "https://" : "http://"));
    buf_put(&x->url, bytes_str(x->place.host));
    buf_put(&x->url, bytes_of(x->sign.target.data, strlen(text_of(&x->sign.target)) + 1));
    CHECK(!x->url.bad);
    x->call.method = x->method;
    x->call.url = text_of(&x->url);
    x->call.body = x->body;
    x->call.timeout_ms = store_patience_ms(c->store, c->timeout_ms);
    x->call.body_max = x->body_max;
}

enum err s3_begin(struct s3_client *c, struct s3_exchange *x, struct store_answer *a)
{
    int64_t now_boot = clock_boot_ms();
    if (now_boot >= c->store->until_ms)
        return answer_refuse(a, ERR_UNAVAILABLE,
                             "the deadline of this command passed before %.100s was requested",
                             x->key ? x->key : "the bucket");
    (void)pthread_mutex_lock(&c->lock);
    int64_t start = s3_pace_admit(&c->pace, now_boot);
    (void)pthread_mutex_unlock(&c->lock);
    if (start - now_boot > store_patience_ms(c->store, c->timeout_ms))
        return answer_refuse(a, ERR_UNAVAILABLE,
                             "the store asks for fewer requests, and other requests wait already");
    clock_sleep(start - now_boot);
    (void)pthread_mutex_lock(&c->lock);
    x->place = c->place;
    int64_t now_ms = c->time_known ? clock_boot_ms() + c->offset_ms : c->wall_ms();
    x->call.fresh = clock_boot_ms() < c->fresh_until_ms;
    (void)pthread_mutex_unlock(&c->lock);
    enum err e = s3_credentials_get(c->credentials, now_ms, &x->keys, a->why, sizeof a->why);
    if (e) return e;
    build(c, x, now_ms);
    return ERR_OK;
}

static void charge(const struct s3_exchange *x, struct store_answer *a)
{
    uint32_t sends = x->call.sends > 0 ? (uint32_t)x->call.sends : 0;
    if (sends == 0 && x->call.end != HTTP_NOT_SENT) sends = 1;
    if (strcmp(x->method, "DELETE") == 0)
        a->cost.deletes += sends;
    else if (x->ask == S3_READ)
        a->cost.reads += sends;
    else
        a->cost.writes += sends;
}

// S3's Date has whole seconds, and the server writes it at some moment of the exchange. The clock
// behind Date can lag behind the clock that stamps objects: Ceph RGW stamps objects with
// clock_gettime and writes Date with time(2). The kernel advances time(2) once a tick, which is
// every 10 ms at 100 Hz.
static void note_time(struct s3_client *c, const struct s3_exchange *x, struct store_answer *a)
{
    struct interval date = whole_second(http_header(&x->call, "date"));
    if (date.lo == TIME_UNKNOWN) return;
    a->time = (struct interval){date.lo, date.hi + DATE_LATE_MS};
    c->offset_ms = date.lo + 500 - x->call.received_ms;
    c->time_known = true;
}

void s3_conclude(struct s3_client *c, struct s3_exchange *x, struct store_answer *a)
{
    bool answered = x->call.end == HTTP_ANSWERED || x->call.end == HTTP_TOO_LONG;
    x->error = (struct s3_error){0};
    if (answered && x->call.status >= 300)
        (void)s3_xml_error(buf_bytes(&x->call.body_in), &x->error);
    x->answer_class =
        s3_classify(x->ask, x->call.end, x->call.status, x->error.code, x->call.sends);
    // A store returns an ETag for each object that it stores. A 200 without one comes from another
    // server.
    bool put = x->ask == S3_CREATE || x->ask == S3_WRITE;
    if (put && x->answer_class.err == ERR_OK && http_header(&x->call, "etag").len == 0)
        x->answer_class = (struct s3_class){ERR_UNKNOWN, S3_AGAIN};
    charge(x, a);
    LOCKED(&c->lock);
    // A 429 or 5xx can come from a proxy before the store, whose clock can differ.
    if (answered && x->call.status != 429 && x->call.status < 500) note_time(c, x, a);
    if (x->answer_class.next == S3_AGAIN_SLOW)
        s3_pace_slow(&c->pace, clock_boot_ms());
    else if (answered && x->call.status < 500)
        s3_pace_good(&c->pace);
}

static enum err explain_denied(const struct s3_exchange *x, struct store_answer *a)
{
    const char *code = x->error.code[0] ? x->error.code : "no reason given";
    int status = x->call.status;
    const char *what = x->key ? x->key : "the bucket";
    if (strcmp(code, "NoSuchBucket") == 0)
        return answer_refuse(a, ERR_DENIED, "there is no bucket \"%s\" at %.100s", x->place.bucket,
                             x->place.host);
    if (x->answer_class.next == S3_MOVE && x->error.region[0])
        return answer_refuse(a, ERR_DENIED, "bucket \"%s\" is in region %s, not in %s",
                             x->place.bucket, x->error.region, x->place.region);
    if (status < 400)
        return answer_refuse(a, ERR_DENIED,
                             "%.100s answered %d for bucket \"%s\": the bucket has another "
                             "address; check the endpoint and the region",
                             x->place.host, status, x->place.bucket);
    if (status == 403 && x->ask == S3_READ && !strcmp(code, "AccessDenied"))
        return answer_refuse(
            a, ERR_DENIED,
            "%s %.60s: 403 AccessDenied (S3 also answers this for a missing object "
            "if the keys in use may not list the bucket)",
            x->method, what);
    return answer_refuse(a, ERR_DENIED, "%s %.80s in bucket \"%s\": %d %s%s%.80s", x->method, what,
                         x->place.bucket, status, code, x->error.message[0] ? ": " : "",
                         x->error.message);
}

enum err s3_explain(const struct s3_exchange *x, struct store_answer *a)
{
    enum err e = x->answer_class.err;
    const char *what = x->key ? x->key : "the bucket";
    if (e == ERR_OK || e == ERR_CONFLICT || e == ERR_NOT_FOUND) {
        a->why[0] = 0;
        return e;
    }
    if (x->call.end == HTTP_NOT_SENT || x->call.end == HTTP_LOST)
        return answer_refuse(a, e, "%s %.80s: %.140s", x->method, what, x->call.why);
    if (e == ERR_DENIED) return explain_denied(x, a);
    if (x->ask == S3_CREATE && e == ERR_INVALID && x->call.status == 501)
        return answer_refuse(a, e,
                             "%.100s does not implement If-None-Match for a PUT: it cannot create "
                             "an object atomically and cannot be used",
                             x->place.host);
    return answer_refuse(a, e, "%s %.80s: the store answered %d %s%s%.100s", x->method, what,
                         x->call.status, x->error.code, x->error.message[0] ? ": " : "",
                         x->error.message);
}

// Returns true if the handle now uses another region than the one x was sent to.
static bool move(struct s3_client *c, struct s3_exchange *x)
{
    struct bytes region = http_header(&x->call, "x-amz-bucket-region");
    if (region.len > 0 && region.len < sizeof x->error.region) {
        memcpy(x->error.region, region.data, region.len);
        x->error.region[region.len] = 0;
    }
    LOCKED(&c->lock);
    bool moved = strcmp(c->place.region, x->place.region) != 0; // another thread changed it
    if (!moved) moved = s3_place_move(&c->place, x->error.region);
    return moved;
}

static int64_t retry_after_ms(const struct s3_exchange *x)
{
    char text[16] = "";
    struct bytes value = http_header(&x->call, "retry-after");
    if (value.len == 0 || value.len >= sizeof text) return 0; // a date is ignored
    memcpy(text, value.data, value.len);
    long seconds = strtol(text, NULL, 10);
    if (seconds <= 0) return 0;
    return seconds > RETRY_AFTER_MAX / 1000 ? RETRY_AFTER_MAX : seconds * 1000;
}

// A put is repeated only if the store itself answered that it was not applied.
static bool repeatable(const struct s3_exchange *x, int tries)
{
    if (x->ask != S3_CREATE && x->ask != S3_WRITE) return tries < TRIES;
    return x->call.end == HTTP_ANSWERED && x->answer_class.err == ERR_UNAVAILABLE &&
           tries < PUT_TRIES;
}

static bool repeat_later(struct s3_client *c, struct s3_exchange *x, int tries, int64_t end_ms)
{
    if (!repeatable(x, tries)) return false;
    int64_t after = x->call.end == HTTP_ANSWERED ? retry_after_ms(x) : 0;
    (void)pthread_mutex_lock(&c->lock);
    int64_t wait = s3_pace_retry(&c->pace, tries, after, clock_boot_ms(), end_ms, &c->rng);
    (void)pthread_mutex_unlock(&c->lock);
    if (wait < 0) return false;
    clock_sleep(wait);
    x->repeated = true;
    return true;
}

// Corrects clock, keys and region at most once each per call.
static bool again(struct s3_client *c, struct s3_exchange *x, int tries, int64_t end_ms)
{
    bool *once = NULL;
    switch (x->answer_class.next) {
    case S3_FINAL:
        return false;
    case S3_AGAIN:
    case S3_AGAIN_SLOW:
        return repeat_later(c, x, tries, end_ms);
    case S3_SET_CLOCK: // s3_conclude has set it
        once = &x->clock_set;
        break;
    case S3_NEW_KEYS:
        once = &x->keys_changed;
        if (!*once && !s3_credentials_refused(c->credentials, &x->keys)) return false;
        break;
    case S3_MOVE:
        once = &x->moved;
        if (!*once && !move(c, x)) return false;
        break;
    }
    bool first = !*once;
    *once = true;
    return first;
}

// If a connection hangs, it must not use up all the time of a request that can be repeated. So the
// first try gets a third of the time, the second try half of the rest.
static int64_t try_ms(const struct s3_client *c, const struct s3_exchange *x, int tries,
                      int64_t end_ms)
{
    bool repeatable = x->ask != S3_CREATE && x->ask != S3_WRITE;
    int64_t left = end_ms - clock_boot_ms();
    if (!repeatable && tries == 1) return store_patience_ms(c->store, c->timeout_ms);
    if (!repeatable) return left > 0 ? left : 1;
    if (tries <= 2 && left > 6) left /= 4 - tries;
    return left > 0 ? left : 1;
}

enum err s3_perform(struct s3_client *c, struct s3_exchange *x, struct store_answer *a)
{
    // No try starts after this time.
    int64_t end_ms = clock_boot_ms() + store_patience_ms(c->store, c->timeout_ms);
    x->clock_set = x->keys_changed = x->moved = x->repeated = false;
    for (int tries = 1;; tries++) {
        enum err e = s3_begin(c, x, a);
        if (e) return e;
        x->call.timeout_ms = try_ms(c, x, tries, end_ms);
        http_do(c->http, &x->call);
        s3_conclude(c, x, a);
        if (!again(c, x, tries, end_ms)) break;
    }
    // A 409 says that our earlier bytes were not applied. If a server says so wrongly, this 412 is
    // caused by them. UNKNOWN makes the caller send again and read.
    if (x->repeated && x->ask == S3_CREATE && x->answer_class.err == ERR_CONFLICT) {
        x->answer_class.err = ERR_UNKNOWN;
        return answer_refuse(a, ERR_UNKNOWN,
                             "PUT %.100s: the store refused it after it was sent twice", x->key);
    }
    return s3_explain(x, a);
}
