// SPDX-License-Identifier: Apache-2.0
// The counters of a node. Any thread may add to them, and any may read them.
#pragma once

#include "base/histogram.h"
#include "queue/codec/reason.h"

#include <stdatomic.h>
#include <stdint.h>

// field, metric's name, help
#define METRICS_LIST(X)                                                                            \
    X(bytes_in, "sluice_http_request_bytes_total", "Bytes of request bodies.")                     \
    X(bytes_out, "sluice_http_response_bytes_total", "Bytes of answers' bodies.")                  \
    X(unauthenticated, "sluice_http_unauthenticated_total", "Requests without a valid token.")     \
    X(forbidden, "sluice_http_forbidden_total", "Requests for which a token lacked the scope.")    \
    X(throttled, "sluice_http_throttled_total", "Requests over their client's rate.")              \
    X(no_room, "sluice_http_no_room_total",                                                        \
      "Requests refused because bodies, or answers, took all memory.")                             \
    X(sent, "sluice_messages_sent_total", "Messages taken by this node.")                          \
    X(received, "sluice_messages_received_total", "Messages handed out by this node.")             \
    X(acked, "sluice_messages_acked_total", "Locks acked at this node.")                           \
    X(failed, "sluice_messages_failed_total", "Locks failed at this node.")                        \
    X(released, "sluice_messages_released_total", "Locks given back at this node.")                \
    X(renewed, "sluice_locks_renewed_total", "Locks renewed at this node.")                        \
    X(fenced, "sluice_fenced_total",                                                               \
      "Acks, fails, releases and renewals whose lock is no longer held.")                          \
    X(late_acks, "sluice_late_acks_total",                                                         \
      "Acks refused because the message was given to another worker, or is finished.")             \
    X(waits, "sluice_waits_total", "Receives that waited.")                                        \
    X(waits_gone, "sluice_waits_hung_up_total", "Receives that waited and whose client hung up.")  \
    X(given_back, "sluice_messages_given_back_total",                                              \
      "Messages given back because their client was gone.")                                        \
    X(forwarded, "sluice_forwarded_total",                                                         \
      "Parts of requests that the owner of the shard, another node, did.")                         \
    X(forwards_failed, "sluice_forwards_failed_total",                                             \
      "Parts of requests that the owner did not do, so this node did them. If it did "             \
      "one too, both nodes count it.")                                                             \
    X(streams, "sluice_event_streams_opened_total", "Event streams opened.")                       \
    X(events, "sluice_events_written_total", "Events written to streams.")                         \
    X(streams_lagged, "sluice_streams_lagged_total",                                               \
      "Streams that ended because their client read too slowly.")                                  \
    X(stream_wakes, "sluice_stream_bus_wakes_total",                                               \
      "Messages of the bus that made a queue of /v1/stream read its journal.")

#define METRICS_ROUTES_MAX 80
#define METRICS_OUTCOMES   4 // enum settle_kind

// The statuses that a node answers with. The last stands for all others.
#define METRICS_STATUSES                                                                           \
    {                                                                                              \
        200, 201, 204, 304, 400, 401, 403, 404, 405, 409, 410, 413, 414, 415, 429, 431, 500, 503,  \
            504, 0                                                                                 \
    }
#define METRICS_STATUSES_LEN 20

struct metrics {
#define METRICS_FIELD(name, shown, help) _Atomic uint64_t name;
    METRICS_LIST(METRICS_FIELD)
#undef METRICS_FIELD
    struct histogram commits;   // ns from a request's arrival to its durable answer
    struct histogram event_lag; // ns from an event to its writing
    struct histogram signals;   // ns from the commit of a signal to the answer of a poll
    struct histogram collects;  // ns from the arrival of a collect to its answer
    _Atomic uint64_t refused[METRICS_OUTCOMES][REASON_COUNT];
    struct route_metrics {
        _Atomic uint64_t statuses[METRICS_STATUSES_LEN];
        struct histogram latency; // ns, without requests that wait by design
    } routes[METRICS_ROUTES_MAX]; // by their index in router.c; the last: no such route
};

#define METRICS_ADD(metrics, name, n)                                                              \
    atomic_fetch_add_explicit(&(metrics)->name, (uint64_t)(n), memory_order_relaxed)

struct exchange;
struct async_answer;
void metrics_request(const struct exchange *x);   // the request is over
void metrics_committed(const struct exchange *x); // its effect is durable
void metrics_settled(const struct exchange *x, const struct async_answer *a);
void metrics_collected(const struct exchange *x); // a collect is answered
struct sluice_signals;
void metrics_signals(struct metrics *m, const struct sluice_signals *list); // a poll is answered
void metrics_event_lag(struct metrics *m, int64_t event_ms); // a new event was written
