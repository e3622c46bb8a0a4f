// SPDX-License-Identifier: Apache-2.0
#include "coord/kv/consul_text.h"

#include "base/base64.h"
#include "base/digits.h"
#include "json/json.h"

#include <stdio.h>
#include <string.h>

#define WHY_MAX 160

static struct json *open_kind(struct bytes text, enum json_kind kind)
{
    char why[WHY_MAX];
    if (text.len == 0 || text.len > KV_ANSWER_MAX) return NULL;
    struct json *o = json_parse((const char *)text.data, text.len, why, sizeof why);
    if (o && json_kind(o) == kind) return o;
    json_free(o);
    return NULL;
}

// Copies a plain text. Absent or null: "". Returns false for any other value.
static bool get_text(const struct json *o, const char *key, char *to, size_t size)
{
    const struct json *v = json_member(o, key);
    to[0] = 0;
    if (!v || json_kind(v) == JSON_KIND_NULL) return true;
    if (json_kind(v) != JSON_KIND_TEXT) return false;
    struct bytes text = json_as_text(v);
    if (text.len >= size || (text.len && memchr(text.data, 0, text.len))) return false;
    if (text.len) memcpy(to, text.data, text.len);
    to[text.len] = 0;
    return text_is_plain(to);
}

static bool read_pair(const struct json *o, const char *prefix, struct buf *value,
                      struct kv_items *to)
{
    char key[KV_KEY_MAX + 1 + 128], session[KV_SESSION_MAX + 1];
    size_t prefix_len = strlen(prefix);
    if (json_kind(o) != JSON_KIND_OBJECT) return false;
    const struct json *index = json_member(o, "ModifyIndex");
    const struct json *base64 = json_member(o, "Value");
    buf_clear(value);
    if (!index || json_kind(index) != JSON_KIND_NUMBER || json_as_number(index) <= 0) return false;
    if (!get_text(o, "Key", key, sizeof key) || !get_text(o, "Session", session, sizeof session))
        return false;
    if (base64 && json_kind(base64) != JSON_KIND_NULL &&
        (json_kind(base64) != JSON_KIND_TEXT || !base64_read(json_as_text(base64), value)))
        return false;
    if (strncmp(key, prefix, prefix_len) != 0) return true;
    struct kv_item *item = kv_items_add(to, key + prefix_len, buf_bytes(value));
    if (!item) return false;
    item->revision = (uint64_t)json_as_number(index);
    memcpy(item->session, session, sizeof item->session);
    return true;
}

bool consul_pairs_parse(struct bytes text, const char *prefix, struct kv_items *to)
{
    struct buf value;
    CLEANUP(json_let_go) struct json *list = open_kind(text, JSON_KIND_LIST);
    bool good = list != NULL;
    buf_init(&value, KV_ANSWER_MAX);
    for (size_t i = 0; good && i < json_list_len(list); i++)
        good = read_pair(json_list_at(list, i), prefix, &value, to);
    if (!good) kv_items_clear(to);
    buf_done(&value);
    return good;
}

bool consul_session_parse(struct bytes text, char session[KV_SESSION_MAX + 1])
{
    uint8_t id[COORD_ID_LEN];
    CLEANUP(json_let_go) struct json *o = open_kind(text, JSON_KIND_OBJECT);
    bool good = o && get_text(o, "ID", session, KV_SESSION_MAX + 1) &&
                consul_uuid_parse(bytes_str(session), id);
    if (!good) session[0] = 0;
    return good;
}

int consul_sessions_count(struct bytes text)
{
    CLEANUP(json_let_go) struct json *list = open_kind(text, JSON_KIND_LIST);
    return list ? (int)(json_list_len(list) > 0) : -1;
}

void consul_rollback_parse(struct bytes text, char what[static COORD_WHY_MAX])
{
    CLEANUP(json_let_go) struct json *o = open_kind(text, JSON_KIND_OBJECT);
    const struct json *errors = o ? json_member(o, "Errors") : NULL;
    what[0] = 0;
    if (errors && json_kind(errors) == JSON_KIND_LIST && json_list_len(errors) > 0) {
        const struct json *first = json_list_at(errors, 0);
        if (json_kind(first) == JSON_KIND_OBJECT && !get_text(first, "What", what, COORD_WHY_MAX))
            what[0] = 0;
    }
}

bool consul_uuid_parse(struct bytes text, uint8_t id[static COORD_ID_LEN])
{
    char hex[2 * COORD_ID_LEN + 1];
    size_t len = 0;
    if (text.len != CONSUL_UUID_LEN) return false;
    for (size_t i = 0; i < text.len; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash != (text.data[i] == '-')) return false;
        if (!dash) hex[len++] = (char)text.data[i];
    }
    hex[len] = 0;
    return digits_read_hex(hex, id, COORD_ID_LEN);
}

void consul_uuid_print(const uint8_t id[static COORD_ID_LEN], char text[CONSUL_UUID_LEN + 1])
{
    char *at = text;
    for (size_t i = 0; i < COORD_ID_LEN; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) *at++ = '-';
        at = digits_put_hex(at, &id[i], 1);
    }
    *at = 0;
}

static struct json *op_of(struct json *list, const char *prefix, const char *key, const char *verb)
{
    char text[2 * KV_KEY_MAX];
    struct json *o = json_new(), *kv = json_new();
    (void)snprintf(text, sizeof text, "%s%s", prefix, key);
    json_text(kv, "Verb", verb);
    json_text(kv, "Key", text);
    json_take(o, "KV", kv);
    json_list_take(list, o);
    return kv;
}

static void put_value(struct json *kv, struct bytes value)
{
    LOCAL(buf, text, KV_ANSWER_MAX);
    base64_put(&text, value);
    json_text_len(kv, "Value", (const char *)text.data, text.len);
}

// A lock has no guard of its own: a check comes before it.
static void put_locked(struct json *list, const char *prefix, const struct kv_write *w)
{
    struct json *check =
        op_of(list, prefix, w->key, w->revision ? "check-index" : "check-not-exists");
    if (w->revision) json_number(check, "Index", (int64_t)w->revision);
    struct json *lock = op_of(list, prefix, w->key, "lock");
    put_value(lock, w->value);
    json_text(lock, "Session", w->session);
}

void consul_print_txn(struct buf *to, const char *prefix, const struct kv_write *writes,
                      size_t count)
{
    struct json *list = json_list_new();
    for (size_t i = 0; i < count; i++) {
        const struct kv_write *w = &writes[i];
        if (w->session) {
            put_locked(list, prefix, w);
            continue;
        }
        struct json *kv = op_of(list, prefix, w->key, w->remove ? "delete-cas" : "cas");
        json_number(kv, "Index", (int64_t)w->revision);
        if (!w->remove) put_value(kv, w->value);
    }
    json_write(list, to);
}

void consul_print_session(struct buf *to, const char *node, int64_t ttl_ms)
{
    char ttl[32];
    struct json *o = json_new();
    (void)snprintf(ttl, sizeof ttl, "%lldms", (long long)ttl_ms);
    json_text(o, "Name", "sluice");
    json_text(o, "Node", node);
    json_take(o, "Checks", json_list_new());
    json_text(o, "TTL", ttl);
    json_text(o, "Behavior", "delete");
    json_text(o, "LockDelay", "0s");
    json_write(o, to);
}
