// SPDX-License-Identifier: Apache-2.0
// The calls about the cluster. protocol/list.h, which includes them, explains the columns.
#pragma once

#define CLUSTER_USED_FIELDS(F, S)                                                                  \
    F(S, TEXT, queue, "queue", 0, 128, 0, "The queue. Empty: only look at the members again.")     \
    F(S, NUMBER, shard, "shard", 0, UINT32_MAX, 0, NULL)                                           \
    F(S, TEXT, node, "node", 0, 128, 0, "The member that serves the shard, which no plan has yet.")

#define CLUSTER_ORDER_FIELDS(F, S)                                                                 \
    F(S, TEXT, node, "node", 0, 128, 0,                                                            \
      "The name of this node. It answers 409 if it has another one. By default it is this node.")

#define CLUSTER_EVENTS_FIELDS(F, S)                                                                \
    F(S, TEXT, from, "from", 0, 0, 0,                                                              \
      "The id of the last event that was read, or now. By default, the oldest event follows.")

#define NODE_SHARDS_FIELDS(F, S)                                                                   \
    F(S, BOOL, synced, "synced", 0, 1, 0, "Reads the journals to their ends first.")

#define CLUSTER_REQUEST_STRUCTS(S)                                                                 \
    S(cluster_used_in, CLUSTER_USED_FIELDS)                                                        \
    S(node_shards_in, NODE_SHARDS_FIELDS)                                                          \
    S(cluster_order_in, CLUSTER_ORDER_FIELDS)                                                      \
    S(cluster_events_in, CLUSTER_EVENTS_FIELDS)

#define CLUSTER_REQUEST_TABLES(T)                                                                  \
    T(cluster_used, cluster_used_in, CLUSTER_USED_FIELDS)                                          \
    T(node_shards, node_shards_in, NODE_SHARDS_FIELDS)                                             \
    T(cluster_order, cluster_order_in, CLUSTER_ORDER_FIELDS)                                       \
    T(cluster_events, cluster_events_in, CLUSTER_EVENTS_FIELDS)

#define MEMBER_ANSWER(A, S)                                                                        \
    A(S, CHARS, name, "name", OMIT_NEVER, NULL)                                                    \
    A(S, CHARS, url, "url", OMIT_NEVER, NULL)                                                      \
    A(S, CHARS, version, "version", OMIT_NEVER, NULL)                                              \
    A(S, CHARS, status, "status", OMIT_NEVER,                                                      \
      "joining, healthy, suspect, unhealthy, leaving or gone.")                                    \
    A(S, SMALL, capacity, "capacity", OMIT_NEVER,                                                  \
      "Its share of the shards, relative to other nodes.")                                         \
    A(S, SMALL, shards, "shards", OMIT_NEVER,                                                      \
      "Shards that the plan gives to it, or that a lone node owns.")                               \
    A(S, SMALL, rules_lo, "rulesLowest", OMIT_ZERO,                                                \
      "The lowest version of the rules that it knows.")                                            \
    A(S, SMALL, rules_hi, "rulesNewest", OMIT_ZERO,                                                \
      "The newest version of the rules that it knows.")                                            \
    A(S, NUMBER, beat_age_ms, "beatAgeMs", OMIT_NEVER, "Since its last sign of life.")             \
    A(S, FLAG, leads, "leads", OMIT_NEVER, NULL)                                                   \
    A(S, FLAG, self, "self", OMIT_NEVER, "It is the node that answers.")                           \
    A(S, CHARS, settings, "settings", OMIT_EMPTY, "The settings of the cluster that it goes by.")

#define SHARD_ANSWER(A, S)                                                                         \
    A(S, CHARS, queue, "queue", OMIT_NEVER, NULL)                                                  \
    A(S, SMALL, shard, "shard", OMIT_NEVER, NULL)                                                  \
    A(S, CHARS, owner, "owner", OMIT_NEVER, "The node that the journal names. Empty: not known.")  \
    A(S, COUNT, epoch, "epoch", OMIT_NEVER, "The owner's epoch in the journal. 0: not known.")     \
    A(S, CHARS, planned, "planned", OMIT_NEVER, "The node that should own it. Empty: none.")       \
    A(S, FLAG, moving, "moving", OMIT_NEVER, "It is being taken over or given away.")              \
    A(S, CHARS, reason, "reason", OMIT_EMPTY, "Why it moved last.")                                \
    A(S, CHARS, from, "from", OMIT_EMPTY, "The owner before the last move.")                       \
    A(S, FLAG, counted, "counted", OMIT_NEVER,                                                     \
      "The counts are known: the owner of the shard has told them.")                               \
    A(S, COUNT, ready, "ready", OMIT_NEVER, "Messages that are ready.")                            \
    A(S, COUNT, open, "open", OMIT_NEVER, "Messages that are locked.")                             \
    A(S, COUNT, refused, "refusedClaims", OMIT_NEVER,                                              \
      "Claims that the journal refused because of consume=owner.")                                 \
    A(S, COUNT, work, "work", OMIT_ZERO, "Entries of its journal and messages sent, so far.")

#define CLUSTER_ANSWER(A, S)                                                                       \
    A(S, CHARS, node, "node", OMIT_NEVER, "The node that answers.")                                \
    A(S, CHARS, backend, "backend", OMIT_NEVER, "The coordination service: store, etcd, consul.")  \
    A(S, CHARS, service, "service", OMIT_NEVER, "The id of the service, in hex.")                  \
    A(S, NUMBER, lease_ms, "leaseMs", OMIT_NEVER, NULL)                                            \
    A(S, FLAG, observe_only, "observeOnly", OMIT_NEVER, NULL)                                      \
    A(S, FLAG, draining, "draining", OMIT_NEVER, NULL)                                             \
    A(S, FLAG, replaced, "replaced", OMIT_NEVER,                                                   \
      "A later start of the same name has replaced this node.")                                    \
    A(S, CHARS, leader, "leader", OMIT_NEVER, "Empty: none.")                                      \
    A(S, COUNT, epoch, "epoch", OMIT_NEVER, "The leader's epoch.")                                 \
    A(S, COUNT, plan_epoch, "planEpoch", OMIT_NEVER, NULL)                                         \
    A(S, COUNT, plan_number, "planNumber", OMIT_NEVER, NULL)                                       \
    A(S, SMALL, moves, "moves", OMIT_NEVER, "Moves of the plan.")                                  \
    A(S, SMALL, waiting, "waiting", OMIT_NEVER, "Moves that a limit puts off.")                    \
    A(S, SMALL, unowned, "unowned", OMIT_ZERO,                                                     \
      "Shards that no member owns, if the node that answers leads.")                               \
    A(S, COUNT, unowned_events, "unownedEvents", OMIT_ZERO,                                        \
      "Events that wait in these shards for the bus.")                                             \
    A(S, FLAG, degraded, "degraded", OMIT_NEVER, "The coordination service does not answer.")      \
    A(S, NUMBER, degraded_ms, "degradedMs", OMIT_ZERO, NULL)                                       \
    A(S, CHARS, degraded_why, "degradedWhy", OMIT_EMPTY, NULL)                                     \
    A(S, CHARS, flags, "flags", OMIT_EMPTY, "As in GET /v1/node.")                                 \
    A(S, CHARS, settings, "settings", OMIT_EMPTY,                                                  \
      "The settings of the cluster that the node goes by: lease=5s observe=5s ...")                \
    A(S, CHARS, differs, "settingsDiffer", OMIT_EMPTY,                                             \
      "A member that goes by other settings, and which.")

#define MOVE_ANSWER(A, S)                                                                          \
    A(S, CHARS, queue, "queue", OMIT_NEVER, NULL)                                                  \
    A(S, SMALL, shard, "shard", OMIT_NEVER, NULL)                                                  \
    A(S, CHARS, from, "from", OMIT_NEVER, NULL)                                                    \
    A(S, CHARS, to, "to", OMIT_NEVER, NULL)                                                        \
    A(S, CHARS, reason, "reason", OMIT_NEVER, "Empty: the shard stays.")                           \
    A(S, CHARS, why, "why", OMIT_EMPTY, "The reason as a sentence.")                               \
    A(S, SMALL, traffic, "traffic", OMIT_ZERO,                                                     \
      "Entries and messages sent a second, if the node that answers leads.")

#define CLUSTER_EVENT_ANSWER(A, S)                                                                 \
    A(S, TEXT, id, "id", OMIT_NEVER, NULL)                                                         \
    A(S, TEXT, type, "type", OMIT_NEVER, NULL)                                                     \
    A(S, NUMBER, time, "time", OMIT_NEVER, "Milliseconds since 1970, by the node's clock.")        \
    A(S, TEXT, node, "node", OMIT_NEVER, "The leader, the member, or the owner.")                  \
    A(S, TEXT, status, "status", OMIT_EMPTY, "Of a member.")                                       \
    A(S, TEXT, queue, "queue", OMIT_EMPTY, NULL)                                                   \
    A(S, SMALL, shard, "shard", OMIT_NEVER, NULL)                                                  \
    A(S, COUNT, epoch, "epoch", OMIT_NEVER, "The leader's, or the shard's.")

#define CLUSTER_ANSWER_TABLES(T)                                                                   \
    T(Member, member, sluice_member, MEMBER_ANSWER)                                                \
    T(Shard, shard, sluice_shard, SHARD_ANSWER)                                                    \
    T(Cluster, cluster, sluice_cluster, CLUSTER_ANSWER)                                            \
    T(Move, move, sluice_move, MOVE_ANSWER)                                                        \
    T(ClusterEvent, cluster_event, sluice_cluster_event, CLUSTER_EVENT_ANSWER)

#define CLUSTER_CALLS(X)                                                                           \
    X(CLUSTER, cluster, ROUTE_READS, .blocks = true, .any_queue = true, .pattern = "/v1/cluster",  \
      .tag = "cluster", .operation = "showCluster",                                                \
      .summary = "Shows the members, the leader and the shards", .answer = "Cluster",              \
      .conflicts = true, .about = "The cluster as this node sees it.")                             \
    X(CLUSTER_PLAN, cluster_plan, ROUTE_READS, .blocks = true, .any_queue = true,                  \
      .pattern = "/v1/cluster/plan", .tag = "cluster", .operation = "showPlan",                    \
      .summary = "Shows the next plan, and why", .answer = "Plan", .conflicts = true,              \
      .about = "What a leader would publish now.")                                                 \
    X(CLUSTER_DRAIN, cluster_drain, .method = "POST", .scope = SCOPE_ADMIN, .blocks = true,        \
      .pattern = "/v1/cluster/drain", ROUTE_SMALL, .repeat = REPEAT_SAME,                          \
      .body = &cluster_order_fields, .takes = "ClusterOrder", .tag = "cluster",                    \
      .operation = "drainNode", .status = 204, .conflicts = true,                                  \
      .summary = "Gives the shards of this node to other nodes",                                   \
      .about = "The node takes no more shards. It goes on serving.")                               \
    X(CLUSTER_UNDRAIN, cluster_undrain, .method = "POST", .scope = SCOPE_ADMIN, .blocks = true,    \
      .pattern = "/v1/cluster/undrain", ROUTE_SMALL, .repeat = REPEAT_SAME,                        \
      .body = &cluster_order_fields, .takes = "ClusterOrder", .tag = "cluster",                    \
      .operation = "undrainNode", .status = 204, .conflicts = true,                                \
      .summary = "Ends the drain of this node",                                                    \
      .about =                                                                                     \
          "The next plans give the node shards again. Nothing changes if it was not drained.")     \
    X(CLUSTER_LEAVE, cluster_leave, .method = "POST", .scope = SCOPE_ADMIN, .blocks = true,        \
      .pattern = "/v1/cluster/leave", ROUTE_SMALL, .repeat = REPEAT_SAME,                          \
      .body = &cluster_order_fields, .takes = "ClusterOrder", .tag = "cluster",                    \
      .operation = "leaveCluster", .status = 204, .conflicts = true,                               \
      .summary = "Ends this node in order: it gives its shards away first",                        \
      .about = "The node begins to end.")                                                          \
    X(CLUSTER_EVENTS, cluster_events, ROUTE_READS, .blocks = true, .any_queue = true,              \
      .pattern = "/v1/cluster/events", .query = &cluster_events_fields, .tag = "cluster",          \
      .operation = "watchCluster", .conflicts = true,                                              \
      .summary = "Streams what happens in the cluster as Server-Sent Events")                      \
    X(NODE_SHARDS, node_shards, .method = "GET", .blocks = true, .pattern = "/v1/node/shards",     \
      .peer = true, .query = &node_shards_fields, .tag = "node", .operation = "listOwned",         \
      .summary = "Lists the shards that this node owns. For other nodes")                          \
    X(CLUSTER_USED, cluster_used, .method = "POST", .tag = "node", .blocks = true,                 \
      .pattern = "/v1/cluster/used", ROUTE_SMALL, .body = &cluster_used_fields,                    \
      .takes = "ClusterUsed", .operation = "hintUsed", .answer = "Status",                         \
      .summary = "For other nodes: tells this node that a shard is used",                          \
      .about = "The node claims the shard if the plan of the cluster gives it to this node.")      \
    X(CLUSTER_UNREACHABLE, cluster_unreachable, .method = "GET", .tag = "node", .blocks = true,    \
      .pattern = "/v1/cluster/unreachable", .peer = true, .operation = "showUnreachable",          \
      .summary = "For the leader: the members that do not answer this node")
