// SPDX-License-Identifier: Apache-2.0
//
// Acting on single messages: signals to running jobs, cancel, results, progress, and waiting for
// the outcomes of several messages. sluice.h includes this file. All of it needs version 6 of the
// rules
// (`sluice upgrade`): before that, the answer is SLUICE_CONFLICT with the reason "upgrade-needed".
#ifndef SLUICE_SIGNALS_H
#define SLUICE_SIGNALS_H

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_SIGNAL_ID_MAX      33 // 32 hex digits and a zero byte
#define SLUICE_SIGNAL_PAYLOAD_MAX (64 << 10)
#define SLUICE_ANSWER_MAX         (256 << 10)
#define SLUICE_RESULT_MAX         (256 << 10)
#define SLUICE_PROGRESS_TEXT_MAX  256
#define SLUICE_SIGNAL_TOKENS_MAX  10000  // of one sluice_signals_receive
#define SLUICE_COLLECT_MAX        100000 // messages of one sluice_collect_open

// A signal to send. Zero and NULL mean: the default. Exactly one target is given: messages, a
// workflow (all its messages that have not ended), or a worker (all messages that it holds).
struct sluice_signal {
    const char *kind; // "steer": new parameters. "ask": wants an answer. "interrupt": ends the job.
    const char *const *ids;
    size_t ids_len; // at most 10,000
    const char *workflow;
    const char *worker;
    // steer, ask:
    const void *payload;   // steer: a JSON object of keys and values. ask: any text
    size_t payload_len;    // at most 64 KiB
    int64_t ttl_ms;        // when a signal that no worker took expires; 0: 1 h; at most 7 days
    const char *when_idle; // the message is not locked: "wait" (default) or "refuse"
    const char
        *on_lock_end; // "sticky" (default of steer): the next holder gets it; "once" (of ask)
    // interrupt:
    const char *reason; // kept and shown; at most 4,096 bytes
    int64_t grace_ms;   // how long the holder may still acknowledge; 0: 30 s; at most 24 h
    int now;            // not 0: no grace; then grace_ms must be 0
    const char *then;   // "cancel" (default), "retry" or "dead-letter"
};

// What became of a signal to one message.
struct sluice_signal_state {
    enum sluice_code code; // SLUICE_OK: it was accepted
    char reason[32];       // why it was refused, such as "terminal" or "not-running"; else empty
    char id[SLUICE_SIGNAL_ID_MAX]; // of the signal: the request id
    char message[SLUICE_ID_MAX];
    char token[SLUICE_TOKEN_MAX]; // sluice_signals_receive: the lock that it is for; else empty
    uint32_t number;              // in its message, from 1; 0: it was refused, or ended at once
    const char *kind;
    // A constant: "pending", "acked", "declined", "expired", "missed", "withdrawn", or "applied":
    // an interrupt that ended its message at once.
    const char *state;
    uint32_t deliveries; // locks that got it
    int64_t sent_at;
    int64_t until;       // pending: when it expires. interrupt: when the lock ends
    int64_t ended_at;    // 0: it is pending
    const void *payload; // of a pending one, then a zero byte; interrupt: the reason
    size_t payload_len;
    const void *answer; // acked: the answer. declined: why. Then a zero byte
    size_t answer_len;
};

struct sluice_signals {
    char id[SLUICE_SIGNAL_ID_MAX]; // sluice_signal: the id of the signal
    struct sluice_signal_state *rows;
    size_t len;
};
SLUICE_API void sluice_signals_free(struct sluice_signals *list); // NULL is allowed

// Sends a signal. It is durable when the call returns. The request id is the id of the signal: the
// same id is one signal, whatever way it comes. NULL: the library draws one. *out has one row for
// each message, also after an error of some of them: the others are done. A shard that could not be
// asked has a row with a code and without a message. out may be NULL. *out is NULL if nothing was
// sent.
//
//   SLUICE_CONFLICT    A message has ended ("terminal"), or is not locked ("not-running").
//   SLUICE_NOT_FOUND   No such message was sent ("unknown-message"), the worker holds nothing
//                      ("unknown-worker"), or there is no such workflow.
//   SLUICE_LIMIT       256 signals of the message or 100,000 of the shard are pending, or the shard
//                      had 1,000,000 in ten minutes ("signals-full"). Or the workflow or worker has
//                      100,000 messages in a shard, and may have more: a row without a message says
//                      so.
SLUICE_API enum sluice_code sluice_signal(struct sluice *s, const char *queue,
                                          const struct sluice_signal *what,
                                          const struct sluice_request *request,
                                          struct sluice_signals **out, struct sluice_error *error);

// Withdraws a signal where it is pending: of one message, or of all (NULL). *out, if not NULL, has
// one row for each message. SLUICE_CONFLICT: it has ended ("signal-settled"), everywhere.
// SLUICE_NOT_FOUND: no such signal is known ("unknown-signal").
SLUICE_API enum sluice_code sluice_signal_withdraw(struct sluice *s, const char *queue,
                                                   const char *signal, const char *message,
                                                   struct sluice_signals **out,
                                                   struct sluice_error *error);

// Waits up to wait_ms until a signal has ended, for one message or for all that it went to (NULL).
// The rows say how, with the answers. Rows that are still "pending" when the time is over stay so.
// SLUICE_NOT_FOUND: no such signal is known. Ends are kept for the retention, at least 10 minutes.
SLUICE_API enum sluice_code sluice_signal_wait(struct sluice *s, const char *queue,
                                               const char *signal, const char *message,
                                               int64_t wait_ms, struct sluice_signals **out,
                                               struct sluice_error *error);

// The signals of one message: pending ones, then those that have ended. message NULL: the pending
// ones of the queue, up to max (0: 100, at most 10,000). Payloads and answers come up to 16 MiB,
// and are NULL after that.
SLUICE_API enum sluice_code sluice_signals(struct sluice *s, const char *queue, const char *message,
                                           uint32_t max, struct sluice_signals **out,
                                           struct sluice_error *error);

// Waits up to wait_ms (at most 20 s) for signals to the holder of these locks. Each number of a
// token comes once from a handle, and in order. If a lock is not in force any more, its row has a
// code and the reason, such as SLUICE_FENCED "lock-expired", and the call returns at once. No row:
// nothing came.
SLUICE_API enum sluice_code sluice_signals_receive(struct sluice *s, const char *queue,
                                                   const char *const *tokens, size_t len,
                                                   int64_t wait_ms, struct sluice_signals **out,
                                                   struct sluice_error *error);

// The holder's answer to one signal.
struct sluice_signal_answer {
    const char *token;
    uint32_t number;
    int decline;        // not 0: the job does not do it; answer says why, such as "not-listening"
    const void *answer; // may be empty; at most 256 KiB, or 4,096 bytes of a reason
    size_t answer_len;
};

// Ends signals. The first end of a signal counts, and only with the current token, in order.
//
//   SLUICE_CONFLICT    The signal has ended ("signal-settled"), or an earlier one is pending
//                      ("signal-order").
//   SLUICE_NOT_FOUND   It was never delivered ("unknown-signal").
//   SLUICE_FENCED      The lock is gone ("lock-expired", "token-mismatch").
SLUICE_API enum sluice_code sluice_signals_ack(struct sluice *s, const char *queue,
                                               const struct sluice_signal_answer *answers,
                                               size_t len, struct sluice_outcome *outcomes,
                                               struct sluice_error *error);

// Ends chosen messages that no worker holds: ready, delayed and retrying ones, and tickets that are
// not taken. They end as "cancelled". A dead message is "purged". reason may be NULL. outcomes, if
// not NULL, has one row for each id.
//
//   SLUICE_CONFLICT    A worker holds it ("locked": use a signal "interrupt"), or it has ended
//                      ("terminal").
//   SLUICE_NOT_FOUND   No such message was ever sent.
SLUICE_API enum sluice_code sluice_cancel(struct sluice *s, const char *queue,
                                          const char *const *ids, size_t len, const char *reason,
                                          struct sluice_outcome *outcomes,
                                          struct sluice_error *error);

// An ack with the result of the job. It is kept as long as the finished message: the setting
// `retention`. If that is 0, it is not kept, and the outcome's reason says "result-not-kept".
struct sluice_ack {
    const char *token;
    const void *result; // NULL: none
    size_t result_len;  // at most 256 KiB
    const char *content_type;
};
SLUICE_API enum sluice_code sluice_ack_with(struct sluice *s, const char *queue,
                                            const struct sluice_ack *acks, size_t len,
                                            struct sluice_outcome *outcomes,
                                            struct sluice_error *error);

// A renewal with the progress of the job. Every view of a locked message shows it.
struct sluice_renewal {
    const char *token;
    int has_progress;
    int percent;      // 0 to 100
    const char *text; // at most 256 bytes; NULL: none
};
SLUICE_API enum sluice_code sluice_renew_with(struct sluice *s, const char *queue,
                                              const struct sluice_renewal *renewals, size_t len,
                                              int64_t visibility_ms,
                                              struct sluice_outcome *outcomes,
                                              struct sluice_error *error);

// The messages whose outcomes are wanted: ids, or a workflow. A workflow has its messages that have
// not ended when the collect is opened, and those that ended before, for `retention`.
struct sluice_collect {
    const char *const *ids;
    size_t ids_len;
    const char *workflow;
    const char *position; // sluice_collect_position of an earlier collect; NULL: from now
    int running;          // not 0: asks the running ones, and their answers come, too
    const char *ask;      // the text of that question; NULL: empty
};

struct sluice_collector;

// Opens a collect: a reader, which changes nothing unless it asks. It may begin before or after the
// messages end, and any number of times. Close it before the handle.
// SLUICE_INVALID: no id, more than 100,000, or the same one twice. SLUICE_LIMIT: more than 100,000
// messages of the workflow. SLUICE_NOT_FOUND: no such queue or workflow.
SLUICE_API enum sluice_code sluice_collect_open(struct sluice *s, const char *queue,
                                                const struct sluice_collect *what,
                                                struct sluice_collector **out,
                                                struct sluice_error *error);

// One outcome. The collector owns what it points to, until the next call.
struct sluice_collected {
    const char *kind; // "outcome", "answer" (of a running one), or "unknown" (never sent)
    struct sluice_message message; // state, result, reason, attempts, worker, finished_at
    struct sluice_signal_state answer;
};

// Waits up to wait_ms for the next outcome. *out is NULL when all have come.
// SLUICE_NOT_FOUND: none came in this time. Call again.
SLUICE_API enum sluice_code sluice_collect_next(struct sluice_collector *c, int64_t wait_ms,
                                                const struct sluice_collected **out,
                                                struct sluice_error *error);
// The ids that are missing; valid until the next call.
SLUICE_API size_t sluice_collect_missing(const struct sluice_collector *c, const char *const **ids);
// Where a later collect can go on, valid until the next call.
SLUICE_API const char *sluice_collect_position(const struct sluice_collector *c);
SLUICE_API void sluice_collect_close(struct sluice_collector *c); // NULL is allowed

#ifdef __cplusplus
}
#endif

#endif
