// SPDX-License-Identifier: Apache-2.0
// When the next entry is proposed. Safety does not depend on anything here; cost and latency do.
//
//   - Budget: a put needs credit, which grows at the configured rate. Ops that wait for credit
//     share an entry. Other puts (snapshots, floors, bodies) are charged but do not wait.
//   - Joining: callers that were answered together submit together again, a moment after the put
//     that answered them. If the first op were sent at once, the others would wait for a whole
//     put. Two groups would form that wait for each other, and every caller would wait for two
//     puts.
//   - Turns: a store with high latency decides an append on arrival. A writer that proposes to a
//     slot beside others mostly pays for nothing. A writer that lost waits a random time, then
//     reads the tail, then proposes. It reads after the wait, because a read is cheap and an older
//     read would be stale. A writer that won may commit a few more entries, because a caller rarely
//     has only one. Then it pauses for as long as the others need for the same. Both times scale
//     with the duration of a put and with the number of writers seen recently. Without other
//     writers there is no wait, with one exception. A winner does not see the writers that lose
//     against it, and the writer that knows the next slot first could win for ever. So after many
//     commits without a pause it makes one, and reads the tail.
//   - Catching up: where puts are cheap, a writer that lost reads once and proposes again. If the
//     store returns one entry for each read, that takes two requests for each entry, and the other
//     writer needs one. A writer that is far behind would never reach the tail. So a writer that
//     lost twice and has read an old entry reads on until it sees the tail.
//   - Courtesy: a direct writer beside a live owner pauses after each commit, because the owner's
//     entries are larger and slower.
#include "base/check.h"
#include "journal/inside.h"

// Measured with tests/sim/race.c. A larger value of any but the last saves puts and adds latency.
#define LOST_HALVES      3 // half puts that a loser waits per rival, at most
// Half puts that a winner pauses per rival and commit, at most; at least a third of that.
#define PAUSE_HALVES     3
#define HORIZON_PUTS     48 // a writer without a commit for this long is no rival any more
#define RUN_MAX          3  // commits before a pause for others
#define RUN_GAP_PUTS     2  // a run ends if no commit follows for this long
#define LOSSES_CROWD     4  // this many losses may mean rivals that were not seen
#define LOSSES_MAX       64 // the counter stops here
#define LOSSES_PATIENCE  2  // a writer with more losses than this waits less than the others

// An entry that is older than this when it is read may have others after it.
#define OLD_PUTS         4
#define OLD_MS_MIN       20 // a race on a fast store is no reason to read on

#define SOLO_PAUSE_PUTS  2 // how long a pause lets others commit
// Commits before the first such pause, if another writer committed recently.
#define SOLO_MIN         8
#define SOLO_MAX         128

#define PUT_US_MAX       10000000
#define PUT_US_FIRST_MAX 100000
#define TURN_WAIT_MAX    3000 // a wrong estimate of the above costs at most this
#define JOIN_PUT_US      1000 // on a faster store it does not pay to wait for callers
#define JOIN_SHARE       8    // the wait is this fraction of a put's duration
#define JOIN_WAIT_MAX    20

static int64_t max_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t put_ms(const struct journal *j)
{
    CHECK(j->pace.put_us >= 0 && j->pace.put_us <= PUT_US_MAX);
    return (j->pace.put_us + 999) / 1000;
}

void pace_start(struct journal *j)
{
    CHECK(j->phase == PHASE_NEW);
    struct pace *p = &j->pace;
    *p = (struct pace){.credit = j->config.puts_per_second * 1000,
                       .credit_at = j->now.lo,
                       .join_until = TIME_UNKNOWN,
                       .won_at = TIME_UNKNOWN,
                       .solo_max = SOLO_MIN,
                       .turn_at = TIME_UNKNOWN,
                       .tail_read_at = TIME_UNKNOWN,
                       .owner_at = TIME_UNKNOWN,
                       .away_at = TIME_UNKNOWN,
                       .courtesy_until = TIME_UNKNOWN};
    CHECK(p->credit >= 0);
}

static int64_t wait_for_credit(int64_t from, int64_t to, int64_t rate)
{
    CHECK(rate > 0);
    return to > from ? (to - from + rate - 1) / rate : 0;
}

static int64_t credit_now(const struct journal *j)
{
    const struct pace *p = &j->pace;
    int64_t rate = j->config.puts_per_second;
    int64_t most = rate * 1000; // the credit of one second
    CHECK(p->credit <= most);
    CHECK(p->credit_at <= j->now.lo);
    if (j->now.lo >= p->credit_at + wait_for_credit(p->credit, most, rate)) return most;
    return p->credit + (j->now.lo - p->credit_at) * rate;
}

static int64_t budget_at(const struct journal *j)
{
    CHECK(j->config.puts_per_second >= 0);
    int64_t rate = j->config.puts_per_second;
    if (rate == 0) return TIME_UNKNOWN;
    return j->pace.credit_at + wait_for_credit(j->pace.credit, 1000, rate);
}

// A debt of more than one second's credit is dropped, so that no op waits for ever.
void journal_charge(struct journal *j, uint32_t puts)
{
    int64_t rate = j->config.puts_per_second;
    if (rate == 0) return;
    int64_t credit = credit_now(j) - min_of(puts, 2 * rate) * 1000;
    j->pace.credit = max_of(credit, -rate * 1000);
    j->pace.credit_at = j->now.lo;
    CHECK(j->pace.credit <= rate * 1000);
}

void pace_asked(struct journal *j)
{
    CHECK(j->batch.active);
    j->pace.asked = j->now;
}

// When the clock becomes better known, the lower bound moves forward and the upper bound back. The
// true duration is between the two differences. One slow answer must not raise the estimate for
// long, because a writer that waits long measures seldom.
void pace_answered(struct journal *j)
{
    CHECK(j->batch.active);
    struct pace *p = &j->pace;
    CHECK(p->asked.lo <= j->now.lo);
    int64_t took = min_of(j->now.lo - p->asked.lo, j->now.hi - p->asked.hi);
    int64_t sample = max_of(took, 0) * 1000;
    int64_t most = p->put_us == 0 ? PUT_US_FIRST_MAX : 2 * p->put_us + 1000;
    sample = min_of(min_of(sample, most), PUT_US_MAX);
    p->put_us = p->put_us == 0 ? sample : p->put_us + (sample - p->put_us) / 8;
    CHECK(p->put_us >= 0 && p->put_us <= PUT_US_MAX);
}

static size_t rivals_now(const struct journal *j)
{
    const struct pace *p = &j->pace;
    int64_t since = j->now.lo - HORIZON_PUTS * put_ms(j);
    size_t count = 0;
    CHECK(p->rivals_len <= PACE_RIVALS_MAX);
    for (size_t i = 0; i < p->rivals_len; i++)
        count += p->rivals[i].at >= since;
    return count;
}

static void note_rival(struct journal *j, const struct entry *e)
{
    struct pace *p = &j->pace;
    CHECK(p->rivals_len <= PACE_RIVALS_MAX);
    int64_t at = min_of(e->time.lo + (e->time.hi - e->time.lo) / 2, j->now.lo);
    // The writer's row, else a free row, else the row that has been silent longest.
    size_t place = 0;
    for (size_t i = 0; i < p->rivals_len; i++) {
        if (hash128_equal(p->rivals[i].writer, e->writer)) {
            p->rivals[i].at = max_of(p->rivals[i].at, at);
            return;
        }
        if (p->rivals[i].at < p->rivals[place].at) place = i;
    }
    if (p->rivals_len < PACE_RIVALS_MAX) place = p->rivals_len++;
    CHECK(place < p->rivals_len);
    p->rivals[place] = (struct rival_writer){.writer = e->writer, .at = at};
}

static bool takes_turns(const struct journal *j)
{
    return j->config.high_latency && !journal_is_owner(j);
}

static bool gap_since_win(const struct journal *j, int64_t moment)
{
    CHECK(j->pace.won_at <= j->now.lo);
    return moment - j->pace.won_at > RUN_GAP_PUTS * put_ms(j);
}

static bool in_a_run(const struct journal *j)
{
    const struct pace *p = &j->pace;
    CHECK(p->run <= RUN_MAX);
    return p->run > 0 && p->run < RUN_MAX && !gap_since_win(j, j->now.lo);
}

static bool gives_way(const struct journal *j)
{
    if (!takes_turns(j)) return false;
    return j->pace.pauses_solo || (rivals_now(j) > 0 && !in_a_run(j));
}

// Counts commits that follow each other without a gap in which another writer could have won.
static void count_solo(struct journal *j)
{
    struct pace *p = &j->pace;
    CHECK(p->solo < p->solo_max);
    CHECK(j->batch.sent_at <= j->now.lo);
    p->solo = p->run == 0 || gap_since_win(j, j->batch.sent_at) ? 1 : p->solo + 1;
    p->pauses_solo = p->solo >= p->solo_max;
    if (!p->pauses_solo) return;
    p->solo = 0;
    p->solo_max = (uint32_t)min_of(2 * p->solo_max, SOLO_MAX);
    CHECK(p->solo_max >= SOLO_MIN);
}

void pace_lost(struct journal *j)
{
    struct pace *p = &j->pace;
    p->run = 0;
    p->pauses_solo = false;
    if (p->losses < LOSSES_MAX) p->losses++;
    CHECK(p->losses > 0 && p->losses <= LOSSES_MAX);
    if (!takes_turns(j)) return;
    int64_t rivals = max_of((int64_t)rivals_now(j), min_of(p->losses, LOSSES_CROWD));
    int64_t width = LOST_HALVES * rivals * put_ms(j) / 2;
    if (p->losses > LOSSES_PATIENCE) width = width * LOSSES_PATIENCE / p->losses;
    p->turn_at = j->now.lo + rng_range(&j->rng, 0, min_of(width, TURN_WAIT_MAX));
}

static void note_win(struct journal *j)
{
    CHECK(j->pace.solo_max >= SOLO_MIN && j->pace.solo_max <= SOLO_MAX);
    struct pace *p = &j->pace;
    p->losses = 0;
    count_solo(j);
    p->run = in_a_run(j) ? p->run + 1 : 1;
    p->won_at = j->now.lo;
    p->turn_at = TIME_UNKNOWN;
    p->tail_read_at = TIME_UNKNOWN;
    p->read_old = false;
    int64_t rivals = (int64_t)rivals_now(j);
    if (rivals == 0) {
        if (p->pauses_solo) p->turn_at = j->now.lo + SOLO_PAUSE_PUTS * put_ms(j);
        return;
    }
    int64_t each = rivals * p->run * put_ms(j);
    int64_t pause = rng_range(&j->rng, each / 2, each * PAUSE_HALVES / 2);
    pause = min_of(pause, HORIZON_PUTS * put_ms(j));
    p->turn_at = j->now.lo + min_of(pause, TURN_WAIT_MAX);
}

// An owner that lost once is one slot behind and has read it. After more losses it may be further
// behind.
static bool may_be_behind(const struct journal *j)
{
    CHECK(j->pace.losses <= LOSSES_MAX);
    return j->pace.losses > (journal_is_owner(j) ? 1 : 0) || gives_way(j);
}

void pace_rows_read(struct journal *j, struct interval written, struct interval answered)
{
    CHECK(!j->main.open); // the answer was folded
    if (answered.lo == TIME_UNKNOWN || written.hi == TIME_UNKNOWN) return;
    int64_t old_ms = max_of(OLD_PUTS * put_ms(j), OLD_MS_MIN);
    if (answered.lo - written.hi > old_ms) j->pace.read_old = true;
}

// Returns true if entries that were committed long ago may follow.
static bool is_far_behind(const struct journal *j)
{
    CHECK(j->pace.losses <= LOSSES_MAX);
    return j->pace.read_old && j->pace.losses > 1;
}

bool pace_wants_read(const struct journal *j)
{
    if (is_far_behind(j)) return true;
    bool puts_are_costly = j->config.high_latency || j->config.puts_per_second > 0;
    if (!puts_are_costly || !may_be_behind(j)) return false;
    int64_t tail_read_at = j->pace.tail_read_at;
    CHECK(tail_read_at <= j->now.lo);
    return tail_read_at == TIME_UNKNOWN || j->now.lo - tail_read_at > put_ms(j);
}

void pace_tail_read(struct journal *j)
{
    CHECK(j->pace.tail_read_at <= j->now.lo); // time does not go back
    CHECK(j->phase == PHASE_IDLE);
    j->pace.tail_read_at = j->now.lo;
    j->pace.read_old = false;
}

static void note_owner(struct journal *j, const struct entry *e, uint64_t epoch_before)
{
    CHECK(j->core.epoch >= epoch_before);
    bool by_owner = j->core.epoch != epoch_before || (e->epoch != 0 && e->epoch == j->core.epoch);
    if (by_owner) j->pace.owner_at = max_of(j->pace.owner_at, min_of(e->time.hi, j->now.hi));
}

static bool owner_is_live(const struct journal *j)
{
    CHECK(j->config.courtesy_live_ms >= 0);
    int64_t owner_at = j->pace.owner_at;
    return owner_at > j->pace.away_at && j->now.lo - owner_at <= j->config.courtesy_live_ms;
}

// Entries that the owner wrote before it was asked may be folded later than this.
void journal_owner_away(struct journal *j, struct interval now)
{
    CHECK(now.lo <= now.hi);
    j->pace.away_at = now.hi;
    j->pace.courtesy_until = TIME_UNKNOWN;
    journal_note_time(j, now);
    journal_advance(j); // nothing else wakes an op that waited for the end of the pause
}

void journal_join_no_more(struct journal *j)
{
    CHECK(j->config.high_latency || j->pace.join_until == TIME_UNKNOWN);
    j->pace.join_until = TIME_UNKNOWN;
}

static void expect_joiners(struct journal *j, size_t answered)
{
    struct pace *p = &j->pace;
    if (!j->config.high_latency || p->put_us < JOIN_PUT_US) return;
    int64_t wait = min_of(p->put_us / 1000 / JOIN_SHARE, JOIN_WAIT_MAX);
    p->joiners = j->queue.len + answered;
    p->join_until = j->now.lo + max_of(wait, 1);
    CHECK(p->join_until > j->now.lo);
}

void pace_folded(struct journal *j, const struct entry *e, const struct pace_fold *f)
{
    CHECK(j->core.slot == e->slot);
    CHECK(!j->batch.active || j->batch.slot > e->slot); // its outcome was decided first
    if (f->in_force) note_owner(j, e, f->epoch_before);
    if (!f->mine) {
        note_rival(j, e);
        j->pace.solo = 0;
        j->pace.solo_max = SOLO_MIN;
        return;
    }
    note_win(j);
    expect_joiners(j, f->answered);
    bool pauses = owner_is_live(j) && !journal_is_owner(j);
    j->pace.courtesy_until = pauses ? j->now.lo + j->config.courtesy_ms : TIME_UNKNOWN;
}

int64_t pace_propose_at(const struct journal *j)
{
    const struct pace *p = &j->pace;
    CHECK(j->queue.head && !j->batch.active); // one entry at a time
    int64_t at = budget_at(j);
    if (j->queue.len < p->joiners) at = max_of(at, p->join_until);
    if (journal_is_owner(j)) return at;
    at = max_of(at, p->courtesy_until);
    if (gives_way(j)) at = max_of(at, p->turn_at);
    return at;
}

bool pace_lacks_credit(const struct journal *j)
{
    CHECK(!j->batch.active);
    return j->now.lo < budget_at(j);
}

int64_t pace_resend_at(const struct journal *j)
{
    CHECK(j->batch.active);
    return budget_at(j);
}

int64_t pace_read_lost_at(const struct journal *j)
{
    CHECK(j->batch.active && j->phase == PHASE_READING);
    return takes_turns(j) ? j->pace.turn_at : TIME_UNKNOWN;
}
