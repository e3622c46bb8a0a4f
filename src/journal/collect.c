// SPDX-License-Identifier: Apache-2.0
// One round of collection: raise the floor if two snapshots allow it, then drop the slots under it.
// A paused writer can create a dropped slot again. So the floor is durable before the first drop,
// and it rises only to a snapshot whose next slot was read.
//
// clang-format off
//     SNAPSHOTS -> FLOORS -> PROOF_SNAPSHOT -> PROOF_SLOT -> RAISING -> EXTENTS <-> DROPPING
//                    |                                                     ^            |
//                    '------ nothing to raise, or too soon ----------------'            v
//                                                               done <- SWEEPING <- DELETING
// clang-format on
//
// A journal that has ended (its queue was deleted) has no live messages, so all of it can be
// removed except its end. A floor needs a snapshot, a slot after it, and a snapshot of that slot.
// No client writes to an ended journal, so collector_finish makes them:
//
//   - a snapshot of the end, if there is none;
//   - when that is old enough for a floor: SEALING, an entry without ops, and its snapshot.
//
// After that the round is like any other, and its floor is the last slot but one.
//
// While the store is nearly full, slots are dropped and floors rise earlier (retain_tight_ms). A
// round each minute (urgent) then looks for data over the floor that is not needed. If there is
// some, the next rounds follow at once. They make what the floor needs: a new extent, a snapshot,
// an entry after it, and another snapshot.
//
// A handle sweeps (sweep.c) when it has just raised the floor. A long-lived handle also sweeps once
// an hour. So many short-lived handles do not list the same objects all day.
//
// An unexpected answer ends the round. The next round starts from the stored data.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "journal/collector.h"

#include <stdio.h>
#include <string.h>

// What holds between any two calls.
static bool collector_is_sound(const struct collector *c)
{
    bool snapshots = c->snapshots_len <= SNAPSHOTS_MAX && c->deleting <= c->snapshots_len;
    bool drops = c->drops_len <= EXTENTS_LIMIT && c->dropping <= c->drops_len;
    bool asks = c->ask.open == (c->stage != STAGE_IDLE);
    return snapshots && drops && asks && !(c->finishing && c->urgent);
}
struct collector *collector_new(struct journal *j)
{
    struct collector *c = NEW(struct collector);
    c->journal = j;
    c->floor_time = TIME_UNKNOWN;
    buf_init(&c->body, FLOOR_LEN);
    sweep_init(&c->sweep);
    return c;
}

void collector_free(struct collector *c)
{
    if (!c) return;
    buf_done(&c->body);
    sweep_done(&c->sweep);
    memory_free(c);
}

bool collector_running(const struct collector *c)
{
    CHECK(c->stage != STAGE_IDLE || !c->ask.open);
    return c->stage != STAGE_IDLE;
}

uint64_t collector_dropped(const struct collector *c)
{
    return c->dropped;
}

uint64_t collector_swept(const struct collector *c)
{
    return c->sweep.deleted;
}

static void collector_request(struct collector *c, enum request_kind kind, const char *part,
                              uint64_t number)
{
    CHECK(c->stage != STAGE_IDLE);
    open_request_begin(&c->ask, c->journal, kind, part, number);
    c->ask.request.background = true;
}

static void end_round(struct collector *c)
{
    CHECK(!c->ask.open);
    c->stage = STAGE_IDLE;
}

static void ask_snapshots(struct collector *c)
{
    CHECK(c->snapshots_len <= SNAPSHOTS_MAX);
    c->stage = STAGE_SNAPSHOTS;
    collector_request(c, REQUEST_LIST, "snap", 0);
    c->ask.request.limit = 1000;
    if (c->snapshots_len == 0) return;
    (void)snprintf(c->ask.after, sizeof c->ask.after, "%s/snap/%020llu", c->journal->config.prefix,
                   (unsigned long long)c->snapshots[c->snapshots_len - 1].slot);
    c->ask.request.after = c->ask.after;
}

static void ask_floor(struct collector *c)
{
    CHECK(c->stage == STAGE_SNAPSHOTS || c->stage == STAGE_FLOORS);
    c->stage = STAGE_FLOORS;
    collector_request(c, REQUEST_GET, "floor", c->floor_index + 1);
}

static void ask_proof_slot(struct collector *c)
{
    CHECK(c->stage == STAGE_PROOF_SNAPSHOT);
    CHECK(c->target > c->floor_slot);
    c->stage = STAGE_PROOF_SLOT;
    collector_request(c, REQUEST_READ_LOG, "log", 0);
    c->ask.request.first = c->target + 1;
    c->ask.request.limit = 1;
}

static void ask_raise(struct collector *c)
{
    CHECK(c->target > c->floor_slot);
    struct floor f = {.id = c->journal->config.id,
                      .index = c->floor_index + 1,
                      .slot = c->target,
                      .time = c->now.lo};
    buf_clear(&c->body);
    floor_encode(&f, &c->body);
    CHECK(!c->body.bad);
    c->stage = STAGE_RAISING;
    collector_request(c, REQUEST_PUT_NEW, "floor", f.index);
    c->ask.request.body = buf_bytes(&c->body);
}

static void ask_extents(struct collector *c)
{
    CHECK(c->extents_from > 0);
    CHECK(c->dropping == c->drops_len || c->stage != STAGE_DROPPING); // the last page is done
    c->stage = STAGE_EXTENTS;
    collector_request(c, REQUEST_EXTENTS, "log", 0);
    c->ask.request.first = c->extents_from;
    c->ask.request.limit = EXTENTS_LIMIT;
}

// Returns true if the floor covers the end, or if at most one slot is above it. A handle that
// loaded a snapshot of the end does not know the exact slot.
static bool is_at_the_end(const struct collector *c)
{
    const struct journal *j = c->journal;
    return c->floor_slot >= j->ended_slot || c->floor_slot + 1 >= j->core.slot;
}

// ... and if there is a snapshot above the floor.
static bool is_over(const struct collector *c)
{
    if (!c->finishing || c->journal->ended_slot == 0 || c->snapshots_len == 0) return false;
    return is_at_the_end(c) && c->snapshots[c->snapshots_len - 1].slot > c->floor_slot;
}

// Returns true if the snapshot is old enough. The floor then leaves the history of the last hour
// readable. The caller takes the newest one that is not the last.
static bool may_be_floor(const struct collector *c, const struct kept_snapshot *s)
{
    CHECK(s->slot > 0);
    int64_t lag_ms = collector_is_urgent(c) ? 0 : collector_rules(c)->floor_lag_ms;
    return c->now.lo - s->written.hi >= lag_ms;
}

static void ask_seal(struct collector *c)
{
    CHECK(c->finishing || c->urgent);
    c->stage = STAGE_SEALING;
    collector_request(c, REQUEST_SEAL, "log", 0);
}

// Prepares one floor at a time: the target is the newest slot when the last target was reached.
static void prepare_next_floor(struct collector *c)
{
    CHECK(c->urgent && !c->ask.open);
    CHECK(c->stage == STAGE_IDLE); // the round has ended
    struct journal *j = c->journal;
    if (c->floor_slot >= c->urgent_slot) {
        if (j->core.slot <= c->urgent_slot + 1) return; // nothing has happened since
        c->urgent_slot = j->core.slot;
        c->quick = QUICK_ROUNDS; // the steps of this floor follow each other at once
        c->urgent_at = c->now.lo + collector_rules(c)->verify_ms / QUICK_SHARE;
    }
    size_t above = 0;
    for (size_t i = 0; i < c->snapshots_len; i++)
        above += c->snapshots[i].slot >= c->urgent_slot;
    bool newest = above > 0 && c->snapshots[c->snapshots_len - 1].slot == j->core.slot;
    if (above == 0 || (above == 1 && newest)) {
        ask_seal(c);
    } else if (above == 1) {
        journal_snapshot(j);
    }
}

static void on_sealed(struct collector *c)
{
    CHECK(c->finishing || c->urgent);
    CHECK(!c->wants_slot); // once for each round
    struct journal *j = c->journal;
    size_t len = c->snapshots_len;
    bool newest = len > 0 && c->snapshots[len - 1].slot == j->core.slot;
    if (c->urgent && !newest) {
        journal_snapshot(j);
    } else {
        c->wants_slot = true;
    }
    end_round(c);
}

// If the journal is finished, nothing is left, unless this round found data that stays. An extent
// that also holds the last slot can be dropped after one more entry, in a new extent.
static void round_ends(struct collector *c)
{
    CHECK(!c->ask.open);
    bool over = is_over(c);
    c->finished = over && !c->leaves_data;
    end_round(c);
    if (c->urgent && c->gain) prepare_next_floor(c);
    if (!over || !c->spans_floor) return;
    CHECK(c->snapshots_len > 0);
    const struct kept_snapshot *newest = &c->snapshots[c->snapshots_len - 1];
    if (newest->slot == c->journal->core.slot && may_be_floor(c, newest)) ask_seal(c);
}

static void ask_sweep_or_end(struct collector *c)
{
    CHECK(!c->ask.open);
    CHECK(c->deleting == c->snapshots_len); // the snapshots were decided first
    c->stage = STAGE_SWEEPING;
    if (sweep_ask(&c->sweep, c->journal, &c->ask)) return;
    if (c->sweep.leftovers) c->leaves_data = true;
    round_ends(c);
}

static void start_sweeping(struct collector *c)
{
    CHECK(c->deleting == c->snapshots_len);
    bool due = c->sweep_wanted || c->finishing || (c->raised && !c->sweep.begun);
    if (!sweep_is_possible(c->journal) || !due) {
        round_ends(c);
        return;
    }
    c->sweep_wanted = false;
    sweep_begin(&c->sweep, c->journal, c->now);
    ask_sweep_or_end(c);
}

// A snapshot may be deleted if it is under the floor. It may also be deleted if one that stays is
// less than floor_every_ms older. The two newest stay.
//
// Of an ended journal one snapshot is enough. It can be large, because it remembers requests. A
// second one would only prove a floor that exists, or replace a damaged one whose only content is
// the end. A reader that has listed the deleted one lists again.
static bool may_delete(const struct collector *c, size_t index)
{
    CHECK(index < c->snapshots_len);
    const struct kept_snapshot *s = &c->snapshots[index];
    if (s->slot < c->floor_slot || (s->slot == c->floor_slot && is_over(c))) return true;
    bool newest = index + 2 >= c->snapshots_len;
    if (newest || collector_rules(c)->floor_lag_ms == 0 || c->kept_at == TIME_UNKNOWN) return false;
    return s->written.lo - c->kept_at < collector_rules(c)->floor_every_ms;
}

static void ask_delete_or_sweep(struct collector *c)
{
    CHECK(c->deleting <= c->snapshots_len);
    c->stage = STAGE_DELETING;
    while (c->deleting < c->snapshots_len) {
        const struct kept_snapshot *s = &c->snapshots[c->deleting];
        if (may_delete(c, c->deleting++)) {
            collector_request(c, REQUEST_DELETE, "snap", s->slot);
            return;
        }
        c->kept_at = s->written.lo;
    }
    start_sweeping(c);
}

static void ask_drop_or_next(struct collector *c)
{
    CHECK(c->dropping <= c->drops_len && c->drops_len <= EXTENTS_LIMIT);
    if (c->dropping < c->drops_len) {
        struct extent e = c->drops[c->dropping++];
        CHECK(0 < e.first && e.first <= e.last && e.last <= c->floor_slot);
        c->stage = STAGE_DROPPING;
        collector_request(c, REQUEST_DROP, "log", 0);
        c->ask.request.first = e.first;
        c->ask.request.last = e.last;
    } else if (c->extents_more) {
        ask_extents(c);
    } else {
        ask_delete_or_sweep(c);
    }
}

static void start_dropping(struct collector *c)
{
    CHECK(c->stage == STAGE_FLOORS || c->stage == STAGE_RAISING);
    c->extents_from = 1;
    if (c->floor_slot == 0 && !c->urgent) {
        ask_delete_or_sweep(c);
    } else {
        ask_extents(c);
    }
}

void collector_round(struct collector *c, struct interval now)
{
    CHECK(!collector_running(c) && collector_is_sound(c));
    c->now = now;
    collector_note_sweep(c, now);
    c->snapshots_len = 0;
    c->deleting = 0;
    c->kept_at = TIME_UNKNOWN;
    c->gain = false;
    c->raised = c->wants_slot = c->leaves_data = c->spans_floor = c->finished = false;
    // The journal may know newer floors. The newest is read again for the time when it was written.
    if (c->journal->floor_index > c->floor_index) {
        c->floor_index = c->journal->floor_index - 1;
        c->floor_slot = 0;
    }
    ask_snapshots(c);
}

static void on_snapshots(struct collector *c, const struct response *r)
{
    CHECK(c->deleting == 0); // no snapshot was decided yet
    for (size_t i = 0; i < r->rows_len; i++) {
        uint64_t slot;
        if (!snapshot_key_slot(c->journal, r->rows[i].key, &slot)) continue;
        if (c->snapshots_len == SNAPSHOTS_MAX) {
            memmove(c->snapshots, c->snapshots + 1, sizeof c->snapshots - sizeof *c->snapshots);
            c->snapshots_len--;
            c->leaves_data = true;
        }
        c->snapshots[c->snapshots_len++] = (struct kept_snapshot){slot, r->rows[i].modified};
    }
    if (r->more && r->rows_len > 0) {
        ask_snapshots(c);
    } else {
        ask_floor(c);
    }
}

static uint64_t highest_floor(const struct collector *c)
{
    uint64_t limit = collector_floor_limit(c);
    for (size_t i = c->snapshots_len; i-- > 0;) {
        const struct kept_snapshot *s = &c->snapshots[i];
        bool newest = i + 1 == c->snapshots_len;
        if (!newest && s->slot <= limit && may_be_floor(c, s)) return s->slot;
    }
    return 0;
}

// Makes what is needed before the floor can rise over the end. Returns true if an entry after the
// last slot is needed.
static bool prepare_end(struct collector *c)
{
    CHECK(c->finishing);
    struct journal *j = c->journal;
    size_t len = c->snapshots_len;
    const struct kept_snapshot *newest = len > 0 ? &c->snapshots[len - 1] : NULL;
    if (!newest || newest->slot < j->core.slot) {
        journal_snapshot(j);
        return false;
    }
    if (newest->slot > collector_floor_limit(c)) return false; // an entry after it would not help
    bool rises = c->target >= j->ended_slot || c->target + 1 >= j->core.slot;
    if (rises || is_at_the_end(c)) return false;
    return newest->slot == j->core.slot && may_be_floor(c, newest);
}

static void floors_known(struct collector *c)
{
    CHECK(c->stage == STAGE_FLOORS);
    c->target = highest_floor(c);
    bool soon = collector_floor_too_soon(c);
    if (c->finishing && MUTANT(FINISH_WITHOUT_FLOOR)) c->floor_slot = c->journal->core.slot;
    if (c->finishing && !soon && prepare_end(c)) {
        ask_seal(c);
    } else if (c->target <= c->floor_slot || soon) {
        start_dropping(c);
    } else {
        c->stage = STAGE_PROOF_SNAPSHOT;
        collector_request(c, REQUEST_GET, "snap", c->target);
    }
}

static void on_floor(struct collector *c, const struct response *r)
{
    if (r->err == ERR_NOT_FOUND) {
        floors_known(c);
        return;
    }
    struct floor f;
    if (floor_decode(r->body, &f) || f.index != c->floor_index + 1 || f.slot <= c->floor_slot) {
        end_round(c);
        return;
    }
    c->floor_index = f.index;
    c->floor_slot = f.slot;
    c->floor_time = f.time;
    ask_floor(c);
}

static void on_proof_snapshot(struct collector *c, const struct response *r)
{
    CHECK(c->target > 0);
    struct core core;
    struct snapshot s;
    core_init(&core);
    enum err err = snapshot_decode(r->body, &core, &s);
    bool sound = !err && core.slot == c->target && journal_id_equal(&s.id, &c->journal->config.id);
    c->chain = core.chain;
    core_done(&core);
    if (!sound) {
        end_round(c);
    } else if (MUTANT(FLOOR_WITHOUT_PROOF)) {
        ask_raise(c);
    } else {
        ask_proof_slot(c);
    }
}

static void on_proof_slot(struct collector *c, const struct response *r)
{
    CHECK(c->target > c->floor_slot);
    struct entry e;
    const char *why;
    bool there = r->rows_len > 0 && r->rows[0].first == c->target + 1;
    if (!there || entry_decode(r->rows[0].body, &e, &why)) {
        end_round(c);
        return;
    }
    bool continues = e.slot == c->target + 1 && hash128_equal(e.previous, c->chain) &&
                     journal_id_equal(&e.id, &c->journal->config.id);
    entry_done(&e);
    if (continues) {
        ask_raise(c);
    } else {
        end_round(c);
    }
}

static void on_raised(struct collector *c)
{
    CHECK(c->target > c->floor_slot);
    CHECK(c->body.len == FLOOR_LEN); // what was written
    c->floor_index++;
    c->floor_slot = c->target;
    c->floor_time = c->now.lo;
    c->raised = true;
    start_dropping(c);
}

// Returns true if the extent is under the floor and old enough by the store's clock. The state must
// have folded past it and must not need it.
static bool may_drop(const struct collector *c, const struct response_row *row)
{
    CHECK(0 < row->first && row->first <= row->last);
    const struct journal *j = c->journal;
    if (row->last > c->floor_slot || row->last > j->core.slot) return false;
    const struct journal_rules *r = collector_rules(c);
    int64_t retain_ms = collector_is_urgent(c) ? r->retain_tight_ms : r->retain_ms;
    bool old = c->now.lo - row->modified.hi >= retain_ms;
    if (!old && !MUTANT(COLLECT_YOUNG)) return false;
    return MUTANT(COLLECT_LIVE) || !j->fold.needs(j->fold.ctx, row->first, row->last);
}

// Returns true if the extent could be dropped under a higher floor. Slots that were not folded yet
// do not count.
static bool would_gain(const struct collector *c, const struct response_row *row)
{
    const struct journal *j = c->journal;
    uint64_t last = row->last < j->core.slot ? row->last : j->core.slot;
    if (last <= c->floor_slot || row->first > last) return false;
    return !j->fold.needs(j->fold.ctx, row->first, last);
}

// Adjacent extents go in one request.
static void add_drop(struct collector *c, const struct response_row *row)
{
    CHECK(row->last <= c->floor_slot); // may_drop
    CHECK(c->dropping == 0);
    struct extent *before = c->drops_len > 0 ? &c->drops[c->drops_len - 1] : NULL;
    if (before && before->last + 1 == row->first) {
        before->last = row->last;
    } else {
        CHECK(c->drops_len < EXTENTS_LIMIT);
        c->drops[c->drops_len++] = (struct extent){row->first, row->last};
    }
}

static bool is_extent(const struct response_row *row)
{
    return 0 < row->first && row->first <= row->last && row->last <= ENTRY_SLOT_MAX;
}

static void on_extents(struct collector *c, const struct response *r)
{
    c->drops_len = 0;
    c->dropping = 0;
    c->extents_more = r->more && r->rows_len > 0;
    for (size_t i = 0; i < r->rows_len && i < EXTENTS_LIMIT; i++) {
        const struct response_row *row = &r->rows[i];
        if (!is_extent(row)) {
            end_round(c);
            return;
        }
        c->extents_from = row->last + 1;
        if (may_drop(c, row)) {
            add_drop(c, row);
        } else if (row->first <= c->floor_slot) {
            c->leaves_data = true;
            c->spans_floor = c->spans_floor || row->last > c->floor_slot;
        }
        c->gain = c->gain || would_gain(c, row);
    }
    if (c->extents_from > c->floor_slot && !c->urgent) c->extents_more = false;
    ask_drop_or_next(c);
}

static bool is_expected(const struct collector *c, enum err err)
{
    return err == ERR_OK || (err == ERR_NOT_FOUND && c->stage == STAGE_FLOORS);
}

void collector_respond(struct collector *c, const struct response *r, struct interval now)
{
    if (!open_request_is(&c->ask, r->id)) return;
    CHECK(collector_is_sound(c));
    CHECK(collector_running(c));
    c->ask.open = false;
    c->now = now;
    bool halted = journal_halted(c->journal, NULL);
    if (!is_expected(c, r->err) || halted) {
        end_round(c);
        return;
    }
    switch (c->stage) {
    case STAGE_IDLE:
        break;
    case STAGE_SNAPSHOTS:
        on_snapshots(c, r);
        break;
    case STAGE_FLOORS:
        on_floor(c, r);
        break;
    case STAGE_PROOF_SNAPSHOT:
        on_proof_snapshot(c, r);
        break;
    case STAGE_PROOF_SLOT:
        on_proof_slot(c, r);
        break;
    case STAGE_RAISING:
        on_raised(c);
        break;
    case STAGE_SEALING:
        on_sealed(c);
        break;
    case STAGE_EXTENTS:
        on_extents(c, r);
        break;
    case STAGE_DROPPING: {
        CHECK(c->dropping > 0 && c->dropping <= c->drops_len);
        struct extent done = c->drops[c->dropping - 1];
        c->dropped += done.last - done.first + 1;
        ask_drop_or_next(c);
        break;
    }
    case STAGE_DELETING:
        ask_delete_or_sweep(c);
        break;
    case STAGE_SWEEPING:
        sweep_respond(&c->sweep, c->journal, r, now);
        ask_sweep_or_end(c);
        break;
    }
}

bool collector_next_request(struct collector *c, struct request *out)
{
    CHECK(collector_is_sound(c));
    return open_request_take(&c->ask, out);
}
