// SPDX-License-Identifier: Apache-2.0
// A change of a queue: one op after another, each on one shard. It is a call (call.h), so each op
// goes to the owner of its shard, and an op whose result is unknown is repeated with its id.
#pragma once

#include "local/inside.h"

// Embed it as the first field of a struct with what the functions need.
struct change {
    uint16_t kind;     // of its ops
    uint32_t shard;    // of the next op
    bool whole;        // a change of some shards only is answered with UNKNOWN (refuse_partly)
    const char *token; // of a node's client, for the owner of a shard; NULL: none
    void (*encode)(const struct change *ch, const struct request_id *request, struct buf *out);
    // Takes the result of an op. NULL: the fold gave none, and the code says why. Sets `shard` to
    // that of the next op, or past the last one. Returns the code; an error ends the change.
    enum sluice_code (*take)(struct change *ch, const struct result *result, enum sluice_code code);
};

enum sluice_code change_queue(struct sluice *s, const char *queue, struct change *ch,
                              struct sluice_error *error);
enum sluice_code change_open_queue(struct open_queue *q, struct change *ch,
                                   struct sluice_error *error);
// A `take` for one op on every shard.
enum sluice_code change_next_shard(struct change *ch, const struct result *result,
                                   enum sluice_code code);
// An `encode` for ops that have only a request id.
void change_plain(const struct change *ch, const struct request_id *request, struct buf *out);
