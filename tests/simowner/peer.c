// SPDX-License-Identifier: Apache-2.0
// Challenges between processes, and the memory of their results. In the product this is
// peer/peer.c.
#include "world.h"

// What a challenge that is sent now finds out, and how long it takes.
static enum ownership_answer challenge(struct world *w, struct process *p, uint32_t life,
                                       int64_t *ms)
{
    const struct process *to = &w->processes[w->lives[life].process];
    *ms = 2 * world_hop(w);
    if (!to->up) return OWNERSHIP_AWAY; // the connection is refused
    if (to->life != life && process_is_reached(w, p, to)) return OWNERSHIP_DECLINES;
    if (process_is_reached(w, p, to)) return OWNERSHIP_PROVEN;
    *ms = ASK_MS;
    return OWNERSHIP_AWAY;
}

static void send(struct world *w, struct process *p, enum event_kind kind, uint32_t shard,
                 uint32_t life)
{
    int64_t ms;
    struct event e = {.kind = kind,
                      .process = p->index,
                      .life = p->life,
                      .shard = shard,
                      .number = life,
                      .answer = (int)challenge(w, p, life, &ms)};
    world_after(w, ms, &e);
}

void peer_ask(struct world *w, struct process *p, uint32_t shard, uint32_t life)
{
    struct peer *peer = &p->peers[life];
    bool away = peer->probe_at != 0;
    if (away && w->now >= peer->probe_at && !peer->probing) {
        peer->probing = true;
        send(w, p, EVENT_PROBED, shard, life);
    }
    if (away)
        owner_asked(w, p, shard, OWNERSHIP_AWAY, peer->probing ? w->now - peer->answered_at : 0);
    else if (w->now < peer->doubted_until)
        owner_asked(w, p, shard, OWNERSHIP_DOUBTED, 0);
    else
        send(w, p, EVENT_ASKED, shard, life);
}

void peer_ended(struct world *w, struct process *p, uint32_t life, enum ownership_answer answer)
{
    struct peer *peer = &p->peers[life];
    peer->last = answer;
    peer->answered_at = w->now;
    peer->probe_at = answer == OWNERSHIP_AWAY ? w->now + PROBE_MS : 0;
    peer->doubted_until = 0;
    peer->probing = false;
}

// The node did not do what it was asked for. One challenge finds out whether it is away.
void peer_doubt(struct world *w, struct process *p, uint32_t shard, uint32_t life)
{
    struct peer *peer = &p->peers[life];
    if (peer->probe_at != 0 || w->now < peer->doubted_until) return;
    peer->doubted_until = w->now + 2 * ASK_MS;
    send(w, p, EVENT_FOUND, shard, life);
}

// The shards of one queue forget the node.
void peer_found(struct world *w, struct process *p, uint32_t shard, uint32_t life,
                enum ownership_answer answer)
{
    peer_ended(w, p, life, answer);
    for (uint32_t i = 0; answer != OWNERSHIP_PROVEN && i < w->mix.shards; i++) {
        if (p->shards[i].known != life || (w->mix.queues && i != shard)) continue;
        p->shards[i].known = NONE;
        owner_want(p, i);
    }
}

bool peer_is_good(const struct world *w, const struct process *p, uint32_t life)
{
    const struct peer *peer = &p->peers[life];
    return peer->probe_at == 0 && w->now >= peer->doubted_until;
}
