// SPDX-License-Identifier: Apache-2.0
// Bodies that are too large for an entry are objects of their own: uploaded before the message that
// refers to them is sent, read after it was handed out. Calls here block, and try again while the
// store is away, up to the handle's timeout.
#pragma once

#include "local/inside.h"
#include "queue/body_name.h"

#define BODY_INLINE_MAX ((size_t)256 << 10) // larger ones are uploaded
#define BODY_BYTES_MAX  STORE_OBJECT_MAX
#define BATCH_BYTES_MAX ((uint64_t)64 << 20) // that one receive brings at most

struct upload {
    char name[BODY_NAME_LEN + 1]; // empty: there is none
    int64_t at;
    enum err err; // never ERR_UNKNOWN: a message whose upload is in doubt is not sent
    char why[STORE_WHY_MAX];
};

struct upload_job {
    uint32_t shard;
    struct bytes body;
    struct upload *out;
};

// Several at a time.
void bodies_upload(struct open_queue *q, const struct upload_job *jobs, size_t len);
struct body_reference upload_reference(const struct upload *u, size_t body_len);
// Nobody refers to it and nobody will: the sweep need not wait for it. Failing is fine.
void upload_forget(struct open_queue *q, uint32_t shard, const struct upload *u);

// What messages take in a batch.
uint64_t batch_weight(const struct delivery *deliveries, size_t len);
// How many of the deliveries one call may bring, at least one: more would be too many bytes.
size_t batch_len_within(const struct delivery *deliveries, size_t len, uint64_t bytes_max);
// ... and for how many of those there is room, which it takes: for all of them or, 0, for none.
struct answer_budget; // later.h; NULL: there is
size_t batch_reserve(const struct delivery *deliveries, size_t len, struct answer_budget *budget,
                     bool waits);
// Whether handing them out blocks: bodies are to be read, or some of them to be given back.
bool batch_delivery_blocks(const struct delivery *deliveries, size_t len,
                           struct answer_budget *budget);
// A claim asks for not many more than can be handed out, as far as the messages are like the last
// ones: all of them are read before it is known what they weigh. Not with a request id of the
// caller's, which is for one count.
uint32_t batch_claim_max(struct open_queue *q, uint32_t max, const struct answer_budget *budget);
void batch_note_weight(struct open_queue *q, const struct delivery *deliveries, size_t len);
enum sluice_code refuse_budget(struct sluice_error *error);

// Adds deliveries to the batch, with their bodies. errs has a row for each: ERR_OK it was added;
// ERR_CORRUPT its body is missing or damaged; ERR_NOT_FOUND its lock ran out and the body is gone;
// else what the store answered until patience ended. views: as in batch_add, one for each; NULL:
// they are locked.
// With views a message whose body is missing or damaged is added without it, with
// HEADER_BODY_LOST; ERR_NOT_FOUND: it was finished meanwhile.
void bodies_add(struct batch_builder *b, struct open_queue *q, uint32_t shard,
                struct shard_runner *d, const struct delivery *deliveries,
                const struct message_view *views, size_t len, enum err *errs);

// A letter's body becomes an object of the queue it goes to; op is an OP_ARRIVE without such a body
// or is replaced by one that refers to the copy (taken: release payload). A body that is lost does
// not hold up the letter: it arrives without, and says so in a header.
MUST_USE enum err dead_letter_copy_body(struct open_queue *to, struct shard_runner *d, struct op op,
                                        struct buf *payload);

#define HEADER_BODY_LOST "sluice-body-lost"

// data/ of a shard: "q/<id>/<shard>/data/".
#define BODY_KEY_MAX     256
void bodies_folder(const struct queue_id *queue, uint32_t shard, char out[BODY_KEY_MAX]);
// Everything under data/ of a shard that was deleted.
void bodies_delete_all(struct open_queue *q, uint32_t shard);
