// SPDX-License-Identifier: Apache-2.0
// Ack, fail, release and renew: one call with a kind. The acks of a receive are a part of it.
#pragma once

#include "ops/by_shard.h"
#include "queue/codec/result.h"

// What the tokens of a call carry, one row for each.
struct settle_extras {
    const struct sluice_ack *acks;         // NULL: no results
    const struct sluice_renewal *renewals; // NULL: no progress
    bool *has_result;  // of each; owned: the outcomes need it when the rows may be gone
    struct buf extras; // of the op that was encoded last
    size_t bytes;      // ... of its texts
};

// The locks that a call settles, op by op. One op has locks of one shard.
struct settle_plan {
    uint16_t kind; // of the op
    int64_t wait_ms;
    struct bytes reason;
    const char *const *tokens;
    struct settle_extras *carried; // results and progress; owned; NULL: none
    struct lock_name *locks;       // parsed; owned
    size_t len;
    struct request_id request;       // part 0 is the request's own id
    bool named;                      // the caller gave the id
    struct sluice_outcome *outcomes; // one per token
    void *copy; // of the tokens, the reason and what they carry; NULL: they are borrowed
    struct by_shard split;
    struct buf payload; // of the op that was encoded last
};

#define CARRIED_BYTES_MAX ((size_t)1 << 20) // of results in one op, unless one is larger

void settling_init(struct settle_plan *s, const struct settle *what,
                   struct sluice_outcome *outcomes);
void settling_done(struct settle_plan *s);
void settling_own(struct settle_plan *s); // copies the tokens and the reason
// Parses the tokens. Refused tokens have their outcome. Returns the number of good ones. If a token
// is of another life of the queue, the queue is looked up again, which blocks. *blocks: that would
// be needed, and may_block is false.
size_t settling_parse(struct settle_plan *s, struct local_call *c, bool may_block, bool *blocks);
// Refuses results and progress that no queue takes, or whose queue has older rules, before anything
// is written. The queue is open.
enum call_built settling_check(const struct settle_plan *s, struct local_call *c);
bool settling_is_one_op(const struct settle_plan *s); // the locks, all good, fit into one op
// As the functions of struct call_type.
struct shard_runner *settling_op(struct settle_plan *s, struct local_call *c, uint32_t index,
                                 struct op *out, uint32_t *shard);
enum call_op_end settling_op_end(enum err err);
// note: the first refusal becomes the call's error.
void settling_conclude(struct settle_plan *s, struct local_call *c, const struct call_slot *slot,
                       bool note);
// The outcome that a row of the fold's result means. kind: of the op.
void outcome_fill(uint16_t kind, const struct outcome_row *row, struct sluice_outcome *out);
void outcome_refuse(struct sluice_outcome *out, enum sluice_code code, const char *reason);

// Sets `code` in every outcome that has no status: the call failed before it reached that token.
void acks_fill(struct sluice_outcome *acked, size_t len, enum sluice_code code);
// Commits an op of `kind` (ack, fail, release or renew) for these locks, which must be of one
// shard. It reports no outcome, and blocks.
void settle_locks(struct open_queue *q, uint16_t kind, const char *reason,
                  const struct lock_name *locks, size_t len);
