// SPDX-License-Identifier: Apache-2.0
// When the next entry is proposed. Safety never depends on anything here; money and waiting do.
//
// - The budget: a put needs credit, which comes at the rate that was configured; ops that wait for
//   it share an entry. What is not an entry (snapshots, floors, bodies) is charged and does not
//   wait.
// - Company: callers who were answered together come back together, a moment after the put that
//   answered them. Sent at once, the first of them would leave the others behind for a whole put;
//   so two groups would form that wait for each other, and everybody for two puts.
// - Turns: a far store decides an append when it has arrived, so whoever proposes to a slot that
//   others propose to mostly pays for nothing. Who lost waits a random time and looks for the tail
//   *before* he proposes, not the other way round: a look is cheap, and what was seen before the
//   wait is old after it. Who won may go on for a few commits, for a caller rarely has only one,
//   then steps aside as long as the others need for the same. Both scale with the time a put takes
//   and with the number of writers seen lately; without any there is no waiting at all, but for
//   this: a winner never hears of those who lose against it, and one that is always first to know
//   the next slot may win for ever. So after many commits without a pause it makes one, and looks.
// - Courtesy: beside a live owner, whose entries are larger and slower, a direct writer pauses
//   after each commit.
#include "base/check.h"
#include "journal/inside.h"

// Found by trying (tests/sim/race.c): more of any but the last saves puts and costs waiting.
#define LOST_HALVES      3  // halves of a put a loser waits per rival, at most
#define ASIDE_HALVES     3  // ... and who steps aside, per rival and commit; a third of it at least
#define HORIZON_PUTS     48 // who committed nothing for so long is no rival any more
#define RUN_MAX          3  // commits before stepping aside
#define RUN_GAP_PUTS     2  // a run ends when nothing follows for so long
#define LOSSES_CROWD     4  // so many losses may mean rivals whom we have not seen
#define LOSSES_MAX       64 // counted no further
#define LOSSES_PATIENCE  2  // who lost more often comes back sooner than the others

#define LISTEN_PUTS      2 // how long a pause others need to get in
#define SOLO_MIN         8 // commits before the first, if somebody else wrote lately
#define SOLO_MAX         128

#define PUT_US_MAX       10000000
#define PUT_US_FIRST_MAX 100000
#define TURN_WAIT_MAX    3000 // a wrong guess at the above costs no more than this
#define JOIN_PUT_US      1000 // a store that answers sooner is not worth waiting beside
#define JOIN_SHARE       8    // of the time a put takes
#define JOIN_WAIT_MAX    20

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t put_ms(const struct journal *j)
{
    return (j->pace.put_us + 999) / 1000;
}

void pace_start(struct journal *j)
{
    struct pace *p = &j->pace;
    *p = (struct pace){.credit = j->config.puts_per_second * 1000,
                       .credit_at = j->now.lo,
                       .join_until = TIME_UNKNOWN,
                       .won_at = TIME_UNKNOWN,
                       .solo_max = SOLO_MIN,
                       .turn_at = TIME_UNKNOWN,
                       .looked_at = TIME_UNKNOWN,
                       .owner_at = TIME_UNKNOWN,
                       .away_at = TIME_UNKNOWN,
                       .courtesy_until = TIME_UNKNOWN};
}

static int64_t wait_for_credit(int64_t from, int64_t to, int64_t rate)
{
    return to > from ? (to - from + rate - 1) / rate : 0;
}

static int64_t credit_now(const struct journal *j)
{
    const struct pace *p = &j->pace;
    int64_t rate = j->config.puts_per_second;
    int64_t most = rate * 1000; // a second's worth
    if (j->now.lo >= p->credit_at + wait_for_credit(p->credit, most, rate)) return most;
    return p->credit + (j->now.lo - p->credit_at) * rate;
}

static int64_t budget_at(const struct journal *j)
{
    int64_t rate = j->config.puts_per_second;
    if (rate == 0) return TIME_UNKNOWN;
    return j->pace.credit_at + wait_for_credit(j->pace.credit, 1000, rate);
}

// A debt of more than a second's worth is forgiven, so that nobody waits for ever.
void journal_spend(struct journal *j, uint32_t puts)
{
    int64_t rate = j->config.puts_per_second;
    if (rate == 0) return;
    int64_t credit = credit_now(j) - sooner(puts, 2 * rate) * 1000;
    j->pace.credit = later(credit, -rate * 1000);
    j->pace.credit_at = j->now.lo;
}

void pace_asked(struct journal *j)
{
    j->pace.asked = j->now;
}

// When the clock becomes better known the lower bound leaps ahead and the upper one back: what
// passed lies between the two. A store that is slow once must not be waited for long after, for
// whoever waits long measures rarely.
void pace_answered(struct journal *j)
{
    struct pace *p = &j->pace;
    int64_t took = sooner(j->now.lo - p->asked.lo, j->now.hi - p->asked.hi);
    int64_t sample = later(took, 0) * 1000;
    int64_t most = p->put_us == 0 ? PUT_US_FIRST_MAX : 2 * p->put_us + 1000;
    sample = sooner(sooner(sample, most), PUT_US_MAX);
    p->put_us = p->put_us == 0 ? sample : p->put_us + (sample - p->put_us) / 8;
}

static size_t rivals_now(const struct journal *j)
{
    const struct pace *p = &j->pace;
    int64_t since = j->now.lo - HORIZON_PUTS * put_ms(j);
    size_t count = 0;
    for (size_t i = 0; i < p->rivals_len; i++)
        count += p->rivals[i].at >= since;
    return count;
}

static void note_rival(struct journal *j, const struct entry *e)
{
    struct pace *p = &j->pace;
    int64_t at = sooner(e->time.lo + (e->time.hi - e->time.lo) / 2, j->now.lo);
    size_t place = 0; // of the writer; or else a free one; or else the one that is silent longest
    for (size_t i = 0; i < p->rivals_len; i++) {
        if (hash128_equal(p->rivals[i].writer, e->writer)) {
            p->rivals[i].at = later(p->rivals[i].at, at);
            return;
        }
        if (p->rivals[i].at < p->rivals[place].at) place = i;
    }
    if (p->rivals_len < PACE_RIVALS_MAX) place = p->rivals_len++;
    p->rivals[place] = (struct rival){.writer = e->writer, .at = at};
}

static bool takes_turns(const struct journal *j)
{
    return j->config.high_latency && !journal_is_owner(j);
}

static bool gap_since_win(const struct journal *j, int64_t moment)
{
    return moment - j->pace.won_at > RUN_GAP_PUTS * put_ms(j);
}

static bool in_a_run(const struct journal *j)
{
    const struct pace *p = &j->pace;
    return p->run > 0 && p->run < RUN_MAX && !gap_since_win(j, j->now.lo);
}

static bool steps_aside(const struct journal *j)
{
    if (!takes_turns(j)) return false;
    return j->pace.listens || (rivals_now(j) > 0 && !in_a_run(j));
}

// Commits that follow each other without a gap in which anybody else could have come first.
static void count_solo(struct journal *j)
{
    struct pace *p = &j->pace;
    p->solo = p->run == 0 || gap_since_win(j, j->batch.sent_at) ? 1 : p->solo + 1;
    p->listens = p->solo >= p->solo_max;
    if (!p->listens) return;
    p->solo = 0;
    p->solo_max = (uint32_t)sooner(2 * p->solo_max, SOLO_MAX);
}

void pace_lost(struct journal *j)
{
    struct pace *p = &j->pace;
    p->run = 0;
    p->listens = false;
    if (p->losses < LOSSES_MAX) p->losses++;
    if (!takes_turns(j)) return;
    int64_t crowd = later((int64_t)rivals_now(j), sooner(p->losses, LOSSES_CROWD));
    int64_t width = LOST_HALVES * crowd * put_ms(j) / 2;
    if (p->losses > LOSSES_PATIENCE) width = width * LOSSES_PATIENCE / p->losses;
    p->turn_at = j->now.lo + rng_range(&j->rng, 0, sooner(width, TURN_WAIT_MAX));
}

static void won(struct journal *j)
{
    struct pace *p = &j->pace;
    p->losses = 0;
    count_solo(j);
    p->run = in_a_run(j) ? p->run + 1 : 1;
    p->won_at = j->now.lo;
    p->turn_at = TIME_UNKNOWN;
    p->looked_at = TIME_UNKNOWN;
    int64_t crowd = (int64_t)rivals_now(j);
    if (crowd == 0) {
        if (p->listens) p->turn_at = j->now.lo + LISTEN_PUTS * put_ms(j);
        return;
    }
    int64_t each = crowd * p->run * put_ms(j);
    int64_t aside = rng_range(&j->rng, each / 2, each * ASIDE_HALVES / 2);
    aside = sooner(aside, HORIZON_PUTS * put_ms(j));
    p->turn_at = j->now.lo + sooner(aside, TURN_WAIT_MAX);
}

// An owner who lost once is one slot behind, and has read it; more is more than that.
static bool may_be_behind(const struct journal *j)
{
    return j->pace.losses > (journal_is_owner(j) ? 1 : 0) || steps_aside(j);
}

bool pace_wants_look(const struct journal *j)
{
    bool puts_are_dear = j->config.high_latency || j->config.puts_per_second > 0;
    if (!puts_are_dear || !may_be_behind(j)) return false;
    int64_t looked_at = j->pace.looked_at;
    return looked_at == TIME_UNKNOWN || j->now.lo - looked_at > put_ms(j);
}

void pace_looked(struct journal *j)
{
    j->pace.looked_at = j->now.lo;
}

static void note_owner(struct journal *j, const struct entry *e, uint64_t epoch_before)
{
    bool by_owner = j->core.epoch != epoch_before || (e->epoch != 0 && e->epoch == j->core.epoch);
    if (by_owner) j->pace.owner_at = later(j->pace.owner_at, sooner(e->time.hi, j->now.hi));
}

static bool owner_lives(const struct journal *j)
{
    int64_t owner_at = j->pace.owner_at;
    return owner_at > j->pace.away_at && j->now.lo - owner_at <= j->config.courtesy_live_ms;
}

// What it wrote before it was asked may be folded later than this.
void journal_owner_away(struct journal *j, struct interval now)
{
    j->pace.away_at = now.hi;
    j->pace.courtesy_until = TIME_UNKNOWN;
    journal_note_time(j, now);
    journal_advance(j); // an op that waited out the pause would be woken by nothing else
}

static void expect_joiners(struct journal *j, size_t answered)
{
    struct pace *p = &j->pace;
    if (!j->config.high_latency || p->put_us < JOIN_PUT_US) return;
    int64_t wait = sooner(p->put_us / 1000 / JOIN_SHARE, JOIN_WAIT_MAX);
    p->joiners = j->queue.len + answered;
    p->join_until = j->now.lo + later(wait, 1);
}

void pace_folded(struct journal *j, const struct entry *e, const struct pace_fold *f)
{
    if (f->in_force) note_owner(j, e, f->epoch_before);
    if (!f->mine) {
        note_rival(j, e);
        j->pace.solo = 0;
        j->pace.solo_max = SOLO_MIN;
        return;
    }
    won(j);
    expect_joiners(j, f->answered);
    bool pauses = owner_lives(j) && !journal_is_owner(j);
    j->pace.courtesy_until = pauses ? j->now.lo + j->config.courtesy_ms : TIME_UNKNOWN;
}

int64_t pace_propose_at(const struct journal *j)
{
    const struct pace *p = &j->pace;
    int64_t at = budget_at(j);
    if (j->queue.len < p->joiners) at = later(at, p->join_until);
    if (journal_is_owner(j)) return at;
    at = later(at, p->courtesy_until);
    if (steps_aside(j)) at = later(at, p->turn_at);
    return at;
}

bool pace_is_broke(const struct journal *j)
{
    return j->now.lo < budget_at(j);
}

int64_t pace_resend_at(const struct journal *j)
{
    return budget_at(j);
}

int64_t pace_read_lost_at(const struct journal *j)
{
    return takes_turns(j) ? j->pace.turn_at : TIME_UNKNOWN;
}
