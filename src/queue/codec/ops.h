// SPDX-License-Identifier: Apache-2.0
// The requests that a queue accepts: one struct, one encoder and one decoder per op. A payload
// begins with a version byte and the request id. Decoders return ERR_INVALID on any damage, and
// views into the payload. docs/format.md has the bytes.
#pragma once

#include "base/cost.h"
#include "base/err.h"
#include "base/op.h"
#include "queue/codec/config.h"
#include "queue/codec/message.h"

// Stored in journals: the numbers never change.
enum op_kind {
    OP_SEND = OP_KIND_MACHINE + 0,
    OP_CLAIM = OP_KIND_MACHINE + 1,
    OP_TAKE = OP_KIND_MACHINE + 2, // as claim, but only tickets of that worker
    OP_RENEW = OP_KIND_MACHINE + 3,
    OP_ACK = OP_KIND_MACHINE + 4,
    OP_FAIL = OP_KIND_MACHINE + 5,
    OP_RELEASE = OP_KIND_MACHINE + 6,
    OP_PUBLISH = OP_KIND_MACHINE + 7, // tickets for named workers; no program proposes it
    // 8 and 9 are not used: an op with one of these numbers is unknown.
    OP_CONFIGURE = OP_KIND_MACHINE + 10,
    OP_PAUSE = OP_KIND_MACHINE + 11,
    OP_RESUME = OP_KIND_MACHINE + 12,
    OP_PURGE = OP_KIND_MACHINE + 13,
    OP_REDRIVE = OP_KIND_MACHINE + 14,
    OP_DELETE = OP_KIND_MACHINE + 15,
    OP_ARRIVE = OP_KIND_MACHINE + 16,    // a dead letter reaches its queue
    OP_OUTBOX = OP_KIND_MACHINE + 17,    // the source drops letters that have arrived
    OP_SPENT = OP_KIND_MACHINE + 18,     // reports the cost of store requests for the shard
    OP_RAISE = OP_KIND_MACHINE + 19,     // raises the version of the rules (queue/core/rules.h)
    OP_WORKERS = OP_KIND_MACHINE + 20,   // changes of the registry of workers
    OP_DISPATCH = OP_KIND_MACHINE + 21,  // the owner grants ready messages to registered workers
    OP_PUBLISHED = OP_KIND_MACHINE + 22, // the owner reports up to where events are on the bus
    // queue/codec/ops_signals.h:
    OP_SIGNAL = OP_KIND_MACHINE + 23,          // steers, asks or interrupts messages
    OP_SIGNAL_SETTLE = OP_KIND_MACHINE + 24,   // the holder acknowledges or declines signals
    OP_SIGNAL_WITHDRAW = OP_KIND_MACHINE + 25, // the sender withdraws a signal
    OP_CANCEL = OP_KIND_MACHINE + 26,          // ends chosen messages that no worker holds
    OP_LOCK = OP_KIND_MACHINE + 27,            // locks chosen ready messages, to redrive them
    OP_KIND_END
};

#define SEND_COUNT_MAX    10000
#define CLAIM_COUNT_MAX   10000
#define REFS_MAX          10000
#define PUBLISH_ROWS_MAX  1024
#define WORKER_ROWS_MAX   10000
#define LEASE_MAX_MS      (INT64_C(24) * 3600 * 1000)
#define DELAY_MAX_MS      (INT64_C(400) * 24 * 3600 * 1000)
#define FAIL_REASON_MAX   4096
#define TICKET_DEFAULT_MS 5000

static inline bool op_is_outcome(uint16_t kind)
{
    return kind >= OP_RENEW && kind <= OP_RELEASE;
}

// It locks messages for the caller. One that got nothing changed nothing.
static inline bool op_is_claim(uint16_t kind)
{
    return kind == OP_CLAIM || kind == OP_TAKE || kind == OP_LOCK;
}

static inline bool op_has_extras(uint16_t kind)
{
    return kind == OP_RENEW || kind == OP_ACK;
}

// Gets the request id of any op of the machine. False: the payload is too short to have one.
bool op_request(const struct op *op, struct request_id *out);

void send_begin(struct buf *out, const struct request_id *request);
// CHECKs the limits: the caller must keep them.
void send_add(struct buf *out, const struct message *m);
void send_end(struct buf *out, size_t start, uint32_t count); // start: out->len before send_begin

struct op_send {
    struct request_id request;
    uint32_t count;
    struct reader messages;
};

MUST_USE enum err send_open(struct bytes payload, struct op_send *out); // checks the whole payload
void send_next(struct op_send *s, struct message *out);                 // count times

uint32_t ops_messages(const struct op *ops, size_t ops_len); // the number of messages in the entry
// Gets the message after `skip` others, and the op that carries it (an OP_ARRIVE has more facts
// about it). False: there are fewer messages.
bool ops_message_at(const struct op *ops, size_t ops_len, uint32_t skip, struct message *out,
                    size_t *op_index);

struct op_claim {
    struct request_id request;
    uint8_t seed[16]; // fresh random bits; tokens are derived from them
    struct bytes worker;
    uint32_t max;
    int64_t lease_ms; // 0: the queue's visibility timeout
};

void claim_encode(struct buf *out, const struct op_claim *op);
MUST_USE enum err claim_decode(struct bytes payload, struct op_claim *out);

struct lock_ref {
    uint64_t seq;
    struct hash128 token;
};

#define LOCK_REF_BYTES 24

struct op_outcome {
    struct request_id request;
    struct queue_id queue; // of the shard that gave the locks
    uint32_t shard;
    int64_t arrived_at;  // store time at which the worker's request arrived
    int64_t wait_ms;     // renew: new lease, 0 = visibility timeout; release: delay; else 0
    struct bytes reason; // fail: the worker's reason
    uint32_t count;
    struct bytes refs; // count * LOCK_REF_BYTES; read with outcome_ref
    // Empty, or one row for each ref, of which at least one says something
    // (queue/codec/ops_signals.h).
    struct bytes extras;
};

void lock_ref_put(struct buf *out, const struct lock_ref *ref);
struct lock_ref outcome_ref(const struct op_outcome *op, uint32_t index);
void outcome_encode(struct buf *out, const struct op_outcome *op);
MUST_USE enum err outcome_decode(struct bytes payload, struct op_outcome *out);

struct ticket_row {
    struct bytes worker;
    uint32_t max;
};

struct op_publish {
    struct request_id request;
    uint8_t seed[16];
    int64_t ticket_ms; // how long a ticket waits for its worker; 0: TICKET_DEFAULT_MS
    uint32_t count;
    struct bytes rows; // read with ticket_row_next
};

void ticket_row_put(struct buf *rows, const struct ticket_row *row);
bool ticket_row_next(struct reader *rows, struct ticket_row *out);
void publish_encode(struct buf *out, const struct op_publish *op);
MUST_USE enum err publish_decode(struct bytes payload, struct op_publish *out);

// One change of the registry of workers (OP_WORKERS).
enum worker_act {
    WORKER_JOIN,  // registers the worker, or replaces capacity, ttl, flags and labels of its row
    WORKER_BEAT,  // extends its row by the row's ttl
    WORKER_LEAVE, // ends its row; its locks stay until their deadlines
    // The operator's, with instance 0:
    WORKER_PAUSE,  // it gets nothing until it is resumed
    WORKER_RESUME, // ends a pause or a drain
    WORKER_DRAIN,  // it finishes what it holds and gets nothing more
    WORKER_EVICT,  // its locks end at once, and this instance stays out
    WORKER_ACT_COUNT
};

enum worker_flag {
    WORKER_MAILBOX = 1, // it reaches only the store
    WORKER_FLAGS_ALL = 1
};

#define WORKER_CAPACITY_MAX    10000
#define WORKER_TTL_MIN_MS      INT64_C(5000)
#define WORKER_TTL_MAX_MS      (INT64_C(24) * 3600 * 1000)
#define WORKER_TTL_DEFAULT_MS  INT64_C(60000)
#define WORKER_EVICTED_KEEP_MS (INT64_C(10) * 60 * 1000)

struct worker_change {
    enum worker_act act;
    struct bytes name;
    uint64_t instance; // 64 random bits of the worker's process; 0: an operator's act
    // JOIN only, else 0 and empty:
    uint32_t capacity;   // 1 .. WORKER_CAPACITY_MAX: most messages that tickets give it at a time
    int64_t ttl_ms;      // WORKER_TTL_MIN_MS .. WORKER_TTL_MAX_MS
    uint32_t flags;      // enum worker_flag
    struct bytes labels; // canonical (queue/codec/labels.h)
};

struct op_workers {
    struct request_id request;
    uint32_t count;    // up to WORKER_ROWS_MAX
    struct bytes rows; // read with worker_change_next
};

// The result has one reason per row: worker_reason_next (queue/codec/result.h).
void worker_change_put(struct buf *rows, const struct worker_change *row);
bool worker_change_next(struct reader *rows, struct worker_change *out); // false: damaged
void workers_encode(struct buf *out, const struct op_workers *op);
MUST_USE enum err workers_decode(struct bytes payload, struct op_workers *out);

// Counts only in an entry of the shard's owner. The result has grants as OP_PUBLISH has: worker_row
// is the index of the worker's name in the list after the grants (dispatch_worker).
struct op_dispatch {
    struct request_id request;
    uint8_t seed[16];
    int64_t ticket_ms; // how long a ticket waits for its worker; 0: TICKET_DEFAULT_MS
    uint32_t max;      // most grants; up to CLAIM_COUNT_MAX
};

void dispatch_encode(struct buf *out, const struct op_dispatch *op);
MUST_USE enum err dispatch_decode(struct bytes payload, struct op_dispatch *out);

struct op_configure {
    struct request_id request;
    uint64_t expected; // required version; 0: any
    struct queue_config config;
};

void configure_encode(struct buf *out, const struct op_configure *op);
MUST_USE enum err configure_decode(struct bytes payload, struct op_configure *out);

struct op_plain { // pause, resume, delete
    struct request_id request;
};

void plain_encode(struct buf *out, const struct op_plain *op);
MUST_USE enum err plain_decode(struct bytes payload, struct op_plain *out);

struct op_purge {
    struct request_id request;
    bool dead; // DEAD messages instead of pending ones
};

void purge_encode(struct buf *out, const struct op_purge *op);
MUST_USE enum err purge_decode(struct bytes payload, struct op_purge *out);

struct op_redrive {
    struct request_id request;
    uint32_t max; // the longest dead first; ignored if seqs are given
    uint32_t count;
    struct bytes seqs; // count * 8 bytes, little-endian; read with op_seq
};

uint64_t op_seq(struct bytes seqs, uint32_t index); // one of the numbers of messages that an op has

void redrive_encode(struct buf *out, const struct op_redrive *op);
MUST_USE enum err redrive_decode(struct bytes payload, struct op_redrive *out);

enum dead_cause { DEAD_FAILED, DEAD_EXPIRED, DEAD_DELIVERIES, DEAD_CAUSE_COUNT };
const char *dead_cause_name(enum dead_cause cause);

struct op_arrive {
    struct request_id request;
    struct queue_id source; // with shard and outbox number: identifies the letter
    uint32_t source_shard;
    uint64_t number;
    struct bytes origin; // the source queue's name
    uint64_t origin_seq;
    uint32_t retries;
    uint32_t deliveries;
    enum dead_cause cause;
    int64_t died_at;
    struct bytes reason;
    struct message message;
};

// The reason that was given when it failed finally, else the name of the cause.
struct bytes arrive_reason(const struct op_arrive *op);
// The worker of the last failure; empty: not known. The op has no field for it: it is the message's
// last header of this name.
#define ARRIVE_WORKER_HEADER "sluice-dead-worker"
struct bytes arrive_worker(const struct op_arrive *op);

void arrive_encode(struct buf *out, const struct op_arrive *op);
MUST_USE enum err arrive_decode(struct bytes payload, struct op_arrive *out);

struct op_outbox {
    struct request_id request;
    uint64_t upto; // every dead letter with a number up to this has arrived
};

void outbox_encode(struct buf *out, const struct op_outbox *op);
MUST_USE enum err outbox_decode(struct bytes payload, struct op_outbox *out);

#define SPENT_MAX (UINT64_C(1) << 40) // of each kind, in one op

struct op_spent {
    struct request_id request;
    struct cost cost; // since the writer's last report
};

void spent_encode(struct buf *out, const struct op_spent *op);
MUST_USE enum err spent_decode(struct bytes payload, struct op_spent *out);

struct op_raise {
    struct request_id request;
    uint16_t to; // the version after it: one more than before
};

void raise_encode(struct buf *out, const struct op_raise *op);
MUST_USE enum err raise_decode(struct bytes payload, struct op_raise *out);

// Counts only in an entry of the shard's owner. The first one makes the shard published: from then
// on the floor waits for the cursor (machine_floor_limit). The cursor only rises: a lower one
// changes nothing. The result's value is the sequence of the cursor.
enum published_flag {
    PUBLISHED_STOP = 1, // the shard is no longer published: no floor waits
    PUBLISHED_FLAGS_ALL = 1
};

struct op_published {
    struct request_id request;
    uint64_t slot;     // the events of all slots up to this one are on the bus ...
    uint64_t sequence; // ... and this is the number of the last one; 0: there was none
    uint8_t flags;     // enum published_flag
};

void published_encode(struct buf *out, const struct op_published *op);
MUST_USE enum err published_decode(struct bytes payload, struct op_published *out);
