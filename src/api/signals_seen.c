// SPDX-License-Identifier: Apache-2.0
#include "api/signals_seen.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "os/lock.h"

#include <string.h>

#define TOKENS_MAX 65536

struct handed_row {
    uint64_t key; // a hash of the token; 0: free
    uint32_t last;
};

struct signal_marks {
    pthread_mutex_t lock;
    struct handed_row *rows; // a ring
    uint32_t len, cap, next;
    struct map by_key;
};

static uint64_t key_of(const char *token)
{
    uint64_t key = hash64_of(bytes_str(token), 0);
    return key ? key : 1;
}

static struct signal_marks *table_need(struct sluice *s)
{
    struct signal_marks *t = atomic_load(&s->signals_seen), *none = NULL;
    if (t) return t;
    t = NEW(struct signal_marks);
    (void)pthread_mutex_init(&t->lock, NULL);
    map_init(&t->by_key);
    if (atomic_compare_exchange_strong(&s->signals_seen, &none, t)) return t;
    (void)pthread_mutex_destroy(&t->lock);
    memory_free(t);
    return none;
}

void signals_seen_free(struct sluice *s)
{
    struct signal_marks *t = atomic_exchange(&s->signals_seen, NULL);
    if (!t) return;
    memory_free(t->rows);
    map_done(&t->by_key);
    (void)pthread_mutex_destroy(&t->lock);
    memory_free(t);
}

// Call these under the lock.
static struct handed_row *row_find(struct signal_marks *t, uint64_t key)
{
    uint32_t at = map_find(&t->by_key, key);
    return at == MAP_NONE ? NULL : &t->rows[at];
}

static void row_drop(struct signal_marks *t, uint32_t at)
{
    if (t->rows[at].key == 0) return;
    map_remove(&t->by_key, t->rows[at].key, at);
    t->rows[at] = (struct handed_row){0};
}

static struct handed_row *row_new(struct signal_marks *t, uint64_t key)
{
    if (t->next == t->cap && t->cap < TOKENS_MAX) {
        t->cap = t->cap == 0 ? 16 : t->cap * 2;
        t->rows = memory_resize(t->rows, t->cap * sizeof *t->rows);
        memset(t->rows + t->next, 0, (t->cap - t->next) * sizeof *t->rows);
    }
    if (t->next == t->cap) t->next = 0;
    row_drop(t, t->next);
    CHECK(t->next < t->cap);
    t->rows[t->next] = (struct handed_row){.key = key};
    map_add(&t->by_key, key, t->next);
    return &t->rows[t->next++];
}

// Returns whether the number is a new one of its token.
static bool note(struct signal_marks *t, const char *token, uint32_t number)
{
    uint64_t key = key_of(token);
    struct handed_row *row = row_find(t, key);
    if (!row) row = row_new(t, key);
    if (number <= row->last) return false;
    row->last = number;
    return true;
}

uint32_t signals_seen_last(struct sluice *s, const char *token)
{
    struct signal_marks *t = atomic_load(&s->signals_seen);
    if (!t) return 0;
    LOCKED(&t->lock);
    const struct handed_row *row = row_find(t, key_of(token));
    return row ? row->last : 0;
}

void signals_seen_batch(struct sluice *s, const struct sluice_batch *batch)
{
    for (size_t i = 0; i < batch->len; i++) {
        const struct sluice_message *m = &batch->messages[i];
        if (m->signals_len == 0) continue;
        struct signal_marks *t = table_need(s);
        LOCKED(&t->lock);
        (void)note(t, m->token, m->signals[m->signals_len - 1].number);
    }
}

void signals_seen_filter(struct sluice *s, struct sluice_signals *list)
{
    size_t good = 0;
    if (list->len == 0) return;
    struct signal_marks *t = table_need(s);
    (void)pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < list->len; i++) {
        struct sluice_signal_state *row = &list->rows[i];
        bool ended = row->number == 0; // the lock, not a signal
        uint32_t at = ended ? map_find(&t->by_key, key_of(row->token)) : MAP_NONE;
        if (at != MAP_NONE) row_drop(t, at);
        if (ended || note(t, row->token, row->number)) list->rows[good++] = *row;
    }
    (void)pthread_mutex_unlock(&t->lock);
    list->len = good;
}
