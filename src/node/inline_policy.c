// SPDX-License-Identifier: Apache-2.0
// Counters of arrivals and answers. They are hints and guard nothing. A value that is read a moment
// too late costs one hand-over to the pool, or saves one.
#include "node/inline_policy.h"

#include "base/check.h"

#define LOAD(field)         atomic_load_explicit(&(field), memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)
#define ADD(field, value)   atomic_fetch_add_explicit(&(field), value, memory_order_relaxed)
#define TAKE(field, value)  atomic_fetch_sub_explicit(&(field), value, memory_order_relaxed)

void inline_policy_arrived(struct inline_policy *c)
{
    if (LOAD(c->under_way) > 0) STORE(c->quiet, 0);
}

void inline_policy_requested(struct inline_policy *c)
{
    ADD(c->under_way, 1);
}

void inline_policy_dropped(struct inline_policy *c, uint32_t count)
{
    uint32_t before = TAKE(c->under_way, count);
    CHECK(before >= count);
}

void inline_policy_answered(struct inline_policy *c, int64_t took_ms)
{
    inline_policy_dropped(c, 1);
    STORE(c->slow, took_ms >= INLINE_QUICK_MS);
    uint32_t quiet = LOAD(c->quiet);
    if (quiet < INLINE_QUIET) STORE(c->quiet, quiet + 1);
}

static bool is_alone(struct inline_policy *c)
{
    return LOAD(c->under_way) == 1 && LOAD(c->quiet) >= INLINE_QUIET;
}

bool inline_policy_may_run(struct inline_policy *c)
{
    if (!is_alone(c) || LOAD(c->slow) || LOAD(c->runs_inline)) return false;
    if (atomic_exchange(&c->runs_inline, true)) return false;
    if (ADD(c->run, 1) < INLINE_RUN - 1) return true;
    STORE(c->run, 0);
    inline_policy_ended(c);
    return false;
}

void inline_policy_ended(struct inline_policy *c)
{
    STORE(c->runs_inline, false);
}
