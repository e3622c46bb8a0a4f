// SPDX-License-Identifier: Apache-2.0
// Evens out the number of shards: first of each queue, then of all queues together. A move of the
// second kind keeps the bounds of the first.
#include "cluster/round.h"

// Which rows a search takes. A move that only the cool-down of a shard or the cap prevents waits.
enum search { NOW, EVER };

static bool is_free(const struct round *r, size_t row, enum search search)
{
    return search == EVER ? r->out->rows[row].reason == MOVE_NONE
                          : may_balance(r, &r->out->rows[row]);
}

// Returns a row of the queue that the owner may give away, or rows_len.
static size_t row_of(const struct round *r, uint32_t queue, uint32_t owner, enum search search)
{
    for (size_t i = r->starts[queue]; i < r->starts[queue + 1]; i++)
        if (r->out->rows[i].owner == owner && is_free(r, i, search)) return i;
    return r->out->rows_len;
}

// The member that gets a row of the owner: the best one, if it has room for a shard of the queue.
static uint32_t taker_of(struct round *r, size_t row)
{
    uint32_t to = receiver_for(r, row), queue = r->queue[row];
    bool fits = to != SHARD_NONE && round_counts(r, queue)[to] < queue_largest(r, queue, to);
    return fits ? to : SHARD_NONE;
}

static void shed_queue(struct round *r, uint32_t queue, uint32_t owner)
{
    uint32_t bound = queue_largest(r, queue, owner);
    while (round_counts(r, queue)[owner] > bound) {
        size_t row = row_of(r, queue, owner, NOW);
        bool waits = row == r->out->rows_len || r->moves_left == 0;
        if (waits) row = row_of(r, queue, owner, EVER);
        uint32_t to = row < r->out->rows_len ? taker_of(r, row) : SHARD_NONE;
        if (to == SHARD_NONE) return;
        if (waits) {
            r->waiting_from += round_counts(r, queue)[owner] - bound;
            return;
        }
        round_move(r, row, to, MOVE_QUEUE_BOUND);
    }
}

// Returns a row of the member that has the most shards of the queue for its capacity, or rows_len.
static size_t donor_row(struct round *r, uint32_t queue, uint32_t to, enum search search)
{
    size_t found = r->out->rows_len;
    uint32_t from = SHARD_NONE;
    const uint32_t *counts = round_counts(r, queue);
    for (size_t i = r->starts[queue]; i < r->starts[queue + 1]; i++) {
        uint32_t owner = r->out->rows[i].owner;
        if (owner == SHARD_NONE || owner == to || owner == from || !takes(r, owner)) continue;
        if (!is_free(r, i, search) || counts[owner] <= queue_least(r, queue, owner)) continue;
        if (from != SHARD_NONE && !is_less(r, counts[from], from, counts[owner], owner)) continue;
        from = owner;
        found = i;
    }
    return found;
}

static void fill_queue(struct round *r, uint32_t queue, uint32_t to)
{
    uint32_t enough = queue_least(r, queue, to);
    while (round_counts(r, queue)[to] < enough) {
        size_t row = r->moves_left > 0 ? donor_row(r, queue, to, NOW) : r->out->rows_len;
        if (row == r->out->rows_len) {
            bool waits = donor_row(r, queue, to, EVER) < r->out->rows_len;
            if (waits) r->waiting_to += enough - round_counts(r, queue)[to];
            return;
        }
        round_move(r, row, to, MOVE_QUEUE_SHARE);
    }
}

void balance_queues(struct round *r)
{
    for (uint32_t queue = 0; queue < r->queues; queue++) {
        for (uint32_t i = 0; i < r->in->members_len; i++)
            if (takes(r, i)) shed_queue(r, queue, i);
        for (uint32_t i = 0; i < r->in->members_len; i++)
            if (takes(r, i)) fill_queue(r, queue, i);
    }
}

// Finds the lightest member that can take a row of the owner and is lighter than it even then.
static size_t row_over_bound(struct round *r, uint32_t owner, enum search search, uint32_t *to)
{
    size_t found = r->out->rows_len;
    *to = SHARD_NONE;
    for (size_t row = 0; row < r->out->rows_len; row++) {
        if (r->out->rows[row].owner != owner || !is_free(r, row, search)) continue;
        for (uint32_t i = 0; i < r->in->members_len; i++) {
            if (i == owner || !takes(r, i)) continue;
            if (!is_less(r, r->loads[i], i, r->loads[owner], owner)) continue;
            if (r->loads[i] >= round_largest(r, i)) continue;
            if (*to != SHARD_NONE && !is_less(r, r->loads[i] + 1, i, r->loads[*to] + 1, *to))
                continue;
            if (!queue_allows(r, row, i)) continue;
            *to = i;
            found = row;
        }
    }
    return found;
}

static void shed(struct round *r, uint32_t owner)
{
    uint32_t bound = round_largest(r, owner), to;
    while (r->loads[owner] > bound) {
        size_t row = r->moves_left > 0 ? row_over_bound(r, owner, NOW, &to) : r->out->rows_len;
        if (row == r->out->rows_len) {
            bool waits = row_over_bound(r, owner, EVER, &to) < r->out->rows_len;
            if (waits) r->waiting_from += r->loads[owner] - bound;
            return;
        }
        round_move(r, row, to, MOVE_OVER_BOUND);
    }
}

// Returns a row of the most loaded member that has one to give, or rows_len.
static size_t row_for(struct round *r, uint32_t to, enum search search)
{
    size_t found = r->out->rows_len;
    uint32_t from = SHARD_NONE;
    for (size_t row = 0; row < r->out->rows_len; row++) {
        uint32_t owner = r->out->rows[row].owner;
        if (owner == SHARD_NONE || owner == to || owner == from || !takes(r, owner)) continue;
        if (!is_free(r, row, search) || r->loads[owner] <= round_least(r, owner)) continue;
        if (!is_less(r, r->loads[to], to, r->loads[owner], owner)) continue;
        if (from != SHARD_NONE && !is_less(r, r->loads[from], from, r->loads[owner], owner))
            continue;
        if (!queue_allows(r, row, to)) continue;
        from = owner;
        found = row;
    }
    return found;
}

static void fill(struct round *r, uint32_t to)
{
    uint32_t enough = round_least(r, to);
    while (r->loads[to] < enough) {
        size_t row = r->moves_left > 0 ? row_for(r, to, NOW) : r->out->rows_len;
        if (row == r->out->rows_len) {
            bool waits = row_for(r, to, EVER) < r->out->rows_len;
            if (waits) r->waiting_to += enough - r->loads[to];
            return;
        }
        round_move(r, row, to, MOVE_UNDER_SHARE);
    }
}

void balance_members(struct round *r)
{
    for (uint32_t i = 0; i < r->in->members_len; i++)
        if (takes(r, i)) shed(r, i);
    for (uint32_t i = 0; i < r->in->members_len; i++)
        if (takes(r, i)) fill(r, i);
}
