// SPDX-License-Identifier: Apache-2.0
// Names, lives and ids. If two processes create the same name at once, both try to create the same
// object, and the store lets one succeed.
#include "queues/catalog.h"

#include "base/array.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/layout.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CATALOG_MAGIC  0x31434c53u // "SLC1"
#define CATALOG_FORMAT 1
#define LIVES_MAX      99999999u
#define RECORD_MAX     4096
#define KEY_MAX        (QUEUE_NAME_MAX + 24)

#define LAYOUT_OF      struct catalog_row
static const struct layout_field catalog_fields[] = {
    MARK(4, "magic", CATALOG_MAGIC),
    MARK(2, "format", CATALOG_FORMAT),
    MARK(2, "reserved", 0),
    FIXED(id),
    I64(created_ms),
    TEXT(name, .min = 1),
};
const struct layout catalog_layout = LAYOUT(catalog_fields); // then the configuration
#undef LAYOUT_OF

void catalog_encode(const struct catalog_row *row, struct buf *out)
{
    layout_put(&catalog_layout, out, row);
    config_encode(&row->birth, out);
    buf_put_hash128(out, hash128_of(buf_bytes(out)));
}

enum err catalog_decode(struct bytes from, struct catalog_row *out)
{
    *out = (struct catalog_row){0};
    if (from.len < 16 || from.len > RECORD_MAX) return ERR_CORRUPT;
    struct bytes inside = bytes_of(from.data, from.len - 16);
    struct reader end = reader_of(bytes_of(from.data + inside.len, 16));
    if (!hash128_equal(read_hash128(&end), hash128_of(inside))) return ERR_CORRUPT;
    struct reader r = reader_of(inside);
    if (!layout_read(&catalog_layout, &r, out)) return ERR_CORRUPT;
    if (!queue_name_ok(out->name)) return ERR_CORRUPT;
    enum err err = config_decode(&r, &out->birth);
    if (err == ERR_UNAVAILABLE) return err;
    return err || !reader_end(&r) ? ERR_CORRUPT : ERR_OK;
}

bool catalog_is_newer(const struct store_answer *a)
{
    return strncmp(a->why, CATALOG_UPGRADE_NEEDED, sizeof CATALOG_UPGRADE_NEEDED - 1) == 0;
}

static void key_of(char key[KEY_MAX], const char *part, const char *name, uint32_t life)
{
    (void)snprintf(key, KEY_MAX, "%s/%s/%08u", part, name, life);
}

enum err catalog_life(struct store *s, const char *name, uint32_t life, struct catalog_row *out,
                      struct store_answer *a)
{
    char key[KEY_MAX];
    key_of(key, "catalog", name, life);
    enum err err = store_get(s, key, 0, SIZE_MAX, a);
    if (err) return err;
    err = catalog_decode(buf_bytes(&a->body), out);
    if (err == ERR_UNAVAILABLE) {
        (void)snprintf(a->why, sizeof a->why,
                       CATALOG_UPGRADE_NEEDED "it was created with a version of the rules that "
                                              "this program does not know; use a newer release");
        return err;
    }
    if (err || strcmp(out->name, name) != 0) {
        (void)snprintf(a->why, sizeof a->why, "the catalog's record %s is damaged", key);
        return ERR_CORRUPT;
    }
    out->life = life;
    return ERR_OK;
}

// The newest life of the name, ended or not; life 0: there was none. The numbers have no gaps, so a
// search that doubles and then halves finds the newest of a thousand in twenty steps.
static enum err newest(struct store *s, const char *name, struct catalog_row *out,
                       struct store_answer *a)
{
    uint32_t missing = LIVES_MAX;
    *out = (struct catalog_row){0};
    while (out->life + 1 < missing) {
        struct catalog_row found;
        uint32_t between = out->life + (missing - out->life) / 2, twice = 2 * out->life;
        uint32_t life = missing < LIVES_MAX ? between : twice;
        if (life == 0) life = 1;
        if (life >= LIVES_MAX) return ERR_LIMIT;
        enum err err = catalog_life(s, name, life, &found, a);
        if (err && err != ERR_NOT_FOUND) return err;
        if (err) {
            missing = life;
        } else {
            *out = found;
        }
    }
    return ERR_OK;
}

static enum err is_gone(struct store *s, const struct catalog_row *row, bool *gone,
                        struct store_answer *a)
{
    char key[KEY_MAX];
    key_of(key, "gone", row->name, row->life);
    enum err err = store_get(s, key, 0, SIZE_MAX, a);
    *gone = err == ERR_OK;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err catalog_find(struct store *s, const char *name, struct catalog_row *out,
                      struct store_answer *a)
{
    bool gone = true;
    enum err err = newest(s, name, out, a);
    if (!err && out->life > 0) err = is_gone(s, out, &gone, a);
    if (!err && gone) err = ERR_NOT_FOUND;
    return err;
}

enum err catalog_create(struct store *s, const struct catalog_row *row, struct store_answer *a)
{
    CHECK(queue_name_ok(row->name));
    struct catalog_row last;
    bool gone = true;
    enum err err = newest(s, row->name, &last, a);
    if (!err && last.life > 0) err = is_gone(s, &last, &gone, a);
    if (err) return err;
    if (!gone) return ERR_CONFLICT;
    LOCAL(buf, record, RECORD_MAX);
    catalog_encode(row, &record);
    CHECK(!record.bad);
    char key[KEY_MAX];
    key_of(key, "catalog", row->name, last.life + 1);
    return store_put_new(s, key, buf_bytes(&record), a);
}

enum err catalog_mark_deleted(struct store *s, const struct catalog_row *row,
                              struct store_answer *a)
{
    char key[KEY_MAX];
    key_of(key, "gone", row->name, row->life);
    enum err err = store_put_new(s, key, bytes_str("gone"), a);
    return err == ERR_CONFLICT ? ERR_OK : err;
}

enum err catalog_swept(struct store *s, const struct catalog_row *row, struct store_answer *a)
{
    char key[KEY_MAX];
    key_of(key, "swept", row->name, row->life);
    enum err err = store_put_new(s, key, bytes_str("swept"), a);
    return err == ERR_CONFLICT ? ERR_OK : err;
}

struct life {
    char name[QUEUE_NAME_MAX + 1];
    uint32_t life;
    struct interval modified; // when its object was written, store time
};

// The lives that have an object in one of the catalog's folders.
struct life_list {
    struct life *rows; // by name
    size_t len;
    size_t cap;
    bool all; // else only the newest life of each name
};

static void lives_done(struct life_list *l)
{
    memory_free(l->rows);
}

// Parses "<folder>/<name>/<life>". False: the key has another form.
static bool life_in(const char *key, struct life *out)
{
    const char *start = strchr(key, '/');
    const char *end = start ? strchr(start + 1, '/') : NULL;
    if (!end || end - start - 1 > QUEUE_NAME_MAX) return false;
    *out = (struct life){.life = (uint32_t)strtoul(end + 1, NULL, 10)};
    memcpy(out->name, start + 1, (size_t)(end - start - 1));
    return queue_name_ok(out->name) && out->life > 0;
}

// The keys come in order, so the lives of a name are consecutive.
static void lives_add(struct life_list *l, const struct life *row)
{
    bool same = !l->all && l->len > 0 && strcmp(l->rows[l->len - 1].name, row->name) == 0;
    *(same ? &l->rows[l->len - 1] : ARRAY_ADD(l->rows, l->len, l->cap)) = *row;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct life *)a)->name, ((const struct life *)b)->name);
}

static int by_life(const void *a, const void *b)
{
    const struct life *x = a, *y = b;
    int names = by_name(a, b);
    return names != 0 ? names : (x->life > y->life) - (x->life < y->life);
}

static enum err lives_read(struct store *s, const char *part, struct life_list *out,
                           struct store_answer *a)
{
    char after[STORE_KEY_MAX + 1] = "";
    do {
        enum err err = store_list(s, part, after[0] ? after : NULL, STORE_LIST_MAX, a);
        if (err) return err;
        for (size_t i = 0; i < a->rows_len; i++) {
            struct life row;
            if (!life_in(store_row_key(a, i), &row)) continue;
            row.modified = a->rows[i].modified;
            lives_add(out, &row);
        }
        if (a->rows_len > 0)
            (void)snprintf(after, sizeof after, "%s", store_row_key(a, a->rows_len - 1));
    } while (a->more);
    if (out->len > 1) qsort(out->rows, out->len, sizeof *out->rows, by_life);
    return ERR_OK;
}

// The ends are listed before the lives. So a life that ends in between still counts, and so does a
// life that begins in between.
enum err catalog_names(struct store *s, catalog_name_fn *each, void *ctx, struct store_answer *a)
{
    CLEANUP(lives_done) struct life_list begun = {0};
    CLEANUP(lives_done) struct life_list over = {0};
    enum err err = lives_read(s, "gone/", &over, a);
    if (!err) err = lives_read(s, "catalog/", &begun, a);
    for (size_t i = 0; !err && i < begun.len; i++) {
        const struct life *row = &begun.rows[i], *end = NULL;
        if (over.len > 0) end = bsearch(row, over.rows, over.len, sizeof *row, by_name);
        if (!end || end->life < row->life) each(ctx, row->name);
    }
    return err;
}

// The swept marks are listed first. A life that is marked after that is visited once more, which
// does no harm.
enum err catalog_deleted(struct store *s, catalog_over_fn *each, void *ctx, struct store_answer *a)
{
    CLEANUP(lives_done) struct life_list over = {.all = true};
    CLEANUP(lives_done) struct life_list swept = {.all = true};
    enum err err = lives_read(s, "swept/", &swept, a);
    if (!err) err = lives_read(s, "gone/", &over, a);
    for (size_t i = 0; !err && i < over.len; i++) {
        const struct life *row = &over.rows[i], *mark = NULL;
        if (swept.len > 0) mark = bsearch(row, swept.rows, swept.len, sizeof *row, by_life);
        if (!mark) each(ctx, row->name, row->life, row->modified);
    }
    return err;
}
