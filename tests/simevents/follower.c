// SPDX-License-Identifier: Apache-2.0
// A node that does not own the shard and reads its events for /v1/stream (events/bus_progress.h).
// It hears the messages of the bus as they are stored. Some are lost, and some name an event that
// the journal does not have: one of a newer release, or a forged one.
#include "base/mutant.h"
#include "world.h"

#include <inttypes.h>

#define POLL_MS    20  // at the journal
#define LOOK_MS    500 // at most, while it sleeps
#define SILENT_MAX 2   // sleeps in a row in which the bus named none of the events that came

static void run(struct world *w, uint32_t index, uint64_t life, uint64_t turn);

static void run_at(struct world *w, int64_t when)
{
    at(w, when, run, 0, 0, ++w->follower.turn);
}

static uint64_t read_journal(struct world *w)
{
    struct follower *f = &w->follower;
    uint64_t before = f->read;
    for (; f->read < w->journal_len; f->read++)
        bus_progress_read(&f->bus, 0, f->read + 1);
    return f->read - before;
}

// A sleep that the bus did not end, though events came, shows that the bus is silent. The reader
// must notice that.
static void check_sleep(struct world *w, uint64_t found)
{
    struct follower *f = &w->follower;
    if (f->asleep_since == 0) return;
    bool silent = found > 0 && f->named_in_sleep == 0;
    f->silent = silent ? f->silent + 1 : 0;
    if (f->silent > SILENT_MAX)
        findings_add(&w->findings, "silence",
                     "the reader slept %u times, and the bus named none of the events", f->silent);
    if (w->now - f->asleep_since > LOOK_MS)
        findings_add(&w->findings, "sleep", "the reader slept for %" PRId64 " ms",
                     w->now - f->asleep_since);
    f->asleep_since = 0;
}

static void run(struct world *w, uint32_t index, uint64_t life, uint64_t turn)
{
    struct follower *f = &w->follower;
    uint32_t shard = 0;
    (void)index, (void)life;
    if (turn != f->turn) return; // it was woken earlier
    bool timed = f->asleep_since > 0 && w->now - f->asleep_since == LOOK_MS;
    uint64_t found = read_journal(w);
    check_sleep(w, found);
    enum bus_progress_next next = BUS_PROGRESS_FOLLOW;
    if (!(timed && found > 0)) next = bus_progress_next(&f->bus, found > 0, &shard);
    if (next == BUS_PROGRESS_SLEEP) {
        f->asleep_since = w->now;
        f->named_in_sleep = 0;
        w->sleeps++;
        if (f->bus.by_shard[0].named > f->read)
            findings_add(&w->findings, "asleep",
                         "the bus named event %" PRIu64 ", %" PRIu64
                         " were read, and the reader sleeps",
                         f->bus.by_shard[0].named, f->read);
    }
    run_at(w, w->now + (next == BUS_PROGRESS_SLEEP  ? LOOK_MS
                        : next == BUS_PROGRESS_LOOK ? 1
                                                    : POLL_MS));
}

static void hear(struct world *w, uint32_t index, uint64_t outages, uint64_t sequence)
{
    struct follower *f = &w->follower;
    (void)index;
    if (w->down || outages != w->outages) return;
    bool names = sequence > 0 && sequence <= w->journal_len;
    f->named_in_sleep += names;
    if (names) f->silent = 0; // a bus that is late is not silent
    if (!bus_progress_named(&f->bus, 0, sequence) || f->asleep_since == 0) return;
    w->wakes++;
    run_at(w, w->now);
}

// Of the unknown messages, most name the next event, as one of a newer type does.
void follower_hears(struct world *w, uint64_t sequence)
{
    if (chance(w, w->mix.unheard)) return;
    if (chance(w, w->mix.forged))
        at(w, w->now + latency(w), hear, 0, w->outages,
           rng_chance(&w->rng, 2000) ? rng_next(&w->rng) : w->journal_len + 1);
    at(w, w->now + latency(w), hear, 0, w->outages, sequence);
}

void follower_connection(struct world *w, bool up)
{
    bus_progress_begin(&w->follower.bus, up);
    run_at(w, w->now);
}

void follower_start(struct world *w)
{
    bus_progress_init(&w->follower.bus, 1);
    bus_progress_begin(&w->follower.bus, true);
    run_at(w, w->now + 1);
}

void follower_done(struct world *w)
{
    bus_progress_done(&w->follower.bus);
}
