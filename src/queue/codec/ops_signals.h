// SPDX-License-Identifier: Apache-2.0
// The ops of signals to messages, of their ends, and the cancel of chosen messages. Further fields
// of ack and renew are here, too (struct outcome_extra).
#pragma once

#include "queue/codec/ops.h"

#define SIGNAL_TARGETS_MAX      REFS_MAX
#define SIGNAL_PAYLOAD_MAX      ((size_t)64 << 10)
#define SIGNAL_ANSWER_MAX       ((size_t)256 << 10)
#define SIGNAL_TTL_MAX_MS       (INT64_C(7) * 24 * 3600 * 1000)
#define SIGNAL_TTL_DEFAULT_MS   (INT64_C(3600) * 1000)
#define SIGNAL_GRACE_MAX_MS     (INT64_C(24) * 3600 * 1000)
#define SIGNAL_GRACE_DEFAULT_MS (INT64_C(30) * 1000)
#define SIGNALS_OF_MESSAGE_MAX  256    // pending
#define SIGNALS_OF_SHARD_MAX    100000 // pending
#define SIGNALS_ENDED_MAX       100000 // signals that have ended and have their answers
// Pending ones and those that have ended. The ids of all these are known. It is so many that no id
// is forgotten within ten minutes of its end: further signals are refused.
#define SIGNALS_KNOWN_MAX       1000000
#define RESULT_CONTENT_MAX      ((size_t)256 << 10)
#define PROGRESS_TEXT_MAX       256
#define PROGRESS_PERCENT_MAX    100

enum signal_kind { SIGNAL_STEER, SIGNAL_ASK, SIGNAL_INTERRUPT, SIGNAL_KIND_COUNT };
const char *signal_kind_name(enum signal_kind kind); // "steer"

// What becomes of a message whose lock ends after an interrupt.
enum signal_then { THEN_CANCEL, THEN_RETRY, THEN_DEAD_LETTER, SIGNAL_THEN_COUNT };

enum signal_flag {
    SIGNAL_REFUSE_IDLE = 1, // steer, ask: refused (not-running) if the message is not locked
    SIGNAL_ONCE = 2,        // steer, ask: if its lock ends, the signal is missed; else it stays
    SIGNAL_FLAGS_ALL = 3
};

// The state of one signal to one message. Each signal that was accepted ends once.
enum signal_state {
    SIGNAL_PENDING,
    SIGNAL_ACKED,
    SIGNAL_DECLINED,
    SIGNAL_EXPIRED,
    SIGNAL_MISSED,
    SIGNAL_WITHDRAWN,
    SIGNAL_APPLIED, // an interrupt that ended its message, or its lock, at once
    SIGNAL_STATE_COUNT
};
const char *signal_state_name(enum signal_state state); // "withdrawn"

enum signal_target {
    SIGNAL_TO_MESSAGES,
    SIGNAL_TO_WORKFLOW,
    SIGNAL_TO_WORKER,
    SIGNAL_TARGET_COUNT
};

// The request id is the signal's id, and must be set. Result: one signal_row per message.
//
// A workflow or a worker may have more than SIGNAL_TARGETS_MAX messages. An op then takes the first
// of them by number, and a further op, with a request id of its own, takes those after them.
struct op_signal {
    struct request_id request;
    struct request_id signal; // of a further op: the signal's id; else all 0, or `request`
    uint64_t after;           // of a further op: only messages with a higher number; else 0
    enum signal_kind kind;
    uint8_t flags;         // enum signal_flag; interrupt: 0
    enum signal_then then; // interrupt; else THEN_CANCEL
    int64_t ttl_ms;        // steer, ask: 1 .. SIGNAL_TTL_MAX_MS; interrupt: 0
    int64_t grace_ms;      // interrupt: 0 (at once) .. SIGNAL_GRACE_MAX_MS; else 0
    struct bytes payload;  // steer, ask: up to SIGNAL_PAYLOAD_MAX; interrupt: empty
    struct bytes reason;   // interrupt: up to FAIL_REASON_MAX; else empty
    enum signal_target target;
    uint32_t count;    // SIGNAL_TO_MESSAGES: 1 .. SIGNAL_TARGETS_MAX; else 0
    struct bytes seqs; // count * 8 bytes, little-endian; read with op_seq
    struct bytes name; // of the workflow or the worker; else empty
};

void signal_encode(struct buf *out, const struct op_signal *op);
MUST_USE enum err signal_decode(struct bytes payload, struct op_signal *out);

// The holder of a lock ends signals. Result: one reason per row (worker_reason_next).
enum signal_act { SIGNAL_ACK, SIGNAL_DECLINE, SIGNAL_ACT_COUNT };

struct signal_answer {
    struct lock_ref ref;
    uint32_t number; // of the signal, in its message
    enum signal_act act;
    // ACK: the answer, up to SIGNAL_ANSWER_MAX, may be empty. DECLINE: why, up to FAIL_REASON_MAX.
    struct bytes answer;
};

struct op_signal_settle {
    struct request_id request;
    struct queue_id queue; // of the shard that gave the locks
    uint32_t shard;
    int64_t arrived_at; // store time at which the worker's request arrived
    uint32_t count;     // up to REFS_MAX
    struct bytes rows;  // read with signal_answer_next
};

void signal_answer_put(struct buf *rows, const struct signal_answer *row);
bool signal_answer_next(struct reader *rows, struct signal_answer *out); // false: damaged
void signal_settle_encode(struct buf *out, const struct op_signal_settle *op);
MUST_USE enum err signal_settle_decode(struct bytes payload, struct op_signal_settle *out);

// The sender withdraws what is pending. Result: one signal_row per message.
struct op_signal_withdraw {
    struct request_id request;
    struct request_id signal;
    uint64_t seq; // only of this message; 0: of all
};

void signal_withdraw_encode(struct buf *out, const struct op_signal_withdraw *op);
MUST_USE enum err signal_withdraw_decode(struct bytes payload, struct op_signal_withdraw *out);

// Result: one outcome_row per message. Its status is CANCELLED, or PURGED for a dead message.
struct op_cancel {
    struct request_id request;
    struct bytes reason; // up to FAIL_REASON_MAX
    uint32_t count;      // up to REFS_MAX
    struct bytes seqs;   // count * 8 bytes, little-endian; read with op_seq
};

void cancel_encode(struct buf *out, const struct op_cancel *op);
MUST_USE enum err cancel_decode(struct bytes payload, struct op_cancel *out);

// The result has grants, as that of OP_CLAIM: one for each message that was locked. The others are
// not ready, or wait for another message of their group. A pause does not matter.
struct op_lock {
    struct request_id request;
    uint8_t seed[16]; // fresh random bits; tokens are derived from them
    struct bytes worker;
    int64_t lease_ms;  // 0: the queue's visibility timeout
    uint32_t count;    // up to CLAIM_COUNT_MAX
    struct bytes seqs; // count * 8 bytes, little-endian; read with op_seq
};

void lock_encode(struct buf *out, const struct op_lock *op);
MUST_USE enum err lock_decode(struct bytes payload, struct op_lock *out);

// What one ref of an ack or a renew carries: op_outcome.extras has one for each ref, at the end of
// the payload. It is empty if no ref carries anything.
enum { EXTRA_RESULT = 1, EXTRA_PROGRESS = 2, EXTRA_ALL = 3 };

struct outcome_extra {
    uint8_t has;               // an ack: EXTRA_RESULT; a renewal: EXTRA_PROGRESS
    struct bytes content_type; // up to MESSAGE_CONTENT_TYPE_MAX
    struct bytes result;       // up to RESULT_CONTENT_MAX
    uint8_t percent;           // up to PROGRESS_PERCENT_MAX
    struct bytes text;         // up to PROGRESS_TEXT_MAX
};

void outcome_extra_put(struct buf *extras, const struct outcome_extra *extra);
bool outcome_extra_next(struct reader *extras, struct outcome_extra *out); // false: damaged
bool outcome_has_extras(const struct op *op); // an ack or renew that carries something
// The extra of one ref; all empty if the op has none.
struct outcome_extra outcome_extra_of(const struct op_outcome *op, uint32_t index);
