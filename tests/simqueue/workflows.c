// SPDX-License-Identifier: Apache-2.0
// Workflows and a publisher, in every fourth world. Messages name one of a few workflows, and some
// say that they are the last one. The owner of a shard reports up to where its events are
// published: late, in leaps, now and then what it reported before. All of it is drawn from numbers
// of its own, so that the other worlds are what they were.
#include "life.h"

#include "base/hash.h"

#include <stdio.h>

#define PUBLISH_EVERY_MS (6 * SECOND)

void workflows_draw(struct world *w)
{
    struct life *life = w->life;
    struct rng *rng = &life->workflows_rng;
    rng_init(rng, hash64_mix(w->seed, 0x776f726b));
    life->workflows = !life_is_crowd(w) && rng_chance(rng, 2500) && !life->raises && !life->fleet;
    if (!life->workflows) return;
    for (uint32_t i = 0; i < life->lanes_len; i++) {
        struct lane *l = &life->lanes[i];
        struct queue_config *c = &l->birth;
        c->publish_keep_ms = rng_range(rng, 2 * SECOND, 40 * SECOND); // so it begins with version 5
        c->publish = rng_chance(rng, 8000) ? PUBLISH_HOLD : (enum publish)rng_below(rng, 3);
        if (c->ordering_guarantee && rng_chance(rng, 5000)) c->workflow_order = WORKFLOW_ORDER_ON;
        if (l->shard > 0) *c = l[-1].birth;
        life_after(w, rng_range(rng, SECOND, 20 * SECOND), LIFE_PUBLISH, i, 0);
    }
    if (w->mix.own_every_ms == 0) w->mix.own_every_ms = 5 * SECOND;
}

// An operator keeps what the queue has, but for the order of workflows.
void workflows_configure(struct world *w, const struct lane *l, struct queue_config *c)
{
    if (!w->life->workflows) return;
    c->publish = l->birth.publish;
    c->publish_keep_ms = l->birth.publish_keep_ms;
    bool flip = rng_chance(&w->life->workflows_rng, 1000);
    c->workflow_order = (enum workflow_order)(l->reference.config.workflow_order ^ flip);
    if (!c->ordering_guarantee) c->workflow_order = WORKFLOW_ORDER_OFF;
}

// Mostly one that belongs to the shard.
void workflows_name(struct world *w, const struct lane *l, struct message *m, char text[4])
{
    struct rng *rng = &w->life->workflows_rng;
    if (!w->life->workflows || !rng_chance(rng, 6000)) return;
    for (int tries = 0; tries < 6; tries++) {
        (void)snprintf(text, 4, "f%u", (unsigned)rng_below(rng, REFERENCE_WORKFLOWS));
        if (hash64_of(bytes_str(text), 0) % l->birth.shards == l->shard) break;
    }
    m->workflow = bytes_str(text);
    m->workflow_last = rng_chance(rng, 2000);
    if (!rng_chance(rng, 500)) m->group = BYTES_EMPTY;
}

void workflows_publish(struct world *w, struct lane *l)
{
    struct rng *rng = &w->life->workflows_rng;
    const struct reference *g = &l->reference;
    bool drains = life_drains(w);
    life_after(w, rng_range(rng, 100, drains ? SECOND : PUBLISH_EVERY_MS), LIFE_PUBLISH, l->index,
               0);
    struct node *n = node_owner(w, l->index);
    if (!n || (!drains && rng_chance(rng, 2000))) return;
    uint64_t slot = journal_slot(n->journal);
    if (!drains && slot > g->cursor_slot && rng_chance(rng, 5000))
        slot = g->cursor_slot + rng_below(rng, slot - g->cursor_slot + 1);
    if (!drains && rng_chance(rng, 500)) slot = rng_below(rng, slot + 1); // an old report
    const struct reference_slot *s = reference_at(g, slot);
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_PUBLISHED, l->index);
    struct sim_call *a = &w->life->calls[ask];
    struct op_published op = {
        .request = a->request, .slot = slot, .sequence = s ? s->events_end : 0};
    struct buf *out = &w->life->scratch;
    buf_clear(out);
    published_encode(out, &op);
    a->payload = bytes_copy(buf_bytes(out));
    sim_call_submit_to(w, ask, n);
}
