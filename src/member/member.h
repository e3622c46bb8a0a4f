// SPDX-License-Identifier: Apache-2.0
// The node as a member of a cluster. It performs the effects of the step function (src/cluster)
// with a coordination service (src/coord) and with the journals of the handle. Calls to the service
// block, so they run on threads of the handle's pool. One lock guards the step function.
//
// The node owns a shard only if the shard is used and the plan gives it to this node. A node that
// is alone needs no plan and no leader: it owns every shard that is used. So an idle node claims
// nothing, and a lone node on `store:` only lists the members once a minute.
//
// clang-format off
//     call for a shard      the journal names a live owner           --> forward to it
//     without an owner ---> the plan gives it to this node, or lone  --> claim, own, serve
//                      '--> the plan gives it to another member      --> write directly, and tell
//                                                                        that member (a hint)
// clang-format on
#pragma once

#include "cluster/cluster.h"
#include "cluster/tuning.h"
#include "coord/coord.h"
#include "queue/codec/config.h"
#include "sluice.h"

struct engine;

#define MEMBER_EVENTS_MAX        1000 // the newest events that a node keeps
#define MEMBER_HINT_MAX          512  // bytes of a hint's body
#define MEMBER_HINTS_WAITING_MAX 1024 // hints of this node that wait; then the oldest is dropped
// An epoch-renewed event comes with the first renewal of an epoch, then so often.
#define MEMBER_RENEWED_EVERY_MS  600000

struct membership;
struct membership_event;

struct membership_config {
    const char *coord;  // a URL of coord.h; NULL: "store:"
    const char *node;   // the name, which owner_become has as well
    const char *url;    // where other nodes reach it
    uint32_t capacity;  // 1 to PLACEMENT_CAPACITY_MAX; 0: 1
    bool observe_only;  // compute and report plans, claim nothing
    struct coord *take; // for tests: use this service instead; the member frees it
    struct tuning tuning;
    int64_t lone_ms; // `store:`; 0: a minute
    // Called for each event, under the membership's lock: it must be quick and must call no
    // function of this header. May be NULL.
    void (*event)(void *ctx, const struct membership_event *e);
    // Called once for each member that goes by other settings, in the same way. `what` says which.
    void (*differs)(void *ctx, const char *node, const char *what);
    void *event_ctx;
};

// Joins the cluster, after owner_become. Blocks until the service has answered, or the timeout of a
// call has passed. If etcd or Consul does not answer, the membership begins degraded: the node
// claims nothing, and joins as soon as the service is back. A refusal at that time does not end the
// node: membership_degraded has the reason.
//   CONFLICT     the name is in use by a live node
//   INVALID      the URL is no coordination service, or the name cannot be a member's
//   DENIED       the service refuses the credentials
//   CORRUPT      the journals of this store belong to another coordination service
//   UNAVAILABLE  the store does not answer (`store:`)
enum sluice_code membership_start(struct engine *e, const struct membership_config *config,
                                  struct membership **out, struct sluice_error *error);
// Gives the shards away and leaves the cluster, for at most wait_ms and a lease. The snapshot stays
// readable. The handle frees the membership when it is closed. NULL is allowed.
void membership_stop(struct membership *m, int64_t wait_ms);
// Gives the shards of this node away and takes no others. The node stays a member until it stops.
void membership_drain(struct membership *m);
// Ends the drain: the next plans give it shards again. Nothing changes if the node stops.
void membership_undrain(struct membership *m);

// A node as this one sees it.
struct membership_row {
    char name[COORD_NAME_MAX + 1];
    char url[COORD_URL_MAX + 1];
    char version[COORD_VERSION_MAX + 1];
    char settings[COORD_SETTINGS_MAX + 1];
    uint32_t capacity;
    uint32_t rules_lo, rules_hi;
    enum life life;
    int64_t beat_age_ms; // since the last sign of life that this node saw
    bool self;
    bool leads;
    bool leaving;
    uint32_t shards; // that the plan gives to it; of a lone node: that it owns
};

// A shard of the plan. A lone node has no plan: its rows are the shards that it owns.
struct membership_shard {
    char queue[QUEUE_NAME_MAX + 1]; // "" if the name is not known yet
    uint32_t shard;
    char planned[COORD_NAME_MAX + 1]; // the node that should own it; "": none
    char owner[COORD_NAME_MAX + 1];   // the node that the journal names, if this node knows; or ""
    uint64_t epoch;                   // in the journal, if this node knows; or 0
    bool mine;                        // this node owns it
    bool moving;                      // claimed, owned or given away right now
    enum move_reason reason;          // of the last move
    char from[COORD_NAME_MAX + 1];    // the owner before that move; or ""
};

struct membership_counters {
    uint64_t elections; // leaders that this node saw elected
    uint64_t renewals;  // of this node's own epoch
    uint64_t moves;     // shards that this node acquired or handed over
    uint64_t acquired;
    uint64_t handed_over;
    uint64_t lost;   // shards that another node took
    uint64_t fenced; // epochs and claims of this node that a newer one ended
    uint64_t hints_sent;
    uint64_t hints_dropped; // too many waited, or the node left
    uint64_t hints_received;
    uint64_t degraded; // outages of the coordination service
    uint64_t requests; // calls of the coordination service
    uint64_t errors;   // calls that it did not answer
    uint64_t latency_ms_sum;
    int64_t latency_ms_last;
    int64_t latency_ms_max; // of the last minute or two
};

struct membership_status {
    char node[COORD_NAME_MAX + 1];
    char backend[16];                   // "store"
    char service[2 * COORD_ID_LEN + 1]; // the coordination id, in hex
    int64_t lease_ms;
    char settings[COORD_SETTINGS_MAX + 1]; // that this node goes by
    char differs[COORD_WHY_MAX];           // a member that goes by others; "": none is known
    bool observe_only;
    bool draining;
    bool replaced; // a later incarnation has the name of this node: it owns nothing any more
    char leader[COORD_NAME_MAX + 1];  // "": none
    uint64_t epoch;                   // the leader's
    uint64_t plan_epoch, plan_number; // 0: there is no plan
    uint32_t moves;                   // under way in the plan
    uint32_t waiting;                 // moves that the cap or a cool-down put off
    uint32_t unowned;                 // shards that no member owns, if this node leads
    uint64_t unowned_events;          // events that wait there for the bus
    bool degraded;
    int64_t degraded_ms;              // how long; 0: it is not
    char degraded_why[COORD_WHY_MAX]; // what the service said last
    struct membership_counters counters;
    struct membership_row *members; // by name
    size_t members_len;
    struct membership_shard *shards; // by queue and shard
    size_t shards_len;
};
void membership_status(struct membership *m, struct membership_status *out);
void membership_status_done(struct membership_status *s);
// Cheap: true while the coordination service does not answer. `why` may be NULL.
bool membership_degraded(struct membership *m, int64_t *for_ms, char why[COORD_WHY_MAX]);

// A row of the next plan, and why.
struct membership_move {
    char queue[QUEUE_NAME_MAX + 1];
    uint32_t shard;
    char from[COORD_NAME_MAX + 1];
    char to[COORD_NAME_MAX + 1];
    enum move_reason reason; // MOVE_NONE: it stays
    uint32_t traffic;        // a second, as the leader measured it; 0: none, or not known
    char why[PLACEMENT_REASON_MAX];
};
struct membership_plan {
    struct membership_move *rows; // all shards, by queue and shard
    size_t len;
    uint32_t moves;
    uint32_t waiting;
};
// Computes what a leader would publish now. Reads the catalog, so it blocks.
enum sluice_code membership_plan(struct membership *m, struct membership_plan *out,
                                 struct sluice_error *error);
void membership_plan_done(struct membership_plan *p);

// The events of the cluster as this node sees them. The id of an event is the incarnation and the
// counter, which rises by 1 from 1.
struct membership_event {
    uint64_t counter;
    int64_t at_ms;                  // wall clock
    enum cluster_note note;         // cluster_note_name
    char node[COORD_NAME_MAX + 1];  // the leader, the member, or this node
    enum life life;                 // NOTE_MEMBER
    char queue[QUEUE_NAME_MAX + 1]; // of ownership; ""
    uint32_t shard;
    uint64_t epoch; // the leader's, or the shard's
};
// Calls `each` for the members that do not answer this node.
void membership_unreached(struct membership *m, void (*each)(void *ctx, const char *name),
                          void *ctx);
// The first 8 bytes of the incarnation's SHA-256, in hex.
void membership_incarnation(struct membership *m, char out[17]);
// Copies the events after `after`, at most max, and returns how many. *lost: older ones than the
// first are gone.
size_t membership_events(struct membership *m, uint64_t after, struct membership_event *out,
                         size_t max, bool *lost);
// Waits until there is an event after `after`, or wait_ms passed. Returns whether there is one.
bool membership_events_wait(struct membership *m, uint64_t after, int64_t wait_ms);

// Takes a hint of another node: this shard is used and should be this node's. A forged hint costs
// a claim that the plan allows anyway. queue "": only look at the members again.
void membership_hint(struct membership *m, const char *queue, uint32_t shard, const char *node);
