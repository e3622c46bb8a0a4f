// SPDX-License-Identifier: Apache-2.0
// Counters of arrivals and answers. They are hints and guard nothing. A value that is read a moment
// too late costs one hand-over to the pool, or saves one.
#include "os/inline_policy.h"

#include "base/check.h"

#define LOAD(field)            atomic_load_explicit(&(field), memory_order_relaxed)
#define STORE(field, value)    atomic_store_explicit(&(field), value, memory_order_relaxed)
#define ADD(field, value)      atomic_fetch_add_explicit(&(field), value, memory_order_relaxed)
#define SUBTRACT(field, value) atomic_fetch_sub_explicit(&(field), value, memory_order_relaxed)

void inline_policy_arrived(struct inline_policy *p)
{
    if (LOAD(p->under_way) > 0) STORE(p->quiet, 0);
}

void inline_policy_requested(struct inline_policy *p)
{
    ADD(p->under_way, 1);
}

void inline_policy_dropped(struct inline_policy *p, uint32_t count)
{
    uint32_t before = SUBTRACT(p->under_way, count);
    CHECK(before >= count);
}

void inline_policy_answered(struct inline_policy *p, int64_t took_ms)
{
    inline_policy_dropped(p, 1);
    STORE(p->slow, took_ms >= INLINE_QUICK_MS);
    uint32_t quiet = LOAD(p->quiet);
    if (quiet < INLINE_QUIET) STORE(p->quiet, quiet + 1);
}

static bool is_alone(struct inline_policy *p)
{
    return LOAD(p->under_way) == 1 && LOAD(p->quiet) >= INLINE_QUIET;
}

bool inline_policy_may_run(struct inline_policy *p)
{
    if (!is_alone(p) || LOAD(p->slow) || LOAD(p->runs_inline)) return false;
    if (atomic_exchange(&p->runs_inline, true)) return false;
    if (ADD(p->in_a_row, 1) < INLINE_RUN - 1) return true;
    STORE(p->in_a_row, 0);
    inline_policy_ended(p);
    return false;
}

void inline_policy_ended(struct inline_policy *p)
{
    STORE(p->runs_inline, false);
}
