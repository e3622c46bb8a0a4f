// SPDX-License-Identifier: Apache-2.0
// What the journal asks of the state it carries: a deterministic machine that is fed entries in
// slot order. The journal never looks inside; the machine never sees the store.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "base/interval.h"
#include "base/op.h"

// One entry as the machine sees it. The views live as long as the call.
struct fold_entry {
    uint64_t slot;
    struct interval time; // contains the store's time when the entry was written
    int64_t now;          // max(now of the entry before, time.lo): never runs backwards
    uint64_t epoch;       // of the owner who wrote it; 0: written directly
    struct bytes bytes;   // the whole entry: ops' payloads are views into it
    const struct op *ops;
    size_t ops_len;
};

// What the state says about an object under <prefix>/data/.
enum fold_hold {
    FOLD_FREE, // no entry from here on can refer to it: final
    FOLD_YET,  // nobody refers to it, but an entry may, until the fold's time has moved on
    FOLD_HELD,
};

struct fold {
    void *ctx;
    void (*reset)(void *ctx); // back to the state before slot 1
    // Applies every op in order. The journal's own ops (kind under OP_KIND_MACHINE) are to be
    // skipped. results has one row per op; bodies are appended to text. Both are NULL when nobody
    // waits for them.
    void (*apply)(void *ctx, const struct fold_entry *e, struct op_result *results,
                  struct buf *text);
    // The result of an op that was applied earlier, by its request id. False: no longer (or never)
    // known.
    bool (*recall)(void *ctx, const struct op *op, struct op_result *result, struct buf *text);
    // Would the op, alone and now, change nothing and bring nothing? Such an op is answered ERR_OK
    // without a body and without an entry. May be NULL: never.
    bool (*idle)(void *ctx, const struct op *op, int64_t now);
    // Does the op bring messages? While the store is nearly full such ops are refused, ERR_LIMIT,
    // and all others go on. May be NULL: none does.
    bool (*grows)(void *ctx, const struct op *op);
    void (*save)(void *ctx, struct buf *out);
    MUST_USE enum err (*load)(void *ctx, struct bytes saved); // ERR_CORRUPT leaves the reset state
    uint64_t (*digest)(void *ctx); // of the whole state; cheap enough to ask every 256 slots
    // Is any slot in first..last still needed, because bytes in it are still referred to?
    bool (*needs)(void *ctx, uint64_t first, uint64_t last);
    // Is the object <prefix>/data/<name> referred to? May be NULL: nothing is ever swept.
    enum fold_hold (*holds)(void *ctx, struct bytes name);
    // Is it over: nothing is in it, whatever comes is refused, and only time can pass? Final. May
    // be NULL: it never is.
    bool (*ended)(void *ctx);
};
