// SPDX-License-Identifier: Apache-2.0
// The cluster of nodes that serve one store: what operators ask and order. Programs that send and
// receive need sluice.h only.
#pragma once

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_NODE_MAX     129
#define SLUICE_URL_MAX      256
#define SLUICE_COORD_MAX    33
#define SLUICE_CLUSTER_WHY  400
#define SLUICE_SETTINGS_MAX 160

// A node of the cluster.
struct sluice_member {
    char name[SLUICE_NODE_MAX];
    char url[SLUICE_URL_MAX];
    char version[32];
    // "joining", "healthy", "suspect", "unhealthy", "leaving" or "gone"; from the store itself:
    // "listed"
    char status[16];
    // "lease=5s observe=5s coolDown=30s ..."; "": it does not tell
    char settings[SLUICE_SETTINGS_MAX];
    uint32_t capacity;           // its share of the shards, relative to other nodes
    uint32_t shards;             // that the plan gives to it; of a lone node: that it owns
    uint32_t rules_lo, rules_hi; // versions of the rules that it knows
    int64_t beat_age_ms;         // since its last sign of life
    int leads;
    int self; // it is the node that answers
};

// A shard of a queue.
struct sluice_shard {
    char queue[81];
    uint32_t shard;
    char owner[SLUICE_NODE_MAX]; // the node that the journal names; "": none, or not known
    uint64_t epoch;              // of the owner, in the journal; 0: it never had one, or not known
    char planned[SLUICE_NODE_MAX]; // the node that should own it; "": none
    int moving;                    // it is claimed, taken over or given away right now
    char reason[32];               // of the last move; "": none
    char from[SLUICE_NODE_MAX];    // the owner before the last move; "": none
    int counted; // the counts below are known: its owner, or this process, has read the journal
    uint64_t ready;
    uint64_t open;    // locked messages
    uint64_t refused; // claims that the journal refused because of consume=owner
    uint64_t work;    // entries of the journal and messages sent, so far
};

// The cluster as one node sees it.
#define SLUICE_FLAGS_MAX 96

struct sluice_cluster {
    char node[SLUICE_NODE_MAX]; // the node that answers; "": read from the store itself
    char backend[16];           // "store", "etcd", "consul"
    char service[SLUICE_COORD_MAX];
    int64_t lease_ms;
    char settings[SLUICE_SETTINGS_MAX]; // that the node goes by
    char differs[SLUICE_CLUSTER_WHY];   // a member that goes by others; "": none is known
    int observe_only;
    int draining;
    int replaced;                 // a later start of the same name has replaced the node
    char leader[SLUICE_NODE_MAX]; // "": none
    uint64_t epoch;               // of the leader
    uint64_t plan_epoch, plan_number;
    uint32_t moves;          // under way in the plan
    uint32_t waiting;        // moves that a limit puts off
    uint32_t unowned;        // shards that no member owns; known to the leader
    uint64_t unowned_events; // events that wait in them for the bus
    int degraded;            // the coordination service does not answer
    int64_t degraded_ms;
    char degraded_why[SLUICE_CLUSTER_WHY];
    char flags[SLUICE_FLAGS_MAX];  // "bus=off placement=on ..."; "": read from the store itself
    struct sluice_member *members; // by name
    size_t members_len;
    struct sluice_shard *shards; // by queue and number
    size_t shards_len;
};

// Shows the cluster. A handle of a store reads it from the coordination service and the journals:
// coord is the service's URL, NULL: "store:". A node answers from what it knows; coord is not used.
// Free *out with sluice_cluster_free.
SLUICE_API enum sluice_code sluice_cluster_show(struct sluice *s, const char *coord,
                                                struct sluice_cluster **out,
                                                struct sluice_error *error);
SLUICE_API void sluice_cluster_free(struct sluice_cluster *c); // NULL is allowed

// A shard of the next plan.
struct sluice_move {
    char queue[81];
    uint32_t shard;
    char from[SLUICE_NODE_MAX];
    char to[SLUICE_NODE_MAX];
    char reason[32];  // "": it stays
    uint32_t traffic; // entries and messages a second, as the leader measured it; 0: not known
    char why[SLUICE_CLUSTER_WHY];
};
struct sluice_plan {
    struct sluice_move *rows; // all shards, by queue and number
    size_t len;
    uint32_t moves;
    uint32_t waiting;
};
// What a leader would publish now. Only a node answers it: SLUICE_INVALID for a store.
SLUICE_API enum sluice_code sluice_cluster_plan(struct sluice *s, struct sluice_plan **out,
                                                struct sluice_error *error);
SLUICE_API void sluice_plan_free(struct sluice_plan *p); // NULL is allowed

// Makes a node give its shards to other nodes and take no more; it goes on serving. `undrain` ends
// that: the node takes shards again. `leave` makes the node leave the cluster and end. The handle
// must be of that node: of several nodes, the one with the name gets the order. SLUICE_CONFLICT: no
// node of the handle has the name. SLUICE_INVALID: the handle is of a store.
SLUICE_API enum sluice_code sluice_cluster_drain(struct sluice *s, const char *node,
                                                 struct sluice_error *error);
SLUICE_API enum sluice_code sluice_cluster_undrain(struct sluice *s, const char *node,
                                                   struct sluice_error *error);
SLUICE_API enum sluice_code sluice_cluster_leave(struct sluice *s, const char *node,
                                                 struct sluice_error *error);

// What happens in the cluster, as one node sees it.
struct sluice_cluster_event {
    const char *id;     // for Last-Event-ID
    const char *type;   // "coordinator-elected", "member-health", "ownership-acquired" ...
    int64_t time;       // ms since 1970
    const char *node;   // the leader, the member, or the owner
    const char *status; // of a member; "" for other events
    const char *queue;  // "": it is about no shard
    uint32_t shard;
    uint64_t epoch; // the leader's, or the shard's
};
struct sluice_cluster_events;
// Opens the stream of a node, from its oldest event. `from` is the id of the last event that was
// read; NULL: from the oldest event that the node still has.
SLUICE_API enum sluice_code sluice_cluster_events_open(struct sluice *s, const char *from,
                                                       struct sluice_cluster_events **out,
                                                       struct sluice_error *error);
// Waits up to wait_ms. SLUICE_NOT_FOUND: no event came. The texts are valid until the next call.
SLUICE_API enum sluice_code sluice_cluster_events_next(struct sluice_cluster_events *e,
                                                       int64_t wait_ms,
                                                       struct sluice_cluster_event *out,
                                                       struct sluice_error *error);
SLUICE_API void sluice_cluster_events_close(struct sluice_cluster_events *e);

// The coordination services of a shard, as the journal has them.
struct sluice_coord_switch {
    char to[SLUICE_COORD_MAX];   // the id of the service, in hex; zeros: store:
    char from[SLUICE_COORD_MAX]; // of the first shard that follows another one; "": all follow `to`
    uint32_t shards;
    uint32_t following; // shards that follow `to`
    uint32_t switched;  // ... of which this call switched so many
};

#define SLUICE_COORD_SWITCH_CHECK 1u // only report

// Makes the shards of a queue follow another coordination service (docs/cluster.md). coord is its
// URL: "store:", "etcd://h1,h2", "consul://host" or one of their +tls forms. From then on only that
// service numbers the owners of the shards. The present owner stays until a node of the other
// service becomes the owner.
//
// Nodes of the former service can no longer become owners, so start all nodes with the new --coord.
// A call that was interrupted is repeated: shards that follow the service already are left alone.
// SLUICE_INVALID: the handle is of a node, or the URL is not a coordination service's.
SLUICE_API enum sluice_code sluice_coord_switch(struct sluice *s, const char *queue,
                                                const char *coord, unsigned flags,
                                                struct sluice_coord_switch *out,
                                                struct sluice_error *error);

#ifdef __cplusplus
}
#endif
