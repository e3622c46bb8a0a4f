// SPDX-License-Identifier: Apache-2.0
// The store port: where objects and journals live. Every backend keeps this contract and passes the
// same conformance suite (tests/conformance/store/).
//
// Objects: immutable bytes under a key. Keys match [A-Za-z0-9_.-]+ parts joined by '/', no part is
// "." or "..", a part has at most STORE_PART_MAX bytes, a key STORE_KEY_MAX. No key is a folder of
// another: where "a/b" is, "a" answers ERR_INVALID, and the other way round, where the store can
// tell (a bucket cannot).
//
// Logs: a run of slots 1, 2, 3 ... under a key. append(slot) wins or loses like put_new of one
// object per slot; a store may do it faster than that (file: does). A log's key has at most
// STORE_LOG_MAX bytes. Whether the slots of a log show up in list is the store's own business.
//
// Each call ends in exactly one of:
//   ERR_OK           done, durable
//   ERR_CONFLICT     it exists already (put_new, append)
//   ERR_NOT_FOUND    no such key or slot
//   ERR_UNAVAILABLE  certainly not applied, now or later
//   ERR_UNKNOWN      perhaps applied, perhaps applied later; reads never answer this
//   ERR_DENIED       refused for good: credentials, permissions, a handle that is dead
//   ERR_LIMIT        refused: a size or space limit (a full disk), certainly not applied
//   ERR_INVALID      the call itself is malformed (a bad key, a handle used after fork)
//   ERR_CORRUPT      the stored bytes fail their check, or the store is another (identity.h)
// Anything but ERR_OK and the two expected answers carries one sentence in answer.why.
//
// Calls block, may be made from any thread, and borrow their arguments.
#pragma once

#include "base/bytes.h"
#include "base/cost.h"
#include "base/err.h"
#include "base/interval.h"
#include "os/fork_guard.h"

#define STORE_KEY_MAX    512
#define STORE_PART_MAX   200
#define STORE_LOG_MAX    (STORE_KEY_MAX - 32)
#define STORE_OBJECT_MAX ((size_t)64 << 20)
#define STORE_LIST_MAX   1000 // rows of one list or extents call
#define STORE_WHY_MAX    240

struct store;

// What a call brings back. Init once, pass to any number of calls (each clears it), release at the
// end.
struct store_answer {
    struct interval
        time; // the store's own clock, some moment during the call; all of time when unknown
    struct interval modified; // get: when the object was created or overwritten
    struct buf body;          // get: the bytes; list: the keys; read_log: the slots' bytes
    struct store_row *rows;   // list, extents, read_log
    size_t rows_len;
    size_t rows_cap;
    bool tight;       // the store is nearly full: what is not needed should go soon
    bool more;        // list, extents: the limit was reached, ask again after the last row
    struct cost cost; // what the call was charged, where requests are money
    char why[STORE_WHY_MAX];
};

// One row of an answer. list: the key (store_row_key), size, modified. extents: first..last slot,
// size, modified (the newest slot's time). read_log: first == last == the slot, its time, and its
// bytes (store_row_bytes).
struct store_row {
    uint64_t first;
    uint64_t last;
    uint64_t size;
    size_t body_at; // where in answer.body the key or the bytes start
    struct interval modified;
};

void store_answer_init(struct store_answer *a);
void store_answer_done(struct store_answer *a);
const char *store_row_key(const struct store_answer *a, size_t row);
struct bytes store_row_bytes(const struct store_answer *a, size_t row);

MUST_USE enum err store_put_new(struct store *s, const char *key, struct bytes body,
                                struct store_answer *a);
MUST_USE enum err store_put(struct store *s, const char *key, struct bytes body,
                            struct store_answer *a);
// The bytes [from, from+len) of the object, cut at its end; len SIZE_MAX: to the end.
MUST_USE enum err store_get(struct store *s, const char *key, size_t from, size_t len,
                            struct store_answer *a);
// The keys that start with prefix and are greater than after (NULL: from the first), in byte order.
// The prefix need not end at a '/'. A limit of 0 is invalid, one over STORE_LIST_MAX means
// STORE_LIST_MAX.
MUST_USE enum err store_list(struct store *s, const char *prefix, const char *after, size_t limit,
                             struct store_answer *a);
// Missing keys are fine. Not atomic: after anything but ERR_OK some may be gone.
MUST_USE enum err store_delete(struct store *s, const char *const *keys, size_t count,
                               struct store_answer *a);

// Slot must be the one after the last (or 1): another answers ERR_CONFLICT when it exists and
// ERR_INVALID when it leaves a gap, where the store can tell (an object store cannot, and creates
// it).
MUST_USE enum err store_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                               struct store_answer *a);
// Consecutive slots from `slot` on: at least one, and as many more as the store has at hand in
// bytes_max (its own framing included; over STORE_OBJECT_MAX means STORE_OBJECT_MAX).
// ERR_NOT_FOUND: there is no such slot (never written, or dropped).
MUST_USE enum err store_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                                 struct store_answer *a);
// What is there, oldest first, from slot `from` on, in the units in which it can be dropped.
MUST_USE enum err store_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                                struct store_answer *a);
// Drops exactly one extent or a run of whole extents. Missing slots are fine; an extent that is
// only partly inside first..last, or that the store still appends to, stays.
MUST_USE enum err store_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                             struct store_answer *a);
// What is appended from here on shall not keep what is there from being dropped: the store begins a
// new extent. A store whose extents are single slots has nothing to do.
MUST_USE enum err store_seal(struct store *s, const char *log, struct store_answer *a);
// Blocks until slot exists or wait_ms passed; ERR_OK or ERR_NOT_FOUND. May answer ERR_NOT_FOUND
// early: ask again.
MUST_USE enum err store_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                             struct store_answer *a);

// Asked before the bytes of new messages are written: ERR_OK, or ERR_LIMIT while a store that can
// run full has little more left than its reserve. Writes that bring no messages are not asked for:
// they may use the reserve, so that a full store can be drained.
MUST_USE enum err store_room(struct store *s, uint64_t bytes, struct store_answer *a);

void store_free(struct store *s); // NULL is fine
// Nobody here uses the log for now: what is kept open for it may be closed. A hint; whoever uses it
// again need not know.
void store_rest(struct store *s, const char *log);
// Whether the name under which the store was opened still leads to it. ERR_OK, or ERR_CORRUPT: what
// is written now can be found by no other process. A store that looks its name up in each call has
// nothing to check.
MUST_USE enum err store_moved(struct store *s, struct store_answer *a);
// Whether the handle will refuse everything from now on, and the sentence it does so with: only
// opening the store again helps.
bool store_is_dead(struct store *s, char why[static STORE_WHY_MAX]);
// What an operator should know of a store that works: true, and one sentence with the remedy.
enum store_concern {
    STORE_EXPOSED,     // every user of the machine can read it
    STORE_NEARLY_FULL, // it takes no new messages (store_room)
    STORE_CLOCK_OFF,   // its time is not this machine's
    STORE_CONCERNS,
};
bool store_concern(struct store *s, enum store_concern what, char why[static STORE_WHY_MAX]);
// How many writes a second whoever opened the store wants to pay for; 0: any number. The store
// itself does not hold anybody back: who groups ops into entries does.
int64_t store_puts_per_second(const struct store *s);
// A network away: a call takes milliseconds, and an append is decided when it has arrived, so that
// writers who propose at the same time all pay for it.
bool store_is_high_latency(const struct store *s);

// The store's time now, without a request: where the store's clock is this machine's. False: only
// answers tell it. Its clock may run faster or slower than the machine's to follow another one.
bool store_tell_time(struct store *s, int64_t *now_ms);

// What a backend fills in. s is its own struct, whose first member is struct store, set up by
// store_init. The calls above have checked keys, sizes and limits and cleared the answer; a backend
// appends to it (store/backend.h).
struct store_ops {
    enum err (*put_new)(struct store *s, const char *key, struct bytes body,
                        struct store_answer *a);
    enum err (*put)(struct store *s, const char *key, struct bytes body, struct store_answer *a);
    enum err (*get)(struct store *s, const char *key, size_t from, size_t len,
                    struct store_answer *a);
    enum err (*list)(struct store *s, const char *prefix, const char *after, size_t limit,
                     struct store_answer *a);
    enum err (*delete)(struct store *s, const char *const *keys, size_t count,
                       struct store_answer *a);
    enum err (*append)(struct store *s, const char *log, uint64_t slot, struct bytes body,
                       struct store_answer *a);
    enum err (*read_log)(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                         struct store_answer *a);
    enum err (*extents)(struct store *s, const char *log, uint64_t from, size_t limit,
                        struct store_answer *a);
    enum err (*drop)(struct store *s, const char *log, uint64_t first, uint64_t last,
                     struct store_answer *a);
    enum err (*wait)(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                     struct store_answer *a);
    void (*free)(struct store *s);
    enum err (*part)(struct store *s, const char *log, struct store_answer *a); // may be NULL ...
    void (*rest)(struct store *s, const char *log); // as may this, and ...
    bool (*is_dead)(struct store *s, char why[static STORE_WHY_MAX]);
    bool (*concern)(struct store *s, enum store_concern what, char why[static STORE_WHY_MAX]);
    enum err (*moved)(struct store *s, struct store_answer *a);
    enum err (*room)(struct store *s, uint64_t bytes, struct store_answer *a);
    bool (*tell_time)(struct store *s, int64_t *now_ms);
};

struct store {
    const struct store_ops *ops;
    struct fork_guard guard;
    int64_t puts_per_second; // how many writes may be spent; 0: any number
    int64_t until_ms;        // no request after this, clock_boot_ms; INT64_MAX: no end
    bool high_latency;
};

// Right after it was opened: where a request is a network away, none begins after until_ms
// (clock_boot_ms), and none lasts longer. It is UNAVAILABLE then.
void store_set_until(struct store *s, int64_t until_ms);
// The lesser of ms from now and what is left until then; at least 1.
int64_t store_patience_ms(const struct store *s, int64_t ms);
// A wrapper has what its inner store says of itself.
void store_init_around(struct store *s, const struct store_ops *ops, const struct store *inner);
void store_init(struct store *s, const struct store_ops *ops);
