// SPDX-License-Identifier: Apache-2.0
// etcd ignores fields that it does not know. A misspelt field of a comparison would make the write
// unconditional: the tests compare the requests with what a real server does.
#include "coord/kv/etcd_text.h"

#include "base/base64.h"
#include "base/digits.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHY_MAX 160

static struct json *open_object(struct bytes text)
{
    char why[WHY_MAX];
    if (text.len == 0 || text.len > KV_ANSWER_MAX) return NULL;
    struct json *o = json_parse((const char *)text.data, text.len, why, sizeof why);
    if (o && json_kind(o) == JSON_KIND_OBJECT) return o;
    json_free(o);
    return NULL;
}

static const struct json *member_of_kind(const struct json *o, const char *key, enum json_kind kind)
{
    const struct json *v = json_member(o, key);
    return v && json_kind(v) == kind ? v : NULL;
}

// A number in digits, or as a number. Absent: 0. Returns false for any other value.
static bool get_u64(const struct json *o, const char *key, uint64_t *to)
{
    const struct json *v = json_member(o, key);
    *to = 0;
    if (!v) return true;
    if (json_kind(v) == JSON_KIND_NUMBER && json_as_number(v) >= 0) {
        *to = (uint64_t)json_as_number(v);
        return true;
    }
    if (json_kind(v) != JSON_KIND_TEXT) return false;
    struct bytes text = json_as_text(v);
    if (text.len == 0 || text.len > DIGITS_MAX) return false;
    for (size_t i = 0; i < text.len; i++) {
        unsigned digit = (unsigned)(text.data[i] - '0');
        if (text.data[i] < '0' || digit > 9 || *to > (UINT64_MAX - digit) / 10) return false;
        *to = *to * 10 + digit;
    }
    return true;
}

static bool get_true(const struct json *o, const char *key)
{
    const struct json *v = member_of_kind(o, key, JSON_KIND_BOOL);
    return v && json_as_bool(v);
}

static void get_text(const struct json *o, const char *key, char *to, size_t size)
{
    const struct json *v = member_of_kind(o, key, JSON_KIND_TEXT);
    to[0] = 0;
    if (!v) return;
    struct bytes text = json_as_text(v);
    if (text.len >= size || (text.len && memchr(text.data, 0, text.len))) return;
    if (text.len) memcpy(to, text.data, text.len);
    to[text.len] = 0;
    if (!text_is_plain(to)) to[0] = 0;
}

void etcd_error_parse(struct bytes text, struct etcd_error *e)
{
    uint64_t code = 0;
    *e = (struct etcd_error){.code = -1};
    CLEANUP(json_let_go) struct json *o = open_object(text);
    if (o && json_member(o, "code") && get_u64(o, "code", &code) && code <= 16) {
        e->code = (int)code;
        get_text(o, "message", e->message, sizeof e->message);
        if (!e->message[0]) get_text(o, "error", e->message, sizeof e->message);
    }
}

static bool read_reply(const struct json *o, struct etcd_reply *r)
{
    const struct json *header = member_of_kind(o, "header", JSON_KIND_OBJECT);
    uint64_t ttl = 0;
    *r = (struct etcd_reply){0};
    if (!header || !get_u64(header, "cluster_id", &r->cluster_id) ||
        !get_u64(header, "revision", &r->revision) || !get_u64(o, "ID", &r->lease) ||
        !get_u64(o, "TTL", &ttl) || ttl > INT32_MAX)
        return false;
    r->ttl = (int64_t)ttl;
    r->succeeded = get_true(o, "succeeded");
    get_text(o, "token", r->token, sizeof r->token);
    return true;
}

static const struct json *result_of(const struct json *o)
{
    const struct json *result = member_of_kind(o, "result", JSON_KIND_OBJECT);
    return result ? result : o;
}

bool etcd_reply_parse(struct bytes text, struct etcd_reply *r)
{
    *r = (struct etcd_reply){0};
    CLEANUP(json_let_go) struct json *o = open_object(text);
    return o && read_reply(result_of(o), r);
}

static bool get_base64(const struct json *o, const char *key, struct buf *to)
{
    const struct json *v = json_member(o, key);
    buf_clear(to);
    if (!v) return true;
    return json_kind(v) == JSON_KIND_TEXT && base64_read(json_as_text(v), to);
}

static bool read_pair(const struct json *kv, const char *prefix, struct buf *key, struct buf *value,
                      struct kv_items *to)
{
    uint64_t revision = 0, lease = 0;
    size_t prefix_len = strlen(prefix);
    if (json_kind(kv) != JSON_KIND_OBJECT || !get_base64(kv, "key", key) ||
        !get_base64(kv, "value", value) || !get_u64(kv, "mod_revision", &revision) ||
        !get_u64(kv, "lease", &lease) || revision == 0)
        return false;
    if (key->len && memchr(key->data, 0, key->len)) return true; // not one of ours
    buf_put_u8(key, 0);
    if (key->bad || strncmp((const char *)key->data, prefix, prefix_len) != 0) return !key->bad;
    struct kv_item *item = kv_items_add(to, (const char *)key->data + prefix_len, buf_bytes(value));
    if (!item) return false;
    item->revision = revision;
    if (lease)
        (void)snprintf(item->session, sizeof item->session, "%llu", (unsigned long long)lease);
    return true;
}

bool etcd_range_parse(struct bytes text, const char *prefix, struct etcd_reply *r,
                      struct kv_items *to)
{
    struct buf key, value;
    CLEANUP(json_let_go) struct json *o = open_object(text);
    *r = (struct etcd_reply){0};
    buf_init(&key, 4096);
    buf_init(&value, KV_ANSWER_MAX);
    bool good = o && read_reply(o, r);
    const struct json *kvs = good ? json_member(o, "kvs") : NULL;
    if (kvs && json_kind(kvs) != JSON_KIND_LIST) good = false;
    for (size_t i = 0; good && kvs && i < json_list_len(kvs); i++)
        good = read_pair(json_list_at(kvs, i), prefix, &key, &value, to);
    if (!good) kv_items_clear(to);
    if (good) to->at = r->revision;
    buf_done(&key);
    buf_done(&value);
    return good;
}

enum etcd_watch etcd_watch_parse(struct bytes line, uint64_t *cluster_id)
{
    struct etcd_reply r;
    uint64_t compacted = 0;
    CLEANUP(json_let_go) struct json *o = open_object(line);
    enum etcd_watch what = ETCD_WATCH_BAD;
    *cluster_id = 0;
    const struct json *result = o ? result_of(o) : NULL;
    if (result && read_reply(result, &r) && get_u64(result, "compact_revision", &compacted)) {
        const struct json *events = member_of_kind(result, "events", JSON_KIND_LIST);
        *cluster_id = r.cluster_id;
        what = ETCD_WATCH_NONE;
        if (events && json_list_len(events) > 0) what = ETCD_WATCH_CHANGED;
        if (get_true(result, "canceled"))
            what = compacted ? ETCD_WATCH_CHANGED : ETCD_WATCH_CANCELED;
    }
    return what;
}

static void put_base64(struct json *o, const char *key, struct bytes value)
{
    LOCAL(buf, text, KV_ANSWER_MAX);
    base64_put(&text, value);
    json_text_len(o, key, (const char *)text.data, text.len);
}

static void put_u64(struct json *o, const char *key, uint64_t n)
{
    char digits[DIGITS_MAX + 1];
    *digits_put(digits, n) = 0;
    json_text(o, key, digits);
}

static void put_key(struct json *o, const char *field, const char *prefix, const char *key,
                    bool after)
{
    char text[2 * KV_KEY_MAX];
    int len = snprintf(text, sizeof text, "%s%s", prefix, key);
    if (after) text[len - 1]++; // the end of the range: '/' becomes '0'
    put_base64(o, field, bytes_str(text));
}

void etcd_print_range(struct buf *to, const char *prefix, const char *under)
{
    struct json *o = json_new();
    put_key(o, "key", prefix, under, false);
    put_key(o, "range_end", prefix, under, true);
    json_write(o, to);
}

void etcd_print_watch(struct buf *to, const char *prefix, const char *under, uint64_t from)
{
    struct json *o = json_new(), *create = json_new();
    put_key(create, "key", prefix, under, false);
    put_key(create, "range_end", prefix, under, true);
    put_u64(create, "start_revision", from);
    json_take(o, "create_request", create);
    json_write(o, to);
}

// A missing key has the revision 0.
static struct json *guard(const char *prefix, const struct kv_write *w)
{
    struct json *o = json_new();
    put_key(o, "key", prefix, w->key, false);
    json_text(o, "target", "MOD");
    json_text(o, "result", "EQUAL");
    put_u64(o, "mod_revision", w->revision);
    return o;
}

static struct json *change(const char *prefix, const struct kv_write *w)
{
    struct json *o = json_new(), *op = json_new();
    put_key(op, "key", prefix, w->key, false);
    if (!w->remove) put_base64(op, "value", w->value);
    if (w->session) json_text(op, "lease", w->session);
    json_take(o, w->remove ? "request_delete_range" : "request_put", op);
    return o;
}

void etcd_print_txn(struct buf *to, const char *prefix, const struct kv_write *writes, size_t count)
{
    struct json *o = json_new(), *compare = json_list_new(), *success = json_list_new();
    for (size_t i = 0; i < count; i++) {
        json_list_take(compare, guard(prefix, &writes[i]));
        json_list_take(success, change(prefix, &writes[i]));
    }
    json_take(o, "compare", compare);
    json_take(o, "success", success);
    json_write(o, to);
}
