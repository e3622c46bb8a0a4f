// SPDX-License-Identifier: Apache-2.0
// JSON that is passed on as text. The check accepts exactly what the parser accepts, except for
// depth and zero bytes. Valid text without its space is the same value. Members and items are the
// parser's, one by one. A tree that is written and read again is the same text.
#include "base/bytes.h"
#include "base/check.h"
#include "base/memory.h"
#include "fuzz.h"
#include "json/json.h"
#include "json/raw.h"
#include "json/weigh.h"

#include <string.h>

static struct json *parse(struct bytes text)
{
    char why[256];
    return json_parse((const char *)text.data, text.len, why, sizeof why);
}

static void written(struct json *value, struct buf *to)
{
    buf_init(to, SIZE_MAX);
    json_write(json_again(value), to);
}

static void same(struct bytes text, struct json *value)
{
    struct json *other = parse(text);
    CHECK(other);
    CLEANUP(buf_done) struct buf a;
    CLEANUP(buf_done) struct buf b;
    written(value, &a);
    written(other, &b);
    CHECK(bytes_equal(buf_bytes(&a), buf_bytes(&b)));
    json_free(other);
}

static bool key_is(struct bytes key, const char *name)
{
    char *text = memory_new(key.len + 1);
    bool equal = json_raw_unescape(key, text, key.len + 1) && strcmp(text, name) == 0;
    memory_free(text);
    return equal;
}

static void walk(struct bytes text, struct json *value)
{
    struct bytes key, part;
    struct json *child;
    const char *name;
    void *at = NULL;
    struct json_walk w = json_walk_of(text);
    if (json_kind(value) == JSON_KIND_LIST)
        for (size_t i = 0; i < json_list_len(value); i++) {
            CHECK(json_walk_next(&w, &key, &part) && key.len == 0);
            same(part, json_list_at(value, i));
        }
    if (json_kind(value) == JSON_KIND_OBJECT)
        while (json_next(value, &at, &name, &child)) {
            CHECK(json_walk_next(&w, &key, &part));
            CHECK(key_is(key, name));
            same(part, child);
        }
    bool inner = json_kind(value) == JSON_KIND_LIST || json_kind(value) == JSON_KIND_OBJECT;
    if (inner) CHECK(!json_walk_next(&w, &key, &part));
}

static void walk_anything(struct bytes text)
{
    struct bytes key, part;
    for (struct json_walk w = json_walk_of(text); json_walk_next(&w, &key, &part);) {
        CHECK(part.data >= text.data && part.data + part.len <= text.data + text.len);
        CHECK(part.len > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct bytes text = bytes_of(data, len);
    bool deep = json_weigh((const char *)data, len).depth > JSON_RAW_DEPTH_MAX;
    bool ok = json_raw_ok(text);
    walk_anything(text);
    size_t compact_len = json_raw_compact_len(text);
    CHECK(compact_len <= len);
    char *compact = memory_new(compact_len + 1);
    json_raw_compact(text, compact);
    struct bytes less = bytes_of(compact, compact_len);
    // The parser passes over zero bytes.
    struct json *value = len > 0 && memchr(data, 0, len) ? NULL : parse(text);
    if (value && !deep) CHECK(ok);
    if (ok) CHECK(value && !deep);
    if (ok) CHECK(json_raw_ok(less) && json_raw_compact_len(less) == compact_len);
    if (value && !deep) {
        same(less, value);
        walk(text, value);
    }
    json_free(value);
    memory_free(compact);
    return 0;
}
