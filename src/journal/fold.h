// SPDX-License-Identifier: Apache-2.0
// What the journal needs from the state that it folds: a deterministic machine that gets entries in
// slot order. The journal does not know what the state means. The machine does not know the store.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "base/interval.h"
#include "base/op.h"

// One entry as the machine sees it. The views are valid during the call.
struct fold_entry {
    uint64_t slot;
    struct interval time; // contains the store's time when the entry was written
    int64_t now;          // max(now of the previous entry, time.lo): never decreases
    uint64_t epoch;       // of the owner that wrote it; 0: written directly
    struct bytes bytes;   // the whole entry; the payloads of ops are views into it
    const struct op *ops;
    size_t ops_len;
};

// Whether the state refers to an object under <prefix>/data/.
enum fold_hold {
    FOLD_FREE, // no entry from here on can refer to it: final
    FOLD_YET,  // no entry refers to it, but one may until the fold's time has advanced
    FOLD_HELD,
};

struct fold {
    void *ctx;
    void (*reset)(void *ctx); // back to the state before slot 1
    // Applies every op in order, except the journal's own ops (kind under OP_KIND_MACHINE). results
    // has one row per op, and bodies are appended to text. Both are NULL if no caller waits for
    // them.
    void (*apply)(void *ctx, const struct fold_entry *e, struct op_result *results,
                  struct buf *text);
    // The result of an op that was applied earlier, by its request id. Returns false if it is not
    // known, or no longer.
    bool (*recall)(void *ctx, const struct op *op, struct op_result *result, struct buf *text);
    // Returns true if the op, alone and now, would change nothing and deliver nothing. Such an op
    // is answered ERR_OK without a body and without an entry. May be NULL: never.
    bool (*idle)(void *ctx, const struct op *op, int64_t now);
    // Returns true if the op adds messages. While the store is nearly full, such ops are refused
    // with ERR_LIMIT and all others are accepted. May be NULL: no op does.
    bool (*grows)(void *ctx, const struct op *op);
    void (*save)(void *ctx, struct buf *out);
    MUST_USE enum err (*load)(void *ctx, struct bytes saved); // ERR_CORRUPT leaves the reset state
    uint64_t (*digest)(void *ctx); // of the whole state; cheap enough for every 256 slots
    // Returns true if a slot in first..last is needed, because the state refers to bytes in it.
    bool (*needs)(void *ctx, uint64_t first, uint64_t last);
    // The highest slot that a floor may reach at that time; UINT64_MAX: any. The state knows which
    // entries have a reader that is behind. May be NULL: any.
    uint64_t (*floor_limit)(void *ctx, int64_t now);
    // Whether the state refers to the object <prefix>/data/<name>. May be NULL: nothing is ever
    // swept.
    enum fold_hold (*holds)(void *ctx, struct bytes name);
    // The version of the rules that an entry with these ops needs: the state's, or a higher one to
    // which an op raises it. Every handle has the same answer. May be NULL: 1.
    uint16_t (*rules)(void *ctx, const struct op *ops, size_t ops_len);
    // Returns true if the state has ended: it is empty, refuses every op, and only time can pass.
    // That is final. May be NULL: it never ends.
    bool (*ended)(void *ctx);
};
