// SPDX-License-Identifier: Apache-2.0
// One round of placement: carry over what stays, place shards without an owner, empty the members
// that leave, then even out each queue, the members, and the traffic.
#include "cluster/placement.h"

#include "base/check.h"
#include "base/interval.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "cluster/round.h"

#include <string.h>

void placement_options_defaults(struct placement_options *o, size_t shards_len)
{
    size_t sixteenth = shards_len / 16;
    CHECK(shards_len <= PLACEMENT_SHARDS_MAX);
    *o = (struct placement_options){.points = 32,
                                    .bound_percent = 125,
                                    .moves_max = (uint32_t)(sixteenth > 16 ? sixteenth : 16),
                                    .round_ms = 2000,
                                    .cool_down_ms = 60000,
                                    .traffic_begin_percent = 150,
                                    .traffic_end_percent = 125,
                                    .traffic_gain_percent = 10,
                                    .traffic_least = 50};
}

static uint64_t capacity_of(const struct placement_input *in)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < in->members_len; i++)
        sum += in->members[i].role == PLACEMENT_LEAVES ? 0 : in->members[i].capacity;
    return sum;
}

static uint32_t largest(const struct placement_input *in, size_t member, uint64_t capacity)
{
    if (in->members[member].role == PLACEMENT_LEAVES) return 0;
    CHECK(capacity >= in->members[member].capacity);
    uint64_t whole =
        (uint64_t)in->options.bound_percent * in->shards_len * in->members[member].capacity;
    return (uint32_t)((whole + 100 * capacity - 1) / (100 * capacity));
}

static uint32_t least(const struct placement_input *in, size_t member, uint64_t capacity)
{
    if (in->members[member].role != PLACEMENT_TAKES) return 0;
    uint64_t whole = (uint64_t)100 * in->shards_len * in->members[member].capacity;
    return (uint32_t)(whole / (in->options.bound_percent * capacity));
}

uint32_t placement_largest(const struct placement_input *in, size_t member)
{
    CHECK(member < in->members_len);
    return largest(in, member, capacity_of(in));
}

uint32_t placement_least(const struct placement_input *in, size_t member)
{
    CHECK(member < in->members_len);
    return least(in, member, capacity_of(in));
}

uint32_t placement_largest_of(const struct placement_input *in, size_t member, size_t shards)
{
    CHECK(member < in->members_len);
    if (in->members[member].role == PLACEMENT_LEAVES) return 0;
    uint64_t capacity = capacity_of(in);
    return (uint32_t)((shards * in->members[member].capacity + capacity - 1) / capacity);
}

uint32_t round_largest(const struct round *r, uint32_t member)
{
    return largest(r->in, member, r->capacity);
}

uint32_t round_least(const struct round *r, uint32_t member)
{
    return least(r->in, member, r->capacity);
}

static uint64_t queue_whole(const struct round *r, uint32_t queue, uint32_t member)
{
    return (uint64_t)(r->starts[queue + 1] - r->starts[queue]) * r->in->members[member].capacity;
}

uint32_t queue_largest(const struct round *r, uint32_t queue, uint32_t member)
{
    if (r->in->members[member].role == PLACEMENT_LEAVES) return 0;
    if (MUTANT(QUEUE_BOUND_OFF)) return UINT32_MAX;
    return (uint32_t)((queue_whole(r, queue, member) + r->capacity - 1) / r->capacity);
}

uint32_t queue_least(const struct round *r, uint32_t queue, uint32_t member)
{
    if (MUTANT(QUEUE_BOUND_OFF)) return 0;
    return takes(r, member) ? (uint32_t)(queue_whole(r, queue, member) / r->capacity) : 0;
}

const uint32_t *round_counts(struct round *r, uint32_t queue)
{
    if (r->counted == queue) return r->counts;
    r->counted = queue;
    memset(r->counts, 0, r->in->members_len * sizeof *r->counts);
    for (size_t i = r->starts[queue]; i < r->starts[queue + 1]; i++)
        if (r->out->rows[i].owner != SHARD_NONE) r->counts[r->out->rows[i].owner]++;
    return r->counts;
}

bool is_less(const struct round *r, uint64_t a, uint32_t x, uint64_t b, uint32_t y)
{
    const struct placement_member *m = r->in->members;
    return a * m[y].capacity < b * m[x].capacity;
}

static void check_input(const struct placement_input *in)
{
    CHECK(in->members_len <= PLACEMENT_MEMBERS_MAX);
    CHECK(in->shards_len <= PLACEMENT_SHARDS_MAX);
    CHECK(in->options.points > 0);
    CHECK(in->options.bound_percent >= 100);
    CHECK(in->options.traffic_begin_percent >= in->options.traffic_end_percent);
    CHECK(in->options.traffic_end_percent >= 100);
    for (size_t i = 0; i < in->members_len; i++) {
        CHECK(in->members[i].capacity > 0);
        CHECK(in->members[i].capacity <= PLACEMENT_CAPACITY_MAX);
        CHECK(i == 0 || strcmp(in->members[i - 1].id.name, in->members[i].id.name) < 0);
    }
    for (size_t i = 1; i < in->shards_len; i++)
        CHECK(shard_key_compare(&in->shards[i - 1], &in->shards[i]) < 0);
}

static uint32_t find_member(const struct placement_input *in, const struct member_id *id)
{
    size_t low = 0, high = in->members_len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(in->members[middle].id.name, id->name);
        if (order == 0) return (uint32_t)middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return SHARD_NONE;
}

// Former owners come after the members; each is there once.
static uint32_t former_owner(struct round *r, const struct member_id *id)
{
    struct plan *p = r->out;
    for (size_t i = r->in->members_len; i < p->nodes_len; i++) {
        if (member_id_equal(&p->nodes[i], id)) return (uint32_t)i;
    }
    CHECK(p->nodes_len < r->in->members_len + r->in->previous->nodes_len);
    p->nodes[p->nodes_len] = *id;
    return (uint32_t)p->nodes_len++;
}

// Decides what the previous plan means for this row.
static void carry_row(struct round *r, struct plan_row *row, const struct plan_row *old)
{
    const struct member_id *id = &r->in->previous->nodes[old->owner];
    uint32_t member = find_member(r->in, id);
    row->moved_at = old->moved_at;
    if (member == SHARD_NONE) {
        row->reason = MOVE_OWNER_GONE;
        row->from = former_owner(r, id);
    } else if (!member_id_equal(&r->in->members[member].id, id)) {
        row->reason = MOVE_OWNER_RESTARTED;
        row->from = former_owner(r, id);
    } else {
        row->owner = member;
        r->loads[member]++;
    }
}

static void carry_over(struct round *r)
{
    const struct plan *previous = r->in->previous;
    size_t at = 0;
    for (size_t i = 0; i < r->in->shards_len; i++) {
        struct plan_row *row = &r->out->rows[i];
        *row = (struct plan_row){.shard = r->in->shards[i],
                                 .owner = SHARD_NONE,
                                 .from = SHARD_NONE,
                                 .moved_at = TIME_UNKNOWN};
        while (previous && at < previous->rows_len &&
               shard_key_compare(&previous->rows[at].shard, &row->shard) < 0)
            at++;
        bool known = previous && at < previous->rows_len &&
                     shard_key_compare(&previous->rows[at].shard, &row->shard) == 0;
        if (known && previous->rows[at].owner != SHARD_NONE)
            carry_row(r, row, &previous->rows[at]);
        else
            row->reason = MOVE_NEW;
    }
}

// The rows of a queue are consecutive.
static void find_queues(struct round *r)
{
    for (uint32_t i = 0; i < r->in->shards_len; i++) {
        const struct shard_key *key = &r->in->shards[i];
        if (i == 0 || memcmp(key->queue, key[-1].queue, sizeof key->queue) != 0)
            r->starts[r->queues++] = i;
        r->queue[i] = r->queues - 1;
    }
    r->starts[r->queues] = (uint32_t)r->in->shards_len;
}

// What a member has to offer to a row, the best one first.
struct offer {
    uint32_t member;
    int rank; // 0: it has too few shards of the queue, 1: it has room for one, 2: it has enough
};

static struct offer offer_of(struct round *r, size_t row, uint32_t member)
{
    uint32_t queue = r->queue[row], has = round_counts(r, queue)[member];
    struct offer o = {.member = member};
    if (has >= queue_least(r, queue, member)) o.rank = 1;
    if (has >= queue_largest(r, queue, member)) o.rank = 2;
    return o;
}

// Negative: a is the better one. 0: the ring decides.
static int compare_offers(const struct round *r, const struct offer *a, const struct offer *b)
{
    uint32_t x = a->member, y = b->member;
    if (a->rank != b->rank) return a->rank - b->rank;
    if (a->rank == 2) {
        if (is_less(r, r->counts[x] + 1, x, r->counts[y] + 1, y)) return -1;
        if (is_less(r, r->counts[y] + 1, y, r->counts[x] + 1, x)) return 1;
    }
    if (is_less(r, r->loads[x] + 1, x, r->loads[y] + 1, y)) return -1;
    return is_less(r, r->loads[y] + 1, y, r->loads[x] + 1, x);
}

// The ring spreads the first shards of the queues, which get all messages without a group in some
// queues. A fixed order would give them all to one member.
uint32_t receiver_for(struct round *r, size_t row)
{
    struct offer best = {.member = SHARD_NONE};
    for (uint32_t i = 0; i < r->in->members_len; i++) {
        if (!takes(r, i)) continue;
        struct offer o = offer_of(r, row, i);
        if (best.member == SHARD_NONE || compare_offers(r, &o, &best) < 0) best = o;
    }
    if (best.member == SHARD_NONE) return SHARD_NONE;
    size_t at = hash_ring_first(&r->ring, shard_key_hash(&r->in->shards[row]));
    for (size_t i = 0; i < r->ring.len; i++, at = hash_ring_next(&r->ring, at)) {
        struct offer o = offer_of(r, row, r->ring.points[at].node);
        if (compare_offers(r, &o, &best) == 0) return o.member;
    }
    return best.member;
}

bool queue_allows(struct round *r, size_t row, uint32_t to)
{
    uint32_t queue = r->queue[row], from = r->out->rows[row].owner;
    const uint32_t *counts = round_counts(r, queue);
    return counts[to] < queue_largest(r, queue, to) && counts[from] > queue_least(r, queue, from);
}

static void place(struct round *r, size_t at, uint32_t to)
{
    struct plan_row *row = &r->out->rows[at];
    CHECK(row->owner == SHARD_NONE);
    CHECK(takes(r, to));
    row->owner = to;
    r->loads[to]++;
    if (r->counted == r->queue[at]) r->counts[to]++;
    r->out->moves++;
}

// A node that restarted gets its shards back, as far as its bounds allow: nothing else has to move.
static uint32_t restarted(struct round *r, size_t at)
{
    const struct plan_row *row = &r->out->rows[at];
    if (row->reason != MOVE_OWNER_RESTARTED) return SHARD_NONE;
    uint32_t member = find_member(r->in, &r->out->nodes[row->from]);
    CHECK(member != SHARD_NONE);
    bool fits = takes(r, member) && r->loads[member] < round_largest(r, member) &&
                offer_of(r, at, member).rank < 2;
    return fits ? member : SHARD_NONE;
}

static void place_unowned(struct round *r)
{
    for (size_t i = 0; i < r->out->rows_len; i++) {
        struct plan_row *row = &r->out->rows[i];
        if (row->owner != SHARD_NONE) continue;
        uint32_t to = restarted(r, i);
        if (to == SHARD_NONE) to = receiver_for(r, i);
        if (to != SHARD_NONE)
            place(r, i, to);
        else
            row->reason = MOVE_NO_MEMBER;
    }
}

void round_move(struct round *r, size_t at, uint32_t to, enum move_reason reason)
{
    struct plan_row *row = &r->out->rows[at];
    CHECK(r->moves_left > 0);
    CHECK(row->owner != to);
    r->moves_left--;
    r->loads[row->owner]--;
    if (r->counted == r->queue[at]) r->counts[row->owner]--;
    row->from = row->owner;
    row->owner = SHARD_NONE;
    row->reason = reason;
    row->moved_at = r->in->now;
    r->out->rebalanced_at = r->in->now;
    place(r, at, to);
}

static void empty_leaving(struct round *r)
{
    for (size_t i = 0; i < r->out->rows_len; i++) {
        struct plan_row *row = &r->out->rows[i];
        if (row->owner == SHARD_NONE) continue;
        if (r->in->members[row->owner].role != PLACEMENT_LEAVES) continue;
        uint32_t to = receiver_for(r, i);
        if (to == SHARD_NONE || r->moves_left == 0)
            r->waiting_from++;
        else
            round_move(r, i, to, MOVE_OWNER_LEAVES);
    }
}

bool may_balance(const struct round *r, const struct plan_row *row)
{
    if (row->reason != MOVE_NONE) return false;
    return row->moved_at == TIME_UNKNOWN ||
           r->in->now >= row->moved_at + r->in->options.cool_down_ms;
}

static void round_init(struct round *r, const struct placement_input *in, struct plan *out)
{
    const struct plan *previous = in->previous;
    *r = (struct round){.in = in, .out = out, .capacity = capacity_of(in), .counted = SHARD_NONE};
    out->rebalanced_at = previous ? previous->rebalanced_at : TIME_UNKNOWN;
    bool open =
        out->rebalanced_at == TIME_UNKNOWN || in->now >= out->rebalanced_at + in->options.round_ms;
    r->moves_left = open ? in->options.moves_max : 0;
    r->loads = memory_zeroed(in->members_len + 1, sizeof *r->loads);
    r->counts = memory_zeroed(in->members_len + 1, sizeof *r->counts);
    r->queue = memory_zeroed(in->shards_len + 1, sizeof *r->queue);
    r->starts = memory_zeroed(in->shards_len + 1, sizeof *r->starts);
    find_queues(r);
    hash_ring_init(&r->ring);
    for (uint32_t i = 0; i < in->members_len; i++)
        if (takes(r, i))
            hash_ring_add(&r->ring, i, &in->members[i].id,
                          in->options.points * in->members[i].capacity);
    hash_ring_sort(&r->ring);
    size_t former = previous ? previous->nodes_len : 0;
    out->nodes = memory_zeroed(in->members_len + former + 1, sizeof *out->nodes);
    for (size_t i = 0; i < in->members_len; i++)
        out->nodes[i] = in->members[i].id;
    out->nodes_len = in->members_len;
    out->rows = memory_zeroed(in->shards_len + 1, sizeof *out->rows);
    out->rows_len = in->shards_len;
}

static uint32_t take_waiting(struct round *r)
{
    uint32_t waiting = r->waiting_from > r->waiting_to ? r->waiting_from : r->waiting_to;
    r->waiting_from = r->waiting_to = 0;
    return waiting;
}

void placement_plan(struct plan *out, const struct placement_input *in)
{
    check_input(in);
    CHECK(!in->previous || in->previous != out);
    plan_done(out);
    struct round r;
    round_init(&r, in, out);
    carry_over(&r);
    place_unowned(&r);
    empty_leaving(&r);
    balance_queues(&r);
    uint32_t of_queues = take_waiting(&r);
    balance_members(&r);
    uint32_t of_members = take_waiting(&r); // one move can be in both
    out->waiting = of_queues > of_members ? of_queues : of_members;
    balance_traffic(&r);
    hash_ring_done(&r.ring);
    memory_free(r.loads);
    memory_free(r.counts);
    memory_free(r.queue);
    memory_free(r.starts);
}
