// SPDX-License-Identifier: Apache-2.0
// A body that is too large for an entry is an object of its own. It is uploaded before the message
// that refers to it is sent, and read when the message is delivered. The calls here block. If the
// store is unavailable, they retry until the handle's timeout.
#pragma once

#include "protocol/call_arguments.h"
#include "queue/codec/body_name.h"
#include "queues/queues.h"

// The memory that an answer with messages may take. A server has one for each answer, because it
// keeps many answers at a time. The library reserves memory when it knows which messages it will
// deliver, and before it reads a body.
struct answer_budget {
    uint64_t most; // bytes in one answer; a single message may have more
    // Reserves `bytes` for the whole answer; an earlier reservation is included. Returns false if
    // that much is not available. With `waits` it may block for a moment until it is.
    bool (*take)(struct answer_budget *budget, uint64_t bytes, bool waits);
};

#define BODY_INLINE_MAX ((size_t)256 << 10)  // a larger body is uploaded
#define BATCH_BYTES_MAX ((uint64_t)64 << 20) // the most that one receive delivers

struct upload {
    char name[BODY_NAME_LEN + 1]; // of the object; empty: nothing was uploaded
    int64_t at;                   // when it was uploaded, store time in ms
    enum err err;            // never ERR_UNKNOWN: a message whose upload is in doubt is not sent
    char why[STORE_WHY_MAX]; // the store's message for err
};

struct upload_job {
    uint32_t shard;
    struct bytes body;
    struct upload *out;
};

// Uploads several at a time. Each job's result is in its `out`.
void bodies_upload(struct open_queue *q, const struct upload_job *jobs, size_t len);
struct body_reference upload_reference(const struct upload *u, size_t body_len);
// Deletes an uploaded body that no message refers to or will refer to. Errors are ignored: the
// sweep deletes what is left.
void upload_forget(struct open_queue *q, uint32_t shard, const struct upload *u);

// The bytes that the messages take in a batch.
uint64_t batch_weight(const struct delivery *deliveries, size_t len);
// How many of the deliveries fit into bytes_max. The first one always does.
size_t batch_len_within(const struct delivery *deliveries, size_t len, uint64_t bytes_max);
// Reserves memory for the deliveries that fit into one answer. Returns their number, or 0 if the
// budget cannot hold them. waits: as in struct answer_budget. It records the mean size of all these
// messages for batch_claim_max.
struct answer_budget; // async.h; NULL: unlimited
size_t batch_reserve(struct open_queue *q, const struct delivery *deliveries, size_t len,
                     struct answer_budget *budget, bool waits);
// Whether their delivery blocks: a large body must be read, or some messages must be released.
bool batch_delivery_blocks(struct open_queue *q, const struct delivery *deliveries, size_t len,
                           struct answer_budget *budget);
// Bounds the count of a claim to about what can be delivered. It assumes that the messages have the
// size of the last ones, because all claimed messages are read before their size is known. Do not
// use it with a caller's request id: the id stands for one count.
uint32_t batch_claim_max(struct open_queue *q, uint32_t max, const struct answer_budget *budget);
enum sluice_code refuse_budget(struct sluice_error *error); // UNAVAILABLE, reason no-room

// Adds deliveries to the batch, with their bodies. views: as in batch_add, one for each delivery;
// NULL: the deliveries are locked. errs has a row for each delivery:
//   - ERR_OK: it was added.
//   - ERR_CORRUPT: its body is missing or damaged.
//   - ERR_NOT_FOUND: its lock has expired and the body does not exist.
//   - Any other: the store's answer when the retries ended.
// With views, a message whose body is missing or damaged is added without it and with
// HEADER_BODY_LOST. ERR_NOT_FOUND then means that the message was finished meanwhile.
void bodies_add(struct batch_builder *b, struct open_queue *q, uint32_t shard,
                struct shard_runner *r, const struct delivery *deliveries,
                const struct message_view *views, size_t len, enum err *errs);

// Copies a dead letter's large body to the queue that the letter moves to. op is an OP_ARRIVE.
// Writes to `payload` the op's payload, changed to refer to the copy if there is a large body. The
// caller releases `payload`. A lost body does not hold up the letter: it arrives without a body and
// with HEADER_BODY_LOST.
MUST_USE enum err dead_letter_copy_body(struct open_queue *to, struct shard_runner *r, struct op op,
                                        struct buf *payload);

#define HEADER_BODY_LOST "sluice-body-lost"

// The folder of a shard's bodies: "q/<id>/<shard>/data/".
#define BODY_KEY_MAX     256
void bodies_folder(const struct queue_id *queue, uint32_t shard, char out[BODY_KEY_MAX]);
// Deletes everything under data/ of a shard that was deleted. Stops at the first error.
void bodies_delete_all(struct open_queue *q, uint32_t shard);
