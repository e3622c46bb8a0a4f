// SPDX-License-Identifier: Apache-2.0
// The entry point of every store call: checks what holds for all backends, then calls the backend.
#include "store/store.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "store/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void store_answer_init(struct store_answer *a)
{
    *a = (struct store_answer){0};
    buf_init(&a->body, 2 * STORE_OBJECT_MAX); // one object or run of slots, with its framing
    answer_clear(a);
}

void store_answer_done(struct store_answer *a)
{
    buf_done(&a->body);
    memory_free(a->rows);
    *a = (struct store_answer){0};
}

void answer_clear(struct store_answer *a)
{
    a->time = (struct interval){TIME_UNKNOWN, TIME_NEVER};
    a->modified = (struct interval){TIME_UNKNOWN, TIME_NEVER};
    buf_clear(&a->body);
    a->rows_len = 0;
    a->more = false;
    a->tight = false;
    a->cost = (struct cost){0};
    a->why[0] = 0;
}

enum err answer_refuse(struct store_answer *a, enum err e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(a->why, sizeof a->why, format, args);
    va_end(args);
    return e;
}

struct store_row *answer_row(struct store_answer *a)
{
    struct store_row *row = ARRAY_ADD(a->rows, a->rows_len, a->rows_cap);
    *row = (struct store_row){0};
    return row;
}

void answer_row_key(struct store_answer *a, const char *key, uint64_t size,
                    struct interval modified)
{
    struct store_row *row = answer_row(a);
    row->body_at = a->body.len;
    row->size = size;
    row->modified = modified;
    buf_put(&a->body, bytes_of(key, strlen(key) + 1));
}

const char *store_row_key(const struct store_answer *a, size_t row)
{
    CHECK(row < a->rows_len);
    return (const char *)a->body.data + a->rows[row].body_at;
}

struct bytes store_row_bytes(const struct store_answer *a, size_t row)
{
    CHECK(row < a->rows_len);
    const struct store_row *r = &a->rows[row];
    CHECK(r->body_at + r->size <= a->body.len);
    return bytes_of(r->size ? a->body.data + r->body_at : NULL, (size_t)r->size);
}

static bool key_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

static bool part_good(const char *part, size_t len)
{
    if (len == 0 || len > STORE_PART_MAX) return false;
    if (part[0] == '.' && (len == 1 || (len == 2 && part[1] == '.'))) return false;
    for (size_t i = 0; i < len; i++)
        if (!key_char(part[i])) return false;
    return true;
}

static bool key_good(const char *key, size_t len_max)
{
    if (strlen(key) > len_max) return false;
    for (;;) {
        size_t len = strcspn(key, "/");
        if (!part_good(key, len)) return false;
        if (key[len] == 0) return true;
        key += len + 1;
    }
}

// A prefix may end anywhere. The text before its last '/' must be whole parts; the rest may be the
// start of a part.
static bool prefix_good(const char *prefix)
{
    if (strlen(prefix) > STORE_KEY_MAX) return false;
    for (;;) {
        size_t len = strcspn(prefix, "/");
        if (prefix[len] == 0) {
            for (size_t i = 0; i < len; i++)
                if (!key_char(prefix[i])) return false;
            return true;
        }
        if (!part_good(prefix, len)) return false;
        prefix += len + 1;
    }
}

// The store that does a call: a store around another one leaves out what the inner one does.
#define DOES(s, call)                                                                              \
    while (!(s)->ops->call && (s)->inner)                                                          \
    (s) = (s)->inner

static enum err check_handle(struct store *s, struct store_answer *a)
{
    answer_clear(a);
    if (fork_guard_same(&s->guard)) return ERR_OK;
    return answer_refuse(a, ERR_INVALID,
                         "this store was opened before a fork; open it again in the child");
}

static enum err check_key(struct store *s, const char *key, size_t len_max, struct store_answer *a)
{
    enum err e = check_handle(s, a);
    if (e) return e;
    if (key_good(key, len_max)) return ERR_OK;
    return answer_refuse(a, ERR_INVALID,
                         "key \"%.100s\" is not parts of A-Z a-z 0-9 _ . - joined by / (at most %d "
                         "bytes a part, %zu in all)",
                         key, STORE_PART_MAX, len_max);
}

static enum err check_slot(struct store *s, const char *log, uint64_t slot, struct store_answer *a)
{
    enum err e = check_key(s, log, STORE_LOG_MAX, a);
    if (e) return e;
    if (slot > 0 && slot < UINT64_MAX) return ERR_OK;
    return answer_refuse(a, ERR_INVALID, "%llu is not a slot: slots count from 1",
                         (unsigned long long)slot);
}

static enum err check_body(struct bytes body, struct store_answer *a)
{
    if (body.len <= STORE_OBJECT_MAX) return ERR_OK;
    return answer_refuse(a, ERR_LIMIT, "%zu bytes are over the limit of %zu for one object",
                         body.len, STORE_OBJECT_MAX);
}

static enum err check_limit(size_t *limit, struct store_answer *a)
{
    if (*limit == 0)
        return answer_refuse(a, ERR_INVALID, "the limit is 0 rows; it must be at least 1");
    if (*limit > STORE_LIST_MAX) *limit = STORE_LIST_MAX;
    return ERR_OK;
}

enum err store_put_new(struct store *s, const char *key, struct bytes body, struct store_answer *a)
{
    enum err e = check_key(s, key, STORE_KEY_MAX, a);
    if (!e) e = check_body(body, a);
    DOES(s, put_new);
    return e ? e : s->ops->put_new(s, key, body, a);
}

enum err store_put(struct store *s, const char *key, struct bytes body, struct store_answer *a)
{
    enum err e = check_key(s, key, STORE_KEY_MAX, a);
    if (!e) e = check_body(body, a);
    DOES(s, put);
    return e ? e : s->ops->put(s, key, body, a);
}

enum err store_get(struct store *s, const char *key, size_t from, size_t len,
                   struct store_answer *a)
{
    enum err e = check_key(s, key, STORE_KEY_MAX, a);
    DOES(s, get);
    return e ? e : s->ops->get(s, key, from, len, a);
}

enum err store_list(struct store *s, const char *prefix, const char *after, size_t limit,
                    struct store_answer *a)
{
    enum err e = check_handle(s, a);
    if (!e) e = check_limit(&limit, a);
    if (e) return e;
    if (!prefix_good(prefix) || (after && !prefix_good(after)))
        return answer_refuse(a, ERR_INVALID, "no key can start with \"%.100s\" or follow \"%.60s\"",
                             prefix, after ? after : "");
    DOES(s, list);
    return s->ops->list(s, prefix, after ? after : "", limit, a);
}

enum err store_delete(struct store *s, const char *const *keys, size_t count,
                      struct store_answer *a)
{
    enum err e = check_handle(s, a);
    for (size_t i = 0; i < count && !e; i++)
        e = check_key(s, keys[i], STORE_KEY_MAX, a);
    DOES(s, delete);
    return e ? e : s->ops->delete (s, keys, count, a);
}

enum err store_check_space(struct store *s, uint64_t bytes, struct store_answer *a)
{
    enum err e = check_handle(s, a);
    DOES(s, check_space);
    return e || !s->ops->check_space ? e : s->ops->check_space(s, bytes, a);
}

enum err store_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                      struct store_answer *a)
{
    enum err e = check_slot(s, log, slot, a);
    if (!e) e = check_body(body, a);
    DOES(s, append);
    return e ? e : s->ops->append(s, log, slot, body, a);
}

enum err store_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                        struct store_answer *a)
{
    enum err e = check_slot(s, log, slot, a);
    if (bytes_max > STORE_OBJECT_MAX) bytes_max = STORE_OBJECT_MAX;
    DOES(s, read_log);
    return e ? e : s->ops->read_log(s, log, slot, bytes_max, a);
}

enum err store_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                       struct store_answer *a)
{
    enum err e = check_slot(s, log, from, a);
    if (!e) e = check_limit(&limit, a);
    DOES(s, extents);
    return e ? e : s->ops->extents(s, log, from, limit, a);
}

enum err store_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                    struct store_answer *a)
{
    enum err e = check_slot(s, log, first, a);
    if (!e) e = check_slot(s, log, last, a);
    if (e) return e;
    if (first > last) return answer_refuse(a, ERR_INVALID, "the first slot is after the last");
    DOES(s, drop);
    return s->ops->drop(s, log, first, last, a);
}

enum err store_seal(struct store *s, const char *log, struct store_answer *a)
{
    enum err e = check_slot(s, log, 1, a);
    DOES(s, seal);
    return e || !s->ops->seal ? e : s->ops->seal(s, log, a);
}

enum err store_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                    struct store_answer *a)
{
    enum err e = check_slot(s, log, slot, a);
    DOES(s, wait);
    return e ? e : s->ops->wait(s, log, slot, wait_ms > 0 ? wait_ms : 0, a);
}

void store_init(struct store *s, const struct store_ops *ops)
{
    s->ops = ops;
    s->inner = NULL;
    s->puts_per_second = 0;
    s->until_ms = INT64_MAX;
    s->high_latency = false;
    fork_guard_init(&s->guard);
}

void store_init_around(struct store *s, const struct store_ops *ops, struct store *inner)
{
    store_init(s, ops);
    s->inner = inner;
    s->puts_per_second = inner->puts_per_second;
    s->until_ms = inner->until_ms;
    s->high_latency = inner->high_latency;
}

void store_set_until(struct store *s, int64_t until_ms)
{
    s->until_ms = until_ms;
}

int64_t store_patience_ms(const struct store *s, int64_t ms)
{
    if (s->until_ms == INT64_MAX) return ms;
    int64_t left = s->until_ms - clock_boot_ms();
    if (left < 1) left = 1;
    return left < ms ? left : ms;
}

int64_t store_puts_per_second(const struct store *s)
{
    return s->puts_per_second;
}

bool store_is_high_latency(const struct store *s)
{
    return s->high_latency;
}

bool store_read_clock(struct store *s, int64_t *now_ms)
{
    if (!fork_guard_same(&s->guard)) return false;
    DOES(s, read_clock);
    return s->ops->read_clock && s->ops->read_clock(s, now_ms);
}

void store_rest(struct store *s, const char *log)
{
    if (!fork_guard_same(&s->guard)) return;
    DOES(s, rest);
    if (s->ops->rest) s->ops->rest(s, log);
}

void store_distrust(struct store *s, const char *log)
{
    if (!fork_guard_same(&s->guard)) return;
    DOES(s, distrust);
    if (s->ops->distrust) s->ops->distrust(s, log);
}

enum err store_moved(struct store *s, struct store_answer *a)
{
    enum err e = check_handle(s, a);
    DOES(s, moved);
    return e || !s->ops->moved ? e : s->ops->moved(s, a);
}

bool store_is_dead(struct store *s, char why[static STORE_WHY_MAX])
{
    why[0] = 0;
    DOES(s, is_dead);
    return s->ops->is_dead && s->ops->is_dead(s, why);
}

bool store_concern(struct store *s, enum store_concern what, char why[static STORE_WHY_MAX])
{
    why[0] = 0;
    if (!fork_guard_same(&s->guard)) return false;
    DOES(s, concern);
    return s->ops->concern && s->ops->concern(s, what, why);
}

void store_free(struct store *s)
{
    if (!s) return;
    fork_guard_done(&s->guard);
    s->ops->free(s);
}
