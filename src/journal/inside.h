// SPDX-License-Identifier: Apache-2.0
// Private to a journal handle: shared by journal.c (the calls), batch.c (ops and their answers),
// apply.c (the fold), step.c (the store requests), recover.c (snapshots), doubt.c (wrong answers),
// pace.c (when) and the collector.
//
// The main requests, one at a time:
//
// clang-format off
//     start --> LISTING --> LOADING --> READING <---------- refused append, sync
//                  ^                     |   ^                    ^
//                  |                  gap|   |rows                |
//                  |                     v   |                    |
//        at or under the floor         IDLE --> PUTTING ----------'
//                  |                     ^          |
//                  '------ CHECKING <----+----------'
// clang-format on
//
// In CHECKING, an answer that is not fresh waits until the floor was read.
//
//     any --> PROVING --> READING   after an answer that contradicts the state
//     any --> HALTED                if such answers stay, or if the entries need another program
//     HALTED --> PROVING            at times; halt_err stays until the tail is read
#pragma once

#include "base/rng.h"
#include "journal/open_request.h"
#include "journal/pace.h"
#include "journal/snapshot.h"

enum phase {
    PHASE_NEW,
    PHASE_LISTING,
    PHASE_LOADING,
    PHASE_PROVING,
    PHASE_READING,
    PHASE_IDLE,
    PHASE_PUTTING,
    PHASE_CHECKING,
    PHASE_HALTED,
};

// An op or a sync that waits for its answer.
struct pending_call {
    struct pending_call *next;
    uint64_t ticket;
    struct op op; // payload owned
    int64_t deadline;
    uint64_t after_request; // sync: a request with this id or a later one saw all that it must see
    bool grows;             // fold.grows
    bool answered;          // its deadline passed; kept until the batch is decided
};

struct pending_list {
    struct pending_call *head;
    struct pending_call *tail;
    size_t len;
};

// The one entry that is being committed.
struct batch {
    bool active;
    bool grows;        // one of its ops adds messages
    bool maybe_landed; // an attempt may have reached the store
    uint64_t slot;
    struct buf bytes;
    struct hash128 hash;
    uint64_t sequence;
    // Store time before the first attempt: until then the slot did not hold this entry.
    int64_t sent_at;
    size_t first_op; // index of the first caller's op in the entry
    struct pending_list ops;
};

// An answer that is not fresh, kept while the floor is read.
enum held_kind { HELD_NOTHING, HELD_APPENDED, HELD_GAP, HELD_ROWS };

struct held_row {
    struct interval modified;
    struct bytes body; // owned
};

struct held_request {
    enum held_kind kind;
    uint64_t request;
    struct interval time;
    struct held_row *rows;
    size_t rows_len;
};

struct reply {
    struct reply *next;
    struct journal_reply out; // body owned
};

#define SNAPSHOTS_KEPT 2 // candidates kept from a listing, newest first

struct journal {
    struct journal_config config;
    struct fold fold;
    struct rng rng;
    struct interval now;
    // The lower bound of the time as it was last given. Callers count their deadlines from such
    // times. If the store's clock was set back, `now` stands still, and this does not.
    int64_t heard_lo;
    enum phase phase;
    bool tight;     // the store reported that it is nearly full
    uint32_t holds; // while not zero, no request is sent
    // Halted: ERR_CORRUPT, or ERR_UNAVAILABLE if the entries need another program. All calls are
    // refused. It stays while the handle looks again.
    enum err halt_err;
    char halt_text[JOURNAL_HALT_MAX]; // the reason; a read that failed is named
    uint32_t doubts;                  // wrong answers since the last tail
    uint32_t looks;                   // halts since the last entry that was folded without one
    int64_t look_at;                  // when a halted handle looks again
    bool fresh;                       // the next request uses a fresh connection
    bool unproven;                    // the last folded slot is gone: only a snapshot replaces it
    // A whole entry of this slot contradicts the state, or the slot was lost; 0: none. No snapshot
    // replaces the state then.
    uint64_t diverged_slot;
    // The writer of the newest folded entry of that epoch; epoch 0: none was folded.
    struct hash128 owner_writer;
    uint64_t owner_writer_epoch;

    struct core core;
    int64_t absent_at;  // a store time when slot core.slot + 1 was certainly absent
    bool replaying;     // no tail was seen since the last load
    int64_t born;       // store time of this writer's start, for core_session
    uint64_t sequence;  // of the newest batch
    uint64_t committed; // ... of the newest that this writer answered as committed; 0: none
    uint64_t committed_slot;
    uint64_t my_epoch; // the epoch this handle owns; 0: none

    uint64_t floor_index; // the newest floor object seen
    uint64_t floor_slot;

    struct pending_list queue;
    struct pending_list syncs;
    struct batch batch;
    struct held_request held;
    int64_t deadline_at; // no deadline is earlier than this

    uint64_t next_request;
    struct open_request main;
    int64_t retry_at;
    uint32_t retries;
    struct pace pace;

    uint64_t candidates[SNAPSHOTS_KEPT]; // slots of snapshots, newest first; 0: none
    bool candidate_damaged;
    bool listing_on; // the listing continues after main.after
    struct open_request snap;
    struct buf snap_bytes;
    uint64_t snap_slot; // of the snapshot being written
    uint64_t last_snapshot;
    size_t last_snapshot_len;
    uint64_t bytes_since; // folded since the last snapshot
    // The first slot after which this handle saw that the fold has ended; 0: none.
    uint64_t ended_slot;

    struct reply *replies;
    struct reply *replies_tail;
    struct reply *reply_out; // the reply whose body the caller may still read
    struct buf text;         // scratch for results
    struct journal_view view;
};

// Each change of a field that the view shows ends with this.
void journal_view_refresh(struct journal *j);
void journal_note_time(struct journal *j, struct interval now);

void pending_push(struct pending_list *l, struct pending_call *p);
void pending_free_all(struct pending_list *l);
void journal_answer_all(struct journal *j, struct pending_list *l, enum err err);
void journal_expire(struct journal *j); // answers the ops whose deadline passed
void batch_form(struct journal *j);     // from the queue, for the slot after core.slot
// Answers ops that need no entry, so that they do not wait for one.
void batch_answer_idle(struct journal *j);
void batch_requeue(struct journal *j); // certainly not committed: its ops go first again
void batch_committed(struct journal *j, const struct op_result *results, bool is_void);
void batch_jumped(struct journal *j); // a snapshot was loaded past its slot
void batch_fail(struct journal *j, enum err err);
// The store has no space for ops that add messages: answers those ops and requeues the others.
// Returns false if there are none.
bool batch_refuse_growth(struct journal *j);
void batch_unknown(struct journal *j); // answers its callers now; the batch is still resolved

// Folds the bytes of slot core.slot + 1, unless they contradict the state. created: a lower bound
// of the time when the slot was created. Returns false if it does not fold them.
bool journal_apply(struct journal *j, struct bytes bytes, int64_t created);
void journal_forget(struct journal *j); // nothing is folded
// doubt.c
struct read_name {
    const char *part; // "slot", "floor"; NULL: the reason names what was read
    uint64_t number;
};
// An answer contradicts the state. The handle reads again, or halts after some of them.
void journal_doubt(struct journal *j, struct read_name read, const char *why);
bool journal_may_doubt(const struct journal *j); // the next one does not halt
void journal_diverged(struct journal *j, uint64_t slot);
void journal_doubt_gone(struct journal *j); // only a snapshot could replace a state that diverged
void journal_look_again(struct journal *j); // halted
void journal_on_proof(struct journal *j, const struct response *r);
// Halts for good if a commit that this handle answered is not in the state. Returns whether all
// are.
bool journal_check_commits(struct journal *j, bool at_tail);
// The tail is read. Ends a halt. Returns false if the handle stays halted.
bool journal_resume(struct journal *j);
// rules.c
bool journal_folds(const struct journal *j, uint16_t rules); // this program folds that version
// Halts because the stored bytes need another version of the program. They are not damaged.
void journal_halt_rules(struct journal *j, uint16_t rules);
uint16_t journal_rules_needed(const struct journal *j, const struct op *ops, size_t ops_len);
MUST_USE enum err journal_load(struct journal *j, struct bytes snapshot, uint64_t slot);
// Writes a snapshot of the present state, unless one is being written.
void journal_snapshot(struct journal *j);

struct pace_fold {
    bool mine;
    bool in_force;
    size_t answered; // callers whose op it had
    uint64_t epoch_before;
};
void pace_start(struct journal *j);
void pace_asked(struct journal *j);    // an append was requested
void pace_answered(struct journal *j); // ... and was won or lost
void pace_lost(struct journal *j);
void pace_tail_read(struct journal *j); // no slot follows core.slot
// A read ended with an entry of that time.
void pace_rows_read(struct journal *j, struct interval written, struct interval answered);
void pace_folded(struct journal *j, const struct entry *e, const struct pace_fold *f);
int64_t pace_propose_at(const struct journal *j);   // when ops in the queue may become an entry
bool pace_wants_read(const struct journal *j);      // ... but the tail should be read first
bool pace_lacks_credit(const struct journal *j);    // no credit for an entry
int64_t pace_resend_at(const struct journal *j);    // when the batch may be sent again
int64_t pace_read_lost_at(const struct journal *j); // when the entry that took its slot may be read

// When the next main request may be sent; TIME_NEVER: there is none.
int64_t journal_ready_at(const struct journal *j);
void journal_advance(struct journal *j);
void journal_back_off(struct journal *j);
void journal_reset_retries(struct journal *j);
// recover.c
void journal_recover(struct journal *j);
void journal_ask_listing(struct journal *j);
void journal_on_listing(struct journal *j, const struct response *r);
void journal_on_loading(struct journal *j, const struct response *r);
bool snapshot_key_slot(const struct journal *j, const char *key, uint64_t *slot);
void held_clear(struct held_request *h);
