// SPDX-License-Identifier: Apache-2.0
// Nodes that own the shard one after another. A node that was replaced does not know it at once:
// its entries are void, and its objects are late. Each step of a round is an event of its own, so a
// node can stall or be replaced between any two.
#include "base/check.h"
#include "base/memory.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

// The mark is one object that every owner overwrites. A write can fail.
static void mark_if_due(struct world *w, const struct node *n)
{
    if (!owner_mark_due(n->owner, clock_of(w).lo)) return;
    if (chance(w, w->mix.unavailable + w->mix.lost_request)) return;
    w->marked_at = w->now;
    w->marks++;
    trace_line(&w->trace, w->now, "a node of epoch %llu marks", (unsigned long long)n->epoch);
}

static void next_step(struct world *w, uint32_t i, event_fn *fn)
{
    struct node *n = &w->nodes[i];
    mark_if_due(w, n);
    int64_t when = w->now + latency(w);
    if (w->mix.slow_ms > 0 && !w->healed) when += rng_range(&w->rng, 0, w->mix.slow_ms);
    if (n->stalled_until > when && !w->healed) when = n->stalled_until;
    at(w, when, fn, i, n->life, 0);
}

static bool is_gone(const struct world *w, uint32_t i, uint64_t life)
{
    return !w->nodes[i].runs || w->nodes[i].life != life;
}

static void round_begin(struct world *w, uint32_t i, uint64_t life, uint64_t x);

static void round_end(struct world *w, uint32_t i)
{
    struct node *n = &w->nodes[i];
    owner_took(n->owner, w->now - n->begun, false);
    owner_end(n->owner);
    int64_t when = n->begun + MAILBOX_ROUND_MS;
    at(w, when > w->now ? when : w->now, round_begin, i, n->life, 0);
}

static void deletes_end(struct world *w, uint32_t i, uint64_t life, uint64_t err)
{
    if (!is_gone(w, i, life)) owner_deleted(w->nodes[i].owner, (enum err)err);
}

static void round_delete(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    if (is_gone(w, i, life)) return;
    struct mailbox_owner *o = w->nodes[i].owner;
    size_t len = owner_deletes(o);
    enum err err = ERR_OK;
    for (size_t d = 0; d < len; d++) {
        char key[MAILBOX_KEY_MAX];
        owner_delete_key(o, d, key);
        enum err one = store_remove(w, key);
        if (one) err = one;
    }
    // Often later rounds do not wait for it.
    if (len > 0) at(w, w->now + rng_range(&w->rng, 0, 600), deletes_end, i, life, (uint64_t)err);
    round_end(w, i);
}

static void round_write(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    if (is_gone(w, i, life)) return;
    struct mailbox_owner *o = w->nodes[i].owner;
    size_t len = owner_writes(o);
    for (size_t d = 0; d < len; d++) {
        char key[MAILBOX_KEY_MAX];
        struct bytes object;
        owner_write(o, d, key, &object);
        enum err err = store_write(w, key, object);
        trace_line(&w->trace, w->now, "node %u writes %s: %s", i, key, err_name(err));
        owner_written(o, d, err);
    }
    next_step(w, i, round_delete);
}

static int64_t limit_of(struct world *w, const struct node *n)
{
    return mailbox_time_limit(n->listed_at, machine_wake_at(w->machine), w->now - 3);
}

// One op for the heartbeats of all workers.
static void write_beats(struct world *w, struct node *n, const struct buf *rows, uint32_t count)
{
    if (count == 0) return;
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, SIZE_MAX);
    workers_encode(&payload, &(struct op_workers){.count = count, .rows = buf_bytes(rows)});
    struct op one = {.kind = OP_WORKERS, .payload = buf_bytes(&payload)};
    (void)commit(w, n->epoch, &one, 1, limit_of(w, n));
}

static void round_tickets(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    if (is_gone(w, i, life)) return;
    struct node *n = &w->nodes[i];
    CLEANUP(buf_done) struct buf beats;
    buf_init(&beats, SIZE_MAX);
    uint32_t beats_len = 0;
    struct worker_view view;
    for (size_t row = 0; machine_worker(w->machine, row, &view); row++) {
        if (!(view.flags & WORKER_MAILBOX) || view.expires_at <= w->now) continue;
        if (owner_worker(n->owner, view.name, view.instance, view.ttl_ms / 3)) {
            worker_change_put(&beats, &(struct worker_change){.act = WORKER_BEAT,
                                                              .name = view.name,
                                                              .instance = view.instance});
            beats_len++;
        }
        struct grant grants[JOBS_MAX];
        size_t len = machine_tickets(w->machine, view.name, grants, JOBS_MAX);
        for (size_t g = 0; g < len; g++) {
            struct lock_ref ref = {grants[g].seq, grants[g].token};
            struct mailbox_ticket ticket = {
                .ref = ref, .deadline = grants[g].deadline, .message = bytes_str("work")};
            if (!owner_ticket(n->owner, view.name, view.instance, &ref)) continue;
            owner_deliver(n->owner, view.name, view.instance, &ticket);
            w->tickets++;
        }
    }
    write_beats(w, n, &beats, beats_len);
    next_step(w, i, round_write);
}

static void dispatch(struct world *w, struct node *n)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, SIZE_MAX);
    struct op_dispatch op = {.max = CLAIM_COUNT_MAX};
    uint64_t seed = rng_next(&w->rng);
    memcpy(op.seed, &seed, sizeof seed);
    dispatch_encode(&payload, &op);
    struct op one = {.kind = OP_DISPATCH, .payload = buf_bytes(&payload)};
    (void)commit(w, n->epoch, &one, machine_dispatchable(w->machine) ? 1 : 0, limit_of(w, n));
}

// A node that was replaced proposes the ops of callers once more, directly.
static void round_commit(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    if (is_gone(w, i, life)) return;
    struct node *n = &w->nodes[i];
    if (owner_has_all(n->owner)) n->listed_at = n->begun;
    size_t len = owner_ops(n->owner);
    struct op ops[512];
    if (len > 500) len = 500;
    for (size_t p = 0; p < len; p++)
        ops[p] = owner_op(n->owner, p);
    bool done = commit(w, n->epoch, ops, len, limit_of(w, n));
    if (!done && chance(w, 5000)) done = commit(w, 0, ops, len, machine_now(w->machine));
    for (size_t p = 0; p < len; p++)
        owner_committed(n->owner, p, done ? w->results[p].err : ERR_UNAVAILABLE,
                        done ? result_of(w, p) : BYTES_EMPTY);
    dispatch(w, n);
    next_step(w, i, round_tickets);
}

static void round_read(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    if (is_gone(w, i, life)) return;
    struct mailbox_owner *o = w->nodes[i].owner;
    for (size_t r = 0; r < owner_reads(o); r++) {
        char key[MAILBOX_KEY_MAX];
        struct bytes body = BYTES_EMPTY;
        owner_read_key(o, r, key);
        enum err err = store_read(w, key, &body);
        trace_line(&w->trace, w->now, "node %u reads %s: %s", i, key, err_name(err));
        owner_object(o, r, err, body);
    }
    next_step(w, i, round_commit);
}

static int compare(const void *a, const void *b)
{
    const struct object *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static size_t list(struct world *w, const char *folder, struct object **out, size_t max)
{
    size_t len = 0;
    for (size_t i = 0; i < w->objects_len && len < max; i++) {
        struct object *o = &w->objects[i];
        if (strncmp(o->key, folder, strlen(folder)) != 0 || o->listed_from > w->now) continue;
        if (o->deleted && o->unlisted_from <= w->now) continue;
        out[len++] = o;
    }
    qsort(out, len, sizeof(struct object *), compare);
    return len;
}

static void round_list(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    if (is_gone(w, i, life)) return;
    struct node *n = &w->nodes[i];
    if (chance(w, w->mix.unavailable)) {
        round_end(w, i);
        return;
    }
    struct object *found[1000];
    size_t len = 0;
    if (owner_lists_in(n->owner)) {
        len = list(w, PREFIX "/box/in/", found, 1000);
        for (size_t o = 0; o < len; o++)
            owner_in_listed(n->owner, found[o]->key);
        owner_in_done(n->owner);
    }
    len = list(w, PREFIX "/box/out/", found, 1000);
    for (size_t o = 0; o < len; o++)
        owner_listed(n->owner, found[o]->key,
                     (struct interval){found[o]->created, found[o]->created});
    next_step(w, i, round_read);
}

static void round_begin(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    if (is_gone(w, i, life)) return;
    struct node *n = &w->nodes[i];
    if (w->outage_until > w->now) {
        at(w, w->outage_until, round_begin, i, life, 0);
        return;
    }
    struct interval now = clock_of(w);
    n->begun = now.lo;
    owner_begin(n->owner, now);
    next_step(w, i, round_list);
}

// An owner commits when a deadline is due, and dispatches.
static void keep_time(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    if (is_gone(w, i, life)) return;
    struct node *n = &w->nodes[i];
    if (n->stalled_until <= w->now && w->outage_until <= w->now) dispatch(w, n);
    at(w, w->now + rng_range(&w->rng, 50, 1000), keep_time, i, life, 0);
}

static void node_start(struct world *w, uint32_t i)
{
    struct node *n = &w->nodes[i];
    mailbox_owner_free(n->owner);
    *n = (struct node){.runs = true,
                       .epoch = ++w->epoch,
                       .life = ++w->lives,
                       .listed_at = TIME_UNKNOWN,
                       .owner = mailbox_owner_new(PREFIX, &w->id, 0)};
    w->owner = i;
    trace_line(&w->trace, w->now, "node %u owns, epoch %llu", i, (unsigned long long)w->epoch);
    at(w, w->now + latency(w), round_begin, i, n->life, 0);
    at(w, w->now + latency(w), keep_time, i, n->life, 0);
}

static void learn(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    if (w->nodes[i].life == life) w->nodes[i].runs = false;
}

static void change_owner(struct world *w, uint32_t index, uint64_t life, uint64_t x)
{
    (void)index, (void)life, (void)x;
    if (w->healed) return;
    uint32_t old = w->owner;
    at(w, w->now + rng_range(&w->rng, 0, 4000), learn, old, w->nodes[old].life, 0);
    node_start(w, (old + 1) % NODES_HERE);
    w->changes++;
    at(w, w->now + rng_range(&w->rng, 1, 2 * w->mix.owner_every), change_owner, 0, 0, 0);
}

static void stall(struct world *w, uint32_t index, uint64_t life, uint64_t x)
{
    (void)index, (void)life, (void)x;
    if (w->healed) return;
    w->nodes[w->owner].stalled_until = w->now + rng_range(&w->rng, 100, 6000);
    at(w, w->now + rng_range(&w->rng, 1, 2 * w->mix.stall_every), stall, 0, 0, 0);
}

// No node serves mailboxes for a while.
static void outage(struct world *w, uint32_t index, uint64_t life, uint64_t x)
{
    (void)index, (void)life, (void)x;
    if (w->healed) return;
    w->outage_until = w->now + rng_range(&w->rng, 500, 8000);
    at(w, w->now + rng_range(&w->rng, 1, 2 * w->mix.outage_every), outage, 0, 0, 0);
}

void nodes_start(struct world *w)
{
    node_start(w, 0);
    const struct mix *m = &w->mix;
    if (m->owner_every) at(w, w->now + m->owner_every, change_owner, 0, 0, 0);
    if (m->stall_every) at(w, w->now + m->stall_every, stall, 0, 0, 0);
    if (m->outage_every) at(w, w->now + m->outage_every, outage, 0, 0, 0);
}

void nodes_done(struct world *w)
{
    for (uint32_t i = 0; i < NODES_HERE; i++)
        mailbox_owner_free(w->nodes[i].owner);
}
