// SPDX-License-Identifier: Apache-2.0
// Which node should own which shard. The plan is a pure function of members, shards, their traffic,
// the previous plan and the time:
//
//   - A shard stays where it is, unless it must move.
//   - Each member has a share of the shards of each queue by its capacity. It has at most the
//     share, rounded up, and at least the share, rounded down.
//   - Within these bounds, it has a share of all shards. Its load is at most bound_percent of the
//     share, rounded up, and at least the share divided by that factor, rounded down.
//   - Within these bounds, the traffic of the members is evened out if it differs much.
//   - A shard without an owner goes to a member with too few shards of its queue, else to one with
//     room for another of it. Among these, it goes to the member with the smallest load. If some
//     are equal, it goes to the first one after its hash on the ring (consistent hashing with
//     bounded loads; Mirrokni, Thorup and Zadimoghaddam, 2016).
//   - A move away from a living owner waits for the cap of the round and for the cool-downs. A
//     shard without an owner never waits.
//
// docs/cluster-decisions.md has the rules as tables.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "base/layout_table.h"
#include "cluster/identity.h"

#define PLACEMENT_MEMBERS_MAX  1024
#define PLAN_NUMBER_MAX        ((uint64_t)INT64_MAX - 1) // the coordination service takes no more
#define PLACEMENT_SHARDS_MAX   65536
#define PLACEMENT_CAPACITY_MAX 64
#define PLACEMENT_REASON_MAX   400 // bytes of a sentence, with the closing zero

enum placement_role {
    PLACEMENT_TAKES,  // healthy
    PLACEMENT_KEEPS,  // keeps its shards and gets no other: joining or suspect
    PLACEMENT_LEAVES, // gives all its shards away
};

struct placement_member {
    struct member_id id;
    uint32_t capacity; // 1 .. PLACEMENT_CAPACITY_MAX
    enum placement_role role;
};

struct placement_options {
    uint32_t points;        // 32: points on the ring for each unit of capacity
    uint32_t bound_percent; // 125: the largest load, of the share; over 100
    uint32_t moves_max;     // the cap: moves from living owners in one round
    int64_t round_ms;       // 2 s: the time between two rounds with such moves
    int64_t cool_down_ms;   // 60 s: a shard that moved is not moved again to balance the load
    // Traffic is evened out if a member has more than `begin` of its share of it, until it has
    // `end` of it. A move must gain this much of the share. A member with less traffic than the
    // last number keeps its shards.
    uint32_t traffic_begin_percent; // 150
    uint32_t traffic_end_percent;   // 125
    uint32_t traffic_gain_percent;  // 10
    uint32_t traffic_least;         // 50 a second
};

void placement_options_defaults(struct placement_options *o, size_t shards_len);

enum move_reason {
    MOVE_NONE,            // the shard stays
    MOVE_NEW,             // it had no owner
    MOVE_OWNER_GONE,      // its owner is no longer a member
    MOVE_OWNER_RESTARTED, // its owner's name has another incarnation
    MOVE_OWNER_LEAVES,    // its owner gives its shards away
    MOVE_OVER_BOUND,      // its owner has more than the largest load
    MOVE_UNDER_SHARE,     // its new owner had less than the least load
    MOVE_NO_MEMBER,       // no member can take it
    MOVE_QUEUE_BOUND,     // its owner has more than the largest load of the queue
    MOVE_QUEUE_SHARE,     // its new owner had less than the least load of the queue
    MOVE_TRAFFIC,         // its owner has more traffic than the others
    MOVE_REASONS,
};

struct plan_row {
    struct shard_key shard;
    uint32_t owner; // index in nodes, or SHARD_NONE
    uint32_t from;  // of a move: the owner before, or SHARD_NONE
    enum move_reason reason;
    int64_t moved_at; // the last move from a living owner; TIME_UNKNOWN: none
};

struct plan {
    uint64_t epoch;          // of the leader that published the plan; 0: not published
    uint64_t number;         // rises with each plan of an epoch
    int64_t rebalanced_at;   // the last round that moved a shard from a living owner
    struct member_id *nodes; // the members by name, then former owners that a row names
    size_t nodes_len;
    struct plan_row *rows; // by shard
    size_t rows_len;
    uint32_t moves;
    uint32_t waiting; // moves from living owners that the cap or a cool-down put off
};

void plan_init(struct plan *p);
void plan_done(struct plan *p);
void plan_copy(struct plan *to, const struct plan *from); // `to` is initialised
// Negative: a is older than b. Plans of a later epoch are newer, whatever their number.
int plan_compare_version(const struct plan *a, const struct plan *b);
const struct plan_row *plan_find(const struct plan *p, const struct shard_key *shard); // or NULL
// NULL: the plan has no such shard, or gives it to no node.
const struct member_id *plan_owner(const struct plan *p, const struct shard_key *shard);
// The bytes that nodes exchange. The format is in plan_codec.c.
#define PLAN_BYTES_MAX ((size_t)1 << 20)
void plan_encode(const struct plan *p,
                 struct buf *out); // bad: it is longer than the buffer's limit
// False: the bytes are no plan. `out` is initialised.
MUST_USE bool plan_decode(struct bytes from, struct plan *out);
#define PLAN_LAYOUTS(X) X(plan) X(plan_node) X(plan_queue) X(plan_row)
PLAN_LAYOUTS(LAYOUT_DECLARE)
bool plan_same_owners(const struct plan *a, const struct plan *b); // of the same shards

struct placement_input {
    const struct placement_member *members; // by name, without duplicates
    size_t members_len;
    const struct shard_key *shards; // ascending, without duplicates
    size_t shards_len;
    const uint32_t *traffic;     // by shard, per second; NULL: it is not known
    const struct plan *previous; // NULL: none
    int64_t now;                 // a moment that has surely passed
    struct placement_options options;
};

// Writes the next plan to `out`, which is initialised. Its version is 0.
void placement_plan(struct plan *out, const struct placement_input *in);

// The largest and the least load of a member of these, by the options.
uint32_t placement_largest(const struct placement_input *in, size_t member);
uint32_t placement_least(const struct placement_input *in, size_t member);
// The largest number of shards of a queue with this many shards.
uint32_t placement_largest_of(const struct placement_input *in, size_t member, size_t shards);

const char *move_reason_name(enum move_reason reason); // "owner-gone"
// Writes why the row moves, as a sentence.
void plan_explain(const struct plan *p, const struct plan_row *row, char out[PLACEMENT_REASON_MAX]);
