// SPDX-License-Identifier: Apache-2.0
// The cost ledger: the cost of store requests for this shard, as writers report it in their
// entries. It has totals and the last two hours of the store's clock, which give a current rate.
#include "queue/tables/cost_ledger.h"

#include "base/check.h"
#include "queue/core/state.h"

#define LAYOUT_OF struct cost
static const struct layout_field cost_fields[] = {U64(writes), U64(reads), U64(deletes)};
const struct layout cost_layout = LAYOUT(cost_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct cost_ledger
static const struct layout_field ledger_fields[] = {PART(total, cost_layout),
                                                    PART(this_hour, cost_layout),
                                                    PART(last_hour, cost_layout), I64(hour)};
const struct layout cost_ledger_layout = LAYOUT(ledger_fields);
#undef LAYOUT_OF

#define HOUR_MS (INT64_C(3600) * 1000)

static int64_t hour_of(int64_t now)
{
    int64_t hour = now >= 0 ? now / HOUR_MS : -((-now - 1) / HOUR_MS) - 1;
    CHECK(hour * HOUR_MS <= now && now - hour * HOUR_MS < HOUR_MS);
    return hour;
}

// Returns the ledger as of that hour. An hour without a report has no row.
static struct cost_ledger turn_to(struct cost_ledger s, int64_t hour)
{
    if (hour <= s.hour) return s;
    s.last_hour = hour == s.hour + 1 ? s.this_hour : (struct cost){0};
    s.this_hour = (struct cost){0};
    s.hour = hour;
    return s;
}

enum reason apply_spent(struct machine *m, struct bytes payload)
{
    struct op_spent op;
    if (spent_decode(payload, &op)) return REASON_MALFORMED;
    if (m->deleted) return REASON_DELETED;
    m->spent = turn_to(m->spent, hour_of(m->now));
    CHECK(m->spent.hour >= hour_of(m->now)); // reports of an earlier hour do not come back
    cost_add(&m->spent.total, &op.cost);
    cost_add(&m->spent.this_hour, &op.cost);
    return REASON_NONE;
}

void machine_spent(const struct machine *m, int64_t now, struct machine_cost *out)
{
    if (now < m->now) now = m->now;
    struct cost_ledger s = turn_to(m->spent, hour_of(now));
    *out = (struct machine_cost){.total = s.total,
                                 .this_hour = s.this_hour,
                                 .last_hour = s.last_hour,
                                 .hour_ms = now - hour_of(now) * HOUR_MS};
    CHECK(out->hour_ms >= 0 && out->hour_ms < HOUR_MS);
}
