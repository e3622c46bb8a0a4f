// SPDX-License-Identifier: Apache-2.0
// A bucket as a store. put_new is a PUT with If-None-Match: *. The other operations are S3
// operations of the same names.
#include "store/s3/s3.h"

#include "base/base64.h"
#include "base/memory.h"
#include "net/digest.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "store/backend.h"
#include "store/s3/log.h"
#include "store/s3/request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DELETE_MAX      1000 // keys in one request
#define DELETE_TRIES    4
#define DELETE_BODY_MAX ((size_t)DELETE_MAX * (S3_PREFIX_MAX + STORE_KEY_MAX) * 5)
#define METADATA_MS     1000
#define DISTRUST_MS     1000

struct s3 {
    struct store base;
    struct s3_client client;
    struct s3_logs logs;
    pid_t pid;
};

static struct s3 *s3_of(struct store *s)
{
    return (struct s3 *)s;
}

static enum err s3_write(struct store *s, enum s3_ask ask, const char *key, struct bytes body,
                         struct store_answer *a)
{
    LOCAL(s3_exchange, x, ask, "PUT", key);
    s3_header(&x, "Content-Type", "application/octet-stream");
    if (ask == S3_CREATE) s3_header(&x, "If-None-Match", "*");
    x.body = body;
    return s3_perform(&s3_of(s)->client, &x, a);
}

static enum err s3_put_new(struct store *s, const char *key, struct bytes body,
                           struct store_answer *a)
{
    return s3_write(s, S3_CREATE, key, body, a);
}

static enum err s3_put(struct store *s, const char *key, struct bytes body, struct store_answer *a)
{
    return s3_write(s, S3_WRITE, key, body, a);
}

// A server without support for ranges sends the whole object.
static struct bytes cut(const struct s3_exchange *x, size_t from, size_t len)
{
    struct bytes body = buf_bytes(&x->call.body_in);
    if (x->call.status == 416 || body.len == 0) return BYTES_EMPTY;
    if (x->call.status != 206) {
        if (from > body.len) from = body.len;
        body = bytes_of(body.data + from, body.len - from);
    }
    if (body.len > len) body.len = len;
    return body;
}

static enum err s3_get(struct store *s, const char *key, size_t from, size_t len,
                       struct store_answer *a)
{
    char range[64];
    LOCAL(s3_exchange, x, S3_READ, "GET", key);
    x.body_max = STORE_OBJECT_MAX;
    bool to_end = len >= SIZE_MAX - from;
    if (to_end)
        (void)snprintf(range, sizeof range, "bytes=%zu-", from);
    else // S3 has no empty range, but the object's time is needed
        (void)snprintf(range, sizeof range, "bytes=%zu-%zu", from, from + (len ? len - 1 : 0));
    if (from > 0 || !to_end) s3_header(&x, "Range", range);
    enum err e = s3_perform(&s3_of(s)->client, &x, a);
    if (e) return e;
    a->modified = s3_modified(&x, a);
    struct bytes body = cut(&x, from, len);
    if (body.len > 0) buf_put(&a->body, body);
    return a->body.bad ? answer_refuse(a, ERR_LIMIT, "the answer is over its limit") : ERR_OK;
}

// Returns whether a key has the form of our keys: a bucket can hold other objects.
static bool key_ours(const char *key)
{
    if (key[0] == 0 || key[0] == '/' || strlen(key) > STORE_KEY_MAX) return false;
    for (; *key; key++) {
        bool word = (*key >= 'a' && *key <= 'z') || (*key >= 'A' && *key <= 'Z') ||
                    (*key >= '0' && *key <= '9') || *key == '_' || *key == '.' || *key == '-';
        if (!word && (*key != '/' || key[1] == '/' || key[1] == 0)) return false;
    }
    return true;
}

// Last-Modified of a GET has whole seconds. A list is rounded the same way, so that one object has
// one time.
static struct interval second_of(int64_t ms)
{
    return (struct interval){ms - ms % 1000, ms - ms % 1000 + 999};
}

static void list_take(const struct s3_client *c, const struct s3_listing *page, size_t limit,
                      struct store_answer *a)
{
    size_t base_len = strlen(c->base);
    for (size_t i = 0; i < page->rows_len; i++) {
        const char *key = s3_listed_key(page, i);
        if (strncmp(key, c->base, base_len) != 0 || !key_ours(key + base_len)) continue;
        if (a->rows_len == limit) {
            a->more = true;
            return;
        }
        struct interval modified = second_of(page->rows[i].modified_ms);
        answer_row_key(a, key + base_len, page->rows[i].size, modified);
        s3_note_shown(a, modified);
    }
}

static enum err list_page(struct s3_client *c, const char *prefix, const char *after, size_t limit,
                          struct s3_listing *page, struct store_answer *a)
{
    char full_prefix[S3_PREFIX_MAX + STORE_KEY_MAX + 2], full_after[sizeof full_prefix], rows[24];
    char token[S3_TOKEN_TEXT];
    memcpy(token, page->token, sizeof token);
    (void)snprintf(full_prefix, sizeof full_prefix, "%s%s", c->base, prefix);
    (void)snprintf(full_after, sizeof full_after, "%s%s", c->base, after);
    (void)snprintf(rows, sizeof rows, "%zu", limit);
    LOCAL(s3_exchange, x, S3_LIST, "GET", NULL);
    s3_query(&x, "list-type", "2");
    s3_query(&x, "encoding-type", "url");
    s3_query(&x, "max-keys", rows);
    s3_query(&x, "prefix", full_prefix);
    if (token[0])
        s3_query(&x, "continuation-token", token);
    else if (after[0])
        s3_query(&x, "start-after", full_after);
    enum err e = s3_perform(c, &x, a);
    if (e) return e;
    if (s3_xml_listing(buf_bytes(&x.call.body_in), page)) return ERR_OK;
    return answer_refuse(a, ERR_UNAVAILABLE, "the answer of %.100s is not a list of objects",
                         x.place.host);
}

static enum err s3_list(struct store *s, const char *prefix, const char *after, size_t limit,
                        struct store_answer *a)
{
    struct s3_client *c = &s3_of(s)->client;
    LOCAL(s3_listing, page);
    size_t ask = limit;
    do {
        enum err e = list_page(c, prefix, after, ask, &page, a);
        if (e) return e;
        list_take(c, &page, limit, a);
        ask = STORE_LIST_MAX; // objects that are not ours fill the pages: use the largest page
        if (page.more && page.token[0] == 0)
            return answer_refuse(a, ERR_UNAVAILABLE,
                                 "the store's list has more pages but no continuation token");
    } while (page.more && a->rows_len < limit);
    a->more |= page.more;
    return a->body.bad ? answer_refuse(a, ERR_LIMIT, "the answer is over its limit") : ERR_OK;
}

static enum err delete_one(struct s3_client *c, const char *key, struct store_answer *a)
{
    LOCAL(s3_exchange, x, S3_DELETE, "DELETE", key);
    return s3_perform(c, &x, a);
}

// A request that succeeds as a whole can fail for some of its keys.
static enum err delete_result(const struct s3_exchange *x, struct store_answer *a)
{
    struct s3_error first;
    size_t errors;
    if (!s3_xml_deleted(buf_bytes(&x->call.body_in), &first, &errors))
        return answer_refuse(a, ERR_UNKNOWN, "the answer of %.100s does not list the deleted keys",
                             x->place.host);
    if (errors == 0) return ERR_OK;
    bool denied = strcmp(first.code, "AccessDenied") == 0;
    return answer_refuse(a, denied ? ERR_DENIED : ERR_UNKNOWN,
                         "%zu keys were not deleted, the first for %s: %.100s", errors, first.code,
                         first.message);
}

static enum err delete_some(struct s3_client *c, const char *const *keys, size_t count,
                            struct store_answer *a)
{
    struct buf body CLEANUP(buf_done), sum CLEANUP(buf_done);
    buf_init(&body, DELETE_BODY_MAX);
    buf_init(&sum, 64);
    s3_xml_put_delete(&body, c->base, keys, count);
    uint8_t hash[MD5_LEN];
    md5(buf_bytes(&body), hash); // S3 requires it for this request
    base64_put(&sum, bytes_of(hash, sizeof hash));
    buf_put_u8(&sum, 0);
    LOCAL(s3_exchange, x, S3_DELETE, "POST", NULL);
    s3_query(&x, "delete", "");
    s3_header(&x, "Content-Type", "application/xml");
    s3_header(&x, "Content-MD5", (const char *)sum.data);
    x.body = buf_bytes(&body);
    enum err e = ERR_UNKNOWN;
    for (int i = 0; e == ERR_UNKNOWN && i < DELETE_TRIES; i++) {
        e = s3_perform(c, &x, a);
        if (e) return e;
        e = delete_result(&x, a);
    }
    return e;
}

static enum err s3_delete(struct store *s, const char *const *keys, size_t count,
                          struct store_answer *a)
{
    struct s3_client *c = &s3_of(s)->client;
    if (count == 1) return delete_one(c, keys[0], a);
    for (size_t at = 0; at < count; at += DELETE_MAX) {
        size_t some = count - at < DELETE_MAX ? count - at : DELETE_MAX;
        enum err e = delete_some(c, keys + at, some, a);
        if (e) return e;
    }
    return ERR_OK;
}

static enum err s3_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                          struct store_answer *a)
{
    enum err e = objlog_append(s, log, slot, body, a);
    if (e == ERR_OK) s3_logs_wrote(&s3_of(s)->logs, log, slot);
    return e;
}

static enum err s3_read(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                        struct store_answer *a)
{
    return s3_read_log(&s3_of(s)->client, &s3_of(s)->logs, log, slot, bytes_max, a);
}

static enum err s3_wait_for(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                            struct store_answer *a)
{
    return s3_wait(&s3_of(s)->client, &s3_of(s)->logs, log, slot, wait_ms, a);
}

static enum err ask_versioning(struct s3_client *c, bool *on, struct store_answer *a)
{
    LOCAL(s3_exchange, x, S3_LIST, "GET", NULL);
    s3_query(&x, "versioning", "");
    enum err e = s3_perform(c, &x, a);
    if (e) return e;
    if (s3_xml_versioning(buf_bytes(&x.call.body_in), on)) return ERR_OK;
    return answer_refuse(a, ERR_UNAVAILABLE, "%.100s does not say whether it keeps versions",
                         x.place.host);
}

enum err store_s3_facts(struct store *s, struct s3_facts *out, struct store_answer *a)
{
    *out = (struct s3_facts){0};
    answer_clear(a);
    if (!store_is_s3(s) || !fork_guard_same(&s->guard))
        return answer_refuse(a, ERR_INVALID, "this is not a bucket, or was opened before a fork");
    struct s3_client *c = &s3_of(s)->client;
    enum err e = ask_versioning(c, &out->versioned, a); // this request also corrects the region
    (void)pthread_mutex_lock(&c->lock);
    (void)snprintf(out->endpoint, sizeof out->endpoint, "%s://%s",
                   c->place.https ? "https" : "http", c->place.host);
    (void)snprintf(out->bucket, sizeof out->bucket, "%s", c->place.bucket);
    (void)snprintf(out->region, sizeof out->region, "%s", c->place.region);
    (void)pthread_mutex_unlock(&c->lock);
    (void)snprintf(out->credentials, sizeof out->credentials, "%s",
                   s3_credentials_source(c->credentials));
    return e;
}

static void client_done(struct s3_client *c)
{
    s3_credentials_free(c->credentials);
    http_free(c->metadata);
    http_free(c->http);
    (void)pthread_mutex_destroy(&c->lock);
}

static void s3_free(struct store *s)
{
    struct s3 *me = s3_of(s);
    // In a child of fork the connections still belong to the parent. To close them properly would
    // end the parent's connections.
    if (me->pid == getpid()) client_done(&me->client);
    s3_logs_done(&me->logs);
    memory_free(me);
}

static void s3_distrust(struct store *s, const char *log)
{
    struct s3_client *c = &((struct s3 *)s)->client;
    (void)log; // nothing is kept of a log that an answer can have made wrong
    LOCKED(&c->lock);
    c->fresh_until_ms = clock_boot_ms() + DISTRUST_MS;
}

static const struct store_ops s3_ops = {
    .put_new = s3_put_new,
    .put = s3_put,
    .get = s3_get,
    .list = s3_list,
    .delete = s3_delete,
    .append = s3_append,
    .read_log = s3_read,
    .extents = objlog_extents,
    .drop = objlog_drop,
    .wait = s3_wait_for,
    .free = s3_free,
    .distrust = s3_distrust,
};

bool store_is_s3(const struct store *s)
{
    return s->ops == &s3_ops;
}

// The first value that is set: in the URL, in the environment under either name, in the profile.
static const char *setting(const char *from_url, const char *variable, const char *other,
                           const char *from_profile)
{
    if (from_url[0]) return from_url;
    const char *value = getenv(variable);
    if (!value || !value[0]) value = getenv(other);
    return value && value[0] ? value : from_profile;
}

static enum err client_open(struct s3_client *c, const struct s3_url *url, char *why,
                            size_t why_len)
{
    const struct http_config direct = {.direct = true, .connect_ms = METADATA_MS};
    c->metadata = http_new(&direct);
    enum err e = s3_credentials_new(c->metadata, url->profile[0] ? url->profile : NULL,
                                    &c->credentials, why, why_len);
    if (e) return e;
    const struct s3_profile *profile = s3_credentials_profile(c->credentials);
    const char *endpoint =
        setting(url->endpoint, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", profile->endpoint);
    const char *region = setting(url->region, "AWS_REGION", "AWS_DEFAULT_REGION", profile->region);
    const char *ca = setting(url->ca_bundle, "AWS_CA_BUNDLE", "CURL_CA_BUNDLE", profile->ca_bundle);
    e = s3_place_find(url, endpoint, region, &c->place, why, why_len);
    if (e) return e;
    if (ca[0] && access(ca, R_OK) != 0) {
        (void)snprintf(why, why_len, "caBundle \"%.150s\" cannot be read", ca);
        return ERR_INVALID;
    }
    const struct http_config config = {.ca_file = ca[0] ? ca : NULL};
    c->http = http_new(&config);
    return ERR_OK;
}

enum err store_s3_check(const char *url, char *why, size_t why_len)
{
    struct s3_url parsed;
    return s3_url_parse(url, &parsed, why, why_len);
}

enum err store_s3_open_with(const char *url, const struct s3_options *options, struct store **out,
                            char *why, size_t why_len)
{
    struct s3_url parsed;
    enum err e = s3_url_parse(url, &parsed, why, why_len);
    if (e) return e;
    struct s3 *me = NEW(struct s3);
    struct s3_client *c = &me->client;
    (void)pthread_mutex_init(&c->lock, NULL);
    c->wall_ms = options && options->wall_ms ? options->wall_ms : clock_realtime_ms;
    c->timeout_ms = parsed.timeout_ms;
    (void)snprintf(c->base, sizeof c->base, "%s%s", parsed.prefix, parsed.prefix[0] ? "/" : "");
    s3_pace_init(&c->pace);
    rng_init(&c->rng, entropy_u64());
    e = client_open(c, &parsed, why, why_len);
    if (e) {
        client_done(c);
        memory_free(me);
        return e;
    }
    s3_logs_init(&me->logs);
    store_init(&me->base, &s3_ops);
    c->store = &me->base;
    me->base.puts_per_second = parsed.puts_per_second;
    me->base.high_latency = true;
    me->pid = getpid();
    *out = &me->base;
    return ERR_OK;
}

enum err store_s3_open(const char *url, struct store **out, char *why, size_t why_len)
{
    return store_s3_open_with(url, NULL, out, why, why_len);
}
