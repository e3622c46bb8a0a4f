// SPDX-License-Identifier: Apache-2.0
// The decisions of one node about the cluster, as a step function: its
// membership, the election, the plan, and the ownership of its shards. Events
// with the time go in, effects come out. It does no I/O. A shell performs the
// effects with the coordination service and the journals, and passes the
// answers back.
//
// Use: call cluster_step for each event. After each call take all effects
// (cluster_next_effect). An effect with a request number is answered exactly
// once, in any order, unless the node ends. Pass a CLUSTER_TICK no later than
// when the upper bound of the time reaches cluster_wake_at. After a tick without
// an effect that time is in the future.
//
// The coordination service decides which node should serve a shard. The journal
// of the shard decides which node may: an owner is a node whose `own` the
// journal accepted. Nothing here is needed for safety except that a node serves
// only with an epoch that the journal gave it.
//
// docs/cluster-decisions.md has the tables.
#pragma once

#include "base/err.h"
#include "cluster/election.h"
#include "cluster/placement.h"

struct cluster_config {
    struct member_id self;
    struct life_rules life;
    struct election_rules election;
    uint32_t moves_max;        // of placement_options; 0: by the number of shards
    int64_t move_round_ms;     // 2 s
    int64_t move_cool_down_ms; // 60 s
    int64_t list_ms;           // a third of the lease: how often the members are listed
    int64_t plan_ms;           // 1 s: how often the leader plans
    int64_t retry_ms;          // 250 ms: the mean wait after a request that failed
    bool observe_only;         // compute and report plans; enforce none
    // Claim only shards that are used (CLUSTER_USED). A node that sees no other member needs no
    // plan and no leader: every shard that is used is its own. A shard that no plan has belongs to
    // the first node that claims it; the first plan keeps it there (CLUSTER_HELD).
    bool lazy;
    uint64_t seed; // for the jitter of retries; random
};

void cluster_config_defaults(struct cluster_config *c, const struct member_id *self,
                             int64_t lease_ms);

// What the coordination service has.
struct cluster_view {
    uint64_t at; // rises with every change in the service
    const struct member_report *members;
    size_t members_len;
    struct leader_report leader;
    const struct plan *plan; // NULL: none was published
};

enum cluster_event_kind {
    CLUSTER_TICK,
    CLUSTER_VIEW,       // request: the LIST that it answers; 0: a watch reports it. err, view
    CLUSTER_ANSWER,     // request, err, number
    CLUSTER_SHARDS,     // shards: all shards that exist, ascending; for the leader's plan
    CLUSTER_TRAFFIC,    // shards, ascending, and their traffic per second; for the leader's plan
    CLUSTER_FENCED,     // shard: the journal has another owner; number: its epoch now
    CLUSTER_FREE,       // shard: its claim was released; a hint to ask at once
    CLUSTER_IN_THE_WAY, // shard: another node was refused its claim, because this node holds it
    CLUSTER_USED,       // shard: there are calls for it at this node
    CLUSTER_USED_AWAY, // shard: there are calls for it at another node, which may know a newer plan
    CLUSTER_HELD,      // shard, member: that node serves the shard, which no plan has yet
    CLUSTER_UNREACHABLE, // member, other: the first does not reach the second (reach.h)
    CLUSTER_LOOK,        // a hint that the members or the plan have changed: list at once
    CLUSTER_DRAIN,       // give all shards away and take no other; the node stays a member
    CLUSTER_UNDRAIN,     // the end of a drain: take shards again
    CLUSTER_STOP,        // as a drain, then leave; deadline
};

// err of an answer:
// clang-format off
//   ERR_OK           done
//   ERR_CONFLICT     another live node has the name, the lead or the claim;
//                    own: the journal's epoch changed meanwhile; plan: a newer one exists
//   ERR_NOT_FOUND    the node's session has ended
//   ERR_FENCED       join, heartbeat: a later incarnation has the name; lead: a later epoch exists;
//                    own: the journal has recorded a token that is not lower (number)
//   ERR_UNAVAILABLE  certainly not done
//   ERR_UNKNOWN      perhaps done, perhaps later
// clang-format on
// Other errors count as ERR_UNAVAILABLE.
struct cluster_event {
    enum cluster_event_kind kind;
    uint64_t request;
    enum err err;
    uint64_t number; // LEAD: the epoch; CLAIM: the token; OWN: the epoch in the journal
    struct cluster_view view;
    const struct shard_key *shards;
    size_t shards_len;
    const uint32_t *traffic; // by shard
    struct shard_key shard;
    struct member_id member, other;
    int64_t deadline;
};

enum cluster_effect_kind {
    // Requests to the coordination service.
    CLUSTER_JOIN,      // leaving
    CLUSTER_HEARTBEAT, // renews the session, with the lead and all claims in it; leaving
    CLUSTER_LEAVE,
    CLUSTER_LIST,    // answered by CLUSTER_VIEW
    CLUSTER_LEAD,    // number: the last epoch that was seen
    CLUSTER_RENEW,   // number: the epoch
    CLUSTER_RESIGN,  // number: the epoch
    CLUSTER_PUBLISH, // plan
    CLUSTER_CLAIM,   // shard; number: a token must be higher than this
    CLUSTER_RELEASE, // shard; number: the token
    // Requests to the shard.
    CLUSTER_OWN,       // shard; number: the token. ERR_OK also if this token is recorded already
    CLUSTER_HAND_OVER, // shard; to: the next owner, with an empty name if there is none. Finish
                       // what is under way, pass on what waits, then answer.
    // Orders without an answer.
    CLUSTER_TAKE,        // shard; number: the epoch to commit with
    CLUSTER_STOP_TAKING, // shard
    CLUSTER_REPORT_PLAN, // plan, in observe-only mode
    CLUSTER_NOTE,        // note, an event for the cluster's stream; shard, number, member
};

enum cluster_note {
    NOTE_ELECTED,  // "coordinator-elected"; number: the epoch
    NOTE_PROMOTED, // this node leads
    NOTE_DEMOTED,  // this node leads no longer
    NOTE_EPOCH_RENEWED,
    NOTE_MEMBER,   // member, life
    NOTE_ACQUIRED, // shard; number: the epoch
    NOTE_HANDED_OVER,
    NOTE_LOST, // shard
    NOTE_DEGRADED,
    NOTE_RECOVERED,
    NOTE_REPLACED, // a later incarnation has the name of this node
};

struct cluster_effect {
    enum cluster_effect_kind kind;
    uint64_t request; // 0: an order
    struct shard_key shard;
    uint64_t number;
    struct member_id to;     // HAND_OVER; NOTE_MEMBER
    const struct plan *plan; // valid until the next call
    bool leaving;
    enum cluster_note note;
    enum life life;
};

const char *cluster_note_name(enum cluster_note note); // "coordinator-elected"

struct cluster;

struct cluster *cluster_new(const struct cluster_config *config);
void cluster_free(struct cluster *c); // accepts NULL
void cluster_step(struct cluster *c, const struct cluster_event *e, struct interval now);
bool cluster_next_effect(struct cluster *c, struct cluster_effect *out);
int64_t cluster_wake_at(const struct cluster *c);

bool cluster_leads(const struct cluster *c);     // as of the last step
uint64_t cluster_epoch(const struct cluster *c); // of the leader seen last
bool cluster_degraded(const struct cluster *c);  // the coordination service does not answer
bool cluster_stopped(const struct cluster *c);   // after CLUSTER_STOP: the node may end
const struct plan *cluster_plan(const struct cluster *c); // the newest plan seen; version 0: none
const struct members *cluster_members(const struct cluster *c);
// The node that the plan gives the shard to; NULL: none. A lone node gets every shard.
const struct member_id *cluster_owner(const struct cluster *c, const struct shard_key *shard);
// Writes what this node would publish if it led now, with these shards, to `out`, which is
// initialised.
void cluster_preview(const struct cluster *c, const struct shard_key *shards, size_t shards_len,
                     struct plan *out);
// The traffic of the shard that the next plan goes by; 0: none, or not known.
uint32_t cluster_traffic(const struct cluster *c, const struct shard_key *shard);
bool cluster_lone(const struct cluster *c); // lazy, and no other member is seen
// A member fell silent less than a lease ago, and the service still lists it: its claims end soon.
bool cluster_awaits_end(const struct cluster *c);
bool cluster_replaced(const struct cluster *c); // a later incarnation has the name
bool cluster_used(const struct cluster *c, const struct shard_key *shard);   // CLUSTER_USED said so
bool cluster_moving(const struct cluster *c, const struct shard_key *shard); // a request is open
// Returns the epoch with which this node serves the shard; 0: it does not.
uint64_t cluster_serves(const struct cluster *c, const struct shard_key *shard);
