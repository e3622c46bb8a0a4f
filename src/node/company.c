// SPDX-License-Identifier: Apache-2.0
// Counters of who came when. They guide and guard nothing: one that is read a moment too late
// costs a way to the crew, or saves one.
#include "node/company.h"

#include "base/check.h"

#define LOAD(field)         atomic_load_explicit(&(field), memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(&(field), value, memory_order_relaxed)
#define ADD(field, value)   atomic_fetch_add_explicit(&(field), value, memory_order_relaxed)
#define TAKE(field, value)  atomic_fetch_sub_explicit(&(field), value, memory_order_relaxed)

void company_came(struct company *c)
{
    if (LOAD(c->under_way) > 0) STORE(c->quiet, 0);
}

void company_wanted(struct company *c)
{
    ADD(c->under_way, 1);
}

void company_dropped(struct company *c, uint32_t count)
{
    uint32_t before = TAKE(c->under_way, count);
    CHECK(before >= count);
}

void company_answered(struct company *c, int64_t took_ms)
{
    company_dropped(c, 1);
    STORE(c->slow, took_ms >= COMPANY_QUICK_MS);
    uint32_t quiet = LOAD(c->quiet);
    if (quiet < COMPANY_QUIET) STORE(c->quiet, quiet + 1);
}

static bool is_alone(struct company *c)
{
    return LOAD(c->under_way) == 1 && LOAD(c->quiet) >= COMPANY_QUIET;
}

bool company_lend(struct company *c)
{
    if (!is_alone(c) || LOAD(c->slow) || LOAD(c->lent)) return false;
    if (atomic_exchange(&c->lent, true)) return false;
    if (ADD(c->run, 1) < COMPANY_RUN - 1) return true;
    STORE(c->run, 0);
    company_lent_back(c);
    return false;
}

void company_lent_back(struct company *c)
{
    STORE(c->lent, false);
}
