// SPDX-License-Identifier: Apache-2.0
// Ids of messages and tokens of locks as text, and ids of the parts of a request.
#pragma once

#include "queue/codec/message.h"
#include "queue/codec/ops.h"
#include "sluice.h"

// What the names of a queue's messages are made of. The name is borrowed.
struct queue_ref {
    struct queue_id id;
    uint32_t shards;
    const char *name;
};

struct lock_name {
    uint32_t shard;
    struct lock_ref ref;
};
void id_print(struct queue_ref q, uint32_t shard, uint64_t seq, char out[SLUICE_ID_MAX]);
enum sluice_code id_parse(struct queue_ref q, const char *text, uint32_t *shard, uint64_t *seq,
                          struct sluice_error *error);
void token_print(struct queue_ref q, const struct lock_name *lock, char out[SLUICE_TOKEN_MAX]);
enum sluice_code token_parse(struct queue_ref q, const char *text, struct lock_name *out,
                             struct sluice_error *error);

// The id of part `number` of a request. Part 0 has the request's own id. Each kind of part uses its
// own range of numbers.
struct request_id request_part(const uint8_t whole[16], uint64_t number);
