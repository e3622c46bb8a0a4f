// SPDX-License-Identifier: Apache-2.0
// The clients: they make calls in any process, give up on some receives, and use request ids again.
#include "base/check.h"
#include "base/hash.h"
#include "check.h"

#include <string.h>

struct sim_call *call_at(struct world *w, uint32_t call)
{
    CHECK(call < w->life->calls_len);
    return &w->life->calls[call];
}

uint32_t call_of(const struct world *w, const struct sim_call *c)
{
    return (uint32_t)(c - w->life->calls);
}

bool call_waits(const struct sim_call *c)
{
    return c->state.kind == STEP_RECEIVE && !c->lost && !c->answers && !c->unwanted_at;
}

bool call_is_wait(const struct sim_call *c)
{
    return c->state.kind == STEP_RECEIVE || c->state.kind >= STEP_FOLLOW;
}

// Returns a process that takes calls; NOT_INDEX: none.
static uint32_t pick_process(struct world *w)
{
    uint32_t first = (uint32_t)rng_below(&w->rng, w->life->processes);
    for (uint32_t i = 0; i < w->life->processes; i++) {
        uint32_t p = (first + i) % w->life->processes;
        if (process_is_up(w, p) && !w->life->process[p].closing) return p;
    }
    return NOT_INDEX;
}

static struct sim_call *call_begin(struct world *w, enum call_kind kind, uint32_t process)
{
    struct life *life = w->life;
    struct sim_call *c = &life->calls[life->calls_len++];
    *c = (struct sim_call){.process = process,
                           .incarnation = process_node(w, process, 0)->life,
                           .began_at = w->now,
                           .began_commit = life->commits,
                           .at_once = (uint32_t)rng_range(&w->rng, 1, 4),
                           .adds_ops = rng_chance(&w->rng, 5000),
                           .claim = NOT_INDEX,
                           .claim_left = NOT_INDEX};
    for (uint32_t i = 0; i < SIM_SHARDS_MAX; i++)
        c->awaits[i] = c->recalls[i] = NOT_INDEX;
    c->build_fails = rng_chance(&w->rng, life->build_fails);
    call_init(&c->state, kind);
    return c;
}

static void send(struct world *w, uint32_t process)
{
    struct sim_call *c = call_begin(w, STEP_SEND, process);
    bool few = rng_chance(&w->rng, 6000), group = rng_chance(&w->rng, 4000);
    c->messages_len = (uint32_t)rng_range(&w->rng, 1, few ? 2 : SIM_MESSAGES_MAX);
    c->op_len_max = (uint32_t)rng_range(&w->rng, 1, SIM_REFS_MAX);
    c->until = w->now + rng_range(&w->rng, 0, 3 * SECOND);
    uint32_t one = (uint32_t)rng_below(&w->rng, w->life->shards);
    for (uint32_t i = 0; i < c->messages_len; i++)
        c->messages[i].shard = group ? one : (uint32_t)rng_below(&w->rng, w->life->shards);
    w->life->figures[FIGURE_SENDS]++;
    trace_line(&w->trace, w->now, "p%u: call %u sends %u messages", process, call_of(w, c),
               c->messages_len);
    shell_pump(w, call_of(w, c));
}

static void take_locks(struct world *w, struct sim_call *c)
{
    struct life *life = w->life;
    uint32_t most = (uint32_t)rng_range(&w->rng, 1, SIM_REFS_MAX);
    while (c->locks_len < most && life->held_len > 0) {
        uint32_t i = (uint32_t)rng_below(&w->rng, life->held_len);
        c->locks[c->locks_len++] = life->held[i];
        life->held[i] = life->held[--life->held_len];
    }
}

static void settle(struct world *w, uint32_t process)
{
    static const uint16_t kinds[] = {OP_ACK, OP_ACK, OP_FAIL, OP_RELEASE, OP_RENEW};
    if (w->life->held_len == 0) return;
    struct sim_call *c = call_begin(w, STEP_SETTLE, process);
    c->settles = kinds[rng_below(&w->rng, sizeof kinds / sizeof *kinds)];
    take_locks(w, c);
    w->life->figures[FIGURE_SETTLES]++;
    trace_line(&w->trace, w->now, "p%u: call %u settles %u locks", process, call_of(w, c),
               c->locks_len);
    shell_pump(w, call_of(w, c));
}

static void change(struct world *w, uint32_t process)
{
    struct sim_call *c = call_begin(w, STEP_CHANGE, process);
    w->life->figures[FIGURE_CHANGES]++;
    trace_line(&w->trace, w->now, "p%u: call %u changes the queue", process, call_of(w, c));
    shell_pump(w, call_of(w, c));
}

static void read_state(struct world *w, uint32_t process)
{
    struct sim_call *c = call_begin(w, STEP_READ, process);
    c->looks_max = rng_chance(&w->rng, 3000) ? (uint32_t)rng_range(&w->rng, 1, w->life->shards)
                                             : w->life->shards;
    for (uint32_t i = 0; i < w->life->shards; i++)
        c->began_len[i] = w->life->lanes[i].len;
    if (rng_chance(&w->rng, w->life->cancels / 2))
        life_after(w, rng_range(&w->rng, 0, 200), LIFE_CANCEL, call_of(w, c));
    w->life->figures[FIGURE_READS]++;
    trace_line(&w->trace, w->now, "p%u: call %u reads", process, call_of(w, c));
    shell_pump(w, call_of(w, c));
}

static bool is_followed(struct world *w, uint32_t process)
{
    for (uint32_t i = w->life->calls_open; i < w->life->calls_len; i++) {
        const struct sim_call *c = call_at(w, i);
        if (c->state.kind == STEP_FOLLOW && c->process == process && !c->lost && !c->answers)
            return true;
    }
    return false;
}

static int64_t draw_wait(struct world *w);

// One stream in a process: the handles keep their events for it.
static void follow(struct world *w, uint32_t process)
{
    if (is_followed(w, process)) return;
    struct sim_call *c = call_begin(w, STEP_FOLLOW, process);
    c->until = w->now + draw_wait(w);
    c->first_shard = (uint32_t)rng_below(&w->rng, w->life->shards);
    if (rng_chance(&w->rng, w->life->cancels))
        life_after(w, rng_range(&w->rng, 0, 600), LIFE_CANCEL, call_of(w, c));
    w->life->figures[FIGURE_FOLLOWS]++;
    trace_line(&w->trace, w->now, "p%u: call %u follows the events", process, call_of(w, c));
    shell_pump(w, call_of(w, c));
}

static bool has_part(const struct sim_call *c, uint32_t shard)
{
    for (uint32_t i = 0; i < c->parts_len; i++)
        if (c->parts[i] == shard) return true;
    return false;
}

// Waits for signals to locks that clients hold. Others settle them meanwhile.
static void listen(struct world *w, uint32_t process)
{
    const struct life *life = w->life;
    if (life->held_len == 0) return;
    struct sim_call *c = call_begin(w, STEP_LISTEN, process);
    uint32_t first = (uint32_t)rng_below(&w->rng, life->held_len);
    uint32_t most = (uint32_t)rng_range(&w->rng, 1, SIM_REFS_MAX);
    for (uint32_t i = 0; i < life->held_len && c->locks_len < most; i++) {
        c->locks[c->locks_len] = life->held[(first + i) % life->held_len];
        uint32_t shard = c->locks[c->locks_len++].shard;
        if (!has_part(c, shard)) c->parts[c->parts_len++] = shard;
    }
    c->until = w->now + draw_wait(w);
    if (rng_chance(&w->rng, w->life->cancels))
        life_after(w, rng_range(&w->rng, 0, 600), LIFE_CANCEL, call_of(w, c));
    w->life->figures[FIGURE_LISTENS]++;
    trace_line(&w->trace, w->now, "p%u: call %u listens for %u locks", process, call_of(w, c),
               c->locks_len);
    shell_pump(w, call_of(w, c));
}

// A signal to a lock that a client holds, straight into the shard. The rules are raised first.
static void signal(struct world *w, uint32_t process)
{
    struct life *life = w->life;
    if (life->held_len == 0) return;
    const struct held_lock *lock = &life->held[rng_below(&w->rng, life->held_len)];
    struct node *n = process_node(w, process, lock->shard);
    life->figures[FIGURE_SIGNALS]++;
    submit_signal(w, n, lock);
}

// The longest waits end only when the receive is cancelled.
static int64_t draw_wait(struct world *w)
{
    uint64_t r = rng_below(&w->rng, 10);
    if (r < 3) return 0;
    return r < (w->life->many_waits ? 4 : 8) ? rng_range(&w->rng, 1, w->life->wait_ms)
                                             : 3600 * SECOND;
}

static uint32_t first_shard(struct world *w, const struct sim_call *c)
{
    const struct request_id *id = &w->life->ids[c->id].id;
    if (!c->named) return (uint32_t)rng_below(&w->rng, w->life->shards);
    return (uint32_t)(hash64_of(bytes_of(id->bytes, sizeof id->bytes), 0) % w->life->shards);
}

// like: the call whose request id it has; NULL: a new one.
static void receive(struct world *w, uint32_t process, const struct sim_call *like)
{
    struct sim_call *c = call_begin(w, STEP_RECEIVE, process);
    uint32_t call = call_of(w, c);
    c->named = like || rng_chance(&w->rng, w->life->named);
    c->id = like ? like->id : id_new(w);
    c->max = like ? like->max : (uint32_t)rng_range(&w->rng, 1, SIM_REFS_MAX);
    c->until = w->now + draw_wait(w);
    c->first_shard = first_shard(w, c);
    c->settles = OP_ACK;
    if (rng_chance(&w->rng, 2500)) take_locks(w, c);
    if (rng_chance(&w->rng, w->life->cancels))
        life_after(w, rng_range(&w->rng, 0, 600), LIFE_CANCEL, call);
    if (c->named && rng_chance(&w->rng, w->life->repeats)) {
        int64_t most = rng_chance(&w->rng, 5000) ? 10 : 2 * SECOND;
        life_after(w, rng_range(&w->rng, 0, most), LIFE_REPEAT, call);
    }
    w->life->figures[FIGURE_RECEIVES]++;
    trace_line(&w->trace, w->now, "p%u: call %u receives %u messages%s, id %u, %u acks", process,
               call, c->max, c->named ? " by name" : "", c->id, c->locks_len);
    shell_pump(w, call);
}

void client_repeats(struct world *w, uint32_t call)
{
    uint32_t process = pick_process(w);
    if (process == NOT_INDEX || w->life->calls_len == SIM_CALLS_MAX) return;
    receive(w, process, call_at(w, call));
}

void client_waits(struct world *w)
{
    w->life->many_waits = true;
    for (uint32_t p = 0; p < w->life->processes; p++)
        for (uint32_t i = 0; i < 4 && w->life->calls_len < SIM_CALLS_MAX; i++)
            if (process_is_up(w, p) && !w->life->process[p].closing && !w->findings.broken)
                receive(w, p, NULL);
    for (uint32_t p = 0; p < w->life->processes && w->life->calls_len < SIM_CALLS_MAX; p++)
        if (process_is_up(w, p) && !w->life->process[p].closing && !w->findings.broken)
            follow(w, p);
}

void client_acts(struct world *w)
{
    uint32_t process = pick_process(w);
    if (process == NOT_INDEX || w->life->calls_len == SIM_CALLS_MAX) return;
    uint64_t r = rng_below(&w->rng, 100);
    if (r < w->life->sends)
        send(w, process);
    else if (r < 80)
        receive(w, process, NULL);
    else if (r < 89)
        settle(w, process);
    else if (r < 91)
        listen(w, process);
    else if (r < 93)
        signal(w, process);
    else if (r < 95)
        change(w, process);
    else if (r < 97)
        read_state(w, process);
    else
        follow(w, process);
}

// The client keeps the locks, to end them later.
void client_answered(struct world *w, uint32_t call)
{
    struct life *life = w->life;
    const struct sim_call *c = call_at(w, call);
    if (c->refs_len > 0) {
        life->figures[FIGURE_GIVEN]++;
        life->given_at = w->now;
    }
    if (c->named && c->refs_len > 0 && rng_chance(&w->rng, life->repeats / 2))
        life_after(w, rng_range(&w->rng, 0, SECOND), LIFE_REPEAT, call);
    for (uint32_t i = 0; i < c->refs_len && life->held_len < SIM_HELD_MAX; i++) {
        life->held[life->held_len].shard = c->from;
        life->held[life->held_len++].ref = c->refs[i];
    }
}
