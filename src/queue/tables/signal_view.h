// SPDX-License-Identifier: Apache-2.0
// What readers see of signals, results, progress and finished messages. The state has no payloads,
// answers, results or texts: a place names the op that carries them, and the slot is kept as long
// as the place is shown.
#pragma once

#include "queue/codec/ops_signals.h"

struct machine;

// An op of an entry, and a row of that op. slot 0: none.
//   - the payload and reason of a signal: an OP_SIGNAL (signal_decode)
//   - the answer, or why it was declined: row `index` of an OP_SIGNAL_SETTLE (signal_answer_next)
//   - the result of a message: ref `index` of an OP_ACK (outcome_extra_of)
//   - the text of a progress: ref `index` of an OP_RENEW (outcome_extra_of)
//   - why a message was cancelled: an OP_CANCEL, or an OP_SIGNAL
struct op_place {
    uint64_t slot;
    uint32_t op;
    uint32_t index;
};

struct signal_view {
    struct request_id id;
    uint64_t seq;
    uint32_t number; // in its message, from 1; 0: it ended at once (SIGNAL_APPLIED)
    enum signal_kind kind;
    enum signal_state state;
    bool once;             // steer, ask
    enum signal_then then; // interrupt
    uint32_t deliveries;   // locks that got it
    int64_t sent_at;
    int64_t until;           // pending: when it expires; interrupt: when the lock ends
    int64_t ended_at;        // 0: pending
    struct op_place carried; // the OP_SIGNAL; of an ended signal: slot 0
    struct op_place answer;  // ended by its holder: the OP_SIGNAL_SETTLE; else slot 0
};

// The signals that wait for the holder of this lock, with a number over `after`, in order. Returns
// their number in *len and REASON_NONE, or why the lock is not in force (machine_lock).
enum reason machine_signals(const struct machine *m, const struct lock_ref *ref, uint32_t after,
                            struct signal_view *out, size_t max, size_t *len);
uint32_t machine_signals_waiting(const struct machine *m, const struct lock_ref *ref); // how many
// Whether this signal is pending for the message.
bool machine_signal_waits(const struct machine *m, const struct request_id *id, uint64_t seq);
// The pending signals of a message, then those that have ended, the newest of them first.
size_t machine_signals_of(const struct machine *m, uint64_t seq, struct signal_view *out,
                          size_t max);
// All pending signals of the shard with (seq, number) after this one, in that order. It reads all
// rows, so it is for users and tools.
size_t machine_signals_pending(const struct machine *m, uint64_t seq, uint32_t number,
                               struct signal_view *out, size_t max);
// A signal by its id; seq 0: of any message (the one with the lowest number that is pending, else
// the one that ended last). False: not known any more.
bool machine_signal_find(const struct machine *m, const struct request_id *id, uint64_t seq,
                         struct signal_view *out);
// All signals with this id, pending and ended, by message. machine_signals_room tells how many
// there are at most.
size_t machine_signals_room(const struct machine *m, const struct request_id *id);
size_t machine_signals_with(const struct machine *m, const struct request_id *id,
                            struct signal_view *out, size_t max);
// Whether a pending or ended signal needs this op of this slot (as machine_reason_lives_at): exact.
bool machine_signal_lives_at(const struct machine *m, uint64_t slot, uint32_t op);
uint32_t machine_signal_count(const struct machine *m); // pending ones of the shard
// It rises when a signal was delivered. It is no part of the state.
uint64_t machine_signal_orders(const struct machine *m);
// Signals that ended since the state was loaded, or since machine_forget_ends, by kind and state.
// Not part of the state.
struct signal_ends {
    uint64_t counts[SIGNAL_KIND_COUNT][SIGNAL_STATE_COUNT];
};
void machine_signal_ends(const struct machine *m, struct signal_ends *out);
void machine_forget_ends(struct machine *m);

// The progress that the holder of a LOCKED message reported last.
struct progress_view {
    uint8_t percent;
    int64_t at;
    struct op_place text;
};
bool machine_progress(const struct machine *m, uint64_t seq, struct progress_view *out);
