// SPDX-License-Identifier: Apache-2.0
// Private to the step function: shared by cluster.c (calls, requests),
// session.c (membership and views), lead.c (election and plan) and shards.c
// (ownership).
#pragma once

#include "base/rng.h"
#include "cluster/cluster.h"
#include "cluster/lease.h"
#include "cluster/reach.h"

enum open_kind { OPEN_SESSION, OPEN_LIST, OPEN_LEAD, OPEN_PLAN, OPEN_KINDS };

// A request that is under way. Each kind has one at a time.
struct service_request {
    uint64_t request; // 0: none
    enum cluster_effect_kind kind;
    struct interval sent;
};

// One shard that the node serves, wants or still has to release.
//
// clang-format off
//              wanted         granted          owned
//     (no row) -----> ASKED ---------> CLAIMED -----> SERVING ---.
//        ^            |   ^                            |  |  ^   | session ended: claims and owns
//        |            '---'                            |  |  '---' again, and serves meanwhile
//        |     conflict: again later            fenced |  |
//        |                                             |  | the plan names another node, stop
//        |   released                                  |  v
//        '--------------------------------- RELEASING <+- HANDING
// clang-format on
struct shard_claim {
    struct shard_key shard;
    bool used;    // there are calls for it; only such shards are wanted if the node is lazy
    bool awaited; // another node has calls for it: used if its first plan names this node
    bool wanted;  // by the plan
    bool serving; // between TAKE and STOP_TAKING
    bool handed;  // given away: release the claim
    bool doubt;   // the service may have granted a claim that this node does not know
    uint64_t request;
    enum cluster_effect_kind asked;
    uint64_t asked_session;
    uint64_t session; // in which the claim was granted
    uint64_t token;   // of the claim; 0: none
    uint64_t owned;   // the token that the journal accepted; 0: none
    uint64_t after;   // a token must be higher than this
    uint64_t epoch;   // in the journal
    int64_t retry_at;
};

struct cluster {
    struct cluster_config config;
    struct rng rng;
    struct interval now;
    uint64_t requests;
    struct cluster_effect *effects; // a queue: taken .. len
    size_t effects_taken;
    size_t effects_len;
    size_t effects_cap;
    struct service_request open[OPEN_KINDS];

    // session.c
    struct members members;
    struct life_changes changes;
    bool joined;
    uint64_t session;             // rises with every join and every end of a session
    struct interval session_sent; // when the newest request that renewed the session was sent
    int64_t contact_until;        // the service counts as reachable until then
    bool degraded;
    bool replaced;
    uint64_t fresh_after; // a view is current if its LIST has a higher number
    bool view_current;
    uint64_t view_at;    // the number of the newest view
    uint64_t view_after; // a LIST with a higher number was sent after it
    int64_t join_at;
    int64_t beat_at;
    int64_t list_at;
    int64_t leave_at;
    bool draining;
    bool stopping;
    int64_t stop_deadline;
    bool left; // a LEAVE was sent: nothing is begun any more
    bool stopped;

    // lead.c
    struct election election;
    uint64_t promoted_request; // a view that was asked for later has the last plan
    uint64_t view_request;     // the newest LIST that was answered
    uint64_t published;        // the highest number of a plan in this epoch
    int64_t plan_at;
    int64_t ask_at;       // the lead is not asked for before
    struct plan plan;     // the newest seen
    struct plan proposed; // by this node
    struct shard_key *shards;
    size_t shards_len;
    struct shard_key *busy; // shards with a known traffic
    uint32_t *traffic;
    size_t traffic_len;
    struct held_shards { // shards that no plan has, and the nodes that serve them
        struct shard_key shard;
        struct member_id holder;
    } * held; // by shard
    size_t held_len;
    size_t held_cap;
    struct reach reach; // members that do not reach each other

    // shards.c
    bool was_lone;
    struct shard_claim *rows; // by shard
    size_t rows_len;
    size_t rows_cap;
};

// cluster.c
struct cluster_effect *effect_add(struct cluster *c, enum cluster_effect_kind kind);
struct cluster_effect *effect_ask(struct cluster *c, enum open_kind open,
                                  enum cluster_effect_kind kind); // none of this kind is open
void note_add(struct cluster *c, enum cluster_note note, const struct shard_key *shard,
              uint64_t number);
int64_t retry_time(struct cluster *c); // around retry_ms from now

// session.c
void session_tick(struct cluster *c);
void session_answer(struct cluster *c, const struct service_request *open,
                    const struct cluster_event *e);
void session_view(struct cluster *c, const struct service_request *open,
                  const struct cluster_event *e);
void session_contact(struct cluster *c, enum err err, struct interval sent);
void session_ended(struct cluster *c); // the service says so
bool session_may_claim(const struct cluster *c);
int64_t session_wake_at(const struct cluster *c);

// lead.c
void lead_tick(struct cluster *c);
void lead_answer(struct cluster *c, const struct service_request *open,
                 const struct cluster_event *e);
void lead_lost(struct cluster *c); // the session or the name is gone
void plan_answer(struct cluster *c, const struct cluster_event *e);
void plan_adopt(struct cluster *c, const struct plan *plan);
void lead_held(struct cluster *c, const struct shard_key *shard, const struct member_id *holder);
int64_t lead_wake_at(const struct cluster *c);

// shards.c
void shards_tick(struct cluster *c);
void shards_planned(struct cluster *c); // the plan is another
bool shards_answer(struct cluster *c,
                   const struct cluster_event *e); // false: not a row's request
void shards_fenced(struct cluster *c, const struct shard_key *shard, uint64_t epoch);
void shards_free(struct cluster *c, const struct shard_key *shard);
void shards_used(struct cluster *c, const struct shard_key *shard);
void shards_used_away(struct cluster *c, const struct shard_key *shard);
void shards_in_the_way(struct cluster *c, const struct shard_key *shard);
void shards_lose_all(struct cluster *c);
bool shards_none(const struct cluster *c); // nothing is served, claimed or under way
int64_t shards_wake_at(const struct cluster *c);
