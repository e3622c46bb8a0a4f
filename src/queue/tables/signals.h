// SPDX-License-Identifier: Apache-2.0
// The tables of signals and of progress (signals.c, signal_ops.c, signal_save.c), for the files of
// this folder.
#pragma once

#include "base/heap.h"
#include "base/map.h"
#include "base/ring.h"
#include "queue/core/machine.h"

#include <assert.h>

#define SIGNAL_SLOT_MAX ((UINT64_C(1) << 48) - 1)
#define SIGNAL_TIME(t)  ((uint64_t)(t) & ((UINT64_C(1) << 54) - 1)) // as a row has it

static inline int64_t signal_time(uint64_t packed)
{
    return (int64_t)(packed << 10) >> 10;
}

// A pending signal to one message, or an interrupt in force: its holder may have acknowledged it.
// Signals with one id are a list, so that a signal to 100,000 messages costs each of them the same.
struct signal {
    struct request_id id;
    uint64_t slot : 48;       // of its op, with the payload
    uint64_t deliveries : 16; // locks that got it
    uint64_t sent_at : 54;    // SIGNAL_TIME: a time of the fold has 54 bits
    uint64_t kind : 4;        // enum signal_kind
    uint64_t then : 4;        // enum signal_then
    uint64_t once : 1;
    uint64_t settled : 1; // an interrupt that has ended as a signal and is still in force
    int64_t due;          // when it expires; interrupt: when the lock ends
    uint32_t box;         // of its message; 0: a free row
    uint32_t op;
    uint32_t number;
    uint32_t next; // of its message, by number; or the next free row
    uint32_t same_next;
    uint32_t same_prev; // 0: by_id has this row
};
static_assert(sizeof(struct signal) == 64, "a pending signal costs at most 64 bytes");

// The same, as it is stored.
struct stored_signal {
    struct request_id id;
    uint64_t slot;
    int64_t sent_at;
    int64_t due;
    uint32_t op;
    uint32_t number;
    uint16_t deliveries;
    uint8_t kind;
    uint8_t then;
    uint8_t flags; // 1 once, 2 settled
};
struct stored_signal signal_stored(const struct signal *s);

// What an unfinished message has beside its record: its signals, and the progress of its holder.
struct signal_box {
    uint64_t seq;     // 0: a free row
    uint32_t first;   // its signals, by number
    uint32_t last;    // ... or the next free row
    uint32_t number;  // of its last signal
    uint16_t rows;    // its signals, with interrupts that were acknowledged
    uint16_t waiting; // of these, pending
    bool reported;    // there is progress
    uint8_t percent;
    uint64_t progress_slot; // of the renew that reported it; 0: no progress
    int64_t progress_at;
    uint32_t progress_op;
    uint32_t progress_index;
};

struct ended_signal {
    struct request_id id;
    uint64_t seq;
    uint64_t slot : 48; // of the settle with the answer; 0: none
    uint64_t deliveries : 16;
    uint64_t sent_at : 54; // SIGNAL_TIME
    uint64_t kind : 4;
    uint64_t state : 4; // enum signal_state
    int64_t at;
    uint32_t op;
    uint32_t index;
    uint32_t number;
    uint32_t before; // so many rows back is one with the same id; 0: none
};
static_assert(sizeof(struct ended_signal) == 64, "a signal that has ended costs at most 64 bytes");

// The same, as it is stored.
struct stored_ended_signal {
    struct request_id id;
    uint64_t seq;
    uint64_t slot;
    int64_t sent_at;
    int64_t at;
    uint32_t op;
    uint32_t index;
    uint32_t number;
    uint16_t deliveries;
    uint8_t kind;
    uint8_t state;
};
struct stored_ended_signal ended_stored(const struct ended_signal *row);

struct signals {
    struct signal *rows; // row 0 is none
    uint32_t len;
    uint32_t cap;
    uint32_t free;
    uint32_t used;
    uint32_t pending;         // of these, without settled interrupts
    struct signal_box *boxes; // row 0 is none
    uint32_t boxes_len;
    uint32_t boxes_cap;
    uint32_t boxes_free;
    uint32_t boxes_used;        // 0: no message has anything here
    struct map by_seq;          // boxes
    struct map by_id;           // the first row with an id
    struct heap timers;         // steers and asks, by the time when they expire
    struct ended_signal *ended; // in the ring, by time
    struct ring ended_ring;
    uint64_t ended_first;   // the number of the first row
    struct map ended_by_id; // the newest row with an id
    // No part of the state:
    uint64_t orders;
    struct signal_ends ends;
};

#define SIGNAL_KEEP_MIN_MS REQUEST_KEEP_MS

// signals.c: the tables
void signals_deliver(struct machine *m, uint32_t h); // a worker got the message; no ticket
// The lock of the message ends. It was no ticket. The message goes on, or ends after that.
void signals_lock_over(struct machine *m, uint64_t seq);
void signals_close(struct machine *m, uint64_t seq);    // the message is finished, or dead
void signals_purge(struct machine *m, unsigned states); // before a purge of these states
void signals_expire(struct machine *m);                 // what is due
int64_t signals_wake_at(const struct machine *m);
void progress_note(struct machine *m, uint64_t seq, uint8_t percent, uint32_t index);
void signals_clear(struct machine *m); // for a new state
uint64_t signal_id_key(const struct request_id *id);
uint64_t signal_seq_of(const struct machine *m, const struct signal *s); // its message
uint64_t signal_box_hash(const struct signal_box *box);
uint32_t signal_box_find(const struct machine *m, uint64_t seq); // 0: none
uint32_t signal_box_need(struct machine *m, uint64_t seq);
uint32_t signal_add(struct machine *m, uint32_t b, const struct signal *signal); // copies it
void signal_deliver(struct machine *m, uint32_t s);
// The holder ends it. text: why it was declined
void signal_settle(struct machine *m, uint32_t s, enum signal_state state, struct op_place answer,
                   struct bytes text);
void signal_end(struct machine *m, uint32_t s, enum signal_state state); // frees the row
struct event *emit_signal(struct machine *m, enum event_kind kind, const struct signal *s,
                          uint64_t seq, enum signal_state state);
// The rows with an id, in no order that readers may see. Other ids may be among them.
uint32_t signal_same_first(const struct machine *m, const struct request_id *id); // 0: none

// signal_ends.c: signals that have ended
void ended_add(struct machine *m, const struct ended_signal *row);
void ended_expire(struct machine *m);
void ended_drop_all(struct machine *m); // the queue was deleted
// Whether the row goes. newer: rows after it
bool ended_is_over(const struct machine *m, const struct ended_signal *row, uint64_t newer);
struct ended_signal *ended_at(const struct machine *m, uint64_t number);
// The rows with an id, the newest first, by number. Other ids may be among them. False: no more.
bool ended_same_first(const struct machine *m, const struct request_id *id, uint64_t *number);
bool ended_same_next(const struct machine *m, uint64_t *number);

// interrupt.c: interrupts in force
struct interrupt {
    enum signal_then then;
    bool expired;        // the lock's deadline has passed
    struct op_place why; // the op with the reason
    struct bytes text;   // for the event; may be empty
};
const struct signal *interrupt_of(const struct machine *m, uint64_t seq); // the newest; or NULL
int64_t interrupt_limit(const struct machine *m, uint64_t seq); // of the deadline; or TIME_NEVER
// Whether a request that arrived then is later than the end of an interrupt.
bool interrupt_is_over(const struct machine *m, uint64_t seq, int64_t arrived_at);
enum message_state interrupt_state(const struct machine *m, enum signal_then then);
void interrupt_limit_lock(struct machine *m, uint32_t h); // after an interrupt came
void interrupt_lifted(struct machine *m, uint32_t h);     // after one was withdrawn
// Ends the lock of h as the interrupt says.
enum outcome_status lock_interrupt(struct machine *m, uint32_t h, const struct interrupt *in);
// The same, if an interrupt is in force. False: none is, and nothing was done.
bool interrupt_take(struct machine *m, uint32_t h, bool expired, struct bytes text,
                    struct outcome_row *row);

// signal_save.c
void signals_save(const struct machine *m, struct buf *out);
void signals_load(struct machine *m, struct reader *r);
void signals_check(const struct machine *m);
uint64_t signals_marks(const struct machine *m); // slots that it marks, for machine_check
