// SPDX-License-Identifier: Apache-2.0
// The generic cell rate algorithm (GCRA). A client is one time, paid_until: when its requests so
// far would have ended at the allowed rate. A time in the past means the same as no row, so such a
// row may be dropped.
#include "server/limiter.h"

#include "base/hash.h"
#include "base/memory.h"
#include "os/entropy.h"
#include "os/lock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define SETS      4096
#define WAYS      4
#define SECOND_NS INT64_C(1000000000)

struct limiter_row {
    uint64_t client;    // a keyed hash of its name; 0: free
    int64_t paid_until; // ns
};

struct limiter {
    _Atomic int64_t per_second;
    uint64_t seed; // keeps clients from choosing names that fall into one set
    pthread_mutex_t lock;
    struct limiter_row rows[SETS][WAYS];
};

struct limiter *limiter_new(void)
{
    struct limiter *l = NEW(struct limiter);
    l->seed = entropy_u64();
    (void)pthread_mutex_init(&l->lock, NULL);
    return l;
}

void limiter_free(struct limiter *l)
{
    if (!l) return;
    (void)pthread_mutex_destroy(&l->lock);
    memory_free(l);
}

void limiter_set(struct limiter *l, int64_t per_second)
{
    atomic_store(&l->per_second, per_second);
}

bool limiter_limits(const struct limiter *l)
{
    return atomic_load(&l->per_second) > 0;
}

// Returns the client's row. If there is none, reuses the row of its set with the earliest
// paid_until.
static struct limiter_row *row_of(struct limiter *l, uint64_t client)
{
    struct limiter_row *set = l->rows[client % SETS], *least = set;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].client == client) return &set[i];
        if (set[i].paid_until < least->paid_until) least = &set[i];
    }
    *least = (struct limiter_row){.client = client};
    return least;
}

bool limiter_take(struct limiter *l, const char *client, int64_t now_ns, int64_t *wait_ms)
{
    int64_t per_second = atomic_load(&l->per_second);
    *wait_ms = 0;
    if (per_second <= 0) return true;
    int64_t each = SECOND_NS / per_second;
    uint64_t key = hash64_of(bytes_str(client), l->seed) | 1;
    LOCKED(&l->lock);
    struct limiter_row *row = row_of(l, key);
    int64_t from = row->paid_until > now_ns ? row->paid_until : now_ns;
    int64_t ahead = from + each - now_ns;
    // After a pause one request is always allowed, however low the rate.
    int64_t allowance = each > SECOND_NS ? each : SECOND_NS;
    bool taken = ahead <= allowance;
    if (taken)
        row->paid_until = from + each;
    else
        *wait_ms = (ahead - allowance + 999999) / 1000000;
    return taken;
}
