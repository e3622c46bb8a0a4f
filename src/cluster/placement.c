// SPDX-License-Identifier: Apache-2.0
// One round of placement: carry over what stays, place shards without an owner, then move from
// leaving members, from members over their bound, and to members under their least load.
#include "cluster/placement.h"

#include "base/check.h"
#include "base/interval.h"
#include "base/memory.h"
#include "cluster/ring.h"

#include <stdlib.h>
#include <string.h>

struct round {
    const struct placement_input *in;
    struct plan *out;
    struct ring ring;  // the members that take
    uint32_t *loads;   // by member
    uint64_t *hashes;  // by row
    uint64_t capacity; // of all members that do not leave
    uint32_t moves_left;
    uint32_t waiting_from; // moves put off, counted at the givers ...
    uint32_t waiting_to;   // ... and at the receivers; one move can be in both
};

void placement_options_defaults(struct placement_options *o, size_t shards_len)
{
    size_t sixteenth = shards_len / 16;
    CHECK(shards_len <= PLACEMENT_SHARDS_MAX);
    *o = (struct placement_options){.points = 32,
                                    .bound_percent = 125,
                                    .fill_percent = 110,
                                    .moves_max = (uint32_t)(sixteenth > 16 ? sixteenth : 16),
                                    .round_ms = 2000,
                                    .cool_down_ms = 60000};
}

static uint64_t capacity_of(const struct placement_input *in)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < in->members_len; i++)
        sum += in->members[i].role == PLACEMENT_LEAVES ? 0 : in->members[i].capacity;
    return sum;
}

// The share of a member times percent / 100, rounded up.
static uint32_t scaled_up(const struct placement_input *in, size_t member, uint64_t capacity,
                          uint32_t percent)
{
    CHECK(capacity >= in->members[member].capacity);
    uint64_t whole = (uint64_t)percent * in->shards_len * in->members[member].capacity;
    return (uint32_t)((whole + 100 * capacity - 1) / (100 * capacity));
}

static uint32_t largest(const struct placement_input *in, size_t member, uint64_t capacity)
{
    if (in->members[member].role == PLACEMENT_LEAVES) return 0;
    return scaled_up(in, member, capacity, in->options.bound_percent);
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

static void check_input(const struct placement_input *in)
{
    CHECK(in->members_len <= PLACEMENT_MEMBERS_MAX);
    CHECK(in->shards_len <= PLACEMENT_SHARDS_MAX);
    CHECK(in->options.points > 0);
    CHECK(in->options.bound_percent >= in->options.fill_percent);
    CHECK(in->options.fill_percent >= 100);
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
        r->hashes[i] = shard_key_hash(&row->shard);
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

static bool has_space(const struct round *r, uint32_t member)
{
    return r->loads[member] < scaled_up(r->in, member, r->capacity, r->in->options.fill_percent);
}

static bool is_under(const struct round *r, uint32_t member)
{
    return r->loads[member] < least(r->in, member, r->capacity);
}

// Returns the first member after the row's hash that satisfies the condition, or SHARD_NONE.
static uint32_t walk(const struct round *r, size_t row,
                     bool (*accepts)(const struct round *r, uint32_t member))
{
    if (r->ring.len == 0) return SHARD_NONE;
    size_t at = ring_first(&r->ring, r->hashes[row]);
    for (size_t i = 0; i < r->ring.len; i++, at = ring_next(&r->ring, at)) {
        uint32_t member = r->ring.points[at].node;
        if (accepts(r, member)) return member;
    }
    return SHARD_NONE;
}

// Loads are compared by capacity: a / capacity a < b / capacity b.
static bool is_lighter(const struct round *r, uint32_t a, uint32_t b)
{
    const struct placement_member *m = r->in->members;
    uint64_t left = (uint64_t)r->loads[a] * m[b].capacity;
    uint64_t right = (uint64_t)r->loads[b] * m[a].capacity;
    return left < right;
}

static uint32_t lightest(const struct round *r)
{
    uint32_t best = SHARD_NONE;
    for (uint32_t i = 0; i < r->in->members_len; i++) {
        if (r->in->members[i].role != PLACEMENT_TAKES) continue;
        if (best == SHARD_NONE || is_lighter(r, i, best)) best = i;
    }
    return best;
}

static bool any_is_under(const struct round *r)
{
    for (uint32_t i = 0; i < r->in->members_len; i++) {
        if (is_under(r, i)) return true;
    }
    return false;
}

static uint32_t receiver_for(const struct round *r, size_t row)
{
    uint32_t to = any_is_under(r) ? walk(r, row, is_under) : SHARD_NONE;
    if (to == SHARD_NONE) to = walk(r, row, has_space);
    return to != SHARD_NONE ? to : lightest(r);
}

static void place(struct round *r, struct plan_row *row, uint32_t to)
{
    CHECK(row->owner == SHARD_NONE);
    CHECK(r->in->members[to].role == PLACEMENT_TAKES);
    row->owner = to;
    r->loads[to]++;
    r->out->moves++;
}

// A node that restarted gets its shards back, as far as it has space: nothing else has to move.
static uint32_t restarted(const struct round *r, const struct plan_row *row)
{
    if (row->reason != MOVE_OWNER_RESTARTED) return SHARD_NONE;
    uint32_t member = find_member(r->in, &r->out->nodes[row->from]);
    CHECK(member != SHARD_NONE);
    bool fits = r->in->members[member].role == PLACEMENT_TAKES && has_space(r, member);
    return fits ? member : SHARD_NONE;
}

static void place_unowned(struct round *r)
{
    for (size_t i = 0; i < r->out->rows_len; i++) {
        struct plan_row *row = &r->out->rows[i];
        if (row->owner != SHARD_NONE) continue;
        uint32_t to = restarted(r, row);
        if (to == SHARD_NONE) to = receiver_for(r, i);
        if (to != SHARD_NONE)
            place(r, row, to);
        else
            row->reason = MOVE_NO_MEMBER;
    }
}

static void move(struct round *r, size_t at, uint32_t to, enum move_reason reason)
{
    struct plan_row *row = &r->out->rows[at];
    CHECK(r->moves_left > 0);
    CHECK(row->owner != to);
    r->moves_left--;
    r->loads[row->owner]--;
    row->from = row->owner;
    row->owner = SHARD_NONE;
    row->reason = reason;
    row->moved_at = r->in->now;
    r->out->rebalanced_at = r->in->now;
    place(r, row, to);
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
            move(r, i, to, MOVE_OWNER_LEAVES);
    }
}

// A shard that moved in this round or a short time ago stays.
static bool may_balance(const struct round *r, const struct plan_row *row)
{
    if (row->reason != MOVE_NONE) return false;
    return row->moved_at == TIME_UNKNOWN ||
           r->in->now >= row->moved_at + r->in->options.cool_down_ms;
}

// Picks a shard of the owner to give away: one whose home is the receiver, else one whose home is
// not the owner, else the first. Returns rows_len if none may move.
static size_t pick(const struct round *r, uint32_t owner, uint32_t to)
{
    size_t best = r->out->rows_len;
    int best_rank = 3;
    for (size_t i = 0; i < r->out->rows_len; i++) {
        const struct plan_row *row = &r->out->rows[i];
        if (row->owner != owner || !may_balance(r, row)) continue;
        uint32_t home = ring_home(&r->ring, r->hashes[i]);
        int rank = home == to ? 0 : home != owner ? 1 : 2;
        if (rank < best_rank) {
            best = i;
            best_rank = rank;
        }
        if (rank == 0) break;
    }
    return best;
}

static void shed(struct round *r, uint32_t owner)
{
    uint32_t bound = largest(r->in, owner, r->capacity);
    while (r->loads[owner] > bound) {
        size_t at = pick(r, owner, SHARD_NONE);
        uint32_t to = at < r->out->rows_len ? receiver_for(r, at) : SHARD_NONE;
        if (to == SHARD_NONE || to == owner || r->moves_left == 0) {
            r->waiting_from += r->loads[owner] - bound;
            return;
        }
        move(r, at, to, MOVE_OVER_BOUND);
    }
}

// Returns a shard of the most loaded member that has one to give, or rows_len.
static size_t donate(const struct round *r, uint32_t to)
{
    uint32_t *tried = memory_zeroed(r->in->members_len, sizeof *tried);
    size_t found = r->out->rows_len;
    for (;;) {
        uint32_t from = SHARD_NONE;
        for (uint32_t i = 0; i < r->in->members_len; i++) {
            bool gives = r->in->members[i].role == PLACEMENT_TAKES && !tried[i] &&
                         r->loads[i] > least(r->in, i, r->capacity);
            if (gives && (from == SHARD_NONE || is_lighter(r, from, i))) from = i;
        }
        if (from == SHARD_NONE || !is_lighter(r, to, from)) break;
        found = pick(r, from, to);
        if (found < r->out->rows_len) break;
        tried[from] = 1;
    }
    memory_free(tried);
    return found;
}

static void fill(struct round *r, uint32_t to)
{
    uint32_t enough = least(r->in, to, r->capacity);
    while (r->loads[to] < enough) {
        size_t at = r->moves_left > 0 ? donate(r, to) : r->out->rows_len;
        if (at == r->out->rows_len) {
            r->waiting_to += enough - r->loads[to];
            return;
        }
        move(r, at, to, MOVE_UNDER_SHARE);
    }
}

static void balance(struct round *r)
{
    for (uint32_t i = 0; i < r->in->members_len; i++) {
        if (r->in->members[i].role == PLACEMENT_TAKES) shed(r, i);
    }
    for (uint32_t i = 0; i < r->in->members_len; i++) {
        if (r->in->members[i].role == PLACEMENT_TAKES) fill(r, i);
    }
}

static void round_init(struct round *r, const struct placement_input *in, struct plan *out)
{
    const struct plan *previous = in->previous;
    *r = (struct round){.in = in, .out = out, .capacity = capacity_of(in)};
    out->rebalanced_at = previous ? previous->rebalanced_at : TIME_UNKNOWN;
    bool open =
        out->rebalanced_at == TIME_UNKNOWN || in->now >= out->rebalanced_at + in->options.round_ms;
    r->moves_left = open ? in->options.moves_max : 0;
    r->loads = memory_zeroed(in->members_len + 1, sizeof *r->loads);
    r->hashes = memory_zeroed(in->shards_len + 1, sizeof *r->hashes);
    ring_init(&r->ring);
    for (uint32_t i = 0; i < in->members_len; i++) {
        const struct placement_member *m = &in->members[i];
        if (m->role == PLACEMENT_TAKES)
            ring_add(&r->ring, i, &m->id, in->options.points * m->capacity);
    }
    ring_sort(&r->ring);
    size_t former = previous ? previous->nodes_len : 0;
    out->nodes = memory_zeroed(in->members_len + former + 1, sizeof *out->nodes);
    for (size_t i = 0; i < in->members_len; i++)
        out->nodes[i] = in->members[i].id;
    out->nodes_len = in->members_len;
    out->rows = memory_zeroed(in->shards_len + 1, sizeof *out->rows);
    out->rows_len = in->shards_len;
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
    balance(&r);
    out->waiting = r.waiting_from > r.waiting_to ? r.waiting_from : r.waiting_to;
    ring_done(&r.ring);
    memory_free(r.loads);
    memory_free(r.hashes);
}
