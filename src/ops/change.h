// SPDX-License-Identifier: Apache-2.0
// A change of a queue: one op after another, each on one shard. It is a call (call.h), so each op
// goes to the owner of its shard, and an op whose result is unknown is repeated with its id.
#pragma once

#include "ops/by_shard.h"

// Embed it as the first field of a struct with what the functions need.
struct change {
    uint16_t kind;     // of its ops
    uint32_t shard;    // of the next op
    bool whole;        // a change of some shards only is answered with UNKNOWN (refuse_partly)
    const char *token; // of the caller; change_queue sets it
    // Checks the arguments before the queue is opened; may be NULL.
    enum sluice_code (*check)(struct change *ch, struct sluice_error *error);
    // Called when the queue is open, and again with may_block after CALL_BLOCKS. It may set
    // `shard`. NULL: there is nothing to do.
    enum call_built (*begin)(struct change *ch, struct local_call *c, bool may_block);
    void (*encode)(const struct change *ch, const struct request_id *request, struct buf *out);
    // Takes the result of an op. NULL: the fold gave none, and the code and `why` say why. Sets
    // `shard` to that of the next op, or past the last one. Returns the code; an error ends the
    // change.
    enum sluice_code (*take)(struct change *ch, const struct result *result, enum sluice_code code);
    struct sluice_error why;
    void (*end)(struct change *ch, struct local_call *c); // before the answer; may be NULL
    void (*release)(struct change *ch);                   // frees what it has; may be NULL
    bool owned;                                           // it is freed after the answer
};

// Makes the change. Without as->async it waits for the end and returns the code.
enum sluice_code change_queue(const struct request_origin *as, const char *queue, struct change *ch,
                              struct sluice_error *error);
enum sluice_code change_open_queue(struct open_queue *q, struct change *ch,
                                   struct sluice_error *error);
// For `begin`: opens the present life of the queue's name instead.
enum call_built change_open_again(struct local_call *c, bool may_block);
// A `take` for one op on every shard.
enum sluice_code change_next_shard(struct change *ch, const struct result *result,
                                   enum sluice_code code);
// An `encode` for ops that have only a request id.
void change_plain(const struct change *ch, const struct request_id *request, struct buf *out);

// A change of many rows (ids, locks): an op has the rows of one shard, and each row an outcome.
struct change_rows {
    struct change change; // first
    struct by_shard split;
    struct open_queue *queue;        // of the call
    struct sluice_outcome *outcomes; // len
    struct sluice_outcome *own;      // the memory of them, if the caller has none
    size_t len;
    struct request_id whole;
    struct sluice_error first; // of the first row that was refused
};

// Initializes what begins with zeros and the functions of the change but `end`.
void change_rows_init(struct change_rows *r, const struct request_origin *as,
                      const struct by_shard_type *type, size_t len,
                      struct sluice_outcome *outcomes);
enum call_built change_rows_begin(struct change_rows *r, struct local_call *c); // ends a `begin`
void change_rows_done(struct change_rows *r);
