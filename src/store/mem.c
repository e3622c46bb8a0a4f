// SPDX-License-Identifier: Apache-2.0
// A sorted array of objects under one mutex. Each slot of a log is an object.
#include "store/mem.h"

#include "base/array.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "store/backend.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define MEM_READ_AHEAD 256 // most slots of one read_log

struct object {
    char *key;
    struct bytes body;
    int64_t modified_ms;
};

struct mem {
    struct store base;
    pthread_mutex_t lock; // guards everything below
    pthread_cond_t created;
    int64_t offset_ms; // store time minus the boot clock
    struct object *objects;
    size_t len;
    size_t cap;
};

static struct mem *mem_of(struct store *s)
{
    return (struct mem *)s;
}

static int64_t mem_now(const struct mem *m)
{
    return clock_boot_ms() + m->offset_ms;
}

static void mem_enter(struct mem *m, struct store_answer *a)
{
    (void)pthread_mutex_lock(&m->lock);
    a->time = (struct interval){mem_now(m), mem_now(m)};
}

static void mem_leave(struct mem *m)
{
    (void)pthread_mutex_unlock(&m->lock);
}

// Returns the index of the first object whose key is not less than `key`.
static size_t mem_find(const struct mem *m, const char *key)
{
    size_t lo = 0, hi = m->len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(m->objects[mid].key, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool mem_has(const struct mem *m, size_t at, const char *key)
{
    return at < m->len && strcmp(m->objects[at].key, key) == 0;
}

// Returns whether the key is below an object's key or is a folder of one. The file store cannot
// hold both.
static bool mem_clashes(const struct mem *m, const char *key)
{
    char part[STORE_KEY_MAX + 2];
    size_t len = strlen(key);
    for (size_t i = 0; i < len; i++) {
        if (key[i] == '/') {
            part[i] = 0;
            if (mem_has(m, mem_find(m, part), part)) return true;
        }
        part[i] = key[i];
    }
    part[len] = '/';
    part[len + 1] = 0;
    size_t at = mem_find(m, part);
    return at < m->len && strncmp(m->objects[at].key, part, len + 1) == 0;
}

static void mem_insert(struct mem *m, size_t at, const char *key)
{
    *ARRAY_INSERT(m->objects, m->len, m->cap, at) = (struct object){.key = memory_text(key)};
}

static void mem_remove(struct mem *m, size_t at)
{
    memory_free(m->objects[at].key);
    bytes_free(m->objects[at].body);
    ARRAY_REMOVE(m->objects, m->len, at, 1);
}

static enum err mem_write(struct mem *m, const char *key, struct bytes body, bool fresh,
                          struct store_answer *a)
{
    size_t at = mem_find(m, key);
    bool there = mem_has(m, at, key);
    if (there && fresh) return ERR_CONFLICT;
    if (!there && mem_clashes(m, key))
        return answer_refuse(a, ERR_INVALID, "key \"%.150s\" is a folder, or inside an object",
                             key);
    if (!there) mem_insert(m, at, key);
    bytes_free(m->objects[at].body);
    m->objects[at].body = bytes_copy(body);
    m->objects[at].modified_ms = mem_now(m);
    (void)pthread_cond_broadcast(&m->created);
    return ERR_OK;
}

static enum err mem_put_new(struct store *s, const char *key, struct bytes body,
                            struct store_answer *a)
{
    mem_enter(mem_of(s), a);
    enum err e = mem_write(mem_of(s), key, body, true, a);
    mem_leave(mem_of(s));
    return e;
}

static enum err mem_put(struct store *s, const char *key, struct bytes body, struct store_answer *a)
{
    mem_enter(mem_of(s), a);
    enum err e = mem_write(mem_of(s), key, body, false, a);
    mem_leave(mem_of(s));
    return e;
}

static enum err mem_read(struct mem *m, const char *key, size_t from, size_t len,
                         struct store_answer *a)
{
    size_t at = mem_find(m, key);
    if (!mem_has(m, at, key)) return ERR_NOT_FOUND;
    const struct object *o = &m->objects[at];
    a->modified = (struct interval){o->modified_ms, o->modified_ms};
    if (from > o->body.len) from = o->body.len;
    if (len > o->body.len - from) len = o->body.len - from;
    if (len > 0) buf_put(&a->body, bytes_of(o->body.data + from, len));
    if (a->body.bad) return answer_refuse(a, ERR_LIMIT, "the answer is over its limit");
    return ERR_OK;
}

static enum err mem_get(struct store *s, const char *key, size_t from, size_t len,
                        struct store_answer *a)
{
    mem_enter(mem_of(s), a);
    enum err e = mem_read(mem_of(s), key, from, len, a);
    mem_leave(mem_of(s));
    return e;
}

static enum err mem_list(struct store *s, const char *prefix, const char *after, size_t limit,
                         struct store_answer *a)
{
    struct mem *m = mem_of(s);
    mem_enter(m, a);
    size_t at = mem_find(m, strcmp(after, prefix) > 0 ? after : prefix);
    if (mem_has(m, at, after)) at++;
    for (; at < m->len; at++) {
        const struct object *o = &m->objects[at];
        if (strncmp(o->key, prefix, strlen(prefix)) != 0) break;
        if (a->rows_len == limit) {
            a->more = true;
            break;
        }
        answer_row_key(a, o->key, o->body.len, (struct interval){o->modified_ms, o->modified_ms});
    }
    mem_leave(m);
    return ERR_OK;
}

static enum err mem_delete(struct store *s, const char *const *keys, size_t count,
                           struct store_answer *a)
{
    struct mem *m = mem_of(s);
    mem_enter(m, a);
    for (size_t i = 0; i < count; i++) {
        size_t at = mem_find(m, keys[i]);
        if (mem_has(m, at, keys[i])) mem_remove(m, at);
    }
    mem_leave(m);
    return ERR_OK;
}

static enum err mem_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                             struct store_answer *a)
{
    return objlog_read(s, log, slot, bytes_max, MEM_READ_AHEAD, a);
}

static enum err mem_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                         struct store_answer *a)
{
    struct mem *m = mem_of(s);
    char key[OBJLOG_KEY_MAX];
    objlog_key(key, log, slot);
    int64_t until = clock_boot_ms() + wait_ms;
    mem_enter(m, a);
    while (!mem_has(m, mem_find(m, key), key) && clock_wait(&m->created, &m->lock, until))
        ;
    bool there = mem_has(m, mem_find(m, key), key);
    mem_leave(m);
    return there ? ERR_OK : ERR_NOT_FOUND;
}

static void mem_free(struct store *s)
{
    struct mem *m = mem_of(s);
    while (m->len > 0)
        mem_remove(m, m->len - 1);
    memory_free(m->objects);
    (void)pthread_cond_destroy(&m->created);
    (void)pthread_mutex_destroy(&m->lock);
    memory_free(m);
}

static const struct store_ops mem_ops = {
    .put_new = mem_put_new,
    .put = mem_put,
    .get = mem_get,
    .list = mem_list,
    .delete = mem_delete,
    .append = objlog_append,
    .read_log = mem_read_log,
    .extents = objlog_extents,
    .drop = objlog_drop,
    .wait = mem_wait,
    .free = mem_free,
};

struct store *store_mem_new(void)
{
    struct mem *m = NEW(struct mem);
    store_init(&m->base, &mem_ops);
    (void)pthread_mutex_init(&m->lock, NULL);
    clock_cond_init(&m->created);
    m->offset_ms = clock_realtime_ms() - clock_boot_ms();
    return &m->base;
}

void store_mem_step(struct store *s, int64_t by_ms)
{
    struct mem *m = mem_of(s);
    LOCKED(&m->lock);
    m->offset_ms += by_ms;
}
