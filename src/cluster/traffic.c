// SPDX-License-Identifier: Apache-2.0
// Evens out the traffic of the members, within the bounds of the numbers of shards. It begins only
// if one member has much more traffic than its share, and goes on until it has little more. So a
// traffic that varies around one level moves nothing.
#include "base/memory.h"
#include "base/mutant.h"
#include "cluster/round.h"

struct traffic {
    struct round *r;
    uint64_t *of; // by member
    uint64_t all;
    uint64_t capacity; // of the members that take shards
    size_t *idle;      // by member: its row with the least traffic that `from` can take; rows_len
};

// A row that goes to another member, perhaps in exchange for another row.
struct exchange {
    size_t row;
    size_t back; // rows_len: none
    uint32_t to;
    uint64_t left; // the traffic of the heavier of both afterwards, for a capacity of 1
    uint64_t got;  // that of the receiver
};

#define SCALE 1000 // of a traffic for a capacity of 1

static uint64_t level(const struct traffic *t, uint64_t traffic, uint32_t member)
{
    return SCALE * traffic / t->r->in->members[member].capacity;
}

static uint64_t mean(const struct traffic *t)
{
    return SCALE * t->all / t->capacity;
}

static uint32_t most_loaded(const struct traffic *t)
{
    uint32_t most = SHARD_NONE;
    for (uint32_t i = 0; i < t->r->in->members_len; i++) {
        if (!takes(t->r, i)) continue;
        if (most == SHARD_NONE || level(t, t->of[i], i) > level(t, t->of[most], most)) most = i;
    }
    return most;
}

static bool is_over(const struct traffic *t, uint32_t member, uint32_t percent)
{
    return 100 * level(t, t->of[member], member) > percent * mean(t);
}

// Keeps the exchange if it leaves the heavier of both with less than the best one so far, or as
// much and the receiver with less.
static void consider(const struct traffic *t, size_t row, size_t back, uint32_t to,
                     struct exchange *best)
{
    const struct round *r = t->r;
    uint32_t from = r->out->rows[row].owner;
    uint64_t given = r->in->traffic[row];
    uint64_t returned = back < r->out->rows_len ? r->in->traffic[back] : 0;
    if (given <= returned) return;
    uint64_t kept = level(t, t->of[from] - given + returned, from);
    uint64_t got = level(t, t->of[to] + given - returned, to);
    uint64_t left = kept > got ? kept : got;
    if (left < best->left || (left == best->left && got < best->got))
        *best = (struct exchange){row, back, to, left, got};
}

static void consider_exchanges(const struct traffic *t, size_t row, uint32_t to,
                               struct exchange *best)
{
    struct round *r = t->r;
    uint32_t queue = r->queue[row];
    for (size_t i = r->starts[queue]; i < r->starts[queue + 1]; i++)
        if (r->out->rows[i].owner == to && may_balance(r, &r->out->rows[i]))
            consider(t, row, i, to, best);
}

// A row whose queue and member have room moves alone. If only its queue has room, the member gives
// its idlest row back. If its queue has none, a row of the same queue comes back.
static void consider_row(const struct traffic *t, size_t row, struct exchange *best)
{
    struct round *r = t->r;
    uint32_t from = r->out->rows[row].owner;
    for (uint32_t to = 0; to < r->in->members_len; to++) {
        if (to == from || !takes(r, to)) continue;
        bool room = queue_allows(r, row, to);
        bool alone =
            room && r->loads[to] < round_largest(r, to) && r->loads[from] > round_least(r, from);
        if (alone)
            consider(t, row, r->out->rows_len, to, best);
        else if (r->moves_left >= 2 && room && t->idle[to] < r->out->rows_len)
            consider(t, row, t->idle[to], to, best);
        else if (r->moves_left >= 2 && !room)
            consider_exchanges(t, row, to, best);
    }
}

static void find_idle(struct traffic *t, uint32_t from)
{
    struct round *r = t->r;
    for (uint32_t i = 0; i < r->in->members_len; i++)
        t->idle[i] = r->out->rows_len;
    for (size_t row = 0; row < r->out->rows_len; row++) {
        uint32_t owner = r->out->rows[row].owner;
        if (owner == SHARD_NONE || owner == from || !may_balance(r, &r->out->rows[row])) continue;
        size_t known = t->idle[owner];
        if (known < r->out->rows_len && r->in->traffic[known] <= r->in->traffic[row]) continue;
        if (queue_allows(r, row, from)) t->idle[owner] = row;
    }
}

// Makes the best exchange of the member. Returns false if none gains enough.
static bool relieve(struct traffic *t, uint32_t from)
{
    struct round *r = t->r;
    uint64_t gain = r->in->options.traffic_gain_percent * mean(t) / 100;
    uint64_t now = level(t, t->of[from], from);
    struct exchange best = {.row = r->out->rows_len, .left = now > gain ? now - gain : 0};
    if (MUTANT(TRAFFIC_NO_GAIN)) best.left = now + 1;
    find_idle(t, from);
    for (size_t row = 0; row < r->out->rows_len && r->moves_left > 0; row++) {
        const struct plan_row *p = &r->out->rows[row];
        if (p->owner == from && r->in->traffic[row] > 0 && may_balance(r, p))
            consider_row(t, row, &best);
    }
    if (best.row == r->out->rows_len) return false;
    uint64_t moved = r->in->traffic[best.row];
    if (best.back < r->out->rows_len) moved -= r->in->traffic[best.back];
    t->of[from] -= moved;
    t->of[best.to] += moved;
    round_move(r, best.row, best.to, MOVE_TRAFFIC);
    if (best.back < r->out->rows_len) round_move(r, best.back, from, MOVE_TRAFFIC);
    return true;
}

// A shard that moved a short time ago has a traffic that is not known well: callers look for it.
static bool is_settled(const struct round *r)
{
    for (size_t i = 0; i < r->out->rows_len; i++) {
        const struct plan_row *row = &r->out->rows[i];
        if (row->owner != SHARD_NONE && !may_balance(r, row)) return false;
    }
    return true;
}

static void sum_up(struct traffic *t)
{
    const struct round *r = t->r;
    for (size_t i = 0; i < r->out->rows_len; i++) {
        uint32_t owner = r->out->rows[i].owner;
        if (owner == SHARD_NONE || !takes(r, owner)) continue;
        t->of[owner] += r->in->traffic[i];
        t->all += r->in->traffic[i];
    }
    for (uint32_t i = 0; i < r->in->members_len; i++)
        t->capacity += takes(r, i) ? r->in->members[i].capacity : 0;
}

void balance_traffic(struct round *r)
{
    const struct placement_options *o = &r->in->options;
    if (!r->in->traffic || !is_settled(r)) return;
    struct traffic t = {.r = r, .of = memory_zeroed(r->in->members_len + 1, sizeof *t.of)};
    t.idle = memory_zeroed(r->in->members_len + 1, sizeof *t.idle);
    sum_up(&t);
    uint32_t most = t.capacity > 0 ? most_loaded(&t) : SHARD_NONE;
    bool begins = most != SHARD_NONE && t.of[most] >= o->traffic_least &&
                  is_over(&t, most, o->traffic_begin_percent);
    while (begins && is_over(&t, most, o->traffic_end_percent) && relieve(&t, most))
        most = most_loaded(&t);
    memory_free(t.idle);
    memory_free(t.of);
}
