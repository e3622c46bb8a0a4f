// SPDX-License-Identifier: Apache-2.0
// The journal of one shard, as one handle sees it. Ops go in, committed entries are folded, answers
// come out. It is pure: the time is an argument, and it returns store requests and gets their
// responses. docs/architecture.md has the overview, docs/format.md the bytes, docs/simulation.md
// the guarantees.
//
// Use: call journal_start once. Then call journal_submit, journal_sync, journal_own,
// journal_respond and journal_tick in any order. After each call take all requests
// (journal_next_request) and replies (journal_next_reply). Call journal_tick no later than
// journal_wake_at. Only one thread may use a handle at a time.
#pragma once

#include "base/hash.h"
#include "base/op.h"
#include "journal/fold.h"
#include "journal/request.h"

#define JOURNAL_PREFIX_MAX  200
#define JOURNAL_OP_MAX      ((size_t)4 << 20)
#define JOURNAL_ADDRESS_MAX 256
#define JOURNAL_PUTS_MAX    1000000
#define JOURNAL_HALT_MAX    480

struct journal_id {
    uint8_t queue[16];
    uint32_t shard;
};

// Rules of the fold. Every handle of a shard must have the same. The defaults are for production;
// tests use smaller values.
struct journal_rules {
    int64_t session_ttl_ms; // 24 h
    uint32_t sessions_max;  // 4096
    uint32_t digest_every;  // 256 slots; 0: never
    int64_t verify_ms;      // V, 60 s: how old knowledge of a slot's absence may be
    int64_t retain_ms;      // R, 1 h: how old a slot must be to be dropped; more than V
    // 5 min: replaces retain_ms while the store is nearly full; more than V. The floor then rises
    // to a snapshot of any age. 0: no difference is made.
    int64_t retain_tight_ms;
    int64_t floor_every_ms;  // 15 min
    int64_t floor_lag_ms;    // 1 h: how old a snapshot must be before the floor rises to it
    uint32_t snapshot_every; // 1024 slots; 0: never
    // 1 h: how often a handle searches for objects that no message refers to; 0: never.
    int64_t sweep_every_ms;
    int64_t orphan_ms; // 2 h: how old such an object must be by the store's clock
};

struct journal_config {
    struct journal_id id;
    // Keys are <prefix>/log, <prefix>/snap/... and <prefix>/floor/...
    char prefix[JOURNAL_PREFIX_MAX + 1];
    struct hash128 writer;  // 128 random bits, new for each handle
    uint64_t seed;          // for nonces and retry jitter; random
    int64_t retry_min_ms;   // 20 ms
    int64_t retry_max_ms;   // 2 s
    int64_t look_min_ms;    // 1 s: when a halted handle looks again ...
    int64_t look_max_ms;    // 60 s: ... and how rarely at most
    size_t read_bytes_max;  // 1 MiB: the limit of one read
    size_t entry_bytes_max; // 8 MiB at most: the limit of a batch
    // A snapshot waits until the entries since the last one have this many times its bytes. So a
    // large state does not write mostly snapshots. 0: it does not wait.
    uint32_t snapshot_ratio;
    bool from_oldest; // start at the oldest entry that exists, not at the newest snapshot
    // Puts cost money: the limit per second, in the long run. The credit of one second can be
    // saved. Ops wait for credit and share an entry. 0: no limit.
    int64_t puts_per_second;
    // The store is reached over a network and decides an append on arrival. It then pays to wait
    // for more callers, and to take turns with other writers.
    bool high_latency;
    // Courtesy: a direct writer pauses for this long after each commit (1 s) ...
    int64_t courtesy_ms;
    int64_t courtesy_live_ms; // ... if an owner committed an entry within this time (5 s)
    struct journal_rules rules;
    // The newest version of the fold's rules that this program folds. The writer's id carries it.
    // 0: version 1, and the id carries nothing.
    uint16_t rules_newest;
    uint16_t rules_oldest; // the oldest version that it folds; 0: the one before the newest
};

void journal_config_defaults(struct journal_config *c);

struct journal;

struct journal *journal_new(const struct journal_config *config, const struct fold *fold);
void journal_free(struct journal *j); // NULL is allowed; open ops are not answered

void journal_start(struct journal *j, struct interval now);
// Commits op, which is copied. Its ticket is answered exactly once, at the latest at the deadline
// (store time), if journal_tick is called.
void journal_submit(struct journal *j, uint64_t ticket, struct op op, int64_t deadline,
                    struct interval now);
// Answers ERR_OK when all entries that were committed before this call are folded.
void journal_sync(struct journal *j, uint64_t ticket, int64_t deadline, struct interval now);

// The caller of an op or a sync waits until this deadline, which is earlier. A ticket that is
// answered is left alone.
void journal_hasten(struct journal *j, uint64_t ticket, int64_t deadline);
// Commits an entry without ops, so that the fold's time advances.
void journal_touch(struct journal *j, uint64_t ticket, int64_t deadline, struct interval now);
// Between hold and release no request is sent. Ops that are submitted meanwhile share an entry if
// they fit. Holds nest.
void journal_hold(struct journal *j);
void journal_release(struct journal *j, struct interval now);
size_t journal_queued(const struct journal *j); // ops and syncs that wait for a request

// Becomes the owner. Applied if expected is the current epoch and, for the recorded coord id, the
// token is higher than the recorded one. From then on entries have the new epoch, until another
// writer becomes the owner.
struct journal_owner {
    uint8_t coord[16]; // the coordination service that numbers the tokens
    uint64_t token;
    struct bytes address; // where to reach the owner; JOURNAL_ADDRESS_MAX bytes at most
};
void journal_own(struct journal *j, uint64_t ticket, uint64_t expected,
                 const struct journal_owner *owner, int64_t deadline, struct interval now);
// An operator's order to accept the tokens of another coordination service.
void journal_coord_switch(struct journal *j, uint64_t ticket, const uint8_t coord[16],
                          int64_t deadline, struct interval now);

void journal_respond(struct journal *j, const struct response *r, struct interval now);
void journal_tick(struct journal *j, struct interval now);
// The recorded owner does not answer: writers do not pause for it until it writes again.
void journal_owner_away(struct journal *j, struct interval now);
// The time stands still, so a wait for callers that submit together would not end. The next op is
// proposed at once.
void journal_join_no_more(struct journal *j);
// Charges puts that other code made for this shard to its budget. They do not wait for credit.
void journal_charge(struct journal *j, uint32_t puts);

// When to call journal_tick next (store time), or TIME_NEVER.
int64_t journal_wake_at(const struct journal *j);
bool journal_next_request(struct journal *j, struct request *out);

struct journal_reply {
    uint64_t ticket;
    // What happened to the op:
    //
    //   - ERR_OK: it was applied.
    //   - ERR_UNKNOWN: it may have been applied, or may be later.
    //   - ERR_UNAVAILABLE, ERR_LIMIT, ERR_DENIED: not applied, because of the store.
    //   - ERR_FENCED: not applied, because another writer owns the shard.
    //   - ERR_CORRUPT: not applied, because the journal halted. If it halted because it needs
    //     another program, the error is ERR_UNAVAILABLE (journal_halt_err).
    //   - others: the fold refused it.
    enum err err;
    uint64_t slot;     // the slot of its entry; 0: there is none, or it is no longer known
    struct bytes body; // the machine's explanation; valid until the next call
};
bool journal_next_reply(struct journal *j, struct journal_reply *out);

// What a handle knows. It is current whenever a function of the journal returns, and when the
// journal calls the fold's apply. So a caller that needs several of these facts does not ask for
// each. The journal owns it.
struct journal_view {
    uint64_t slot;     // journal_slot
    uint64_t epoch;    // journal_epoch
    enum err halt_err; // journal_halt_err
    bool is_owner;     // journal_is_owner
    bool is_current;   // journal_is_current
    bool has_waiting;  // journal_has_waiting
    bool has_replies;  // journal_next_reply would return true
};
const struct journal_view *journal_view(const struct journal *j); // the same for its whole life

uint64_t journal_slot(const struct journal *j); // the last slot folded
// Returns true if an op that was submitted, answered or not, may still be committed and matches
// `is`.
bool journal_holds(const struct journal *j, bool (*is)(void *ctx, const struct op *op), void *ctx);
int64_t journal_time(const struct journal *j); // the time of the fold
uint64_t journal_digest(const struct journal *j);
uint64_t journal_epoch(const struct journal *j);
struct journal_owner journal_owner(const struct journal *j); // the recorded owner; views into j
bool journal_is_owner(const struct journal *j); // this handle is the owner, as far as it has folded
// Store time of the newest entry of the recorded owner. TIME_UNKNOWN: this handle has folded none.
int64_t journal_owner_seen_at(const struct journal *j);
// Returns true if the handle has recovered, has no request open, and is at the tail as far as it
// knows.
bool journal_is_ready(const struct journal *j);
bool journal_is_settled(const struct journal *j); // ready, and has no work
bool journal_is_current(const struct journal *j); // has seen the tail since it last recovered
// The newest snapshot that it loaded or wrote.
uint64_t journal_last_snapshot(const struct journal *j);
bool journal_clock_alarm(const struct journal *j); // the journal's time is ahead of the store's
// `why` names what was read. It is valid until the next call.
bool journal_halted(const struct journal *j, const char **why);
// ERR_OK: not halted. ERR_CORRUPT: stored bytes contradict themselves, and still did when they were
// read again. The handle goes on by itself if the store proves sound. ERR_UNAVAILABLE: the next
// entry needs another version of this program, and `why` begins with JOURNAL_UPGRADE_NEEDED.
enum err journal_halt_err(const struct journal *j);
#define JOURNAL_UPGRADE_NEEDED "upgrade needed: "
// oldest, newest: as in struct journal_config.
void journal_rules_sentence(uint16_t found, uint16_t oldest, uint16_t newest, char *out,
                            size_t max);

// The writers that committed lately (session_ttl_ms), in no order. False past the last.
struct journal_writer {
    uint16_t rules_newest; // that its program folds; 0: not known, it may be older than all
    int64_t seen_at;       // store time of its last entry
};
bool journal_writer(const struct journal *j, size_t index, struct journal_writer *out);
// The newest version that the recorded owner folds. 0: not known, or there is no owner.
uint16_t journal_owner_rules(const struct journal *j);
// Puts the version into a random id, as journal_new does. 0: the id stays as it is.
void journal_writer_mark(struct hash128 *writer, uint16_t rules_newest);
uint64_t journal_floor(const struct journal *j);       // the highest floor that it has seen
uint64_t journal_floor_index(const struct journal *j); // the number of that floor's object; 0: none
// Writes every field that decides the next step. Two handles with the same description behave the
// same. For the explorer and for traces.
void journal_describe(const struct journal *j, struct buf *out);

// The collector: raises the floor, drops old slots and sweeps bodies.

struct collector;

struct collector *collector_new(struct journal *j); // borrows j
void collector_free(struct collector *c);
// Starts a round. Ignored while one is running.
void collector_start(struct collector *c, struct interval now);
// Starts a round on a shard whose fold has ended; otherwise ignored. The round makes what the floor
// needs to rise over the end: a snapshot and, when that is old enough, an entry after it
// (collector_wants_time). The caller commits that entry and starts the following rounds.
void collector_finish(struct collector *c, struct interval now);
// Returns true if the last round was such a round, came to its end, and left nothing to remove.
bool collector_finished(const struct collector *c);
void collector_respond(struct collector *c, const struct response *r, struct interval now);
bool collector_next_request(struct collector *c, struct request *out);
// When to call collector_tick (store time), or TIME_NEVER. An idle shard needs no call.
int64_t collector_wake_at(const struct collector *c);
void collector_tick(struct collector *c, struct interval now); // starts a round if one is due
// Asks for an entry, for one of two reasons. The last sweep found objects that only the fold's time
// keeps, and the next sweep deletes them. Or the floor needs a slot after the last
// (collector_finish). True once for each round.
bool collector_wants_time(struct collector *c);
bool collector_running(const struct collector *c);
uint64_t collector_dropped(const struct collector *c); // slots that this collector dropped
uint64_t collector_swept(const struct collector *c);   // ... and objects that it deleted
void collector_describe(const struct collector *c, struct buf *out);
