// SPDX-License-Identifier: Apache-2.0
// The fold's answers: the body of an op_result. Its first byte is a reason (REASON_NONE: applied).
// The op's rows follow. An op on many messages counts as applied if at least one message was. Each
// row has its own reason.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "base/hash.h"
#include "queue/codec/message.h"
#include "queue/codec/ops_signals.h"
#include "queue/codec/reason.h"

// OP_SEND
struct send_row {
    enum reason reason; // NONE, DUPLICATE, or the refusal
    uint64_t seq;       // of the message, or of the first message with that dedup key
};

// OP_RENEW, OP_ACK, OP_FAIL, OP_RELEASE: one row per lock. OP_CANCEL: one row per message.
enum outcome_status {
    OUTCOME_NONE, // refused, renewed or released
    OUTCOME_PROCESSED,
    OUTCOME_RETRYING,
    OUTCOME_DEAD_LETTERED,
    OUTCOME_CANCELLED,
    OUTCOME_PURGED, // OP_CANCEL of a dead message
    OUTCOME_STATUS_COUNT
};
const char *outcome_status_name(enum outcome_status s); // "retrying"

struct outcome_row {
    enum reason reason;
    enum outcome_status status;
    int64_t until; // renew: the deadline; fail, release: when it is ready again; else 0
};

struct result {
    enum reason reason;
    uint32_t count; // rows
    // configure: the version; purge, recover: their number; redrive: first new seq; arrive: seq.
    uint64_t value;
    struct reader rows;
    uint32_t run; // how many more times the last row applies
    struct send_row sent;
    struct outcome_row outcome;
    struct reader names; // OP_DISPATCH: the workers that grants name
};

// Bodies come from our own fold or from a peer: ERR_INVALID on damage. kind is the kind of the op.
MUST_USE enum err result_open(struct bytes body, uint16_t kind, struct result *out);

// Reads the next row into out. False: there is none, or it is damaged. The function keeps no
// state in out.
bool send_row_next(struct result *r, struct send_row *out);

// OP_CLAIM, OP_TAKE, OP_PUBLISH, OP_LOCK
struct grant {
    uint64_t seq;
    struct place place;
    struct hash128 token;
    uint64_t fence;
    int64_t deadline;
    uint32_t deliveries; // including this one; a ticket counts when it is taken
    uint32_t retries;
    uint64_t order;      // of a ticket; 0: claimed directly
    uint32_t worker_row; // OP_PUBLISH: index of the row that got it
};
bool grant_next(struct result *r, struct grant *out);

bool outcome_row_next(struct result *r, struct outcome_row *out);

// OP_SIGNAL, OP_SIGNAL_WITHDRAW: one row per message, in the order of the op, else by number of the
// message. If an id is known already, the rows say what has become of that signal.
struct signal_row {
    uint64_t seq;
    uint32_t number; // of the signal in its message; 0: refused, or it ended at once
    enum reason reason;
    enum signal_state state;
    int64_t until; // pending: when it expires; interrupt: when the lock ends
};
bool signal_row_next(struct result *r, struct signal_row *out);

// OP_WORKERS, OP_SIGNAL_SETTLE: one reason per row of the op.
bool worker_reason_next(struct result *r, enum reason *out);
// OP_DISPATCH: the name of a grant's worker. False: no such index.
bool dispatch_worker(const struct result *r, uint32_t worker_row, struct bytes *name);

// For the fold. The rows of sends and outcomes are stored in runs, because most rows of a batch are
// alike: consecutive numbers, or the same row again. rows_at is the offset of the op's rows in out.
void result_begin(struct buf *out, enum reason reason);
void send_row_put(struct buf *out, size_t rows_at, enum reason reason, uint64_t seq);
void grant_put(struct buf *out, const struct grant *g);
void outcome_row_put(struct buf *out, size_t rows_at, const struct outcome_row *row);
void signal_row_put(struct buf *out, const struct signal_row *row);
void worker_reason_put(struct buf *out, size_t rows_at, enum reason reason);
