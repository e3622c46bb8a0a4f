// SPDX-License-Identifier: Apache-2.0
// Nodes: each performs the effects of its publisher. One owns the shard; a former owner may go on
// for a while.
#include "world.h"

#include "base/check.h"

#include <inttypes.h>

#define TICK_MS    200
#define BATCH_SIZE 12

static struct sim_node *alive(struct world *w, uint32_t i, uint64_t life)
{
    struct sim_node *n = &w->nodes[i];
    return n->publisher && n->life == life ? n : NULL;
}

// Feeds the gap before an event, if there is one.
static bool feed_gap(struct world *w, struct sim_node *n, uint64_t before, uint64_t slot)
{
    uint64_t first, last;
    if (!publisher_gap(n->publisher, before, &first, &last)) return false;
    publisher_feed(n->publisher, &(struct publisher_item){.sequence = last,
                                                          .slot = slot,
                                                          .at = w->now,
                                                          .in_tail = true,
                                                          .missing = last - first + 1,
                                                          .content = bytes_of(&first, 8)});
    return true;
}

static void feed_one(struct world *w, struct sim_node *n, uint64_t sequence)
{
    uint64_t first = 0;
    const struct journal_event *e = &w->journal[sequence];
    if (!publisher_wants(n->publisher, sequence)) return;
    (void)feed_gap(w, n, sequence, e->slot);
    publisher_feed(n->publisher, &(struct publisher_item){.sequence = sequence,
                                                          .slot = e->slot,
                                                          .at = e->at,
                                                          .in_tail = e->in_tail,
                                                          .content = bytes_of(&first, 8)});
}

// Whole entries, as the runner gives them.
static bool read_some(struct world *w, struct sim_node *n)
{
    size_t count = 0;
    while (n->next <= w->journal_len && w->journal[n->next].slot <= w->floor)
        n->next++; // collected
    uint64_t slot = 0;
    while (n->next <= w->journal_len && (count < BATCH_SIZE || w->journal[n->next].slot == slot)) {
        slot = w->journal[n->next].slot;
        feed_one(w, n, n->next++);
        count++;
    }
    if (count > 0) publisher_fed(n->publisher, slot, n->next - 1);
    // At the end, the fold's counter tells of events that were collected and have no successor.
    else if (publisher_wants(n->publisher, w->journal_len + 1))
        return feed_gap(w, n, w->journal_len + 1, w->slot);
    return count > 0;
}

static void tick(struct world *w, uint32_t i, uint64_t life, uint64_t n)
{
    (void)n;
    if (!alive(w, i, life)) return;
    node_step(w, i);
    at(w, w->now + TICK_MS, tick, i, life, 0);
}

static void wake(struct world *w, uint32_t i, uint64_t life, uint64_t n)
{
    (void)n;
    struct sim_node *node = alive(w, i, life);
    if (!node || w->now != node->wake_at) return; // an earlier wish
    node->wake_at = INT64_MAX;
    idle_begin(&node->idle);
    node_step(w, i);
    if (!node->publisher) return;
    idle_end(&node->idle, &w->findings, i, w->now, publisher_wake_at(node->publisher), w->now);
}

static void answer_sync(struct world *w, uint32_t i, uint64_t life, uint64_t tag)
{
    struct sim_node *n = alive(w, i, life);
    if (!n) return;
    struct publisher_tail tail = {.err = ERR_UNAVAILABLE};
    if (!w->down && n->up && !chance(w, w->mix.lost)) tail = bus_tail(w);
    publisher_synced(n->publisher, w->now, tag, &tail);
    node_step(w, i);
}

static void commit(struct world *w, uint32_t i, struct sim_node *n)
{
    struct publisher_cursor c;
    if (!publisher_cursor(n->publisher, w->now, &c) || w->owner != i) return; // void: another epoch
    if (c.slot > w->cursor.slot) w->cursor.slot = c.slot;
    if (c.sequence > w->cursor.sequence) w->cursor.sequence = c.sequence;
    w->commits++;
    w->published = true;
    trace_line(&w->trace, w->now, "node %u cursor %" PRIu64 " %" PRIu64, i, c.slot, c.sequence);
    publisher_committed(n->publisher, w->cursor);
}

void node_step(struct world *w, uint32_t i)
{
    struct sim_node *n = &w->nodes[i];
    struct publisher_effect e;
    if (!n->publisher) return;
    bool more = true;
    while (more) {
        more = publisher_next(n->publisher, w->now, &e);
        if (more) idle_act(&n->idle);
        if (more && e.kind == PUBLISHER_SYNC)
            at(w, w->now + 2 * latency(w), answer_sync, i, n->life, e.tag);
        if (more && e.kind == PUBLISHER_REWIND) n->next = 1;
        if (more && e.kind == PUBLISHER_PUBLISH) {
            if (n->up)
                bus_publish_from(w, i, &e);
            else
                publisher_refused(n->publisher, w->now, e.tag);
        }
        if (!more && n->believes && publisher_wants_more(n->publisher)) more = read_some(w, n);
        if (more) idle_act(&n->idle);
    }
    commit(w, i, n);
    int64_t wake_at = publisher_wake_at(n->publisher);
    if (wake_at <= w->now) wake_at = w->now + 1;
    if (wake_at != n->wake_at && wake_at < INT64_MAX) at(w, wake_at, wake, i, n->life, 0);
    n->wake_at = wake_at;
}

static void own(struct world *w, uint32_t i)
{
    struct sim_node *n = &w->nodes[i];
    if (!n->publisher || n->believes) return;
    n->believes = true;
    trace_line(&w->trace, w->now, "node %u owns", i);
    publisher_own(n->publisher, w->now, w->published ? &w->cursor : NULL);
    node_step(w, i);
}

static void lose(struct world *w, uint32_t i, uint64_t life, uint64_t n)
{
    struct sim_node *node = alive(w, i, life);
    (void)n;
    if (!node || !node->believes || w->owner == i) return;
    node->believes = false;
    trace_line(&w->trace, w->now, "node %u loses", i);
    w->healed_tails += publisher_status(node->publisher).healed;
    publisher_lose(node->publisher);
}

static void start(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    struct sim_node *n = &w->nodes[i];
    (void)life, (void)x;
    if (n->publisher) return;
    n->life++;
    n->publisher = publisher_new(&(struct publisher_config){.fenced = w->mix.fenced,
                                                            .window = w->mix.window,
                                                            .ack_ms = 2000,
                                                            .settle_ms = w->mix.settle_ms,
                                                            .seed = rng_next(&w->rng)});
    n->believes = false;
    n->up = !w->down;
    publisher_bus(n->publisher, w->now, n->up);
    if (w->owner == i) own(w, i);
    at(w, w->now + TICK_MS, tick, i, n->life, 0);
}

static void crash(struct world *w, uint32_t index, uint64_t life, uint64_t x)
{
    uint32_t i = (uint32_t)rng_below(&w->rng, NODES_HERE);
    struct sim_node *n = &w->nodes[i];
    (void)index, (void)life, (void)x;
    if (w->healed) return;
    if (n->publisher) {
        trace_line(&w->trace, w->now, "node %u crashes", i);
        publisher_free(n->publisher);
        n->publisher = NULL;
        at(w, w->now + rng_range(&w->rng, 10, 3000), start, i, 0, 0);
    }
    at(w, w->now + rng_range(&w->rng, 1, 2 * w->mix.crash_every), crash, 0, 0, 0);
}

static void change_owner(struct world *w, uint32_t index, uint64_t life, uint64_t x)
{
    uint32_t before = w->owner;
    (void)index, (void)life, (void)x;
    if (w->healed) return;
    w->owner = (before + 1) % NODES_HERE;
    int64_t late = w->mix.splits ? rng_range(&w->rng, 0, 6000) : 0;
    at(w, w->now + late, lose, before, w->nodes[before].life, 0);
    own(w, w->owner);
    at(w, w->now + rng_range(&w->rng, 1, 2 * w->mix.owner_every), change_owner, 0, 0, 0);
}

void node_connection(struct world *w, uint32_t i, bool up)
{
    struct sim_node *n = &w->nodes[i];
    n->up = up;
    if (!n->publisher) return;
    publisher_bus(n->publisher, w->now, up);
    node_step(w, i);
}

void nodes_start(struct world *w)
{
    for (uint32_t i = 0; i < NODES_HERE; i++)
        start(w, i, 0, 0);
    if (w->mix.crash_every > 0) at(w, w->now + w->mix.crash_every, crash, 0, 0, 0);
    if (w->mix.owner_every > 0) at(w, w->now + w->mix.owner_every, change_owner, 0, 0, 0);
}

void nodes_heal(struct world *w)
{
    for (uint32_t i = 0; i < NODES_HERE; i++) {
        start(w, i, 0, 0);
        if (w->owner != i) lose(w, i, w->nodes[i].life, 0);
        if (!w->nodes[i].up) node_connection(w, i, true);
    }
    own(w, w->owner);
    node_step(w, w->owner);
}

void nodes_done(struct world *w)
{
    for (uint32_t i = 0; i < NODES_HERE; i++)
        publisher_free(w->nodes[i].publisher);
}
