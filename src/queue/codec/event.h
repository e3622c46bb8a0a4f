// SPDX-License-Identifier: Apache-2.0
// The fold emits one event per transition. Every fold of the same entries emits the same events
// with the same ids, in every process.
#pragma once

#include "base/bytes.h"
#include "queue/codec/message.h"
#include "queue/codec/reason.h"
#include "queue/codec/result.h"
#include "queue/codec/settings.h"

#define EVENT_LIST(X)                                                                              \
    X(MESSAGE_ENQUEUED, "message-enqueued")                                                        \
    X(MESSAGE_CLAIMED, "message-claimed")                                                          \
    X(MESSAGE_OUTCOME, "message-outcome")                                                          \
    X(MESSAGE_RELEASED, "message-released")                                                        \
    X(MESSAGE_MOVED, "message-moved")                                                              \
    X(LOCK_RENEWED, "lock-renewed")                                                                \
    X(LOCK_RENEWAL_REJECTED, "lock-renewal-rejected")                                              \
    X(OUTCOME_REJECTED, "outcome-rejected")                                                        \
    X(LOCK_EXPIRED, "lock-expired")                                                                \
    X(ORDERING_BEST_EFFORT, "ordering-best-effort")                                                \
    X(TICKETS_PUBLISHED, "tickets-published")                                                      \
    X(TICKETS_RECOVERED, "tickets-recovered")                                                      \
    X(QUEUE_CONFIGURED, "queue-configured")                                                        \
    X(QUEUE_PAUSED, "queue-paused")                                                                \
    X(QUEUE_RESUMED, "queue-resumed")                                                              \
    X(QUEUE_PURGED, "queue-purged")                                                                \
    X(QUEUE_DELETED, "queue-deleted")                                                              \
    X(QUEUE_UPGRADED, "queue-upgraded")                                                            \
    X(CLAIM_REJECTED, "claim-rejected")                                                            \
    X(WORKFLOW_SUBMITTED, "workflow-submitted")                                                    \
    X(WORKFLOW_COMPLETED, "workflow-completed")                                                    \
    X(WORKFLOW_FAILED, "workflow-failed")                                                          \
    X(SIGNAL_SENT, "signal-sent")                                                                  \
    X(SIGNAL_DELIVERED, "signal-delivered")                                                        \
    X(SIGNAL_ACKED, "signal-acked")                                                                \
    X(SIGNAL_ENDED, "signal-ended")

enum event_kind {
#define EVENT_ENUM(name, id) EVENT_##name,
    EVENT_LIST(EVENT_ENUM)
#undef EVENT_ENUM
        EVENT_COUNT
};

#define EVENT_OP_TIME UINT32_MAX // op index of events that are caused by time

// What orders an event: events with the same key are in the order of their sequence. GROUP: the
// scope of a strict queue. WORKFLOW: an event about a workflow, or about a message of one in a
// queue with workflowOrder.
enum event_key { EVENT_KEY_QUEUE, EVENT_KEY_MESSAGE, EVENT_KEY_GROUP, EVENT_KEY_WORKFLOW };

// If a kind does not use a field, the field is zero.
struct event {
    uint64_t slot; // slot, op, kind and n, with queue id and shard, identify the event
    uint32_t op;
    uint32_t n; // number of the event within the op, from 0
    enum event_kind kind;
    enum outcome_status status; // message-outcome
    // lock-renewal-rejected, outcome-rejected, claim-rejected; outcome of an expiry
    enum reason reason;
    int64_t at;          // the fold's time
    uint64_t seq;        // the message; 0: the event is about the queue
    struct place place;  // of the message; slot 0: unknown
    uint32_t deliveries; // number of the attempt
    uint32_t retries;
    uint64_t fence;
    // Deadline of the lock, or when the message is ready again; 0: at once or never.
    int64_t until;
    uint64_t order; // of a ticket
    // ordering-best-effort: open messages; purged: their number; configured: the version; upgraded:
    // the version of the rules; claim-rejected: messages wanted; workflow-submitted: the number of
    // the run; workflow-completed: messages that were done; workflow-failed: messages that failed.
    uint64_t count;
    uint64_t sequence;  // number of the event in its shard, from 1
    uint64_t from;      // message-enqueued: the redriven dead message
    uint32_t worker_at; // offset in events.text
    uint32_t worker_len;
    uint32_t failure_at; // offset in events.text: the reason that a worker gave for a failure
    uint32_t failure_len;
    uint32_t origin_at; // offset in events.text: the origin of a dead letter that arrived
    uint32_t origin_len;
    uint32_t workflow_at; // offset in events.text: the workflow's id
    uint32_t workflow_len;
    // signal-sent, signal-delivered, signal-acked, signal-ended: `count` is its number.
    struct request_id signal;
    enum signal_kind signal_kind;
    enum signal_state signal_state;
    enum event_key key;
    uint64_t group; // EVENT_KEY_GROUP: the hash of the group; 0: the messages without a group
};

struct events {
    struct event *rows;
    size_t len;
    size_t cap;
    struct buf text;
};

void events_init(struct events *e);
void events_done(struct events *e);
void events_clear(struct events *e); // keeps the memory
struct bytes event_worker(const struct events *list, const struct event *e);
struct bytes event_failure_text(const struct events *list, const struct event *e);
// The workflow of the message, or the one that the event is about; empty: none. Known
// for as long as the message exists.
struct bytes event_workflow(const struct events *list, const struct event *e);

// The message that died in another queue, for the message-enqueued event of its arrival. Views into
// the list.
struct event_origin {
    struct bytes queue; // name of the queue
    struct queue_id id;
    uint32_t shard;
    uint64_t seq;
    struct bytes reason;
    uint32_t retries;
    int64_t died_at;
    uint32_t deliveries;
    struct bytes worker; // empty: not known
};
bool event_origin(const struct events *list, const struct event *e, struct event_origin *out);

const char *event_name(enum event_kind kind);
// "<queue id in hex>-<shard>-<slot>-<op>-<kind's name>-<n>"; op is "t" for an event caused by time.
#define EVENT_ID_MAX  128
// What orders the event, the same text for every reader: "group:<queue>:<hash in hex>" in a strict
// queue, "workflow:<queue>:<id>", "task:<message id>" or "queue:<queue>:<shard>". Names are tokens
// (base/text.h).
#define EVENT_KEY_MAX (3 * (QUEUE_NAME_MAX + MESSAGE_WORKFLOW_MAX) + 16)
void event_ordering_key(const struct events *list, const struct event *e, const char *queue,
                        const struct queue_id *id, uint32_t shard, char out[EVENT_KEY_MAX]);
void event_id(const struct event *e, const struct queue_id *queue, uint32_t shard,
              char out[EVENT_ID_MAX]);
