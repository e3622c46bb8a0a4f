// SPDX-License-Identifier: Apache-2.0
// The journal of one shard, as one handle sees it: ops in, committed entries folded, answers out.
// Pure: it is told the time, asks for store requests and is handed their responses.
// docs/architecture.md tells the story, docs/format.md the bytes, docs/simulation.md what is
// promised.
//
// Use: journal_start once; then journal_submit, journal_sync, journal_own, journal_respond and
// journal_tick in any order; after each of them take all requests (journal_next_request) and
// replies (journal_next_reply), and call journal_tick no later than journal_wake_at. One thread at
// a time.
#pragma once

#include "base/hash.h"
#include "base/op.h"
#include "journal/fold.h"
#include "journal/request.h"

#define JOURNAL_PREFIX_MAX  200
#define JOURNAL_OP_MAX      ((size_t)4 << 20)
#define JOURNAL_ADDRESS_MAX 256
#define JOURNAL_PUTS_MAX    1000000

struct journal_id {
    uint8_t queue[16];
    uint32_t shard;
};

// Rules of the fold: every handle of a shard must have the same. The defaults are the product's;
// tests shrink them.
struct journal_rules {
    int64_t session_ttl_ms; // 24 h
    uint32_t sessions_max;  // 4096
    uint32_t digest_every;  // 256 slots; 0: never
    int64_t verify_ms;      // V, 60 s: how old knowledge of a slot's absence may be
    int64_t retain_ms;      // R, 1 h: how old a slot must be to be dropped; more than V
    // 5 min: the same while the store is nearly full, and then a snapshot need not be of any age
    // for the floor to rise to it; more than V. 0: no difference is made.
    int64_t retain_tight_ms;
    int64_t floor_every_ms;  // 15 min
    int64_t floor_lag_ms;    // 1 h: how old a snapshot must be before the floor rises to it
    uint32_t snapshot_every; // 1024 slots; 0: never
    int64_t sweep_every_ms; // 1 h: how often a handle looks for objects that nobody needs; 0: never
    int64_t orphan_ms;      // 2 h: how old such an object must be by the store's clock
};

struct journal_config {
    struct journal_id id;
    char prefix[JOURNAL_PREFIX_MAX +
                1];         // keys are <prefix>/log, <prefix>/snap/..., <prefix>/floor/...
    struct hash128 writer;  // 128 random bits, new for each handle
    uint64_t seed;          // for nonces and retry jitter; random
    int64_t retry_min_ms;   // 20 ms
    int64_t retry_max_ms;   // 2 s
    size_t read_bytes_max;  // 1 MiB: how much one read may bring
    size_t entry_bytes_max; // 8 MiB at most: where a batch ends
    // A snapshot waits until the entries since the last one have this many times its bytes, so that
    // large states do not drown the journal in snapshots. 0: it does not wait.
    uint32_t snapshot_ratio;
    bool from_oldest; // start at the oldest entry that is kept, not at the newest snapshot
    // Puts cost money: so many a second at most, in the long run (a second's worth may be saved
    // up). Ops wait for it and share an entry. 0: no limit.
    int64_t puts_per_second;
    // The store is a network away and decides an append when it has arrived: it pays to let callers
    // gather, and to take turns with other writers.
    bool high_latency;
    // Courtesy: a direct writer pauses so long after each commit (1 s) ...
    int64_t courtesy_ms;
    int64_t courtesy_live_ms; // ... if an owner committed something in this time (5 s)
    struct journal_rules rules;
};

void journal_config_defaults(struct journal_config *c);

struct journal;

struct journal *journal_new(const struct journal_config *config, const struct fold *fold);
void journal_free(struct journal *j); // NULL is fine; unanswered ops stay unanswered

void journal_start(struct journal *j, struct interval now);
// Commit op (copied). Its ticket is answered exactly once, by the deadline (store time) at the
// latest, as long as journal_tick is called.
void journal_submit(struct journal *j, uint64_t ticket, struct op op, int64_t deadline,
                    struct interval now);
// Answered ERR_OK when everything committed before this call was folded.
void journal_sync(struct journal *j, uint64_t ticket, int64_t deadline, struct interval now);

// Commits an entry without ops, so that the fold's time moves on.
void journal_touch(struct journal *j, uint64_t ticket, int64_t deadline, struct interval now);
// Between hold and release nothing is asked of the store: ops handed in meanwhile share an entry if
// it has room. Holds nest.
void journal_hold(struct journal *j);
void journal_release(struct journal *j, struct interval now);

// Become the owner: applied if expected is the current epoch and, for the recorded coord id, the
// token is higher than the recorded one. From then on entries carry the new epoch, until somebody
// else owns.
struct journal_owner {
    uint8_t coord[16]; // which coordination service numbers the tokens
    uint64_t token;
    struct bytes address; // where the owner can be reached, JOURNAL_ADDRESS_MAX bytes at most
};
void journal_own(struct journal *j, uint64_t ticket, uint64_t expected,
                 const struct journal_owner *owner, int64_t deadline, struct interval now);
// The operator's order to accept the tokens of another coordination service.
void journal_coord_switch(struct journal *j, uint64_t ticket, const uint8_t coord[16],
                          int64_t deadline, struct interval now);

void journal_respond(struct journal *j, const struct response *r, struct interval now);
void journal_tick(struct journal *j, struct interval now);
// The recorded owner does not answer: no pause is made for its sake until it writes again.
void journal_owner_away(struct journal *j, struct interval now);
// Puts made for this shard beside the journal's own draw from its budget; they do not wait for it.
void journal_spend(struct journal *j, uint32_t puts);

// When journal_tick wants to be called next (store time), or TIME_NEVER.
int64_t journal_wake_at(const struct journal *j);
bool journal_next_request(struct journal *j, struct request *out);

struct journal_reply {
    uint64_t ticket;
    // ERR_OK applied; ERR_UNKNOWN may be or become applied; ERR_UNAVAILABLE, ERR_LIMIT, ERR_DENIED
    // not applied, store's fault; ERR_FENCED not applied, somebody else owns; ERR_CORRUPT not
    // applied, the journal halted; others: the fold refused it.
    enum err err;
    uint64_t slot;     // where it was folded; 0: it was not, or that is no longer known
    struct bytes body; // the machine's explanation; valid until the next call with j
};
bool journal_next_reply(struct journal *j, struct journal_reply *out);

uint64_t journal_slot(const struct journal *j); // the last one folded
// Whether an op that was handed in, answered or not, may still be committed, and is such a one.
bool journal_holds(const struct journal *j, bool (*is)(void *ctx, const struct op *op), void *ctx);
int64_t journal_time(const struct journal *j); // the time of the fold
uint64_t journal_digest(const struct journal *j);
uint64_t journal_epoch(const struct journal *j);
struct journal_owner journal_owner(const struct journal *j); // the recorded one; views into j
bool journal_is_owner(const struct journal *j); // this handle is it, as far as it has folded
// Store time of the newest entry of the recorded owner; TIME_UNKNOWN: this handle has folded none.
int64_t journal_owner_seen_at(const struct journal *j);
bool journal_is_ready(
    const struct journal *j); // recovered, nothing in flight, at what it believes to be the tail
bool journal_has_waiting(const struct journal *j); // ops were handed in that are in no entry yet
bool journal_is_settled(const struct journal *j);  // ready, and nothing of it is under way
bool journal_is_current(const struct journal *j);  // has seen the tail since it (last) recovered
uint64_t journal_last_snapshot(const struct journal *j); // the newest it has loaded or written
bool journal_clock_alarm(const struct journal *j); // the journal's time is ahead of the store's
bool journal_halted(const struct journal *j, const char **why);
uint64_t journal_floor(const struct journal *j);       // the highest it has seen
uint64_t journal_floor_index(const struct journal *j); // the number of its object; 0: none
// Every field that decides what comes next, as bytes: two handles with the same description behave
// the same. For the explorer and for traces.
void journal_describe(const struct journal *j, struct buf *out);

// the tail

struct collector;

struct collector *collector_new(struct journal *j); // borrows j
void collector_free(struct collector *c);
void collector_start(struct collector *c,
                     struct interval now); // one round; ignored while one is running
// One round on a shard whose fold has ended; ignored when it has not. What the floor needs to rise
// over all of it is made on the way: a snapshot, and when that is old enough an entry after it
// (collector_wants_time), which is up to the caller, as are the rounds that follow.
void collector_finish(struct collector *c, struct interval now);
// The last round was such a one, came to its end, and left nothing that could go.
bool collector_finished(const struct collector *c);
void collector_respond(struct collector *c, const struct response *r, struct interval now);
bool collector_next_request(struct collector *c, struct request *out);
// When collector_tick wants to be called (store time), or TIME_NEVER. A shard where nothing happens
// is left alone.
int64_t collector_wake_at(const struct collector *c);
void collector_tick(struct collector *c, struct interval now); // starts a round if one is due
// The last sweep met objects that only the fold's time keeps: commit an entry, and the next one
// takes them. Or the floor waits for a slot that follows the last (collector_finish). True once for
// each round.
bool collector_wants_time(struct collector *c);
bool collector_running(const struct collector *c);
uint64_t collector_dropped(const struct collector *c); // slots dropped so far, by this collector
uint64_t collector_swept(const struct collector *c);   // ... and objects deleted
void collector_describe(const struct collector *c, struct buf *out);
