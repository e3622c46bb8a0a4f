// SPDX-License-Identifier: Apache-2.0
// The bus, and the consumer behind it. A message can be lost, late or repeated, its answer can be
// lost, and a restart forgets the newest messages.
#include "world.h"

#include "base/memory.h"
#include "base/mutant.h"

#include <inttypes.h>

#define LATE_MS 8000
#define READ_MS 40

static uint64_t last_number(const struct world *w)
{
    return w->stream_len > 0 ? w->stream[w->stream_len - 1].number : 0;
}

static void store(struct world *w, uint64_t sequence, uint64_t first)
{
    if (w->stream_len == w->stream_cap) {
        w->stream_cap = w->stream_cap < 64 ? 64 : w->stream_cap * 2;
        w->stream = memory_resize(w->stream, w->stream_cap * sizeof *w->stream);
    }
    struct message m = {last_number(w) + 1, sequence, first, w->now};
    w->stream[w->stream_len++] = m;
}

static const struct message *known_id(const struct world *w, const struct flight *f)
{
    for (size_t i = w->stream_len; i > 0; i--) {
        const struct message *m = &w->stream[i - 1];
        if (w->now - m->stored_at > w->mix.dedup_ms) return NULL;
        if (m->sequence == f->sequence && m->first == f->first) return m;
    }
    return NULL;
}

static void answer(struct world *w, uint32_t index, uint64_t life, uint64_t flight)
{
    const struct flight *f = &w->flights[flight];
    struct sim_node *n = &w->nodes[index];
    if (!n->publisher || n->life != life || !n->up) return;
    publisher_ack(n->publisher, w->now, f->tag, &f->answer);
    node_step(w, index);
}

static void arrive(struct world *w, uint32_t index, uint64_t life, uint64_t flight)
{
    struct flight *f = &w->flights[flight];
    (void)index, (void)life;
    if (w->down || f->outages != w->outages) return; // a restart ends every connection
    const struct message *before = known_id(w, f);
    f->answer = (struct publisher_answer){.err = ERR_OK};
    if (chance(w, w->mix.refused)) {
        f->answer.err = ERR_UNAVAILABLE;
    } else if (before) {
        f->answer.sequence = before->number;
        f->answer.duplicate = true;
        w->duplicates++;
    } else if (f->fenced && f->stream_last != last_number(w)) {
        f->answer.err = ERR_CONFLICT;
    } else {
        while (!w->mix.fenced && rng_chance(&w->rng, 2000))
            store(w, 0, 0); // of another shard
        store(w, f->sequence, f->first);
        f->answer.sequence = last_number(w);
        w->stored++;
        follower_hears(w, f->sequence);
    }
    trace_line(&w->trace, w->now, "event %" PRIu64 " of node %u: %s %" PRIu64 "%s", f->sequence,
               f->node, err_name(f->answer.err), f->answer.sequence,
               f->answer.duplicate ? " again" : "");
    if (!chance(w, w->mix.lost_ack)) at(w, w->now + latency(w), answer, f->node, f->life, flight);
}

void bus_publish_from(struct world *w, uint32_t node, const struct publisher_effect *e)
{
    uint64_t first = le_get(e->content.data, 8);
    if (w->flights_len == w->flights_cap) {
        w->flights_cap = w->flights_cap < 64 ? 64 : w->flights_cap * 2;
        w->flights = memory_resize(w->flights, w->flights_cap * sizeof *w->flights);
    }
    size_t f = w->flights_len++;
    w->flights[f] = (struct flight){.node = node,
                                    .life = w->nodes[node].life,
                                    .tag = e->tag,
                                    .outages = w->outages,
                                    .sequence = e->sequence,
                                    .first = first,
                                    .fenced = e->fenced,
                                    .stream_last = e->stream_last};
    w->publishes++;
    if (first > 0) w->gaps++;
    if (chance(w, w->mix.lost)) return;
    int64_t when = w->now + latency(w);
    if (chance(w, w->mix.late)) when += rng_range(&w->rng, 1, LATE_MS);
    at(w, when, arrive, node, 0, f);
    if (chance(w, w->mix.repeated)) at(w, when + latency(w), arrive, node, 0, f);
}

static bool is_in_tail(const struct world *w, const struct message *m)
{
    return m->sequence > 0 && (m->first > 0 || w->journal[m->sequence].in_tail);
}

struct publisher_tail bus_tail(struct world *w)
{
    struct publisher_tail tail = {.stream_last = last_number(w)};
    for (size_t i = w->stream_len; i > 0 && tail.number == 0; i--) {
        const struct message *m = &w->stream[i - 1];
        if (!is_in_tail(w, m)) continue;
        tail.sequence = m->sequence;
        tail.number = m->number;
    }
    return tail;
}

void bus_end_outage(struct world *w)
{
    if (!w->down) return;
    w->down = false;
    follower_connection(w, true);
    for (uint32_t i = 0; i < NODES_HERE; i++)
        node_connection(w, i, true);
}

static void end_outage(struct world *w, uint32_t index, uint64_t life, uint64_t n)
{
    (void)index, (void)life, (void)n;
    bus_end_outage(w);
}

// A restart. What was not synced may be lost.
static void begin_outage(struct world *w, uint32_t index, uint64_t life, uint64_t n)
{
    (void)index, (void)life, (void)n;
    if (w->healed) return;
    w->outages++;
    w->down = true;
    int64_t kept = w->now - rng_range(&w->rng, 0, w->mix.forget_ms);
    while (w->mix.forgets && w->stream_len > 0 && w->stream[w->stream_len - 1].stored_at > kept) {
        w->stream_len--;
        w->forgotten++;
    }
    trace_line(&w->trace, w->now, "outage; the stream ends at %" PRIu64, last_number(w));
    for (uint32_t i = 0; i < NODES_HERE; i++)
        node_connection(w, i, false);
    follower_connection(w, false);
    at(w, w->now + rng_range(&w->rng, 1, 5000), end_outage, 0, 0, 0);
    at(w, w->now + rng_range(&w->rng, 5001, 5001 + 2 * w->mix.outage_every), begin_outage, 0, 0, 0);
}

static void end_cut(struct world *w, uint32_t i, uint64_t life, uint64_t n)
{
    (void)life, (void)n;
    if (!w->down && !w->nodes[i].up) node_connection(w, i, true);
}

static void cut(struct world *w, uint32_t index, uint64_t life, uint64_t n)
{
    uint32_t i = (uint32_t)rng_below(&w->rng, NODES_HERE);
    (void)index, (void)life, (void)n;
    if (w->healed) return;
    if (w->nodes[i].up) {
        trace_line(&w->trace, w->now, "node %u is cut off", i);
        node_connection(w, i, false);
        at(w, w->now + rng_range(&w->rng, 1, 3000), end_cut, i, 0, 0);
    }
    at(w, w->now + rng_range(&w->rng, 1, 2 * w->mix.cut_every), cut, 0, 0, 0);
}

void bus_start(struct world *w)
{
    if (w->mix.outage_every > 0) at(w, w->now + w->mix.outage_every, begin_outage, 0, 0, 0);
    if (w->mix.cut_every > 0) at(w, w->now + w->mix.cut_every, cut, 0, 0, 0);
}

// Takes one message: duplicates are dropped, and events that are ahead wait for the missing ones.
static void take(struct world *w, const struct message *m)
{
    if (m->sequence == 0) return;
    for (uint64_t i = m->first; m->first > 0 && i <= m->sequence; i++)
        if (i >= w->next && !w->seen[i]) w->named[i] = true;
    bool again = m->sequence < w->next || w->seen[m->sequence];
    if (m->first == 0 && again && MUTANT(BUS_DEDUP_OFF))
        findings_add(&w->findings, "once", "event %" PRIu64 " was passed on twice", m->sequence);
    if (m->first == 0 && !again) {
        w->seen[m->sequence] = true;
        w->held++;
    }
    for (; w->next <= w->mix.events && (w->seen[w->next] || w->named[w->next]); w->next++)
        if (w->seen[w->next]) w->held--;
    if (!w->mix.skip && w->held > w->mix.window)
        findings_add(&w->findings, "order",
                     "event %" PRIu64 " is missing, %" PRIu64 " are ahead, and the window is %u",
                     w->next, w->held, w->mix.window);
}

static bool same(const struct message *a, const struct message *b)
{
    return a->number == b->number && a->sequence == b->sequence && a->stored_at == b->stored_at;
}

// The consumer's position is a number and the message that had it. If the stream has another
// message there, it lost its tail, and the consumer begins again.
static void consume(struct world *w, uint32_t index, uint64_t life, uint64_t n)
{
    (void)index, (void)life, (void)n;
    if (!w->down) {
        bool good = w->read_number == 0 || (w->read_number <= w->stream_len &&
                                            same(&w->stream[w->read_number - 1], &w->last));
        if (!good) w->read_number = 0;
        while (w->read_number < w->stream_len && !w->findings.broken) {
            w->last = w->stream[w->read_number++];
            take(w, &w->last);
        }
    }
    at(w, w->now + READ_MS, consume, 0, 0, 0);
}

void consumer_start(struct world *w)
{
    at(w, w->now + READ_MS, consume, 0, 0, 0);
}

void check_end(struct world *w)
{
    for (uint32_t i = 0; i < NODES_HERE; i++)
        if (w->nodes[i].publisher)
            w->healed_tails += publisher_status(w->nodes[i].publisher).healed;
    if (w->follower.read < w->mix.events)
        findings_add(&w->findings, "read", "a reader has %" PRIu64 " of %u events",
                     w->follower.read, w->mix.events);
    if (w->next <= w->mix.events) {
        findings_add(&w->findings, "complete", "event %" PRIu64 " of %u never came", w->next,
                     w->mix.events);
        return;
    }
    // A consumer that begins now must find every event.
    bool stored[EVENTS_HERE + 1] = {false};
    for (size_t i = 0; i < w->stream_len; i++)
        if (w->stream[i].first == 0) stored[w->stream[i].sequence] = true;
    for (uint64_t i = 1; !w->mix.skip && i <= w->mix.events; i++)
        if (!stored[i])
            findings_add(&w->findings, "hold", "event %" PRIu64 " is not in the stream", i);
}
