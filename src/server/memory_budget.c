// SPDX-License-Identifier: Apache-2.0
// Small parts are counted without a lock, because every request has one.
#include "server/memory_budget.h"

#include "base/check.h"
#include "os/clock.h"
#include "os/lock.h"

void budget_init(struct memory_budget *r, size_t max)
{
    r->max = max;
    r->small = 0;
    r->large = 0;
    (void)pthread_mutex_init(&r->lock, NULL);
    clock_cond_init(&r->freed);
}

void budget_done(struct memory_budget *r)
{
    (void)pthread_cond_destroy(&r->freed);
    (void)pthread_mutex_destroy(&r->lock);
}

size_t budget_used(const struct memory_budget *r)
{
    return atomic_load(&r->small) + atomic_load(&r->large);
}

size_t budget_share(const struct memory_budget *r)
{
    return r->max / 4;
}

bool budget_left(const struct memory_budget *r)
{
    return atomic_load(&r->small) < r->max / 4;
}

static bool is_small(size_t bytes)
{
    return bytes <= BUDGET_SMALL;
}

static void give(struct memory_budget *r, size_t bytes)
{
    if (is_small(bytes)) {
        atomic_fetch_add(&r->small, bytes);
        return;
    }
    LOCKED(&r->lock);
    r->large += bytes;
}

static void give_back(struct memory_budget *r, size_t bytes)
{
    if (is_small(bytes)) {
        CHECK(atomic_fetch_sub(&r->small, bytes) >= bytes);
        return;
    }
    LOCKED(&r->lock);
    CHECK(r->large >= bytes);
    r->large -= bytes;
    (void)pthread_cond_broadcast(&r->freed);
}

void budget_set(struct memory_budget *r, size_t *part, size_t bytes)
{
    if (*part == bytes) return;
    give_back(r, *part);
    give(r, bytes);
    *part = bytes;
}

static bool take_small(struct memory_budget *r, size_t more)
{
    size_t now = atomic_load(&r->small), most = r->max / 4;
    do {
        if (now > 0 && (more > most || now > most - more)) return false;
    } while (!atomic_compare_exchange_weak(&r->small, &now, now + more));
    return true;
}

// Call it with the lock held. The first large part always fits, else it never would.
static bool fits(const struct memory_budget *r, size_t own, size_t bytes)
{
    size_t others = r->large - own, most = r->max - r->max / 4;
    return others == 0 || (bytes <= most && others <= most - bytes);
}

static bool take_large(struct memory_budget *r, size_t own, size_t bytes, int64_t wait_ms)
{
    int64_t until = clock_boot_ms() + wait_ms;
    LOCKED(&r->lock);
    while (!fits(r, own, bytes) && clock_wait(&r->freed, &r->lock, until))
        ;
    bool taken = fits(r, own, bytes);
    if (taken) r->large += bytes - own;
    return taken;
}

bool budget_take(struct memory_budget *r, size_t *part, size_t bytes, int64_t wait_ms)
{
    size_t own = *part, before = is_small(own) ? own : 0;
    if (bytes <= own) return true;
    bool taken =
        is_small(bytes) ? take_small(r, bytes - own) : take_large(r, own - before, bytes, wait_ms);
    if (!taken) return false;
    if (before > 0 && !is_small(bytes)) give_back(r, before);
    *part = bytes;
    return true;
}
