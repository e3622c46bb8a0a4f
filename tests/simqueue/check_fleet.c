// SPDX-License-Identifier: Apache-2.0
// Registered workers, by rules of their own. A ticket goes to a live row that runs, has room and
// has the labels that the message requires. A row that could have got a ticket is passed over at
// most as often as there were rows since its last one: a row that got its turn may leave. With
// dispatch=affinity a group stays with the row of its last ticket. A claim gets what its worker's
// labels allow. An evicted worker holds nothing. A name has one process.
#include "check.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((format(printf, 3, 4))) static void wrong(struct reference *g, const char *invariant,
                                                        const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    findings_add(&g->world->findings, invariant, "lane %u: slot %" PRIu64 ": %s", g->lane, g->slot,
                 text);
}

// "w7": 7; NO_INDEX: no worker of this world.
static uint32_t number_of(struct bytes name)
{
    char text[16] = "";
    if (name.len < 2 || name.len >= sizeof text || name.data[0] != 'w') return NO_INDEX;
    memcpy(text, name.data + 1, name.len - 1);
    unsigned long n = strtoul(text, NULL, 10);
    return n < FLEET_MAX ? (uint32_t)n : NO_INDEX;
}

static bool is_row(const struct fleet_row *r)
{
    return r->live && r->mode != WORKER_IS_EVICTED;
}

uint32_t fleet_labels_of(const struct reference *g, struct bytes worker)
{
    uint32_t n = number_of(worker);
    return n != NO_INDEX && is_row(&g->fleet[n]) ? g->fleet[n].labels : 0;
}

static uint32_t holder_of(uint32_t n)
{
    char name[16];
    (void)snprintf(name, sizeof name, "w%u", n);
    return (uint32_t)hash64_of(bytes_str(name), 0);
}

static uint32_t open_of(const struct reference *g, uint32_t n)
{
    uint32_t open = 0, holder = holder_of(n);
    for (uint64_t i = 0; i < g->rows_len; i++)
        open += g->rows[i].state == STATE_LOCKED && g->rows[i].holder == holder;
    return open;
}

static bool is_eligible(const struct reference *g, const struct row *row, uint32_t n)
{
    const struct fleet_row *r = &g->fleet[n];
    bool tickets = g->config.dispatch != DISPATCH_AUTO || (r->flags & WORKER_MAILBOX);
    return r->live && r->mode == WORKER_RUNNING && r->expires_at > g->now && tickets &&
           !(row->needs & ~r->labels) && open_of(g, n) < r->capacity;
}

// The row to which the message's group belongs; NO_INDEX: to none that lives and may get it.
static uint32_t bound_to(const struct reference *g, const struct row *row)
{
    if (g->config.dispatch != DISPATCH_AFFINITY || row->group >= FLEET_GROUPS) return NO_INDEX;
    uint32_t n = g->bound[row->group].worker;
    uint64_t registration = g->bound[row->group].registration;
    bool lives = registration && is_row(&g->fleet[n]) && g->fleet[n].registration == registration;
    return lives && !(row->needs & ~g->fleet[n].labels) ? n : NO_INDEX;
}

static void check_turn(struct reference *g, const struct row *row, uint32_t to)
{
    uint32_t rows = 0;
    for (uint32_t n = 0; n < FLEET_MAX; n++)
        rows += is_row(&g->fleet[n]);
    for (uint32_t n = 0; n < FLEET_MAX; n++) {
        struct fleet_row *r = &g->fleet[n];
        if (n == to || !r->live || !is_eligible(g, row, n)) continue;
        if (r->passed == 0 || rows > r->rows_most) r->rows_most = rows;
        if (++r->passed > r->rows_most)
            wrong(g, "starvation", "w%u was passed over %u times, and there were %u rows", n,
                  r->passed, r->rows_most);
    }
    g->fleet[to].passed = 0;
}

static void check_ticket(struct reference *g, const struct row *row, uint32_t to)
{
    const struct fleet_row *r = &g->fleet[to];
    uint32_t bound = bound_to(g, row);
    if (!r->live || r->expires_at <= g->now) wrong(g, "dispatch", "w%u has no row", to);
    if (r->mode != WORKER_RUNNING)
        wrong(g, "mode", "w%u gets a ticket and is %s", to, worker_mode_name(r->mode));
    if (open_of(g, to) >= r->capacity) wrong(g, "dispatch", "w%u gets a ticket without room", to);
    if (row->needs & ~r->labels) wrong(g, "requires", "w%u lacks labels of its ticket", to);
    if (bound != NO_INDEX && bound != to)
        wrong(g, "affinity", "group %u goes to w%u and is of w%u", row->group, to, bound);
    if (bound == NO_INDEX) check_turn(g, row, to);
    if (bound != NO_INDEX) g->fleet[to].passed = 0;
    if (row->group < FLEET_GROUPS && g->config.dispatch == DISPATCH_AFFINITY) {
        g->bound[row->group].worker = to;
        g->bound[row->group].registration = r->registration;
    }
    g->dispatched++;
}

static bool any_row(const struct reference *g)
{
    bool any = false;
    for (uint32_t n = 0; n < FLEET_MAX; n++)
        any = any || is_row(&g->fleet[n]);
    return any;
}

void check_fleet(struct reference *g, const struct walk_op *o, const struct row *row,
                 struct bytes worker, bool takes_up)
{
    uint32_t n = number_of(worker);
    if (o->op->kind == OP_DISPATCH) {
        if (n == NO_INDEX)
            wrong(g, "dispatch", "a ticket for no worker");
        else
            check_ticket(g, row, n);
        return;
    }
    const struct fleet_row *r = n != NO_INDEX && g->fleet[n].live ? &g->fleet[n] : NULL;
    if (r && r->mode != WORKER_RUNNING)
        wrong(g, "mode", "w%u gets a message and is %s", n, worker_mode_name(r->mode));
    if (row->needs & ~(r ? r->labels : 0) && !takes_up && o->op->kind != OP_LOCK)
        wrong(g, "requires", "a worker gets a message and lacks its labels");
    if (g->config.dispatch == DISPATCH_AFFINITY && !takes_up && any_row(g))
        wrong(g, "affinity", "a claim takes a message beside the owner's tickets");
}

static void on_join(struct reference *g, uint32_t n, const struct worker_change *c)
{
    struct fleet_row *r = &g->fleet[n];
    bool there = r->live && r->expires_at > g->now;
    if (there && r->instance != c->instance && r->mode != WORKER_IS_EVICTED)
        wrong(g, "worker-name", "two processes are w%u", n);
    if (there && r->instance == c->instance && r->mode == WORKER_IS_EVICTED)
        wrong(g, "evict", "w%u was evicted and joins again", n);
    if (!r->live || r->instance != c->instance || r->mode == WORKER_IS_EVICTED)
        *r = (struct fleet_row){.registration = ++g->registrations};
    r->live = true;
    r->instance = c->instance;
    r->capacity = c->capacity;
    r->labels = fleet_labels(c->labels);
    r->flags = c->flags;
    r->ttl_ms = c->ttl_ms;
    r->expires_at = g->from + c->ttl_ms;
}

static void on_change(struct reference *g, uint32_t n, const struct worker_change *c)
{
    struct fleet_row *r = &g->fleet[n];
    if (c->act == WORKER_JOIN) {
        on_join(g, n, c);
        return;
    }
    if (!r->live) wrong(g, "dispatch", "act %d on w%u, which has no row", (int)c->act, n);
    if (c->act == WORKER_BEAT) r->expires_at = g->from + r->ttl_ms;
    if (c->act == WORKER_LEAVE) r->live = false;
    if (c->act == WORKER_PAUSE) r->mode = WORKER_IS_PAUSED;
    if (c->act == WORKER_RESUME) r->mode = WORKER_RUNNING;
    if (c->act == WORKER_DRAIN) r->mode = WORKER_IS_DRAINING;
    if (c->act != WORKER_EVICT || r->mode == WORKER_IS_EVICTED) return;
    r->mode = WORKER_IS_EVICTED;
    r->expires_at = g->from + WORKER_EVICTED_KEEP_MS;
    if (open_of(g, n) > 0) wrong(g, "evict", "w%u was evicted and holds a message", n);
}

// A message that an evicted worker held is ready again, and the attempt does not count.
static void on_released(struct reference *g, const struct event *e)
{
    struct row *row = reference_row(g, e->seq);
    if (!row || row->state != STATE_LOCKED || row->ticket) {
        wrong(g, "evict", "message %" PRIu64 " was not held", e->seq);
        return;
    }
    row->deliveries--;
    row->ready_at = 0;
    row->expired_slot = 0;
    walk_end_holds(g, row->token);
    row->evicted = row->token;
    reference_move(g, row, STATE_READY);
}

// ... unless it was interrupted: then the interrupt says what becomes of it.
static void on_interrupted(struct reference *g, const struct event *e)
{
    struct row *row = reference_row(g, e->seq);
    const struct reference_signal *in = row ? signals_interrupt(g, row) : NULL;
    if (!in) {
        wrong(g, "evict", "message %" PRIu64 " was not interrupted", e->seq);
        return;
    }
    row->expired_slot = 0;
    row->evicted = row->token;
    if (signals_stop(g, row, in) != e->status)
        wrong(g, "evict", "message %" PRIu64 " ends otherwise", e->seq);
}

void fleet_walk(struct reference *g, const struct walk_op *o)
{
    struct op_workers op;
    struct result result;
    if (workers_decode(o->op->payload, &op) || result_open(o->body, OP_WORKERS, &result)) return;
    for (size_t i = 0; i < o->events_len; i++) {
        if (o->events[i].kind == EVENT_MESSAGE_RELEASED)
            on_released(g, &o->events[i]);
        else if (o->events[i].kind == EVENT_MESSAGE_OUTCOME)
            on_interrupted(g, &o->events[i]);
        else
            walk_recovered(g, &o->events[i]);
    }
    struct reader rows = reader_of(op.rows);
    struct worker_change c;
    enum reason reason;
    for (uint32_t i = 0; i < op.count && worker_change_next(&rows, &c); i++) {
        if (!worker_reason_next(&result, &reason)) {
            wrong(g, "I9", "a change of a worker without an answer");
            return;
        }
        uint32_t n = number_of(c.name);
        if (reason == REASON_NONE && n != NO_INDEX) on_change(g, n, &c);
    }
}

void fleet_expire(struct reference *g)
{
    for (uint32_t n = 0; n < FLEET_MAX; n++)
        if (g->fleet[n].live && g->fleet[n].expires_at <= g->now) g->fleet[n].live = false;
}

void fleet_forget(struct reference *g)
{
    memset(g->bound, 0, sizeof g->bound);
}

uint64_t fleet_empty_for(const struct reference *g)
{
    const struct life *life = g->world->life;
    uint64_t bits = 0;
    for (uint32_t i = 0; life->fleet && i < life->thread_pool_len && i < 64; i++) {
        struct bytes name = bytes_str(life->workers[i].name);
        if (!machine_claimable(g->machine, g->now, name)) bits |= UINT64_C(1) << i;
    }
    return bits;
}
