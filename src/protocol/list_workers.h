// SPDX-License-Identifier: Apache-2.0
// The calls about the workers of a queue. protocol/list.h, which includes them, explains the
// columns.
#pragma once

#include "queue/codec/ops.h"

// A receive or a renewal with this header is a sign of life of a registered worker: 16 hex digits
// of its instance, a space, and its name.
#define WORKER_HEADER "Sluice-Worker"

#define WAITING_FIELDS(F, S)                                                                       \
    F(S, TEXT, queue, "queue", 0, 0, 0, "Only workers of this queue.")                             \
    F(S, BOOL, all, "all", 0, 1, 0, "Also those that wait at the other nodes of the cluster.")

#define WORKER_FIELD(F, S) F(S, TEXT, worker, "worker", 0, WORKER_NAME_MAX, 0, "The worker's name.")

#define INSTANCE_FIELD(F, S)                                                                       \
    F(S, TEXT, instance, "instance", 0, 16, 0,                                                     \
      "64 random bits of the worker's process, as 16 hex digits. They tell two processes of one "  \
      "name apart. If a join has none, the node draws them.")

#define WORKER_JOIN_FIELDS(F, S)                                                                   \
    WORKER_FIELD(F, S)                                                                             \
    INSTANCE_FIELD(F, S)                                                                           \
    F(S, SMALL, capacity, "capacity", 1, WORKER_CAPACITY_MAX, 1,                                   \
      "Most messages that tickets give it at a time.")                                             \
    F(S, DURATION, ttl, "ttl", WORKER_TTL_MIN_MS, WORKER_TTL_MAX_MS, WORKER_TTL_DEFAULT_MS,        \
      "How long the registration lasts without a sign of life. Each receive with the header "      \
      "Sluice-Worker is one.")                                                                     \
    F(S, TEXT, labels, "labels", 0, 0, 0, "Up to 16 labels: host=a7,kind=gpu.")                    \
    F(S, BOOL, beat, "beat", 0, 1, 0,                                                              \
      "Only a sign of life: answers 404 if the worker is not registered. The other fields but "    \
      "worker and instance are ignored.")                                                          \
    F(S, BOOL, store_only, "storeOnly", 0, 1, 0,                                                   \
      "The worker reaches only the store, so the shard's owner grants it tickets.")

#define WORKER_LEAVE_FIELDS(F, S) WORKER_FIELD(F, S) INSTANCE_FIELD(F, S)

#define WORKER_REQUEST_STRUCTS(S)                                                                  \
    S(waiting_in, WAITING_FIELDS)                                                                  \
    S(worker_join_in, WORKER_JOIN_FIELDS)                                                          \
    S(worker_leave_in, WORKER_LEAVE_FIELDS)                                                        \
    S(worker_order_in, WORKER_FIELD)

#define WORKER_REQUEST_TABLES(T)                                                                   \
    T(waiting, waiting_in, WAITING_FIELDS)                                                         \
    T(worker_join, worker_join_in, WORKER_JOIN_FIELDS)                                             \
    T(worker_leave, worker_leave_in, WORKER_LEAVE_FIELDS)                                          \
    T(worker_order, worker_order_in, WORKER_FIELD)

#define WORKER_ANSWER(A, S)                                                                        \
    A(S, CHARS, name, "name", OMIT_NEVER, NULL)                                                    \
    A(S, SMALL, open, "open", OMIT_NEVER, "Open locks and tickets.")                               \
    A(S, SMALL, capacity, "capacity", OMIT_NEVER, "0: not registered.")                            \
    A(S, SMALL, waiting, "waiting", OMIT_NEVER, "Receives of this worker that wait now.")          \
    A(S, NUMBER, since, "since", OMIT_ZERO,                                                        \
      "Since when it is registered, or else receives at a node without a pause of 30 s.")          \
    A(S, NUMBER, seen_at, "seenAt", OMIT_ZERO, "Its last sign of life.")                           \
    A(S, CHARS, node, "node", OMIT_EMPTY, "The node at which it receives.")                        \
    A(S, CHARS, mode, "mode", OMIT_EMPTY, "running, paused, draining or evicted.")                 \
    A(S, CHARS, labels, "labels", OMIT_EMPTY, "host=a7,kind=gpu")                                  \
    A(S, NUMBER, ttl_ms, "ttlMs", OMIT_ZERO, NULL)                                                 \
    A(S, COUNT, done, "done", OMIT_ZERO, "Messages that it processed since it joined.")            \
    A(S, COUNT, failed, "failed", OMIT_ZERO, "Messages that it failed, or whose lock expired.")

#define WORKER_CALLS(X)                                                                            \
    X(WORKERS, workers, ROUTE_READS, .blocks = true, ROUTE_QUEUE "/workers", .tag = "workers",     \
      .operation = "listWorkers",                                                                  \
      .summary = "Lists the workers that are registered, hold locks or wait", .answer = "Workers", \
      .about = "Sorted by name.")                                                                  \
    X(WORKER_JOIN, worker_join, .method = "POST", .scope = SCOPE_WORK, .blocks = true,             \
      ROUTE_QUEUE "/workers", ROUTE_SMALL, .repeat = REPEAT_SAME, .body = &worker_join_fields,     \
      .takes = "WorkerJoin", .tag = "workers", .operation = "joinWorker", .conflicts = true,       \
      .fences = true, .summary = "Registers a worker, or reports that it lives",                   \
      .answer = "Joined", .about = "The worker is registered.")                                    \
    X(WORKER_LEAVE, worker_leave, .method = "DELETE", .scope = SCOPE_WORK, .blocks = true,         \
      ROUTE_QUEUE "/workers", .repeat = REPEAT_SAME, .query = &worker_leave_fields,                \
      .tag = "workers", .operation = "leaveWorker", .status = 204,                                 \
      .summary = "Ends the registration of a worker",                                              \
      .about = "The worker is not registered. Its locks stay until their deadlines.")              \
    X(WORKER_PAUSE, worker_order, ROUTE_ORDERS, ROUTE_QUEUE "/workers/pause",                      \
      .operation = "pauseWorker", .summary = "Gives a worker nothing until it is resumed",         \
      .about = "The worker is paused. What it holds goes on.")                                     \
    X(WORKER_RESUME, worker_order, ROUTE_ORDERS, ROUTE_QUEUE "/workers/resume",                    \
      .operation = "resumeWorker", .summary = "Ends the pause or the drain of a worker",           \
      .about = "The worker gets messages again.")                                                  \
    X(WORKER_DRAIN, worker_order, ROUTE_ORDERS, ROUTE_QUEUE "/workers/drain",                      \
      .operation = "drainWorker",                                                                  \
      .summary = "Lets a worker finish what it holds, and gives it nothing more",                  \
      .about = "The worker drains.")                                                               \
    X(WORKER_EVICT, worker_order, ROUTE_ORDERS, ROUTE_QUEUE "/workers/evict",                      \
      .operation = "evictWorker", .summary = "Ends the locks of a worker and keeps it out",        \
      .about = "Its locks have ended, and no attempt is counted. Its process cannot join for ten " \
               "minutes.")                                                                         \
    X(WAITING, waiting, ROUTE_READS, .blocks = true, .any_queue = true,                            \
      .pattern = "/v1/node/workers", .query = &waiting_fields, .tag = "node",                      \
      .operation = "listWaiting",                                                                  \
      .summary = "Lists the workers that wait in a receive at this node", .answer = "Waiting",     \
      .about = "Of the queues that the token may read, sorted by queue and name.")

#define ROUTE_ORDERS                                                                               \
    .method = "POST", .scope = SCOPE_ADMIN, ROUTE_SMALL, .repeat = REPEAT_SAME,                    \
    .body = &worker_order_fields, .takes = "WorkerOrder", .tag = "workers", .status = 204
