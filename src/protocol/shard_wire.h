// SPDX-License-Identifier: Apache-2.0
// Encodes what a process asks the owner of a shard, and the owner's answer. Decoders trust no
// input.
//
//     ask       head; submit: u16 op kind, payload (sized); claim: the payload of OP_CLAIM (sized);
//               await: worker (sized), u32 count, u32 shards;
//               listen: u32 count, each: lock ref, u32 after; count 0: signal (16 bytes), u64 seq
//     answer    u8 version, u8 0: the node owns the shard, 1: not any more; then for an await u32
//               count and rows; otherwise u8 count of parts, each: u8 err, u8 flags (1: remembered,
//               2: signals), why (sized), result (sized), u32 count, deliveries; then for flag 2
//               u32 count, signals
#pragma once

#include "base/layout_table.h"
#include "base/op.h"
#include "queue/codec/ops.h"
#include "shard/kept_reply.h"

#define SHARD_TYPE        "application/x-sluice-shard"
#define SHARD_AWAITS_MAX  4096  // shards in one ask
#define SHARD_WHY_MAX     240   // bytes of what the store reported
#define SHARD_WAIT_MAX_MS 20000 // how long an owner waits for messages

#define AWAIT_NODE        "node" // the worker of an await that a node makes for its clients

enum shard_ask_kind {
    SHARD_SUBMIT = 1,
    SHARD_CLAIM = 2,
    SHARD_SUBMIT_CLAIM = 3, // the claim goes into the op's entry, behind the op
    SHARD_AWAIT = 4,        // wait until one of the shards has something to claim
    SHARD_LISTEN = 5,       // wait for signals, or for the end of one
};

enum shard_ask_flag {
    SHARD_ASK_TELLS = 1, // submit: tell whether the shard remembers the answer for the request id
    SHARD_ASK_REPEATS =
        2, // claim: the caller may repeat it, so the locks stay if the answer is lost
    SHARD_ASK_FLAGS = 3
};

struct shard_ask {
    enum shard_ask_kind kind;
    struct queue_id queue;
    uint32_t shard;
    int64_t wait_ms;
    uint8_t flags; // enum shard_ask_flag
    struct op op;
    struct op_claim claim;
    // A waiting request must stay small.
    union {
        struct bytes worker;      // await
        struct request_id signal; // listen: to the end of this one, if there are no tokens
    };
    union {
        struct bytes shards; // await: as encoded; shard_ask_await
        struct bytes tokens; // listen: as encoded; shard_ask_token
    };
    uint32_t shards_len, tokens_len;
    uint64_t seq; // listen
};

void shard_ask_put(struct buf *to, const struct shard_ask *ask);
void shard_ask_put_await(struct buf *to, const struct shard_ask *ask, const uint32_t *shards,
                         size_t len);
void shard_ask_put_listen(struct buf *to, const struct shard_ask *ask,
                          const struct shard_listen *what);
struct listen_ask shard_ask_token(const struct shard_ask *ask, uint32_t index);
// The result has views into `from`.
bool shard_ask_read(struct bytes from, struct shard_ask *out);
uint32_t shard_ask_await(const struct shard_ask *ask, uint32_t index);

// One part of an answer.
struct shard_part {
    enum err err;
    bool remembered;
    struct kept_reply answer;
};
#define SHARD_PARTS_MAX 2

void shard_answer_begin(struct buf *to, bool moved, uint8_t parts);
void shard_answer_put(struct buf *to, enum err err, bool remembered, const struct kept_reply *a);
// How many bytes shard_answer_put adds for the deliveries and signals.
size_t shard_answer_weight(const struct kept_reply *a);
// Reads an answer with `parts` parts, unless the shard has moved. `from` is moved into the last
// part, which has views into it. Initialises the parts; release their answers.
bool shard_answer_read(struct buf *from, bool *moved, struct shard_part *parts, uint8_t parts_len);

struct shard_await_row {
    uint32_t shard;
    enum err err;
};
#define SHARD_WIRE_LAYOUTS(X)                                                                      \
    X(delivery)                                                                                    \
    X(listen_ask)                                                                                  \
    X(shard_ask)                                                                                   \
    X(shard_await_row)                                                                             \
    X(signal_delivery)
SHARD_WIRE_LAYOUTS(LAYOUT_DECLARE)
void shard_awaited_put(struct buf *to, bool moved, const struct shard_await_row *rows, size_t len);
// Returns the number of rows, at most `max`; SIZE_MAX: the answer is malformed.
size_t shard_awaited_read(struct bytes from, bool *moved, struct shard_await_row *rows, size_t max);
