// SPDX-License-Identifier: Apache-2.0
// The reasons for which the fold refuses an op: their names, sentences and errors. Two of them are
// no errors, because the request was applied before: DUPLICATE and ARRIVED_BEFORE. The numbers are
// stored, so rows are added only at the end.
#pragma once

#include "base/err.h"

#define REASON_LIST(X)                                                                             \
    X(NONE, "applied", "applied", OK)                                                              \
    X(DUPLICATE, "duplicate", "the dedup key is known: this is the first message's number", OK)    \
    X(ARRIVED_BEFORE, "arrived-before", "this dead letter arrived earlier", OK)                    \
    X(MALFORMED, "malformed", "the op's bytes cannot be read", INVALID)                            \
    X(UNKNOWN_OP, "unknown-op", "this kind of op is not known here", INVALID)                      \
    X(REQUEST_REUSED, "request-reused", "the request id was used for another op", INVALID)         \
    X(DELETED, "queue-deleted", "the queue was deleted", NOT_FOUND)                                \
    X(PAUSED, "queue-paused", "the queue is paused", UNAVAILABLE)                                  \
    X(FULL, "queue-full", "the queue holds as many messages as its capacity allows", LIMIT)        \
    X(DEDUP_FULL, "dedup-full", "as many dedup keys are remembered as capacity allows", LIMIT)     \
    X(TOO_LARGE, "message-too-large", "the body is larger than maxMessageBytes", INVALID)          \
    X(BODY_STALE, "body-stale", "the body was uploaded too long ago; upload it again", CONFLICT)   \
    X(STRICT_DELAY, "strict-delay", "a queue with orderingGuarantee takes no delay", INVALID)      \
    X(STRICT_PRIORITY, "strict-priority", "a queue with orderingGuarantee takes no priority",      \
      INVALID)                                                                                     \
    X(UNKNOWN_MESSAGE, "unknown-message", "no such message was ever sent here", NOT_FOUND)         \
    X(FOREIGN_QUEUE, "foreign-queue", "the lock belongs to another queue or shard", NOT_FOUND)     \
    X(NOT_LOCKED, "not-locked", "the message is not being processed", CONFLICT)                    \
    X(TERMINAL, "terminal", "the message is finished; its lock no longer exists", CONFLICT)        \
    X(LOCK_RELEASED, "lock-released", "the lock was given back", FENCED)                           \
    X(LOCK_EXPIRED, "lock-expired", "the lock expired", FENCED)                                    \
    X(TOKEN_MISMATCH, "token-mismatch", "the message is locked with another token", FENCED)        \
    X(NOT_OWNER, "not-owner", "only the shard's owner may do this", FENCED)                        \
    X(UNKNOWN_WORKER, "unknown-worker", "the worker is not registered or its time is up",          \
      NOT_FOUND)                                                                                   \
    X(WORKERS_FULL, "workers-full", "too many workers are registered", LIMIT)                      \
    X(CONFIG_INVALID, "config-invalid", "the configuration is not possible", INVALID)              \
    X(CONFIG_CHANGED, "config-changed", "the configuration has another version", CONFLICT)         \
    X(SHARDS_FIXED, "shards-fixed", "the number of shards is fixed at creation", CONFLICT)         \
    X(NOT_EMPTY, "not-empty", "orderingGuarantee changes only while no message is held", CONFLICT) \
    X(OUTBOX_BUSY, "outbox-busy", "dead letters are still on their way", CONFLICT)                 \
    X(NOT_DEAD, "not-dead", "the message is not DEAD in this queue", CONFLICT)                     \
    X(OUT_OF_RANGE, "out-of-range", "a number in the op is outside its limits", INVALID)           \
    X(RULES_SKIPPED, "rules-skipped", "the version of the rules rises by one at a time", CONFLICT) \
    X(WORKER_NAME_TAKEN, "worker-name-taken", "a live worker of another process has this name",    \
      CONFLICT)                                                                                    \
    X(WORKER_EVICTED, "worker-evicted", "an operator evicted this worker", FENCED)                 \
    X(WORKER_PAUSED, "worker-paused", "an operator paused this worker", UNAVAILABLE)               \
    X(WORKER_DRAINING, "worker-draining", "the worker drains: it gets nothing more", UNAVAILABLE)  \
    X(REQUIRES_FULL, "requires-full", "64 other requirements have pending messages", LIMIT)        \
    X(WORKFLOWS_FULL, "workflows-full", "100,000 workflows of this shard have messages", LIMIT)    \
    X(WORKFLOW_GROUP, "workflow-group",                                                            \
      "a message with both group and workflow needs a queue with one shard", INVALID)              \
    X(WORKFLOW_ORDER_GROUP, "workflow-order-group",                                                \
      "a queue with workflowOrder takes no group: the workflow is the scope of the order",         \
      INVALID)                                                                                     \
    X(WORKFLOW_SHARD, "workflow-shard",                                                            \
      "the messages of this workflow are in another shard; send it again", CONFLICT)               \
    X(LAST_WITHOUT_WORKFLOW, "last-without-workflow",                                              \
      "workflowLast needs a workflow that the message belongs to", INVALID)                        \
    X(LOCKED, "locked",                                                                            \
      "the message is being processed; stop it with: sluice signal QUEUE ID interrupt", CONFLICT)  \
    X(NOT_RUNNING, "not-running", "no worker is processing the message", CONFLICT)                 \
    X(SIGNALS_FULL, "signals-full",                                                                \
      "as many signals wait as may wait (256 of a message, 100,000 of a shard), or a shard had "   \
      "1,000,000 in ten minutes",                                                                  \
      LIMIT)                                                                                       \
    X(SIGNAL_SETTLED, "signal-settled", "the signal has ended already", CONFLICT)                  \
    X(UNKNOWN_SIGNAL, "unknown-signal", "no such signal was delivered, or it is forgotten",        \
      NOT_FOUND)                                                                                   \
    X(SIGNAL_ORDER, "signal-order", "an earlier signal of this message has not ended yet",         \
      CONFLICT)                                                                                    \
    X(UNKNOWN_WORKFLOW, "unknown-workflow", "the workflow has no message that is not finished",    \
      NOT_FOUND)

enum reason {
#define REASON_ENUM(name, id, text, err) REASON_##name,
    REASON_LIST(REASON_ENUM)
#undef REASON_ENUM
        REASON_COUNT
};

const char *reason_name(enum reason r); // "token-mismatch"
const char *reason_text(enum reason r); // the sentence
enum err reason_err(enum reason r);
