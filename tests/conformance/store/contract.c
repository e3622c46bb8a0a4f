// SPDX-License-Identifier: Apache-2.0
// The backends, and what the contract tests share.
#include "contract.h"

#include "base/memory.h"
#include "store/mem.h"
#include "store/meter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct backend {
    const char *name;
    struct store *(*open)(const char *dir);
    bool (*here)(void); // NULL: it needs no server
    bool bucket;
};

// Segments of 16 KiB, so that a test of a few hundred slots crosses several.
static const struct file_options small = {.segment_bytes = 16384, .step_bytes = 8192};

static struct store *open_mem(const char *dir)
{
    (void)dir;
    return store_mem_new();
}

static struct store *open_file(const char *dir)
{
    return file_open(dir, &small);
}

static struct store *open_meter_mem(const char *dir)
{
    return store_meter_take(open_mem(dir));
}

static struct store *open_meter_file(const char *dir)
{
    return store_meter_take(open_file(dir));
}

static struct store *open_s3(const char *dir)
{
    (void)dir;
    char prefix[S3_PREFIX_LEN];
    s3_prefix(prefix);
    return s3_open_at(prefix);
}

static struct store *open_redis(const char *dir)
{
    (void)dir;
    char prefix[S3_PREFIX_LEN];
    s3_prefix(prefix);
    return redis_open_at(prefix);
}

static const struct backend backends[] = {
    {"mem", open_mem, NULL, false},
    {"file", open_file, NULL, false},
    {"meter over mem", open_meter_mem, NULL, false},
    {"meter over file", open_meter_file, NULL, false},
    {"s3", open_s3, s3_here, true},
    {"redis", open_redis, redis_here, false},
};
#define BACKENDS (sizeof backends / sizeof *backends)

static int world_setup(void **state)
{
    const struct backend *backend = *state;
    struct world *w = NEW(struct world);
    scratch_make(w->dir);
    w->store = backend->open(w->dir);
    w->bucket = backend->bucket;
    store_answer_init(&w->a);
    *state = w;
    return 0;
}

static int world_teardown(void **state)
{
    struct world *w = *state;
    store_answer_done(&w->a);
    store_free(w->store);
    scratch_remove(w->dir);
    memory_free(w);
    return 0;
}

void put(struct world *w, const char *key, const char *text)
{
    ANSWERS(ERR_OK, &w->a, store_put(w->store, key, bytes_str(text), &w->a));
}

void holds(struct world *w, const char *key, const char *text)
{
    ANSWERS(ERR_OK, &w->a, store_get(w->store, key, 0, SIZE_MAX, &w->a));
    NEED(bytes_equal(buf_bytes(&w->a.body), bytes_str(text)));
}

void lists(struct world *w, const char *prefix, const char *after, size_t limit, bool more,
           const char *want)
{
    char got[4096] = "";
    ANSWERS(ERR_OK, &w->a, store_list(w->store, prefix, after, limit, &w->a));
    for (size_t i = 0; i < w->a.rows_len; i++) {
        size_t len = strlen(got);
        (void)snprintf(got + len, sizeof got - len, "%s%s", i ? " " : "", store_row_key(&w->a, i));
    }
    assert_string_equal(got, want);
    NEED(w->a.more == more);
}

static size_t slot_len(uint64_t slot)
{
    return (size_t)(slot * 37 % 300);
}

void append_slots(struct world *w, uint64_t first, uint64_t last)
{
    for (uint64_t slot = first; slot <= last; slot++) {
        struct bytes body = body_make(slot, slot_len(slot));
        ANSWERS(ERR_OK, &w->a, store_append(w->store, LOG, slot, body, &w->a));
        bytes_free(body);
    }
}

void row_is_slot(struct world *w, size_t row, uint64_t slot)
{
    NEED(w->a.rows[row].first == slot && w->a.rows[row].last == slot);
    NEED(body_is(store_row_bytes(&w->a, row), slot, slot_len(slot)));
}

uint64_t read_on(struct world *w, uint64_t first, size_t bytes_max)
{
    uint64_t next = first;
    for (;;) {
        enum err e = store_read_log(w->store, LOG, next, bytes_max, &w->a);
        if (e == ERR_NOT_FOUND) return next;
        ANSWERS(ERR_OK, &w->a, e);
        NEED(w->a.rows_len > 0);
        for (size_t i = 0; i < w->a.rows_len; i++)
            row_is_slot(w, i, next + i);
        next += w->a.rows_len;
    }
}

int contract_run(const char *group, const struct contract_test *tests, size_t count)
{
    size_t total = 0;
    struct CMUnitTest *all = memory_zeroed(count * BACKENDS, sizeof *all);
    char(*names)[128] = memory_zeroed(count * BACKENDS, sizeof *names);
    for (size_t i = 0; i < count * BACKENDS; i++) {
        const struct backend *backend = &backends[i / count];
        const struct contract_test *test = &tests[i % count];
        bool server = s3_here() || redis_here();
        if (backend->here ? !backend->here() : server) continue; // they had their turn without it
        (void)snprintf(names[total], sizeof names[total], "%s: %s", backend->name, test->name);
        all[total] = (struct CMUnitTest){names[total], test->run, world_setup, world_teardown,
                                         (void *)(uintptr_t)backend};
        total++;
    }
    // The macro takes the size of an array; this is what it stands for.
    int failures = _cmocka_run_group_tests(group, all, total, NULL, NULL);
    memory_free(all);
    memory_free(names);
    return failures;
}
