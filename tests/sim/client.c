// SPDX-License-Identifier: Apache-2.0
// The clients: they ask, wait, and ask again with the same request id after an answer that allows
// it, perhaps at another node. They use no request id again after the machine may have forgotten
// it.
#include "base/check.h"
#include "check.h"

#include <inttypes.h>
#include <string.h>

#define SECOND ((int64_t)1000)
#define MINUTE (60 * SECOND)

static struct node *pick_writer(struct world *w)
{
    uint32_t first = (uint32_t)rng_below(&w->rng, w->mix.writers);
    for (uint32_t i = 0; i < w->mix.writers; i++) {
        struct node *n = &w->nodes[(first + i) % w->mix.writers];
        if (node_can_act(n)) return n;
    }
    return NULL;
}

static uint64_t ticket_new(struct world *w, const struct node *n, enum ticket_kind kind,
                           int64_t deadline)
{
    struct ticket row = {.kind = kind,
                         .node = n->index,
                         .life = n->life,
                         .deadline = deadline,
                         .tail_then = w->history.len};
    return tickets_push(&w->tickets, &row);
}

static void ask_draw(struct world *w, struct ask *ask)
{
    static const enum register_verb verbs[] = {REGISTER_ADD,  REGISTER_ADD,  REGISTER_ADD,
                                               REGISTER_CAS,  REGISTER_READ, REGISTER_KEEP,
                                               REGISTER_KEEP, REGISTER_DROP};
    *ask = (struct ask){.first_at = w->now};
    ask->what.verb = verbs[rng_below(&w->rng, sizeof verbs / sizeof *verbs)];
    ask->what.name[0] = (char)('a' + rng_below(&w->rng, w->mix.names));
    ask->what.a = rng_range(&w->rng, 0, 3);
    ask->what.b = rng_range(&w->rng, 0, 3);
    ask_name(ask, (uint32_t)w->tickets.asks_len, rng_next(&w->rng));
}

// After this moment the request id is not used again.
static int64_t last_use(const struct world *w, const struct ask *ask)
{
    return ask->first_at + w->mix.memory_ms / 3;
}

static int64_t draw_deadline(struct world *w, const struct ask *ask)
{
    if (rng_chance(&w->rng, w->mix.impatient)) return w->now + rng_range(&w->rng, 0, 50);
    bool patient = ask->tries == 1 && w->phase == WORLD_FAULTY;
    if (patient && rng_chance(&w->rng, w->mix.patient))
        return w->now + rng_range(&w->rng, 5, 40) * MINUTE;
    int64_t deadline = w->now + rng_range(&w->rng, SECOND, w->mix.patience_ms);
    return deadline < last_use(w, ask) ? deadline : last_use(w, ask);
}

static void submit(struct world *w, struct node *n, uint32_t place)
{
    struct ask *ask = &w->tickets.asks[place];
    ask->tries++;
    ask->open = true;
    uint64_t ticket = ticket_new(w, n, TICKET_OP, draw_deadline(w, ask));
    struct ticket *t = tickets_at(&w->tickets, ticket);
    t->ask = place;
    ask->what.attempt = (uint32_t)ticket;
    struct op op = register_op(&ask->what, &w->payload);
    trace_line(&w->trace, w->now, "n%u.%u t%" PRIu64 ": ask %u %s %s %d %d until +%d ms", n->index,
               n->life, ticket, place, register_verb_name(ask->what.verb), ask->what.name,
               (int)ask->what.a, (int)ask->what.b, (int)(t->deadline - w->now));
    journal_submit(n->journal, ticket, op, t->deadline, node_now(n));
    node_settle(w, n);
}

void client_ask(struct world *w)
{
    if (w->now < w->quiet_until) return;
    uint64_t burst = rng_chance(&w->rng, 500) ? 20 : 1 + rng_below(&w->rng, w->mix.burst_max);
    struct node *one = rng_chance(&w->rng, 2000) ? pick_writer(w) : NULL;
    if (one) journal_hold(one->journal); // the whole burst in one entry
    for (uint64_t i = 0; i < burst && !w->findings.broken; i++) {
        struct node *n = one ? one : pick_writer(w);
        if (!n) return;
        struct ask ask;
        ask_draw(w, &ask);
        submit(w, n, asks_push(&w->tickets, &ask));
    }
    if (!one) return;
    journal_release(one->journal, node_now(one));
    node_settle(w, one);
}

void client_retry(struct world *w, uint32_t place)
{
    struct ask *ask = &w->tickets.asks[place];
    if (ask->open || ask->closed) return;
    struct node *n = pick_writer(w);
    if (!n || w->now >= last_use(w, ask)) {
        ask->closed = true;
        return;
    }
    submit(w, n, place);
}

void client_end(struct world *w)
{
    struct node *n = pick_writer(w);
    struct ask ask;
    if (!n) return;
    ask_draw(w, &ask);
    ask.what.verb = REGISTER_END;
    submit(w, n, asks_push(&w->tickets, &ask));
}

static void plan_retry(struct world *w, uint32_t place)
{
    struct ask *ask = &w->tickets.asks[place];
    ask->open = false;
    world_at(w, w->now + rng_range(&w->rng, 10, 10 * SECOND), EVENT_RETRY, place, 0);
}

static bool is_final(enum err err)
{
    return err == ERR_OK || err == ERR_CONFLICT || err == ERR_NOT_FOUND || err == ERR_INVALID;
}

void client_heard(struct world *w, struct node *n, const struct journal_reply *r)
{
    idle_act(&n->idle);
    trace_line(&w->trace, w->now, "n%u.%u t%" PRIu64 ": %s slot %" PRIu64, n->index, n->life,
               r->ticket, err_name(r->err), r->slot);
    check_answer(w, n, r);
    struct ticket *t = tickets_at(&w->tickets, r->ticket);
    if (!t || t->answered) return;
    t->answered = true;
    t->err = r->err;
    if (t->kind != TICKET_OP) return;
    struct ask *ask = &w->tickets.asks[t->ask];
    if (is_final(r->err)) {
        ask->open = false;
        ask->closed = true;
    } else {
        plan_retry(w, t->ask);
    }
}

void client_orphans(struct world *w, struct node *n)
{
    for (size_t i = 0; i < w->tickets.len; i++) {
        struct ticket *t = &w->tickets.rows[i];
        if (t->node != n->index || t->life != n->life || t->answered) continue;
        t->orphan = true;
        if (t->kind == TICKET_OP && !w->tickets.asks[t->ask].closed) plan_retry(w, t->ask);
    }
}

void client_sync(struct world *w, struct node *n)
{
    int64_t patience = rng_range(&w->rng, SECOND, w->mix.patience_ms);
    if (w->phase == WORLD_HEALED) patience = 5 * MINUTE;
    int64_t deadline = w->now + patience;
    bool touch = w->phase == WORLD_FAULTY && rng_chance(&w->rng, 1000);
    uint64_t ticket = ticket_new(w, n, touch ? TICKET_TOUCH : TICKET_SYNC, deadline);
    trace_line(&w->trace, w->now, "n%u.%u t%" PRIu64 ": %s", n->index, n->life, ticket,
               touch ? "touch" : "sync");
    if (touch) {
        journal_touch(n->journal, ticket, deadline, node_now(n));
    } else {
        journal_sync(n->journal, ticket, deadline, node_now(n));
    }
    node_settle(w, n);
}

void client_touch(struct world *w, struct node *n)
{
    int64_t deadline = w->now + w->mix.patience_ms;
    uint64_t ticket = ticket_new(w, n, TICKET_TOUCH, deadline);
    trace_line(&w->trace, w->now, "n%u.%u t%" PRIu64 ": touch for the collector", n->index, n->life,
               ticket);
    journal_touch(n->journal, ticket, deadline, node_now(n));
}

static void coord_name(uint8_t out[16], uint32_t coord)
{
    memset(out, (int)('A' + coord), 16);
}

void client_own(struct world *w)
{
    struct node *n = pick_writer(w);
    if (!n) return;
    uint32_t coord = rng_chance(&w->rng, 1000) ? w->coord ^ 1 : w->coord;
    bool stale = rng_chance(&w->rng, 2000) && w->tokens[coord] > 0;
    uint64_t token = stale ? rng_below(&w->rng, w->tokens[coord]) + 1 : ++w->tokens[coord];
    uint64_t expected = journal_epoch(n->journal) + (rng_chance(&w->rng, 1000) ? 1 : 0);
    int64_t deadline = w->now + w->mix.patience_ms;
    uint64_t ticket = ticket_new(w, n, TICKET_OWN, deadline);
    uint8_t address[8];
    for (unsigned i = 0; i < sizeof address; i++)
        address[i] = (uint8_t)(ticket >> (8 * i));
    struct journal_owner owner = {.token = token, .address = bytes_of(address, sizeof address)};
    coord_name(owner.coord, coord);
    trace_line(&w->trace, w->now,
               "n%u.%u t%" PRIu64 ": own after epoch %" PRIu64 ", service %u token %" PRIu64,
               n->index, n->life, ticket, expected, coord, token);
    journal_own(n->journal, ticket, expected, &owner, deadline, node_now(n));
    node_settle(w, n);
}

void client_switch(struct world *w)
{
    struct node *n = pick_writer(w);
    if (!n) return;
    w->coord ^= 1;
    uint8_t coord[16];
    coord_name(coord, w->coord);
    int64_t deadline = w->now + w->mix.patience_ms;
    uint64_t ticket = ticket_new(w, n, TICKET_COORD, deadline);
    trace_line(&w->trace, w->now, "n%u.%u t%" PRIu64 ": switch to service %u", n->index, n->life,
               ticket, w->coord);
    journal_coord_switch(n->journal, ticket, coord, deadline, node_now(n));
    node_settle(w, n);
}
