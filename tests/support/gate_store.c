// SPDX-License-Identifier: Apache-2.0
// Everything but what is told otherwise goes to a store in memory.
#include "gate_store.h"

#include "base/memory.h"
#include "store/backend.h"
#include "store/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct gate {
    struct store base;
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool closed;
    bool held;
    unsigned puts; // since then
    bool reads_held;
    unsigned reads; // that are held
    bool doubtful;
    bool narrow;
    char only[256]; // the log that takes appends; "": none yet
};

static struct gate *of(struct store *s)
{
    return (struct gate *)s;
}

static bool is_sick(const char *key)
{
    return strncmp(key, "catalog/sick", strlen("catalog/sick")) == 0;
}

static enum err gate_get(struct store *s, const char *key, size_t from, size_t len,
                         struct store_answer *a)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    while (g->closed && is_sick(key))
        (void)pthread_cond_wait(&g->opened, &g->lock);
    (void)pthread_mutex_unlock(&g->lock);
    return store_get(g->base.inner, key, from, len, a);
}

static enum err gate_put(struct store *s, const char *key, struct bytes body,
                         struct store_answer *a)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    bool first = g->puts++ == 0;
    while (g->held && first)
        (void)pthread_cond_wait(&g->opened, &g->lock);
    (void)pthread_mutex_unlock(&g->lock);
    return store_put(g->base.inner, key, body, a);
}

static enum err gate_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                            struct store_answer *a)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    bool doubtful = g->doubtful;
    if (g->narrow && !g->only[0]) (void)snprintf(g->only, sizeof g->only, "%s", log);
    bool shut = g->narrow && strcmp(log, g->only) != 0;
    (void)pthread_mutex_unlock(&g->lock);
    if (shut) return answer_refuse(a, ERR_UNAVAILABLE, "the gate is shut");
    if (doubtful) return answer_refuse(a, ERR_UNKNOWN, "the gate does not say");
    return store_append(g->base.inner, log, slot, body, a);
}

static enum err gate_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                              struct store_answer *a)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    g->reads++;
    while (g->reads_held)
        (void)pthread_cond_wait(&g->opened, &g->lock);
    g->reads--;
    (void)pthread_mutex_unlock(&g->lock);
    return store_read_log(g->base.inner, log, slot, bytes_max, a);
}

static void gate_free(struct store *s)
{
    struct gate *g = of(s);
    store_free(g->base.inner);
    (void)pthread_cond_destroy(&g->opened);
    (void)pthread_mutex_destroy(&g->lock);
    memory_free(g);
}

static const struct store_ops gate_ops = {.put = gate_put,
                                          .get = gate_get,
                                          .append = gate_append,
                                          .read_log = gate_read_log,
                                          .free = gate_free};

struct store *store_gate_new(void)
{
    struct gate *g = NEW(struct gate);
    store_init_around(&g->base, &gate_ops, store_mem_new());
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_cond_init(&g->opened, NULL);
    return &g->base;
}

void store_gate_close(struct store *s, bool closed)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    g->closed = closed;
    (void)pthread_cond_broadcast(&g->opened);
    (void)pthread_mutex_unlock(&g->lock);
}

void store_gate_hold(struct store *s, bool held)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    g->held = held;
    g->puts = 0;
    (void)pthread_cond_broadcast(&g->opened);
    (void)pthread_mutex_unlock(&g->lock);
}

unsigned store_gate_puts(struct store *s)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    unsigned puts = g->puts;
    (void)pthread_mutex_unlock(&g->lock);
    return puts;
}

void store_gate_hold_reads(struct store *s, bool held)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    g->reads_held = held;
    (void)pthread_cond_broadcast(&g->opened);
    (void)pthread_mutex_unlock(&g->lock);
}

unsigned store_gate_reads(struct store *s)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    unsigned reads = g->reads;
    (void)pthread_mutex_unlock(&g->lock);
    return reads;
}

void store_gate_doubt(struct store *s, bool doubtful)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    g->doubtful = doubtful;
    (void)pthread_mutex_unlock(&g->lock);
}

void store_gate_narrow(struct store *s, bool narrow)
{
    struct gate *g = of(s);
    (void)pthread_mutex_lock(&g->lock);
    g->narrow = narrow;
    g->only[0] = 0;
    (void)pthread_mutex_unlock(&g->lock);
}
