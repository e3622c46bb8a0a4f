// SPDX-License-Identifier: Apache-2.0
// The store port: it holds objects and journals. Every backend keeps this contract and passes the
// same conformance suite (tests/conformance/store/).
//
// Objects are immutable bytes under a key. A key is parts of [A-Za-z0-9_.-]+ joined by '/'. No part
// is "." or "..". A part has at most STORE_PART_MAX bytes, a key at most STORE_KEY_MAX. No key is a
// folder of another key: if "a/b" exists, "a" returns ERR_INVALID, and the reverse. A bucket cannot
// detect this.
//
// A log is a run of slots 1, 2, 3 ... under a key. append(slot) wins or loses like put_new of one
// object per slot. A store may implement it in a faster way (file: does). A log's key has at most
// STORE_LOG_MAX bytes. It is up to the store whether list shows the slots of a log.
//
// Each call returns exactly one of:
//   ERR_OK           done, durable
//   ERR_CONFLICT     it exists already (put_new, append)
//   ERR_NOT_FOUND    no such key or slot
//   ERR_UNAVAILABLE  certainly not applied, now or later
//   ERR_UNKNOWN      perhaps applied, perhaps applied later; reads never return this
//   ERR_DENIED       refused permanently: credentials, permissions, a handle that is dead
//   ERR_LIMIT        refused: a size or space limit (a full disk), certainly not applied
//   ERR_INVALID      the call itself is malformed (a bad key, a handle used after fork)
//   ERR_CORRUPT      the stored bytes fail their check, or the store is another (identity.h)
// Except for ERR_OK, ERR_CONFLICT and ERR_NOT_FOUND, answer.why has one sentence.
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
#define STORE_LIST_MAX   1000 // most rows of one list or extents call
#define STORE_WHY_MAX    240

struct store;

// The results of a call. Init it once, pass it to any number of calls (each clears it), release it
// at the end.
struct store_answer {
    // The store's clock at some moment of the call; the whole of time if unknown.
    struct interval time;
    struct interval modified; // get: when the object was created or overwritten
    struct buf body;          // get: the bytes; list: the keys; read_log: the slots' bytes
    struct store_row *rows;   // list, extents, read_log
    size_t rows_len;
    size_t rows_cap;
    bool tight;       // the store is nearly full: unneeded data should be deleted soon
    bool more;        // list, extents: the limit was reached; continue after the last row
    struct cost cost; // the charge for the call, if the store charges for requests
    char why[STORE_WHY_MAX];
};

// One row of an answer.
//   list:     the key (store_row_key), size, modified
//   extents:  first..last slot, size, modified (the newest slot's time)
//   read_log: first == last == the slot, its time, and its bytes (store_row_bytes)
struct store_row {
    uint64_t first;
    uint64_t last;
    uint64_t size;
    size_t body_at; // offset of the key or the bytes in answer.body
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
// Reads the bytes [from, from+len) of the object, cut at its end; len SIZE_MAX: to the end.
MUST_USE enum err store_get(struct store *s, const char *key, size_t from, size_t len,
                            struct store_answer *a);
// Lists the keys that start with prefix and are greater than after (NULL: from the first), in byte
// order. The prefix need not end at a '/'. A limit of 0 is invalid. A limit over STORE_LIST_MAX
// means STORE_LIST_MAX.
MUST_USE enum err store_list(struct store *s, const char *prefix, const char *after, size_t limit,
                             struct store_answer *a);
// Missing keys are no error. Not atomic: after any other result than ERR_OK, some keys may be
// deleted.
MUST_USE enum err store_delete(struct store *s, const char *const *keys, size_t count,
                               struct store_answer *a);

// The slot must be the one after the last, or 1. Another slot returns ERR_CONFLICT if it exists and
// ERR_INVALID if it would leave a gap. An object store cannot detect a gap and creates the slot.
MUST_USE enum err store_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                               struct store_answer *a);
// Reads consecutive slots from `slot` on: at least one, and more if the store has them at hand and
// they fit into bytes_max. bytes_max includes the store's own framing; over STORE_OBJECT_MAX it
// means STORE_OBJECT_MAX. ERR_NOT_FOUND: the slot was never written, or was dropped.
MUST_USE enum err store_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                                 struct store_answer *a);
// Lists the existing slots from `from` on, oldest first. A row is an extent: the unit that
// store_drop can delete.
MUST_USE enum err store_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                                struct store_answer *a);
// Drops one extent or a run of whole extents. Missing slots are no error. An extent stays if it is
// only partly inside first..last, or if the store still appends to it.
MUST_USE enum err store_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                             struct store_answer *a);
// Makes the store begin a new extent, so that later appends do not keep older slots from being
// dropped. A store with one slot per extent has nothing to do.
MUST_USE enum err store_seal(struct store *s, const char *log, struct store_answer *a);
// Blocks until the slot exists or wait_ms passed. Returns ERR_OK or ERR_NOT_FOUND. ERR_NOT_FOUND
// may come early: call again.
MUST_USE enum err store_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                             struct store_answer *a);

// Called before the bytes of new messages are written. Returns ERR_LIMIT while a store that can run
// full has little space left above its reserve. Other writes do not call it: they may use the
// reserve, so that a full store can be drained.
MUST_USE enum err store_check_space(struct store *s, uint64_t bytes, struct store_answer *a);

void store_free(struct store *s); // accepts NULL
// A hint that this process does not use the log for now: the store may close what it keeps open for
// it. A later call opens it again.
void store_rest(struct store *s, const char *log);
// An answer of this store was wrong: its bytes fail their check. What the store keeps of earlier
// answers is not used any more. The next calls use fresh connections. log: what the wrong answer
// was about; NULL: no log.
void store_distrust(struct store *s, const char *log);
// Checks that the name under which the store was opened still leads to it. ERR_CORRUPT: it does
// not, so no other process finds what is written now. A store that resolves its name in each call
// has nothing to check.
MUST_USE enum err store_moved(struct store *s, struct store_answer *a);
// Returns whether the handle refuses all further calls, with the reason in why. Only a new open
// helps.
bool store_is_dead(struct store *s, char why[static STORE_WHY_MAX]);
// Conditions of a working store that an operator should know. Returns true if the condition holds;
// why has one sentence with the remedy.
enum store_concern {
    STORE_EXPOSED,     // every user of the machine can read it
    STORE_NEARLY_FULL, // it accepts no new messages (store_check_space)
    STORE_CLOCK_OFF,   // its time differs from this machine's
    STORE_NOT_DURABLE, // its URL accepts that a crash loses acknowledged messages
    STORE_LOST_SLOTS,  // it lost slots that it had acknowledged
    STORE_CONCERNS,
};
bool store_concern(struct store *s, enum store_concern what, char why[static STORE_WHY_MAX]);
// The limit of writes per second that the store's URL sets; 0: no limit. The store does not enforce
// it: the journal does, when it groups ops into entries.
int64_t store_puts_per_second(const struct store *s);
// The store is reached over a network: a call takes milliseconds. An append is decided when it
// arrives at the store, so writers that propose at the same time all pay for a request.
bool store_is_high_latency(const struct store *s);

// Returns the store's time now without a request, if the store's clock is on this machine. False:
// only answers contain the time. Its clock may run faster or slower than the machine's clock, to
// follow another one.
bool store_read_clock(struct store *s, int64_t *now_ms);

// The calls about keys and bytes, of which struct store_ops and the stores around another one are
// made: X(name, METER_..., key of a report, bytes that go in, (parameters), arguments...).
#define STORE_WRITES(X)                                                                            \
    X(put_new, PUT_NEW, key, body.len,                                                             \
      (struct store * s, const char *key, struct bytes body, struct store_answer *a), key, body)   \
    X(put, PUT, key, body.len,                                                                     \
      (struct store * s, const char *key, struct bytes body, struct store_answer *a), key, body)   \
    X(append, APPEND, log, body.len,                                                               \
      (struct store * s, const char *log, uint64_t slot, struct bytes body,                        \
       struct store_answer *a),                                                                    \
      log, slot, body)
#define STORE_READS(X)                                                                             \
    X(get, GET, key, 0,                                                                            \
      (struct store * s, const char *key, size_t from, size_t len, struct store_answer *a), key,   \
      from, len)                                                                                   \
    X(list, LIST, prefix, 0,                                                                       \
      (struct store * s, const char *prefix, const char *after, size_t limit,                      \
       struct store_answer *a),                                                                    \
      prefix, after, limit)                                                                        \
    X(delete, DELETE, count > 0 ? keys[0] : "", 0,                                                 \
      (struct store * s, const char *const *keys, size_t count, struct store_answer *a), keys,     \
      count)                                                                                       \
    X(read_log, READ_LOG, log, 0,                                                                  \
      (struct store * s, const char *log, uint64_t slot, size_t bytes_max,                         \
       struct store_answer *a),                                                                    \
      log, slot, bytes_max)                                                                        \
    X(extents, EXTENTS, log, 0,                                                                    \
      (struct store * s, const char *log, uint64_t from, size_t limit, struct store_answer *a),    \
      log, from, limit)                                                                            \
    X(drop, DROP, log, 0,                                                                          \
      (struct store * s, const char *log, uint64_t first, uint64_t last, struct store_answer *a),  \
      log, first, last)                                                                            \
    X(wait, WAIT, log, 0,                                                                          \
      (struct store * s, const char *log, uint64_t slot, int64_t wait_ms, struct store_answer *a), \
      log, slot, wait_ms)

// The operations of a backend. s is the backend's struct, whose first member is struct store, set
// up by store_init. The calls above have checked keys, sizes and limits and cleared the answer. The
// backend appends to the answer (store/backend.h). A store around another one leaves NULL what the
// inner one does.
struct store_ops {
#define STORE_OP(name, kind, key, in, params, ...) enum err(*name) params;
    STORE_WRITES(STORE_OP)
    STORE_READS(STORE_OP)
#undef STORE_OP
    void (*free)(struct store *s);
    // A backend may leave the following operations NULL.
    enum err (*seal)(struct store *s, const char *log, struct store_answer *a);
    void (*rest)(struct store *s, const char *log);
    void (*distrust)(struct store *s, const char *log);
    bool (*is_dead)(struct store *s, char why[static STORE_WHY_MAX]);
    bool (*concern)(struct store *s, enum store_concern what, char why[static STORE_WHY_MAX]);
    enum err (*moved)(struct store *s, struct store_answer *a);
    enum err (*check_space)(struct store *s, uint64_t bytes, struct store_answer *a);
    bool (*read_clock)(struct store *s, int64_t *now_ms);
};

struct store {
    const struct store_ops *ops;
    struct store *inner; // of a store around another one; NULL: none
    struct fork_guard guard;
    int64_t puts_per_second; // limit of writes; 0: none
    int64_t until_ms;        // no request begins after this, by clock_boot_ms; INT64_MAX: no limit
    bool high_latency;
};

// Call it right after the store was opened. If the store is reached over a network, no request
// begins or lasts past until_ms (clock_boot_ms). A call that comes later returns ERR_UNAVAILABLE.
void store_set_until(struct store *s, int64_t until_ms);
// Returns the smaller of ms and the time left until until_ms; at least 1.
int64_t store_patience_ms(const struct store *s, int64_t ms);
// Initialises a store around another one, with the properties of that one. The caller frees it.
void store_init_around(struct store *s, const struct store_ops *ops, struct store *inner);
void store_init(struct store *s, const struct store_ops *ops);
