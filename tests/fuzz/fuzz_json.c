// SPDX-License-Identifier: Apache-2.0
// Any bytes as JSON from a client. What they are weighed at before they are parsed is compared with
// what the parser does: it never keeps more memory than that, and a tree has exactly so many values
// and is exactly so deep.
#include "base/bytes.h"
#include "base/check.h"
#include "fuzz.h"
#include "json/json.h"
#include "json/weigh.h"

#include <jansson.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER    8 // of a chunk of the C library's
#define UNIT_MAX  64
#define TIMES_MAX 2100

static size_t live, peak;

static void *count_malloc(size_t len)
{
    void *p = malloc(len);
    CHECK(p);
    live += malloc_usable_size(p) + HEADER;
    if (live > peak) peak = live;
    return p;
}

static void count_free(void *p)
{
    if (p) live -= malloc_usable_size(p) + HEADER;
    free(p);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t count(struct json *value, size_t *depth)
{
    size_t values = 1, inside = 0, below;
    enum json_kind kind = json_kind(value);
    if (kind == JSON_KIND_LIST)
        for (size_t i = 0; i < json_list_len(value); i++) {
            values += count(json_list_at(value, i), &below);
            inside = larger(inside, below);
        }
    const char *key;
    struct json *child;
    if (kind == JSON_KIND_OBJECT)
        for (void *at = NULL; json_next(value, &at, &key, &child);) {
            values += count(child, &below);
            inside = larger(inside, below);
        }
    *depth = inside + (kind == JSON_KIND_LIST || kind == JSON_KIND_OBJECT);
    return values;
}

static void compare(const char *text, size_t len)
{
    char why[256];
    live = peak = 0;
    struct json_weight w = json_weigh(text, len);
    struct json *value = json_parse(text, len, why, sizeof why);
    // While it reads, the parser also has the longest text twice, in a buffer that it doubles.
    CHECK(peak <= w.bytes + 3 * len + 256);
    CHECK(live <= w.bytes);
    if (value) {
        size_t depth;
        CHECK(count(value, &depth) == w.values);
        CHECK(depth == w.depth);
    }
    json_free(value);
    CHECK(live == 0);
}

// The input many times over, as a list and as members of an object: tables are doubled as they
// fill.
static void compare_many(const uint8_t *data, size_t len)
{
    if (len < 3 || len > UNIT_MAX) return;
    unsigned times = (data[0] | (unsigned)data[1] << 8) % TIMES_MAX;
    struct buf list, object;
    buf_init(&list, SIZE_MAX);
    buf_init(&object, SIZE_MAX);
    for (unsigned i = 0; i <= times; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "%s\"%u\":", i > 0 ? "," : "{", i);
        buf_put(&object, bytes_str(key));
        buf_put(&list, bytes_str(i > 0 ? "," : "["));
        buf_put(&object, bytes_of(data + 2, len - 2));
        buf_put(&list, bytes_of(data + 2, len - 2));
    }
    buf_put_u8(&list, ']');
    buf_put_u8(&object, '}');
    compare((const char *)list.data, list.len);
    compare((const char *)object.data, object.len);
    buf_done(&list);
    buf_done(&object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    json_set_alloc_funcs(count_malloc, count_free);
    compare((const char *)data, len);
    compare_many(data, len);
    return 0;
}
