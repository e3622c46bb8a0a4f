// SPDX-License-Identifier: Apache-2.0
// Objects in an array sorted by key, slots in an array by number: small worlds, plain loops.
#include "bucket.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

#define ROWS_MAX 1000

void bucket_init(struct bucket *b, struct rng *rng)
{
    *b = (struct bucket){.rng = rng, .tick_ms = 1, .run_max = 1};
}

void bucket_done(struct bucket *b)
{
    for (size_t i = 0; i < b->objects_len; i++) {
        bytes_free(b->objects[i]->body);
        memory_free(b->objects[i]);
    }
    memory_free(b->objects);
    for (uint64_t i = 0; i < b->slots_len; i++)
        bytes_free(b->slots[i].body);
    memory_free(b->slots);
}

struct interval bucket_time(const struct bucket *b, int64_t at)
{
    int64_t lo = at - at % b->tick_ms;
    return (struct interval){lo, lo + b->tick_ms - 1};
}

void bucket_answer_init(struct bucket_answer *a)
{
    *a = (struct bucket_answer){0};
    buf_init(&a->text, (size_t)64 << 20);
}

void bucket_answer_done(struct bucket_answer *a)
{
    memory_free(a->rows);
    buf_done(&a->text);
}

static size_t object_place(const struct bucket *b, const char *key)
{
    size_t lo = 0;
    size_t hi = b->objects_len;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (strcmp(b->objects[mid]->key, key) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

const struct bucket_object *bucket_object(const struct bucket *b, const char *key)
{
    size_t at = object_place(b, key);
    if (at == b->objects_len || strcmp(b->objects[at]->key, key) != 0) return NULL;
    return b->objects[at];
}

const struct bucket_slot *bucket_slot(const struct bucket *b, uint64_t slot)
{
    if (slot == 0 || slot > b->slots_len || !b->slots[slot - 1].there) return NULL;
    return &b->slots[slot - 1];
}

static bool lie(struct bucket *b, uint32_t chance)
{
    if (chance == 0 || !rng_chance(b->rng, chance)) return false;
    b->lies.told_total++;
    return true;
}

static void slots_grow(struct bucket *b, uint64_t slot)
{
    while (b->slots_cap < slot) {
        b->slots_cap = b->slots_cap ? b->slots_cap * 2 : 16;
        b->slots = memory_resize(b->slots, b->slots_cap * sizeof *b->slots);
    }
    while (b->slots_len < slot)
        b->slots[b->slots_len++] = (struct bucket_slot){0};
}

static void lose_last(struct bucket *b, int64_t now)
{
    if (b->slots_len == 0 || !b->slots[b->slots_len - 1].there || !lie(b, b->lies.lost)) return;
    struct bucket_slot *s = &b->slots[--b->slots_len];
    bytes_free(s->body);
    *s = (struct bucket_slot){0};
    b->lies.lost_at = now;
}

static enum err do_append(struct bucket *b, const struct request *q, int64_t now)
{
    CHECK(q->first > 0);
    lose_last(b, now);
    if (b->lies.lost_at && q->first > b->slots_len + 1) return ERR_INVALID;
    if (bucket_slot(b, q->first)) {
        if (lie(b, b->lies.two_win)) return ERR_OK;
        if (!lie(b, b->lies.overwrite)) return ERR_CONFLICT;
    } else if (b->watch.slot_made) {
        b->watch.slot_made(b->watch.ctx, q->first, q->body);
    }
    slots_grow(b, q->first);
    struct bucket_slot *s = &b->slots[q->first - 1];
    bytes_free(s->body);
    *s = (struct bucket_slot){.there = true, .body = bytes_copy(q->body), .made_at = now};
    return ERR_OK;
}

static enum err do_put_new(struct bucket *b, const struct request *q, int64_t now)
{
    if (bucket_object(b, q->key)) return ERR_CONFLICT;
    if (b->watch.object_made) b->watch.object_made(b->watch.ctx, q->key, q->body);
    size_t key_len = strlen(q->key);
    CHECK(key_len < BUCKET_KEY_MAX);
    struct bucket_object *o = NEW(struct bucket_object);
    memcpy(o->key, q->key, key_len + 1);
    o->body = bytes_copy(q->body);
    o->made_at = now;
    if (b->objects_len == b->objects_cap) {
        b->objects_cap = b->objects_cap ? b->objects_cap * 2 : 16;
        b->objects = memory_resize(b->objects, b->objects_cap * sizeof(struct bucket_object *));
    }
    size_t at = object_place(b, q->key);
    memmove(b->objects + at + 1, b->objects + at,
            (b->objects_len - at) * sizeof(struct bucket_object *));
    b->objects[at] = o;
    b->objects_len++;
    return ERR_OK;
}

static void delete_object(struct bucket *b, const char *key)
{
    if (!bucket_object(b, key)) return;
    if (b->watch.object_deleted) b->watch.object_deleted(b->watch.ctx, key);
    size_t at = object_place(b, key);
    bytes_free(b->objects[at]->body);
    memory_free(b->objects[at]);
    b->objects_len--;
    memmove(b->objects + at, b->objects + at + 1,
            (b->objects_len - at) * sizeof(struct bucket_object *));
}

static enum err do_delete(struct bucket *b, const struct request *q)
{
    if (q->body.len == 0) delete_object(b, q->key);
    for (size_t at = 0; at < q->body.len; at += strlen((const char *)q->body.data + at) + 1)
        delete_object(b, (const char *)q->body.data + at);
    return ERR_OK;
}

// On an object store a drop is many deletes: it may stop after any of them.
static enum err do_drop(struct bucket *b, const struct request *q)
{
    CHECK(q->first > 0 && q->first <= q->last);
    bool partial = rng_chance(b->rng, b->partial);
    for (uint64_t n = q->first; n <= q->last && n <= b->slots_len; n++) {
        struct bucket_slot *s = &b->slots[n - 1];
        if (!s->there) continue;
        if (partial && rng_chance(b->rng, 3000)) return ERR_UNKNOWN;
        if (b->watch.slot_dropped) b->watch.slot_dropped(b->watch.ctx, n, s->made_at);
        bytes_free(s->body);
        *s = (struct bucket_slot){0};
    }
    return ERR_OK;
}

static struct response_row *row_push(struct bucket_answer *a)
{
    CHECK(a->response.rows_len < ROWS_MAX);
    if (a->response.rows_len % 16 == 0)
        a->rows = memory_resize(a->rows, (a->response.rows_len + 16) * sizeof *a->rows);
    struct response_row *row = &a->rows[a->response.rows_len++];
    *row = (struct response_row){0};
    return row;
}

// Rows first hold places in the text; the text moves while it grows, so views come last.
static void rows_bind(struct bucket_answer *a, bool keys)
{
    size_t at = 0;
    for (size_t i = 0; i < a->response.rows_len; i++) {
        struct response_row *row = &a->rows[i];
        if (keys) {
            row->key = (const char *)a->text.data + at;
            at += strlen(row->key) + 1;
        } else if (row->body.len > 0) {
            row->body.data = a->text.data + at;
            at += row->body.len;
        }
    }
    a->response.rows = a->rows;
}

static enum err do_read_log(struct bucket *b, const struct request *q, struct bucket_answer *a)
{
    if (!bucket_slot(b, q->first) || lie(b, b->lies.stale_404)) return ERR_NOT_FOUND;
    uint64_t run = 1 + rng_below(b->rng, b->run_max);
    size_t len = 0;
    for (uint64_t n = q->first; n < q->first + run; n++) {
        const struct bucket_slot *s = bucket_slot(b, n);
        if (!s) break;
        len += s->body.len;
        if (n > q->first && len > q->limit) break;
        struct response_row *row = row_push(a);
        row->first = row->last = n;
        row->modified = bucket_time(b, s->made_at);
        row->body.len = s->body.len;
        buf_put(&a->text, s->body);
    }
    rows_bind(a, false);
    return ERR_OK;
}

static bool list_misses(struct bucket *b, int64_t made_at, int64_t now)
{
    return b->list_lag_ms > 0 && now - made_at < b->list_lag_ms && rng_chance(b->rng, 5000);
}

static enum err do_extents(struct bucket *b, const struct request *q, int64_t now,
                           struct bucket_answer *a)
{
    size_t limit = q->limit < ROWS_MAX ? q->limit : ROWS_MAX;
    for (uint64_t n = q->first > 0 ? q->first : 1; n <= b->slots_len; n++) {
        const struct bucket_slot *s = bucket_slot(b, n);
        if (!s || list_misses(b, s->made_at, now)) continue;
        if (a->response.rows_len == limit) {
            a->response.more = true;
            break;
        }
        struct response_row *row = row_push(a);
        row->first = row->last = n;
        row->modified = bucket_time(b, s->made_at);
    }
    rows_bind(a, false);
    return ERR_OK;
}

static enum err do_list(struct bucket *b, const struct request *q, int64_t now,
                        struct bucket_answer *a)
{
    size_t limit = q->limit < ROWS_MAX ? q->limit : ROWS_MAX;
    size_t prefix_len = strlen(q->key);
    for (size_t i = 0; i < b->objects_len; i++) {
        const struct bucket_object *o = b->objects[i];
        if (strncmp(o->key, q->key, prefix_len) != 0) continue;
        if (q->after && strcmp(o->key, q->after) <= 0) continue;
        if (list_misses(b, o->made_at, now)) continue;
        if (a->response.rows_len == limit) {
            a->response.more = true;
            break;
        }
        struct response_row *row = row_push(a);
        row->modified = bucket_time(b, o->made_at);
        buf_put(&a->text, bytes_of(o->key, strlen(o->key) + 1));
    }
    rows_bind(a, true);
    return ERR_OK;
}

static enum err do_get(struct bucket *b, const struct request *q, struct bucket_answer *a)
{
    const struct bucket_object *o = bucket_object(b, q->key);
    if (!o) return ERR_NOT_FOUND;
    buf_put(&a->text, o->body);
    a->response.body = buf_bytes(&a->text);
    return ERR_OK;
}

void bucket_perform(struct bucket *b, const struct request *q, int64_t now, struct bucket_answer *a)
{
    buf_clear(&a->text);
    a->response = (struct response){.id = q->id, .time = bucket_time(b, now)};
    enum err err = ERR_INVALID;
    switch (q->kind) {
    case REQUEST_APPEND:
        err = do_append(b, q, now);
        break;
    case REQUEST_READ_LOG:
        err = do_read_log(b, q, a);
        break;
    case REQUEST_EXTENTS:
        err = do_extents(b, q, now, a);
        break;
    case REQUEST_DROP:
        err = do_drop(b, q);
        break;
    case REQUEST_PUT_NEW:
        err = do_put_new(b, q, now);
        break;
    case REQUEST_GET:
        err = do_get(b, q, a);
        break;
    case REQUEST_LIST:
        err = do_list(b, q, now, a);
        break;
    case REQUEST_SEAL: // its extents are single slots
        err = ERR_OK;
        break;
    case REQUEST_DELETE:
        err = do_delete(b, q);
        break;
    }
    a->response.err = err;
}
