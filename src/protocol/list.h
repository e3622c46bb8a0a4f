// SPDX-License-Identifier: Apache-2.0
// The calls of the HTTP interface, each declared once. Three lists make the request structs and the
// tables of routes.h, the router, the requests of src/client, and api/openapi.json.
//
// A field is F(S, kind, member, name, min, max, fallback, about):
//   S         the request struct
//   kind      FIELD_<kind> in protocol/fields.h; it decides the member's type
//   member    the member of the struct
//   name      the name in JSON and in a query
//   min, max  the range of a number or duration; for a text, max is its length in bytes (0: any),
//             and for a list or headers the number of items. Every reader of a request checks them
//   fallback  the value of a number that is not given
//   about     a sentence for api/openapi.json
//
// A call is X(ID, name, members of struct route...). The function handle_<name> of src/server
// answers it. After a change, run: tools/check-openapi --write . build/src/print-calls
#pragma once

#include "protocol/list_cluster.h"
#include "protocol/list_messages.h"
#include "protocol/list_signals.h"
#include "protocol/list_workers.h"
#include "protocol/list_workflows.h"

#define ROUTE_ITEMS_MAX     10000 // messages or tokens in one request
#define ROUTE_HEADERS_MAX   8192  // of a message; more do not fit in MESSAGE_HEADERS_MAX bytes
#define QUEUE_LIST_MAX      10000 // queues in one answer
#define RECEIVE_WAIT_MAX_MS 20000
#define TOKENS_ABOUT        "A token from receive."
#define SETTLED_ABOUT       "One outcome, or one per token in the same order."

#define QUEUE_LIST_FIELDS(F, S)                                                                    \
    F(S, BOOL, stats, "stats", 0, 1, 0, "Adds each queue's numbers.")                              \
    F(S, BOOL, names, "names", 0, 1, 0, "Returns only the names, without opening the queues.")     \
    F(S, TEXT, after, "after", 0, 0, 0, "Starts after this name.")                                 \
    F(S, SMALL, max, "max", 1, QUEUE_LIST_MAX, QUEUE_LIST_MAX, NULL)

#define QUEUE_DELETE_FIELDS(F, S)                                                                  \
    F(S, TEXT, id, "id", 0, 0, 0,                                                                  \
      "Deletes only the queue with this id. Answers 404 if another queue has the name now. With "  \
      "an id the request is safe to repeat.")

#define PURGE_FIELDS(F, S)                                                                         \
    F(S, BOOL, dead, "dead", 0, 1, 0, "Deletes the dead messages instead of the waiting ones.")

#define UPGRADE_FIELDS(F, S)                                                                       \
    F(S, BOOL, check, "check", 0, 1, 0, "Only reports what would change.")                         \
    F(S, BOOL, force, "force", 0, 1, 0,                                                            \
      "Raises the queue although a program that is too old, or of unknown version, wrote to it "   \
      "in the last 10 minutes.")

#define REDRIVE_FIELDS(F, S)                                                                       \
    F(S, TEXT, to, "to", 0, 0, 0,                                                                  \
      "The target of dead letters. null: each goes back to its own queue.")                        \
    F(S, SMALL, max, "max", 0, UINT32_MAX, 0, "0: all.")                                           \
    F(S, TEXTS, ids, "ids", 0, ROUTE_ITEMS_MAX, 0,                                                 \
      "Only these messages, by their ids. \"outcomes\" in the answer has a row for each.")

#define EVENTS_FIELDS(F, S)                                                                        \
    F(S, TEXT, from, "from", 0, 0, 0,                                                              \
      "Where to start: an event id of the stream, a position, now, or 0 for the oldest event "     \
      "that is kept. Default 0.")                                                                  \
    F(S, TEXTS, types, "type", 0, 0, 0, "Returns only these types. May be repeated.")              \
    F(S, TEXT, message, "message", 0, 0, 0, "Returns only events of this message.")

#define STREAM_FIELDS(F, S)                                                                        \
    F(S, TEXTS, queues, "queue", 0, 0, 0,                                                          \
      "Returns only events of these queues. May be repeated. Default: all queues.")                \
    F(S, TEXT, from, "from", 0, 0, 0,                                                              \
      "Where to start: an event id of the stream, now, or 0 for the oldest events that are kept. " \
      "Default now.")                                                                              \
    F(S, TEXTS, types, "type", 0, 0, 0, "Returns only these types. May be repeated.")              \
    F(S, TEXT, message, "message", 0, 0, 0, "Returns only events of this message.")                \
    F(S, TEXT, workflow, "workflow", 0, MESSAGE_WORKFLOW_MAX, 0,                                   \
      "Returns only events of this workflow and its messages.")

#define HEALTHZ_FIELDS(F, S)                                                                       \
    F(S, TEXT, nonce, "nonce", 0, 0, 0,                                                            \
      "A nonce in hex digits. The node proves its name with it to a client that knows the name "   \
      "from the journal. Other values are ignored.")                                               \
    F(S, TEXT, key, "key", 0, 0, 0,                                                                \
      "The keys of secrets of journals, with commas. The node proves its name with one of them.")

// S(struct, fields)
#define REQUEST_STRUCTS(S)                                                                         \
    S(queue_list_in, QUEUE_LIST_FIELDS)                                                            \
    S(queue_delete_in, QUEUE_DELETE_FIELDS)                                                        \
    S(purge_in, PURGE_FIELDS)                                                                      \
    S(upgrade_in, UPGRADE_FIELDS)                                                                  \
    S(redrive_in, REDRIVE_FIELDS)                                                                  \
    S(messages_in, MESSAGES_FIELDS)                                                                \
    S(peek_in, PEEK_FIELDS)                                                                        \
    S(receive_in, RECEIVE_FIELDS)                                                                  \
    S(settle_in, SETTLE_MEMBERS)                                                                   \
    S(stream_in, STREAM_FIELDS)                                                                    \
    S(events_in, EVENTS_FIELDS)                                                                    \
    S(healthz_in, HEALTHZ_FIELDS)                                                                  \
    WORKER_REQUEST_STRUCTS(S)                                                                      \
    SIGNAL_REQUEST_STRUCTS(S)                                                                      \
    WORKFLOW_REQUEST_STRUCTS(S)                                                                    \
    CLUSTER_REQUEST_STRUCTS(S)

// T(table, struct_in, fields): <table>_fields
#define REQUEST_TABLES(T)                                                                          \
    T(queue_list, queue_list_in, QUEUE_LIST_FIELDS)                                                \
    T(queue_delete, queue_delete_in, QUEUE_DELETE_FIELDS)                                          \
    T(purge, purge_in, PURGE_FIELDS)                                                               \
    T(upgrade, upgrade_in, UPGRADE_FIELDS)                                                         \
    T(redrive, redrive_in, REDRIVE_FIELDS)                                                         \
    T(message_query, sluice_send, MESSAGE_QUERY_FIELDS)                                            \
    T(send, sluice_send, SEND_FIELDS)                                                              \
    T(message, sluice_send, MESSAGE_FIELDS)                                                        \
    T(messages, messages_in, MESSAGES_FIELDS)                                                      \
    T(peek, peek_in, PEEK_FIELDS)                                                                  \
    T(receive, receive_in, RECEIVE_FIELDS)                                                         \
    T(ack, settle_in, ACK_WITH_FIELDS)                                                             \
    T(fail, settle_in, FAIL_FIELDS)                                                                \
    T(release, settle_in, RELEASE_FIELDS)                                                          \
    T(renew, settle_in, RENEW_FIELDS)                                                              \
    T(ack_row, settle_in, ACK_ROW_FIELDS)                                                          \
    T(renewal, settle_in, RENEWAL_FIELDS)                                                          \
    T(settle, settle_in, SETTLE_FIELDS)                                                            \
    T(stream, stream_in, STREAM_FIELDS)                                                            \
    T(events, events_in, EVENTS_FIELDS)                                                            \
    T(healthz, healthz_in, HEALTHZ_FIELDS)                                                         \
    WORKER_REQUEST_TABLES(T)                                                                       \
    SIGNAL_REQUEST_TABLES(T)                                                                       \
    WORKFLOW_REQUEST_TABLES(T)                                                                     \
    CLUSTER_REQUEST_TABLES(T)

// An answer's field is A(S, kind, member, name, omit, about). S is a struct of sluice.h or calls.h.
#define REQUESTS_ANSWER(A, S)                                                                      \
    A(S, COUNT, writes, "writes", OMIT_NEVER, NULL)                                                \
    A(S, COUNT, reads, "reads", OMIT_NEVER, NULL)                                                  \
    A(S, COUNT, deletes, "deletes", OMIT_NEVER, NULL)

#define STATS_ANSWER(A, S)                                                                         \
    A(S, COUNT, ready, "ready", OMIT_NEVER, NULL)                                                  \
    A(S, COUNT, locked, "locked", OMIT_NEVER, NULL)                                                \
    A(S, COUNT, delayed, "delayed", OMIT_NEVER, NULL)                                              \
    A(S, COUNT, processed, "processed", OMIT_NEVER, NULL)                                          \
    A(S, COUNT, dead, "dead", OMIT_NEVER, "Dead in this queue.")                                   \
    A(S, NUMBER, oldest_age_ms, "oldestAgeMs", OMIT_NEVER,                                         \
      "How long the oldest ready message has been ready. A delayed message counts from the time "  \
      "when it is due. 0: none is ready.")                                                         \
    A(S, COUNT, outbound, "outbound", OMIT_NEVER, "Messages on the way to the dead-letter queue.") \
    A(S, COUNT, moved, "moved", OMIT_NEVER, "Messages that arrived in the dead-letter queue.")     \
    A(S, COUNT, redriven, "redriven", OMIT_NEVER, NULL)                                            \
    A(S, COUNT, purged, "purged", OMIT_NEVER, NULL)                                                \
    A(S, COUNT, cancelled, "cancelled", OMIT_NEVER, NULL)                                          \
    A(S, COUNT, sent, "sent", OMIT_NEVER, "All messages ever sent.")                               \
    A(S, COUNT, duplicates, "duplicates", OMIT_NEVER, "Sends whose dedup key was known.")          \
    A(S, COUNT, workers, "workers", OMIT_NEVER, "Workers that hold locks or are registered.")      \
    A(S, COUNT, waiting, "waiting", OMIT_NEVER,                                                    \
      "Workers that wait in a receive, at any node that answered. Some of them may hold locks.")   \
    A(S, COUNT, entries, "entries", OMIT_NEVER, "Entries committed to the journal.")               \
    A(S, COUNT, requests, "requests", OMIT_NEVER,                                                  \
      "Requests of this node to the store, for all queues.")                                       \
    A(S, REQUESTS, spent, "spent", OMIT_NEVER, NULL)                                               \
    A(S, REQUESTS, spent_this_hour, "spentThisHour", OMIT_NEVER, NULL)                             \
    A(S, REQUESTS, spent_last_hour, "spentLastHour", OMIT_NEVER, NULL)                             \
    A(S, NUMBER, hour_ms, "hourMs", OMIT_NEVER, "How much of the current hour has passed.")        \
    A(S, COUNT, signals, "signals", OMIT_NEVER, "Pending signals.")                                \
    A(S, COUNT, results, "results", OMIT_NEVER, "Results of finished messages that are kept.")     \
    A(S, COUNT, result_bytes, "resultBytes", OMIT_NEVER, "The bytes of these results.")            \
    A(S, COUNT, bodies, "bodies", OMIT_NEVER,                                                      \
      "Bodies of finished messages that are kept (retainBody).")                                   \
    A(S, FLAG, paused, "paused", OMIT_NEVER, NULL)                                                 \
    A(S, FLAG, takes_letters, "takesDeadLetters", OMIT_NEVER,                                      \
      "A dead letter of another queue has arrived here: this is a dead-letter queue.")             \
    A(S, NUMBER, outbound_age_ms, "outboundAgeMs", OMIT_NEVER,                                     \
      "How long the oldest outbound message has been dead. 0: there is none.")

#define SENT_ANSWER(A, S)                                                                          \
    A(S, CHARS, id, "id", OMIT_NEVER, NULL)                                                        \
    A(S, FLAG, duplicate, "duplicate", OMIT_NEVER,                                                 \
      "The dedup key was known. The id is that of the first message.")

#define SENT_ROW_ANSWER(A, S) A(S, CODE, code, "code", OMIT_NEVER, NULL) SENT_ANSWER(A, S)

#define OUTCOME_ANSWER(A, S)                                                                       \
    A(S, CODE, code, "code", OMIT_NEVER, NULL)                                                     \
    A(S, STATUS, status, "status", OMIT_EMPTY, NULL)                                               \
    A(S, CHARS, reason, "reason", OMIT_EMPTY, "Why the request was refused.")                      \
    A(S, NUMBER, until, "until", OMIT_EMPTY,                                                       \
      "For renewed, the new deadline. For retrying and released, when the message is ready "       \
      "again.")                                                                                    \
    SIGNALS_OF_OUTCOME(A, S)

#define PROBLEM_ANSWER(A, S)                                                                       \
    A(S, CODE, code, "code", OMIT_NEVER, NULL)                                                     \
    A(S, CHARS, reason, "reason", OMIT_EMPTY, NULL)                                                \
    A(S, CHARS, field, "field", OMIT_EMPTY, NULL)                                                  \
    A(S, CHARS, message, "detail", OMIT_NEVER, NULL)

#define UPGRADE_ANSWER(A, S)                                                                       \
    A(S, SMALL, version, "version", OMIT_NEVER,                                                    \
      "The version of the rules before the call, the lowest of the shards.")                       \
    A(S, SMALL, newest, "newest", OMIT_NEVER, "The newest version that this node knows.")          \
    A(S, SMALL, shards, "shards", OMIT_NEVER, NULL)                                                \
    A(S, SMALL, raised, "raised", OMIT_NEVER, "Shards that have the newest version now.")          \
    A(S, CHARS, changes, "changes", OMIT_NEVER, "What the newest version changes.")                \
    A(S, SMALL, current, "current", OMIT_NEVER,                                                    \
      "Writers of the last 24 hours that know the newest version.")                                \
    A(S, SMALL, old, "old", OMIT_NEVER, "Writers that are too old for it.")                        \
    A(S, SMALL, unknown, "unknown", OMIT_NEVER, "Writers of unknown version.")                     \
    A(S, NUMBER, old_ago_ms, "oldAgoMs", OMIT_ZERO,                                                \
      "How long ago the last old or unknown one wrote.")                                           \
    A(S, CHARS, owner, "owner", OMIT_EMPTY, "The URL of the node that owns the queue.")            \
    A(S, SMALL, owner_version, "ownerVersion", OMIT_ZERO,                                          \
      "The newest version that the owner knows.")                                                  \
    A(S, CHARS, old_members, "oldMembers", OMIT_EMPTY,                                             \
      "Nodes of the cluster that are too old for it, such as \"a, b\".")

#define QUEUE_ANSWER(A, S)                                                                         \
    A(S, TEXT, name, "name", OMIT_NEVER, NULL)                                                     \
    A(S, CHARS, id, "id", OMIT_NEVER, "The id changes if the queue is deleted and created again.") \
    A(S, FLAG, paused, "paused", OMIT_NEVER, NULL)                                                 \
    A(S, NUMBER, created, "created", OMIT_ZERO, "In milliseconds since 1970.")

// A row of the list of queues. A queue that cannot be read has a code and a detail.
#define QUEUE_ROW_ANSWER(A, S)                                                                     \
    A(S, TEXT, name, "name", OMIT_NEVER, NULL)                                                     \
    A(S, SCOPES, scopes, "scopes", OMIT_ZERO, NULL)                                                \
    A(S, CODE, code, "code", OMIT_ZERO, "The queue could not be read.")                            \
    A(S, TEXT, detail, "detail", OMIT_ZERO, NULL)

// The rest of the row, for a queue that can be read.
#define QUEUE_SEEN_ANSWER(A, S)                                                                    \
    A(S, TEXT, id, "id", OMIT_ZERO, NULL)                                                          \
    A(S, FLAG, paused, "paused", OMIT_ALONE, NULL)                                                 \
    A(S, TEXT, dead_letter_queue, "deadLetterQueue", OMIT_EMPTY,                                   \
      "The target of this queue's dead letters. Missing: none.")                                   \
    A(S, ANY, name, "stats", OMIT_ALONE, NULL)

#define QUEUE_LISTED_ANSWER(A, S) QUEUE_ROW_ANSWER(A, S) QUEUE_SEEN_ANSWER(A, S)

#define NODE_ANSWER(A, S)                                                                          \
    A(S, TEXT, node, "node", OMIT_NEVER, NULL)                                                     \
    A(S, TEXT, version, "version", OMIT_NEVER, NULL)                                               \
    A(S, TEXT, store, "store", OMIT_NEVER, NULL)                                                   \
    A(S, TEXT, address, "address", OMIT_NEVER, NULL)                                               \
    A(S, COUNT, queues, "queues", OMIT_NEVER, NULL)                                                \
    A(S, COUNT, waiting, "waiting", OMIT_NEVER, "Waiting receives.")                               \
    A(S, COUNT, uptime_ms, "uptimeMs", OMIT_NEVER, NULL)                                           \
    A(S, TEXT, flags, "flags", OMIT_NEVER,                                                         \
      "How far each capability is rolled out: bus=off placement=on dispatch=shadow stream=on.")    \
    A(S, REQUESTS, charged, "charged", OMIT_NEVER, NULL)

// How far a search came. It follows the messages.
#define FOUND_ANSWER(A, S)                                                                         \
    A(S, COUNT, messages, "messagesRead", OMIT_NEVER, "How many messages were read.")              \
    A(S, COUNT, bytes, "bytesRead", OMIT_NEVER, "The bytes of their bodies and headers.")          \
    A(S, CHARS, next, "next", OMIT_EMPTY,                                                          \
      "To continue, use it as \"after\". Missing: all messages were read.")

// "queue" follows the type.
#define EVENT_ANSWER(A, S)                                                                         \
    A(S, TEXT, id, "id", OMIT_NEVER, "The same event has the same id for every reader.")           \
    A(S, TEXT, type, "type", OMIT_NEVER, NULL)                                                     \
    A(S, TEXT, message, "message", OMIT_NEVER, "Empty if the event is about the queue.")           \
    A(S, SMALL, attempt, "attempt", OMIT_NEVER, NULL)                                              \
    A(S, NUMBER, time, "time", OMIT_NEVER, NULL)                                                   \
    A(S, TEXT, status, "status", OMIT_EMPTY, NULL)                                                 \
    A(S, TEXT, reason, "reason", OMIT_EMPTY, NULL)                                                 \
    A(S, TEXT, worker, "worker", OMIT_EMPTY, NULL)                                                 \
    A(S, COUNT, fence, "fence", OMIT_ZERO, NULL)                                                   \
    A(S, NUMBER, until, "until", OMIT_ZERO, NULL)                                                  \
    A(S, COUNT, count, "count", OMIT_ZERO, NULL)                                                   \
    A(S, COUNT, order, "order", OMIT_ZERO, "The order of a ticket.")                               \
    A(S, ORIGIN, from, "from", OMIT_EMPTY, NULL)                                                   \
    A(S, COUNT, position, "position", OMIT_NEVER, "The position of its journal entry.")            \
    A(S, SMALL, shard, "shard", OMIT_NEVER, NULL)                                                  \
    A(S, COUNT, sequence, "sequence", OMIT_ZERO,                                                   \
      "The number of the event in its shard, without gaps.")                                       \
    A(S, TEXT, workflow, "workflow", OMIT_EMPTY,                                                   \
      "The workflow of the message, or the one that the event is about.")                          \
    A(S, TEXT, ordering_key, "orderingKey", OMIT_EMPTY,                                            \
      "Events with the same key are in the order of their sequence.")                              \
    A(S, TEXT, signal, "signal", OMIT_EMPTY, "The id of a signal. count is its number.")           \
    A(S, TEXT, signal_kind, "signalKind", OMIT_EMPTY, "steer, ask or interrupt.")

// T(schema, table, struct, fields): <table>_answer, and the schema's name in api/openapi.json
#define ANSWER_TABLES(T)                                                                           \
    T(StoreRequests, requests, sluice_requests, REQUESTS_ANSWER)                                   \
    T(Stats, stats, sluice_stats, STATS_ANSWER)                                                    \
    T(Worker, worker, sluice_worker, WORKER_ANSWER)                                                \
    T(Sent, sent, sluice_sent, SENT_ANSWER)                                                        \
    T(Outcome, outcome, sluice_outcome, OUTCOME_ANSWER)                                            \
    T(Problem, problem, sluice_error, PROBLEM_ANSWER)                                              \
    T(Upgrade, upgrade, sluice_upgrade, UPGRADE_ANSWER)                                            \
    T(Queue, queue, sluice_queue_info, QUEUE_ANSWER)                                               \
    T(QueueRow, queue_listed, queue_row, QUEUE_LISTED_ANSWER)                                      \
    T(Node, node, node_out, NODE_ANSWER)                                                           \
    T(Message, message, sluice_message, MESSAGE_ANSWER)                                            \
    T(Origin, origin, sluice_origin, ORIGIN_ANSWER)                                                \
    T(Failure, failure, sluice_failure, FAILURE_ANSWER)                                            \
    T(Event, event, sluice_event, EVENT_ANSWER)                                                    \
    SIGNAL_ANSWER_TABLES(T)                                                                        \
    WORKFLOW_ANSWER_TABLES(T)                                                                      \
    CLUSTER_ANSWER_TABLES(T)

// What an ack and a renewal carry in the compact encoding.
#define RESULT_ROW(A, S)                                                                           \
    A(S, DATA, result, "result", OMIT_NEVER, NULL)                                                 \
    A(S, TEXT, content_type, "resultType", OMIT_EMPTY, NULL)
#define PROGRESS_ROW(A, S)                                                                         \
    A(S, FLAG, has_progress, "hasProgress", OMIT_NEVER, NULL)                                      \
    A(S, INT, percent, "progress", OMIT_NEVER, NULL)                                               \
    A(S, TEXT, text, "progressText", OMIT_EMPTY, NULL)

// Parts of answers that have no schema of their own: the same columns.
#define PART_TABLES(T)                                                                             \
    T(Found, found, sluice_found, FOUND_ANSWER)                                                    \
    T(Result, result, sluice_ack, RESULT_ROW)                                                      \
    T(Progress, progress, sluice_renewal, PROGRESS_ROW)                                            \
    T(SentRow, sent_row, sluice_sent, SENT_ROW_ANSWER)                                             \
    T(MessageShown, message_shown, sluice_message, MESSAGE_SHOWN_ANSWER)                           \
    T(QueueRow, queue_row, queue_row, QUEUE_ROW_ANSWER)                                            \
    T(QueueSeen, queue_seen, queue_row, QUEUE_SEEN_ANSWER) SIGNAL_PART_TABLES(T)

// The order of fields in the compact encoding (wire.h): W(table, member).
#define SEND_ORDER(W, T)                                                                           \
    W(T, body), W(T, group), W(T, dedup), W(T, content_type), W(T, workflow), W(T, priority),      \
        W(T, delay_ms), W(T, due), W(T, needs), W(T, workflow_last), W(T, headers)
#define MESSAGE_ORDER(W, T)                                                                        \
    W(T, id), W(T, token), W(T, state), W(T, body), W(T, group), W(T, dedup), W(T, content_type),  \
        W(T, workflow), W(T, worker), W(T, priority), W(T, attempt), W(T, retries), W(T, fence),   \
        W(T, lease_ms), W(T, deadline), W(T, sent_at), W(T, order), W(T, from), W(T, headers)
#define RECEIVE_ORDER(W, T)  W(T, worker), W(T, max), W(T, wait), W(T, visibility), W(T, acks)
#define SETTLE_ORDER(W, T)   W(T, wait), W(T, reason), W(T, tokens)
#define ORIGIN_ORDER(W, T)   W(T, queue), W(T, id), W(T, reason), W(T, retries), W(T, died_at)
#define RESULT_ORDER(W, T)   W(T, result), W(T, content_type)
#define PROGRESS_ORDER(W, T) W(T, has_progress), W(T, percent), W(T, text)
#define LOOKED_ORDER(W, T)                                                                         \
    W(T, finished_at), W(T, attempts), W(T, needs), W(T, result), W(T, result_type), W(T, reason), \
        W(T, percent), W(T, progress), W(T, progress_at)
#define FAILURE_ORDER(W, T) W(T, attempt), W(T, at), W(T, kind), W(T, worker), W(T, reason)
#define SENT_ORDER(W, T)    W(T, code), W(T, duplicate), W(T, id)
#define OUTCOME_ORDER(W, T) W(T, code), W(T, reason), W(T, status), W(T, until), W(T, signals)
#define PROBLEM_ORDER(W, T) W(T, code), W(T, reason), W(T, field), W(T, message)

// T(table, rows, fields, order): compact_<table>. The rows are those of another table.
#define COMPACT_TABLES(T)                                                                          \
    T(send, send_rows, SEND_FIELDS, SEND_ORDER)                                                    \
    T(receive, receive_rows, RECEIVE_FIELDS, RECEIVE_ORDER)                                        \
    T(settle, settle_rows, SETTLE_FIELDS, SETTLE_ORDER)                                            \
    T(result, result_answer_rows, RESULT_ROW, RESULT_ORDER)                                        \
    T(progress, progress_answer_rows, PROGRESS_ROW, PROGRESS_ORDER)                                \
    T(message, message_answer_rows, MESSAGE_ANSWER, MESSAGE_ORDER)                                 \
    T(origin, origin_answer_rows, ORIGIN_ANSWER, ORIGIN_ORDER)                                     \
    T(failure, failure_answer_rows, FAILURE_ANSWER, FAILURE_ORDER)                                 \
    T(looked, message_answer_rows, MESSAGE_ANSWER, LOOKED_ORDER)                                   \
    T(sent, sent_row_answer_rows, SENT_ROW_ANSWER, SENT_ORDER)                                     \
    T(outcome, outcome_answer_rows, OUTCOME_ANSWER, OUTCOME_ORDER)                                 \
    T(problem, problem_answer_rows, PROBLEM_ANSWER, PROBLEM_ORDER)                                 \
    SIGNAL_COMPACT_TABLES(T)

#define ROUTE_QUEUE   .pattern = "/v1/queues/{queue}"
#define ROUTE_READS   .method = "GET", .scope = SCOPE_READ
#define ROUTE_CHANGES .scope = SCOPE_ADMIN, .tag = "queues", .repeat = REPEAT_SAME
#define ROUTE_SETTLES                                                                              \
    .method = "POST", .scope = SCOPE_WORK, .body_max = SIZE_MAX, .repeat = REPEAT_ID,              \
    .compact = COMPACT_BOTH, .tag = "messages", .conflicts = true, .fences = true,                 \
    .answer = "Outcome", .about = SETTLED_ABOUT
#define ROUTE_OPEN  .method = "GET", .tag = "node"
#define ROUTE_SMALL .body_max = (size_t)16 << 10 // settings, and the fields of a request

#define ROUTE_LIST(X)                                                                              \
    X(QUEUE_LIST, queue_list, ROUTE_READS, .blocks = true, .any_queue = true,                      \
      .pattern = "/v1/queues", .query = &queue_list_fields, .tag = "queues",                       \
      .operation = "listQueues", .summary = "Lists the queues that the token may read",            \
      .answer = "QueueList", .about = "Sorted by name.")                                           \
    X(QUEUE_PUT, queue_put, ROUTE_CHANGES, .blocks = true, .method = "PUT", ROUTE_QUEUE,           \
      ROUTE_SMALL, .takes = "QueueSettings", .operation = "createQueue", .conflicts = true,        \
      .summary = "Creates a queue", .status = 201, .answer = "Queue",                              \
      .about = "The queue is created.")                                                            \
    X(QUEUE_PATCH, queue_put, ROUTE_CHANGES, .blocks = true, .method = "PATCH", ROUTE_QUEUE,       \
      ROUTE_SMALL, .takes = "QueueSettings", .operation = "changeQueue", .conflicts = true,        \
      .summary = "Changes some settings: all or none", .answer = "Queue",                          \
      .about = "The queue with its new settings.")                                                 \
    X(QUEUE_GET, queue_get, ROUTE_READS, ROUTE_QUEUE, .tag = "queues", .operation = "showQueue",   \
      .summary = "Shows a queue and all its settings", .answer = "Queue", .about = "The queue.")   \
    X(QUEUE_DELETE, queue_delete, .method = "DELETE", .scope = SCOPE_ADMIN, .blocks = true,        \
      ROUTE_QUEUE, .repeat = REPEAT_ONCE, .query = &queue_delete_fields, .conflicts = true,        \
      .tag = "queues", .operation = "deleteQueue", .status = 204,                                  \
      .summary = "Deletes a queue and all its messages", .about = "The queue is deleted.")         \
    X(PAUSE, pause, ROUTE_CHANGES, .method = "POST", ROUTE_QUEUE "/pause", ROUTE_SMALL,            \
      .operation = "pauseQueue", .status = 204,                                                    \
      .summary = "Stops delivering messages until the queue is resumed",                           \
      .about = "The queue is paused. Existing locks stay valid.")                                  \
    X(RESUME, resume, ROUTE_CHANGES, .method = "POST", ROUTE_QUEUE "/resume", ROUTE_SMALL,         \
      .operation = "resumeQueue", .status = 204, .summary = "Delivers messages again",             \
      .about = "The queue is not paused.")                                                         \
    X(PURGE, purge, ROUTE_CHANGES, .method = "POST", ROUTE_QUEUE "/purge", ROUTE_SMALL,            \
      .body = &purge_fields, .takes = "Purge", .operation = "purgeQueue",                          \
      .summary = "Deletes every waiting message, or every dead one", .answer = "Purged",           \
      .about = "The number of messages.")                                                          \
    X(UPGRADE, upgrade, ROUTE_CHANGES, .blocks = true, .method = "POST", ROUTE_QUEUE "/upgrade",   \
      ROUTE_SMALL, .body = &upgrade_fields, .takes = "UpgradeRequest",                             \
      .operation = "upgradeQueue", .conflicts = true,                                              \
      .summary = "Raises the queue to the newest version of the rules", .answer = "Upgrade",       \
      .about = "The versions and the writers.")                                                    \
    X(REDRIVE, redrive, .method = "POST", .scope = SCOPE_ADMIN, .blocks = true,                    \
      ROUTE_QUEUE "/redrive", .body_max = (size_t)1 << 20, .repeat = REPEAT_ONCE,                  \
      .body = &redrive_fields, .takes = "Redrive", .tag = "queues", .operation = "redrive",        \
      .summary = "Sends dead messages again", .answer = "Redriven",                                \
      .about = "The number of messages.")                                                          \
    X(STATS, stats, ROUTE_READS, ROUTE_QUEUE "/stats", .tag = "queues", .operation = "queueStats", \
      .summary = "Counts messages by state", .answer = "Stats",                                    \
      .about = "The counts of the queue.")                                                         \
    WORKER_CALLS(X)                                                                                \
    SIGNAL_CALLS(X)                                                                                \
    WORKFLOW_CALLS(X)                                                                              \
    X(SEND, send, .method = "POST", .scope = SCOPE_SEND, ROUTE_QUEUE "/messages",                  \
      .body_max = SIZE_MAX, .repeat = REPEAT_ID, .compact = COMPACT_BOTH,                          \
      .query = &message_query_fields, .body = &message_fields, .takes = "NewMessage",              \
      .tag = "messages", .operation = "sendMessages", .conflicts = true,                           \
      .summary = "Sends one message or many", .status = 201, .answer = "Sent",                     \
      .about = "The answer to one message: it is durable.")                                        \
    X(PEEK, peek, ROUTE_READS, ROUTE_QUEUE "/messages", .query = &peek_fields, .tag = "messages",  \
      .operation = "peekMessages", .summary = "Shows messages without locking them",               \
      .answer = "Messages",                                                                        \
      .about = "The messages in the order of their sends, without tokens. There are fewer than "   \
               "max if their bodies would exceed 16 MiB together, or the node's memory budget. "   \
               "At least one message is returned, whatever its size.")                             \
    X(SHOW, show, ROUTE_READS, ROUTE_QUEUE "/messages/{id}", .tag = "messages",                    \
      .operation = "showMessage", .summary = "Shows one message", .answer = "Message",             \
      .about = "The message. A finished message has no body.")                                     \
    X(RECEIVE, receive, .method = "POST", .scope = SCOPE_WORK, ROUTE_QUEUE "/receive",             \
      .body_max = SIZE_MAX, .repeat = REPEAT_ID, .compact = COMPACT_BOTH, .body = &receive_fields, \
      .takes = "Receive", .tag = "messages", .operation = "receiveMessages",                       \
      .summary = "Locks messages and returns them", .answer = "Received",                          \
      .about = "The messages. The list is empty if none arrived in time, or if the node stops.")   \
    X(ACK, settle, ROUTE_SETTLES, ROUTE_QUEUE "/ack", .body = &ack_fields, .takes = "Ack",         \
      .operation = "ackMessages", .summary = "Acknowledges messages")                              \
    X(FAIL, settle, ROUTE_SETTLES, ROUTE_QUEUE "/fail", .body = &fail_fields, .takes = "Fail",     \
      .operation = "failMessages", .summary = "Reports that messages failed")                      \
    X(RELEASE, settle, ROUTE_SETTLES, ROUTE_QUEUE "/release", .body = &release_fields,             \
      .takes = "Release", .operation = "releaseMessages",                                          \
      .summary = "Releases messages without counting an attempt")                                  \
    X(RENEW, settle, ROUTE_SETTLES, ROUTE_QUEUE "/renew", .body = &renew_fields, .takes = "Renew", \
      .operation = "renewLocks", .summary = "Extends locks")                                       \
    X(SHARDS, shards, .method = "POST", ROUTE_QUEUE "/shards", .body_max = SIZE_MAX,               \
      .repeat = REPEAT_ID, .peer = true, .tag = "node", .operation = "askOwner",                   \
      .summary = "Does an op on a shard that this node owns. For processes that can read the "     \
                 "store")                                                                          \
    X(EVENTS, events, ROUTE_READS, .blocks = true, ROUTE_QUEUE "/events", .query = &events_fields, \
      .tag = "events", .operation = "watchEvents",                                                 \
      .summary = "Streams the queue's events as Server-Sent Events")                               \
    X(STREAM, stream, ROUTE_READS, .blocks = true, .any_queue = true, .pattern = "/v1/stream",     \
      .query = &stream_fields, .tag = "events", .operation = "watchQueues",                        \
      .summary = "Streams the events of several queues as Server-Sent Events")                     \
    X(NODE, node, ROUTE_READS, .blocks = true, .any_queue = true, .pattern = "/v1/node",           \
      .tag = "node", .operation = "showNode", .summary = "Describes this node", .answer = "Node",  \
      .about = "The node.")                                                                        \
    X(DASHBOARD, dashboard, ROUTE_OPEN, .pattern = "/", .operation = "dashboard",                  \
      .summary = "The dashboard")                                                                  \
    X(ASSET, asset, ROUTE_OPEN, .pattern = "/assets/{file}", .operation = "asset",                 \
      .summary = "A file of the dashboard")                                                        \
    X(OPENAPI, openapi, ROUTE_OPEN, .pattern = "/openapi.json", .operation = "openapi",            \
      .summary = "This file")                                                                      \
    X(METRICS, metrics, ROUTE_READS, .blocks = true, .pattern = "/metrics", .tag = "node",         \
      .operation = "metrics", .summary = "Metrics for Prometheus")                                 \
    CLUSTER_CALLS(X)                                                                               \
    X(HEALTHZ, healthz, ROUTE_OPEN, .pattern = "/healthz", .query = &healthz_fields,               \
      .operation = "healthz", .summary = "Answers while the process runs", .answer = "Status",     \
      .about = "The process runs.")                                                                \
    X(READYZ, readyz, ROUTE_OPEN, .pattern = "/readyz", .operation = "readyz",                     \
      .summary = "Reports whether the store makes progress", .answer = "Status",                   \
      .about = "The store makes progress.")
