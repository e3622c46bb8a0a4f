// SPDX-License-Identifier: Apache-2.0
// The true history of one lane, whatever a handle believes, and the reference model's own records:
// what became of every message, kept by plain rules from the ops, their results and the events.
// The results come from a machine of its own that folds the canonical entries in order.
#pragma once

#include "base/map.h"
#include "journal/entry.h"
#include "shard/shard.h"

struct world;

struct reference_slot {
    struct bytes bytes; // owned
    int64_t made_at;    // true store time
    bool is_void;
    bool owner_only;         // only the owner hands out messages, at its end
    bool ownerless;          // ... for some claim in it, which was refused because of that
    bool full;               // held as much as its capacity allows
    bool empty;              // had nothing (more) to claim, at its end or for some claim in it
    uint64_t empty_for;      // ... for these workers: bit by number; only with registered workers
    uint64_t epoch;          // after the slot
    uint64_t machine_digest; // after the slot
    uint64_t first_digest;   // of the first handle that got here; 0: none yet
    size_t events_end;       // in reference.events
    uint16_t rules;          // the version that it needs
};

// One message. READY stands for DELAYED too: only time decides between them.
struct row {
    enum message_state state;
    struct hash128 body;    // hash of what was sent
    uint64_t upload;        // of an object of its own: the key in its name; 0: none
    uint32_t group;         // 0: none
    uint32_t needs;         // labels that it requires
    struct hash128 evicted; // token of the last holder that was evicted
    uint8_t priority;
    int64_t ready_at; // READY: it is not handed out before this; 0: at once
    uint64_t sent_slot;
    struct place place;
    // its lock, current while LOCKED
    struct hash128 token;
    uint64_t fence;
    int64_t deadline;
    bool ticket;
    uint32_t holder;       // hash of the worker's name
    uint64_t expired_slot; // where its last lock expired; 0: it ended otherwise
    uint32_t retries;
    uint32_t deliveries;
    bool opened; // I6: handed out and not finished since
    // a dead one
    uint64_t number;
    int64_t died_at;
    enum dead_cause cause;
    struct hash128 reason;
    uint64_t reason_slot;
    struct request_id acked_by; // PROCESSED
    // how it ended, as `show` says it
    bool end_kept;
    enum finished_outcome outcome;
    int64_t ended_at;
    uint32_t end_deliveries;
    uint32_t ended_by; // hash of the worker's name; 0: none
    bool arrived;      // OUTBOUND, MOVED: the other queue has it
    uint32_t workflow; // from 1; 0: none
    uint32_t run;      // of the workflow
    uint32_t signals;  // number of the last one
    bool has_progress; // of its holder
    uint8_t percent;
    bool has_result; // PROCESSED, as long as end_kept
    struct hash128 result;
    uint64_t result_slot;
    bool body_kept; // as long as end_kept
    // one that came as a dead letter
    uint32_t origin; // lane + 1; 0: it was sent
    uint64_t origin_seq;
};

// An answer that some request id got.
struct seen {
    struct request_id id;
    uint16_t kind;
    uint64_t slot;
    struct bytes body; // owned
};

// What a worker believes to hold.
struct hold {
    uint64_t seq;
    struct hash128 token;
    int64_t deadline;
    uint32_t worker;
    bool ended;
};

#define DEDUP_KEYS 8

struct reference_dedup {
    uint64_t seq;
    int64_t expires_at;
};

// A registered worker, by the ops and their reasons.
struct fleet_row {
    bool live; // or evicted and not forgotten yet
    uint64_t instance;
    uint64_t registration; // number of its join
    uint32_t capacity;
    uint32_t labels;
    uint32_t flags;
    enum worker_mode mode;
    int64_t ttl_ms;
    int64_t expires_at;
    uint32_t passed;    // tickets that it could have got and others got since its last one
    uint32_t rows_most; // rows there were meanwhile, at most
};

// A workflow, by the ops and the events.
struct reference_workflow {
    uint32_t run;
    bool open;
    bool saw_last;
    bool just_began; // its first message follows
    uint64_t pending;
    uint64_t done;
    uint64_t failed;
    uint64_t cancelled;
};

// A signal that was accepted, to one message.
struct reference_signal {
    struct request_id id;
    uint64_t seq;
    uint32_t number; // 0: it ended at once
    enum signal_kind kind;
    enum signal_then then;
    bool once;
    enum signal_state state;
    int64_t due;
    uint64_t sent_slot;
    uint32_t op;
    uint64_t ended_slot;
    int64_t ended_at;
    struct hash128 token;     // interrupt: of the lock that it ends
    struct hash128 delivered; // token of the last holder that got it
    uint32_t deliveries;
    struct hash128 reason;
    struct hash128 answer;
    uint32_t sent; // events
    uint32_t told;
    bool dropped; // how it ended is not kept any more
};

// A lock, by its token.
struct reference_token {
    struct hash128 token;
    uint64_t ended_slot; // 0: it is current
    bool interrupted;
};

#define REFERENCE_WORKFLOWS 6

#define FLEET_MAX           100
#define FLEET_GROUPS        4

struct reference {
    struct fleet_row fleet[FLEET_MAX]; // by the number in the worker's name
    uint64_t registrations;
    struct {
        uint32_t worker;
        uint64_t registration; // 0: none
    } bound[FLEET_GROUPS];     // dispatch=affinity: the last grant of each group
    uint64_t dispatched;       // tickets of OP_DISPATCH
    struct world *world;
    uint32_t lane;
    struct reference_slot *slots; // slots[n - 1] is slot n
    uint64_t len;
    uint64_t cap;
    struct machine *machine;
    struct queue_config config;
    struct events events; // all of them
    struct buf text;
    int64_t now;
    int64_t from; // what deadlines of the entry are counted from
    uint64_t slot;
    uint64_t epoch;
    bool coord_set;
    uint64_t token;
    struct hash128 chain;
    struct row *rows; // rows[seq - 1]
    uint64_t rows_len;
    uint64_t rows_cap;
    uint64_t counts[STATE_COUNT];
    uint64_t fence;
    uint64_t order; // of the last ticket
    bool paused;
    uint32_t expired; // locks that ran out at the beginning of the entry
    bool dry;         // a claim of the entry found less than it asked for
    bool ownerless;   // a claim of the entry was refused: only the owner hands out messages
    uint64_t deaths;
    uint64_t dying; // expired for the last time, its outcome is not told yet
    enum outcome_status dying_as;
    uint64_t retrying; // expired, which counts as a retry, and that is not told yet
    uint16_t rules;    // the version of the rules, from the ops alone
    struct reference_dedup dedup[DEDUP_KEYS];
    struct seen *seen;
    uint32_t seen_len;
    uint32_t seen_cap;
    struct map by_request;
    struct hold *holds;
    size_t holds_len;
    size_t holds_cap;
    uint64_t voids;
    uint64_t zombies;
    uint64_t floor;        // the highest that is durable
    uint64_t deleted_slot; // where the queue was deleted; 0: it was not
    struct reference_workflow workflows[REFERENCE_WORKFLOWS];
    struct reference_signal *signals;
    uint32_t signals_len;
    uint32_t signals_cap;
    struct reference_token *tokens;
    uint32_t tokens_len;
    uint32_t tokens_cap;
    uint64_t published_slot; // of the first report; 0: none yet
    uint64_t cursor_slot;
    uint64_t cursor_sequence;
};

void reference_init(struct reference *g, struct world *w, uint32_t lane);
void reference_done(struct reference *g);
// The store is about to create slot.
void reference_slot_made(struct reference *g, uint64_t slot, struct bytes bytes);
const struct reference_slot *reference_at(const struct reference *g,
                                          uint64_t slot);     // NULL: none yet
struct row *reference_row(struct reference *g, uint64_t seq); // NULL: never sent
const struct seen *reference_seen(const struct reference *g, const struct request_id *id);
void reference_remember(struct reference *g, const struct request_id *id, uint16_t kind,
                        struct bytes body);
void reference_move(struct reference *g, struct row *row, enum message_state to);
struct row *reference_push(struct reference *g, uint64_t seq); // a message entered; READY
uint64_t reference_held(const struct reference *g);            // what capacity is compared with

struct walk_op {
    const struct entry *entry;
    const struct op *op;
    uint32_t index;
    struct bytes body;          // of the result
    const struct event *events; // without those of signals
    size_t events_len;
    const struct event *signals;
    size_t signals_len;
};
void walk_entry(struct reference *g, const struct entry *e, const struct op_result *results,
                size_t events_from);
void walk_op(struct reference *g, const struct walk_op *o);
// The row failed or expired, and r says what comes of it.
struct route;
void walk_ended(struct reference *g, struct row *row, const struct route *r, struct bytes reason,
                bool failed);
const struct event *walk_next_event(struct reference *g, const struct walk_op *o, size_t *at,
                                    enum event_kind kind, uint64_t seq);
void walk_recovered(struct reference *g, const struct event *e); // a ticket returns
