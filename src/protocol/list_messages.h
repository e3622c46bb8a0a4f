// SPDX-License-Identifier: Apache-2.0
// The fields of messages: in sends, receives, acks and answers. protocol/list.h, which includes
// them, explains the columns.
#pragma once

// The fields that a message has in a query, too.
#define MESSAGE_QUERY_FIELDS(F, S)                                                                 \
    F(S, TEXT, group, "group", 0, MESSAGE_GROUP_MAX, 0,                                            \
      "Messages of a group stay on one shard. In a strict queue only one of them is open at a "    \
      "time.")                                                                                     \
    F(S, TEXT, dedup, "dedup", 0, MESSAGE_DEDUP_MAX, 0,                                            \
      "A second message with the same key within dedupWindow is not stored. Its sender gets the "  \
      "first message's id.")                                                                       \
    F(S, INT, priority, "priority", 0, MESSAGE_PRIORITY_MAX, 0,                                    \
      "Higher values are delivered first.")                                                        \
    F(S, DURATION, delay_ms, "delay", 0, DELAY_MAX_MS, 0,                                          \
      "Delays the delivery, by up to 400 days.")                                                   \
    F(S, MOMENT, due, "due", 0, INT64_MAX, 0,                                                      \
      "The earliest time of delivery, in milliseconds since 1970. An alternative to delay. A "     \
      "node also takes a time such as \"2027-01-31T12:00:00Z\".")                                  \
    F(S, TEXT, workflow, "workflow", 0, MESSAGE_WORKFLOW_MAX, 0,                                   \
      "The id of a workflow. Its messages are counted together, and all of them are in one "       \
      "shard. Events have it.")                                                                    \
    F(S, BOOL, workflow_last, "workflowLast", 0, 1, 0,                                             \
      "The last message of its workflow. When all its messages have ended, the workflow is "       \
      "completed or failed.")                                                                      \
    F(S, TEXT, needs, "requires", 0, 0, 0,                                                         \
      "Labels that the worker must have, such as kind=gpu. Only a registered worker that has "     \
      "them "                                                                                      \
      "all gets the message.")

#define MESSAGE_BODY_FIELDS(F, S)                                                                  \
    F(S, BASE64, body, "bodyBase64", 0, 0, 0, "The message as bytes: base64 with padding.")        \
    F(S, TEXT, content_type, "contentType", 0, MESSAGE_CONTENT_TYPE_MAX, 0,                        \
      "The content type. For a body that is a JSON value, the default is application/json.")       \
    F(S, HEADERS, headers, "headers", 0, ROUTE_HEADERS_MAX, 0, NULL)

#define SEND_FIELDS(F, S) MESSAGE_QUERY_FIELDS(F, S) MESSAGE_BODY_FIELDS(F, S)

#define MESSAGE_FIELDS(F, S)                                                                       \
    MESSAGE_QUERY_FIELDS(F, S)                                                                     \
    F(S, ANY, body, "body", 0, 0, 0,                                                               \
      "The message: a string, or any other JSON value. Another JSON value is stored as its text "  \
      "without whitespace, and returned as that value. Give either body or bodyBase64. A null "    \
      "next to bodyBase64 counts as missing.")                                                     \
    MESSAGE_BODY_FIELDS(F, S)

#define MESSAGES_FIELDS(F, S) F(S, LIST, messages, "messages", 0, ROUTE_ITEMS_MAX, 0, NULL)

#define PEEK_FIELDS(F, S)                                                                          \
    F(S, TEXT, state, "state", 0, 0, 0,                                                            \
      "Default: ready. finished, or one of processed, dead-lettered, purged, redriven and "        \
      "cancelled: finished messages, the newest of a shard first.")                                \
    F(S, TEXT, after, "after", 0, 0, 0, "Starts after this message.")                              \
    F(S, SMALL, max, "max", 1, CLAIM_COUNT_MAX, 10, NULL)                                          \
    F(S, TEXT, id, "id", 0, 0, 0, "Returns only this message, in any state.")                      \
    F(S, TEXTS, headers, "header", 0, SLUICE_FIND_HEADERS_MAX, 0,                                  \
      "Returns only messages with this header, NAME=VALUE. May be repeated: all must match.")      \
    F(S, TEXT, contains, "contains", 0, SLUICE_FIND_TEXT_MAX, 0,                                   \
      "Returns only messages whose body contains this text.")                                      \
    F(S, NUMBER, before, "before", 0, INT64_MAX, 0,                                                \
      "Returns only messages that were sent before this time, in milliseconds since 1970.")        \
    F(S, NUMBER, bytes, "bytes", 0, SLUICE_FIND_BYTES_MAX, 0,                                      \
      "With one of these filters: how many bytes of messages to read at most. 0: 16 MiB. The "     \
      "answer says how much was read, and where to continue.")

#define RECEIVE_FIELDS(F, S)                                                                       \
    F(S, SMALL, max, "max", 1, CLAIM_COUNT_MAX, 1, NULL)                                           \
    F(S, DURATION, wait, "wait", 0, RECEIVE_WAIT_MAX_MS, 0,                                        \
      "How long to wait if no message is ready, up to 20 s. Default 0.")                           \
    F(S, DURATION, visibility, "visibility", 0, LEASE_MAX_MS, 0,                                   \
      "How long the locks last, up to 24 h. 0: the queue's visibilityTimeout.")                    \
    F(S, TEXT, worker, "worker", 0, WORKER_NAME_MAX, 0,                                            \
      "The worker's name, shown with its locks.")                                                  \
    F(S, TEXTS, acks, "ack", 0, ROUTE_ITEMS_MAX, 0,                                                \
      "Tokens of processed messages. They are acknowledged at once, however long the receive "     \
      "waits. \"acked\" in the answer has an outcome for each.")

#define ACK_FIELDS(F, S)                                                                           \
    F(S, TEXT, token, "token", 0, 0, 0, TOKENS_ABOUT)                                              \
    F(S, TEXTS, tokens, "tokens", 0, ROUTE_ITEMS_MAX, 0, TOKENS_ABOUT)

#define SETTLE_MEMBERS(F, S)                                                                       \
    SETTLE_FIELDS(F, S) RESULT_FIELDS(F, S) PROGRESS_FIELDS(F, S) ACK_LIST_FIELD(F, S)

#define RESULT_TEXT_FIELD(F, S)                                                                    \
    F(S, ANY, result, "result", 0, 0, 0,                                                           \
      "With one token: the result of the job, a string or another JSON value. At most 256 KiB. "   \
      "It is kept for the queue's retention.")
#define RESULT_FIELDS(F, S)                                                                        \
    F(S, BASE64, result, "resultBase64", 0, 0, 0, "The result as bytes, instead.")                 \
    F(S, TEXT, result_type, "resultType", 0, MESSAGE_CONTENT_TYPE_MAX, 0,                          \
      "The content type of the result.")
#define PROGRESS_FIELDS(F, S)                                                                      \
    F(S, NUMBER, progress, "progress", 0, PROGRESS_PERCENT_MAX, 0,                                 \
      "With one token: how far the job is, 0 to 100. Every view of the message shows it.")         \
    F(S, TEXT, progress_text, "progressText", 0, PROGRESS_TEXT_MAX, 0, "What the job does now.")

// Several locks, each with what it carries.
#define ACK_LIST_FIELD(F, S)                                                                       \
    F(S, LIST, rows, "acks", 0, ROUTE_ITEMS_MAX, 0,                                                \
      "Several locks, each an object with token, result (or resultBase64) and resultType.")
#define RENEWAL_LIST_FIELD(F, S)                                                                   \
    F(S, LIST, rows, "renewals", 0, ROUTE_ITEMS_MAX, 0,                                            \
      "Several locks, each an object with token, progress and progressText.")
#define TOKEN_FIELD(F, S)    F(S, TEXT, token, "token", 0, 0, 0, TOKENS_ABOUT)
#define ACK_ROW_FIELDS(F, S) TOKEN_FIELD(F, S) RESULT_TEXT_FIELD(F, S) RESULT_FIELDS(F, S)
#define RENEWAL_FIELDS(F, S) TOKEN_FIELD(F, S) PROGRESS_FIELDS(F, S)

#define ACK_WITH_FIELDS(F, S)                                                                      \
    ACK_FIELDS(F, S) RESULT_TEXT_FIELD(F, S) RESULT_FIELDS(F, S) ACK_LIST_FIELD(F, S)

#define FAIL_FIELDS(F, S)                                                                          \
    ACK_FIELDS(F, S) F(S, TEXT, reason, "reason", 0, 0, 0, "The reason, kept with the message.")

#define RELEASE_FIELDS(F, S)                                                                       \
    ACK_FIELDS(F, S)                                                                               \
    F(S, DURATION, wait, "delay", 0, LEASE_MAX_MS, 0,                                              \
      "How long until the message is ready again, up to 24 h.")

#define RENEW_FIELDS(F, S)                                                                         \
    ACK_FIELDS(F, S)                                                                               \
    F(S, DURATION, wait, "visibility", 0, LEASE_MAX_MS, 0,                                         \
      "The new lock time from now, up to 24 h. 0: the queue's visibilityTimeout.")                 \
    PROGRESS_FIELDS(F, S) RENEWAL_LIST_FIELD(F, S)

// The members of all four: ack, fail, release and renew. The compact encoding has them all.
#define SETTLE_FIELDS(F, S) FAIL_FIELDS(F, S) F(S, DURATION, wait, "wait", 0, LEASE_MAX_MS, 0, NULL)

// Without a reason, only the first two are written.
#define ORIGIN_ANSWER(A, S)                                                                        \
    A(S, TEXT, queue, "queue", OMIT_NEVER, NULL)                                                   \
    A(S, TEXT, id, "id", OMIT_NEVER, NULL)                                                         \
    A(S, TEXT, reason, "reason", OMIT_EMPTY,                                                       \
      "The reason of the last failure, else failed, expired or max-deliveries.")                   \
    A(S, SMALL, retries, "retries", OMIT_ALONE, NULL)                                              \
    A(S, NUMBER, died_at, "diedAt", OMIT_ALONE, NULL)                                              \
    A(S, SMALL, attempts, "attempts", OMIT_ZERO,                                                   \
      "How often the message was delivered in that queue.")                                        \
    A(S, TEXT, worker, "worker", OMIT_EMPTY, "The worker that failed it last.")

#define FAILURE_ANSWER(A, S)                                                                       \
    A(S, SMALL, attempt, "attempt", OMIT_NEVER, "The number of the attempt.")                      \
    A(S, NUMBER, at, "at", OMIT_NEVER,                                                             \
      "When the attempt failed. For an expired lock, its deadline.")                               \
    A(S, TEXT, worker, "worker", OMIT_NULL, "The worker that held the lock. null if unknown.")     \
    A(S, KEPT_TEXT, reason, "reason", OMIT_NEVER,                                                  \
      "The worker's reason, which may be empty, or lock-expired. null if the reason is no longer " \
      "kept.")                                                                                     \
    A(S, FAILURE_KIND, kind, "kind", OMIT_NEVER, NULL)

// What the command line shows of a message. "queue" follows the id.
#define MESSAGE_SHOWN_ANSWER(A, S)                                                                 \
    A(S, CHARS, id, "id", OMIT_NEVER, NULL)                                                        \
    A(S, TEXT, state, "state", OMIT_NEVER,                                                         \
      "processed, dead-lettered, purged, redriven and cancelled: the message is finished. "        \
      "finished: it is not known any more how.")                                                   \
    A(S, BODY, body, "body", OMIT_ALONE,                                                           \
      "The message: a string if it is UTF-8, or the JSON value that was sent. null if the "        \
      "message is finished, unless the queue has retainBody.")                                     \
    A(S, SMALL, attempt, "attempt", OMIT_NEVER,                                                    \
      "Deliveries in this queue, including this one. null if the message is finished.")            \
    A(S, CHARS, token, "token", OMIT_NEVER,                                                        \
      "The token of the lock. Empty unless this request took the lock.")                           \
    A(S, COUNT, fence, "fence", OMIT_NEVER,                                                        \
      "Rises with every lock of the shard. Other systems can use it to refuse a stale worker.")    \
    A(S, NUMBER, lease_ms, "leaseMs", OMIT_NEVER, "How long the lock lasts from now.")             \
    A(S, NUMBER, deadline, "deadline", OMIT_NEVER,                                                 \
      "When the lock ends, or when a delayed message is due.")                                     \
    A(S, TEXT, group, "group", OMIT_NEVER, "Empty: none.")                                         \
    A(S, INT, priority, "priority", OMIT_NEVER, NULL)                                              \
    A(S, HEADERS, headers, "headers", OMIT_NEVER, NULL)                                            \
    A(S, NUMBER, sent_at, "sentAt", OMIT_NEVER, NULL)                                              \
    A(S, COUNT, order, "order", OMIT_ZERO, "The order of the ticket that granted the lock.")       \
    A(S, ORIGIN, from, "from", OMIT_EMPTY, NULL)                                                   \
    A(S, FAILURES, failures, "failures", OMIT_EMPTY,                                               \
      "Failed attempts in this queue, the oldest first. A request by id returns the newest ones, " \
      "a peek returns the newest one, and a receive none.")                                        \
    A(S, TEXT, worker, "worker", OMIT_EMPTY,                                                       \
      "The worker that holds the lock. If the message is finished, the last one.")                 \
    A(S, NUMBER, finished_at, "finishedAt", OMIT_ZERO,                                             \
      "When the message ended, for as long as the setting retention says.")                        \
    A(S, SMALL, attempts, "attempts", OMIT_ZERO, "With finishedAt: how often it was delivered.")   \
    A(S, TEXT, needs, "requires", OMIT_EMPTY,                                                      \
      "Labels that the worker must have. A receive does not return them.")                         \
    A(S, DATA, result, "result", OMIT_ZERO,                                                        \
      "The result of a processed message. A JSON object or list is written as such.")              \
    A(S, TEXT, result_type, "resultType", OMIT_EMPTY, "The content type of the result.")           \
    A(S, TEXT, reason, "reason", OMIT_EMPTY,                                                       \
      "Why a finished message was cancelled or dead-lettered.")                                    \
    A(S, PERCENT, percent, "progress", OMIT_ZERO, "The progress of a locked message, 0 to 100.")   \
    A(S, TEXT, progress, "progressText", OMIT_EMPTY, NULL)                                         \
    A(S, NUMBER, progress_at, "progressAt", OMIT_ZERO, "When the worker reported it.")             \
    SIGNALS_OF_MESSAGE(A, S)

#define MESSAGE_ANSWER(A, S)                                                                       \
    MESSAGE_SHOWN_ANSWER(A, S)                                                                     \
    A(S, SMALL, retries, "retries", OMIT_NEVER, "Failures counted against maxRetries.")            \
    A(S, TEXT, dedup, "dedup", OMIT_EMPTY, NULL)                                                   \
    A(S, TEXT, content_type, "contentType", OMIT_EMPTY, NULL)                                      \
    A(S, TEXT, workflow, "workflow", OMIT_EMPTY, NULL)
