// SPDX-License-Identifier: Apache-2.0
// When a collector begins a round, and what it reports between rounds.
#include "base/check.h"
#include "journal/collector.h"

void collector_note_sweep(struct collector *c, struct interval now)
{
    if (sweep_wake_at(&c->sweep, c->journal) > now.lo) return;
    c->sweep_wanted = c->sweep_wanted || c->sweep.next_at != TIME_UNKNOWN;
    c->sweep.next_at = now.lo + collector_rules(c)->sweep_every_ms;
    CHECK(c->sweep.next_at >= now.lo);
}

// Floors are rare, so that there are few of them. While the store is nearly full, each urgent round
// may raise one: otherwise a queue that was drained right after a floor gives no space back until
// the next one.
bool collector_floor_too_soon(const struct collector *c)
{
    if (c->floor_time == TIME_UNKNOWN) return false;
    const struct journal_rules *r = collector_rules(c);
    bool often = collector_is_urgent(c) && r->verify_ms < r->floor_every_ms;
    return c->now.lo - c->floor_time < (often ? r->verify_ms : r->floor_every_ms);
}

void collector_start(struct collector *c, struct interval now)
{
    if (collector_running(c) || !journal_is_current(c->journal)) return;
    CHECK(!c->ask.open); // no round is open
    c->finishing = false;
    c->urgent = collector_is_urgent(c) && now.lo >= c->urgent_at;
    if (c->urgent) {
        int64_t every_ms = collector_rules(c)->verify_ms;
        c->urgent_at = now.lo + (c->quick > 0 ? every_ms / QUICK_SHARE : every_ms);
        if (c->quick > 0) c->quick--;
    }
    collector_round(c, now);
}

void collector_finish(struct collector *c, struct interval now)
{
    bool ended = journal_is_current(c->journal) && c->journal->ended_slot != 0;
    if (collector_running(c) || !ended) return;
    CHECK(!c->ask.open);
    c->finishing = true;
    c->urgent = false;
    collector_round(c, now);
}

bool collector_finished(const struct collector *c)
{
    CHECK(!c->finished || c->finishing);
    return !collector_running(c) && c->finished;
}

// A new handle waits for an hour before its first sweep, because most handles are closed sooner.
int64_t collector_wake_at(const struct collector *c)
{
    if (collector_running(c)) return TIME_NEVER;
    CHECK(!c->ask.open);
    int64_t sweep = sweep_wake_at(&c->sweep, c->journal);
    bool urgent = collector_is_urgent(c) && journal_is_current(c->journal);
    return urgent && c->urgent_at < sweep ? c->urgent_at : sweep;
}

void collector_tick(struct collector *c, struct interval now)
{
    if (collector_wake_at(c) > now.lo) return;
    CHECK(!collector_running(c)); // a running one is not woken
    bool first = c->sweep.next_at == TIME_UNKNOWN;
    bool urgent = collector_is_urgent(c) && now.lo >= c->urgent_at;
    collector_note_sweep(c, now);
    if (!first || urgent) collector_start(c, now);
}

bool collector_wants_time(struct collector *c)
{
    CHECK(!c->wants_slot || c->finishing || c->urgent);
    bool wants = !collector_running(c) && (c->sweep.waits_for_time || c->wants_slot);
    if (wants) c->sweep.waits_for_time = c->wants_slot = false;
    return wants;
}

void collector_describe(const struct collector *c, struct buf *out)
{
    CHECK(c->dropping <= c->drops_len && c->snapshots_len <= SNAPSHOTS_MAX);
    buf_put_u8(out, (uint8_t)c->stage);
    open_request_describe(&c->ask, out);
    for (size_t i = 0; i < c->snapshots_len; i++)
        buf_put_u64(out, c->snapshots[i].slot);
    buf_put_u64(out, c->floor_index);
    buf_put_u64(out, c->floor_slot);
    buf_put_i64(out, c->floor_time);
    buf_put_u64(out, c->target);
    for (size_t i = c->dropping; i < c->drops_len; i++)
        buf_put_u64(out, c->drops[i].first);
    buf_put_u64(out, c->deleting);
}
