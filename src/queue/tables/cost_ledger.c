// SPDX-License-Identifier: Apache-2.0
// The cost ledger: the cost of store requests for this shard, as writers report it in their
// entries. It has totals and the last two hours of the store's clock, which give a current rate.
#include "queue/tables/cost_ledger.h"

#include "base/check.h"
#include "queue/core/state.h"

#include <string.h>

static_assert(sizeof(struct cost_ledger) == 80, "no padding: it is compared as bytes");

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

static uint64_t mix_cost(uint64_t h, const struct cost *c)
{
    return mix(mix(mix(h, c->writes), c->reads), c->deletes);
}

// If the store charges nothing, the ledger stays empty, and the digest is the same as without a
// ledger. So journals of earlier releases stay valid.
uint64_t spent_mix(const struct cost_ledger *s, uint64_t h)
{
    static const struct cost_ledger empty;
    if (memcmp(s, &empty, sizeof empty) == 0) return h;
    h = mix_cost(mix_cost(mix_cost(h, &s->total), &s->this_hour), &s->last_hour);
    return mix(h, (uint64_t)s->hour);
}

static void save_cost(const struct cost *c, struct buf *out)
{
    buf_put_u64(out, c->writes);
    buf_put_u64(out, c->reads);
    buf_put_u64(out, c->deletes);
}

void spent_save(const struct cost_ledger *s, struct buf *out)
{
    size_t at = out->len;
    save_cost(&s->total, out);
    save_cost(&s->this_hour, out);
    save_cost(&s->last_hour, out);
    buf_put_i64(out, s->hour);
    CHECK(out->bad || out->len - at == sizeof *s);
}

static struct cost load_cost(struct reader *r)
{
    struct cost c = {.writes = read_u64(r)};
    c.reads = read_u64(r);
    c.deletes = read_u64(r);
    return c;
}

void spent_load(struct cost_ledger *s, struct reader *r)
{
    size_t before = r->left;
    s->total = load_cost(r);
    s->this_hour = load_cost(r);
    s->last_hour = load_cost(r);
    s->hour = read_i64(r);
    CHECK(r->bad || before - r->left == sizeof *s); // as spent_save writes
}
