// SPDX-License-Identifier: Apache-2.0
// After each step: if a shard has a message and a waiter, some call of its process knows of the
// message. It claims it, or passes the announcement on. Without faults every waiter is served, and
// nothing is left of calls that have ended.
#include "base/check.h"
#include "check.h"

#include <inttypes.h>

// A node knows the time to 500 ms if clocks jump, else to 20 ms. It ticks again until it is sure.
#define CLOCK_MAX  SECOND
#define CLOCK_GOOD 100

static bool is_known(struct world *w, uint32_t process, uint32_t shard)
{
    for (uint32_t i = w->life->calls_open; i < w->life->calls_len; i++) {
        const struct sim_call *c = call_at(w, i);
        if (c->process == process && !c->lost && c->told[shard]) return true;
    }
    for (uint32_t i = w->life->actions_open; i < w->life->actions_len; i++) {
        const struct action *a = &w->life->actions[i];
        const struct sim_call *c = call_at(w, a->call);
        if (c->process != process || a->shard != shard || c->lost) continue;
        bool announced = a->kind == STEP_AWAIT && a->state == ACTION_REPLIED && !a->err &&
                         c->state.kind == STEP_RECEIVE;
        bool passed_on = a->kind == STEP_NOTIFY && a->state == ACTION_PLANNED;
        bool claims = a->state == ACTION_OPEN || (a->state == ACTION_REPLIED && a->left);
        if (announced || passed_on || (a->kind == STEP_CLAIM && claims)) return true;
    }
    for (uint32_t i = w->life->asks_open; i < w->life->asks_len; i++) {
        const struct sim_ask *k = &w->life->asks[i];
        const struct action *last = &k->parts[k->parts_len - 1];
        if (k->process != process || last->shard != shard || k->state != ASK_THERE) continue;
        if (last->kind == STEP_CLAIM) return true;
    }
    // Another process knows of it, and the next waiter will hear of it. Or a call of this process
    // claimed at the owner, and this shard has not read it yet.
    uint32_t node = process_node(w, process, shard)->index;
    return w->life->announcements[node] > 0 || w->life->claimed[node];
}

static void skip_ended(struct world *w)
{
    struct life *life = w->life;
    while (life->calls_open < life->calls_len) {
        const struct sim_call *c = &life->calls[life->calls_open];
        if (!c->lost && !call_is_over(&c->state)) break;
        life->calls_open++;
    }
    while (life->actions_open < life->actions_len) {
        const struct action *a = &life->actions[life->actions_open];
        if (a->state != ACTION_OVER && !call_at(w, a->call)->lost) break;
        life->actions_open++;
    }
    while (life->asks_open < life->asks_len) {
        const struct sim_ask *k = &life->asks[life->asks_open];
        if (k->state != ASK_OVER || !k->ended) break;
        life->asks_open++;
    }
}

void check_announced(struct world *w)
{
    skip_ended(w);
    for (uint32_t i = 0; i < w->mix.nodes; i++) {
        struct shard *s = w->life->handles[i];
        if (!s || shard_waiting(s) == 0) continue;
        int64_t now = shard_time(s, (struct interval){TIME_UNKNOWN, TIME_UNKNOWN}).lo;
        if (!machine_claimable(shard_machine(s), now, BYTES_EMPTY)) continue;
        uint32_t process = i / w->life->shards, shard = i % w->life->shards;
        if (!is_known(w, process, shard))
            findings_add(&w->findings, "announced",
                         "p%u: shard %u has a message and a waiter, and no waiter knows of it",
                         process, shard);
    }
}

// A node whose next wake-up was put off before `since` has no other event until its pause ends.
static bool node_was_paused(const struct world *w, uint32_t node, int64_t since)
{
    return w->life->put_off_at[node] >= since || w->nodes[node].paused_until > since;
}

static bool was_paused(const struct world *w, uint32_t process, int64_t since)
{
    for (uint32_t i = 0; i < w->life->shards; i++)
        if (node_was_paused(w, process * w->life->shards + i, since)) return true;
    return false;
}

// A cancelled call does not wait for the end of faults.
void check_ended(struct world *w, uint32_t call)
{
    const struct sim_call *c = call_at(w, call);
    bool ends = c->state.kind >= STEP_RECEIVE && !c->lost && !c->answers;
    if (ends && !was_paused(w, c->process, c->unwanted_at))
        findings_add(&w->findings, "ended", "call %u was cancelled and does not end", call);
}

// A claim, await or listen that was cancelled too late ends with the store's answer, or a timeout
// after the cancel. A node that was paused meanwhile is late.
void check_cancelled(struct world *w, const struct action *a, const struct node *n)
{
    int64_t late = w->now - a->cancelled_at - w->mix.patience_ms;
    bool paused = node_was_paused(w, n->index, a->cancelled_at);
    int64_t most = w->mix.jump_every_ms > 0 ? CLOCK_MAX : CLOCK_GOOD;
    if (a->cancelled_at == 0 || paused || late <= most) return;
    findings_add(&w->findings, "cancelled",
                 "an effect of call %u ends %" PRId64 " ms later than the timeout of its cancel",
                 a->call, late);
}

// A request waits no longer if its caller is gone, or if one of its shards has something.
void check_withdrawn(struct world *w, uint32_t ask)
{
    const struct sim_ask *k = &w->life->asks[ask];
    bool ends = k->cut;
    for (uint32_t i = 0; i < k->parts_len; i++) {
        const struct action *a = &k->parts[i];
        bool replied = a->kind == STEP_AWAIT && a->state == ACTION_REPLIED;
        ends = ends || (replied && find_end(a) != STEP_NOTHING);
    }
    for (uint32_t i = 0; ends && i < k->parts_len; i++) {
        const struct action *a = &k->parts[i];
        bool waits = a->kind == STEP_CLAIM || a->kind == STEP_AWAIT;
        if (waits && a->state == ACTION_OPEN && !a->withdrawn)
            findings_add(&w->findings, "withdrawn", "request %u waits on in shard %u of p%u", ask,
                         a->shard, k->process);
    }
}

static bool has_messages(const struct world *w, uint32_t shard)
{
    struct machine_stats stats;
    machine_stats(w->life->lanes[shard].machine, w->now, &stats);
    return stats.counts[STATE_READY] + stats.counts[STATE_DELAYED] + stats.counts[STATE_LOCKED] > 0;
}

// An await that the store failed is not repeated: the receive waits in the other shards.
static bool has_left(const struct world *w, const struct sim_call *c, uint32_t shard)
{
    uint32_t await = c->awaits[shard];
    return await != NOT_INDEX && w->life->actions[await].state == ACTION_OVER &&
           w->life->actions[await].err;
}

static bool has_events(struct world *w, const struct sim_call *c)
{
    for (uint32_t i = 0; i < w->life->shards; i++) {
        struct shard *s = w->life->handles[process_node(w, c->process, i)->index];
        if (s && shard_events(s)->len > 0) return true;
    }
    return false;
}

// Whether the history has something for the listen: a signal, or the end of a lock.
static bool has_signals(const struct world *w, const struct sim_call *c)
{
    for (uint32_t i = 0; i < c->locks_len; i++) {
        struct signal_view first;
        size_t len;
        const struct machine *m = w->life->lanes[c->locks[i].shard].machine;
        uint32_t part = 0;
        while (c->parts[part] != c->locks[i].shard)
            part++;
        if (has_left(w, c, part)) continue;
        if (machine_signals(m, &c->locks[i].ref, 0, &first, 1, &len) != REASON_NONE || len > 0)
            return true;
    }
    return false;
}

// What a listen was told is in the history.
void check_heard(struct world *w, const struct action *a)
{
    const struct sim_call *c = call_at(w, a->call);
    struct listen_ask asks[SIM_REFS_MAX];
    (void)listen_of(c, a->shard, asks);
    w->life->figures[FIGURE_HEARD]++;
    if (!a->heard) findings_add(&w->findings, "listen", "call %u ends with nothing", a->call);
    for (uint32_t i = 0; i < a->gone_len; i++)
        if (machine_lock(w->life->lanes[a->shard].machine, &asks[a->gone[i]].ref) == REASON_NONE)
            findings_add(&w->findings, "listen", "call %u is told that a lock in force is gone",
                         a->call);
}

// A message that is locked serves another receive when its lock expires. A receive that waits for
// an earlier call with its id is served after it.
bool all_served(struct world *w)
{
    for (uint32_t shard = 0; shard < w->life->shards; shard++) {
        if (!has_messages(w, shard)) continue;
        for (uint32_t i = w->life->calls_open; i < w->life->calls_len; i++) {
            const struct sim_call *c = call_at(w, i);
            if (call_waits(c) && !has_left(w, c, shard)) return false;
        }
    }
    for (uint32_t i = w->life->calls_open; i < w->life->calls_len; i++) {
        const struct sim_call *c = call_at(w, i);
        bool follows = c->state.kind == STEP_FOLLOW && !c->lost && !c->answers && !c->unwanted_at;
        if (follows && has_events(w, c)) return false;
        bool listens = c->state.kind == STEP_LISTEN && !c->lost && !c->answers && !c->unwanted_at;
        if (listens && has_signals(w, c)) return false;
    }
    return true;
}

void check_nothing_left(struct world *w)
{
    for (uint32_t i = 0; i < w->life->calls_len; i++) {
        const struct sim_call *c = call_at(w, i);
        if (c->lost) continue;
        if (c->answers != 1)
            findings_add(&w->findings, "answer", "call %u has %u answers", i, c->answers);
        if (!call_is_over(&c->state)) findings_add(&w->findings, "left", "call %u does not end", i);
    }
    for (uint32_t i = 0; i < w->life->actions_len; i++) {
        const struct action *a = &w->life->actions[i];
        if (a->state != ACTION_OVER && !call_at(w, a->call)->lost)
            findings_add(&w->findings, "left", "effect %u of call %u has not ended", a->kind,
                         a->call);
    }
    for (uint32_t i = 0; i < w->life->asks_len; i++)
        if (w->life->asks[i].state != ASK_OVER || !w->life->asks[i].ended)
            findings_add(&w->findings, "left", "request %u of call %u to p%u has not ended", i,
                         w->life->asks[i].call, w->life->asks[i].process);
    for (uint32_t i = 0; i < w->mix.nodes; i++)
        if (w->life->handles[i] && shard_has_waiting(w->life->handles[i]))
            findings_add(&w->findings, "left", "shard %u of p%u has waiting calls",
                         i % w->life->shards, i / w->life->shards);
}
