// SPDX-License-Identifier: Apache-2.0
// What remains of finished messages: how they ended, their results, reasons and bodies.
#pragma once

#include "ops/async.h"
#include "queues/queues.h"

struct finished_read {
    struct open_queue *queue;
    uint32_t shard;
    struct shard_runner *runner;
    struct batch_builder *batch;
    size_t max; // messages of the batch
    const struct sluice_find *want;
    int outcome; // enum finished_outcome; FINISHED_COUNT: any
    bool filtered;
    struct sluice_found *found;
    uint64_t bytes_max;           // that a search reads
    uint64_t *left;               // bytes that may still be added
    struct answer_budget *budget; // NULL: unlimited
    uint64_t *taken;              // bytes of the budget that are reserved
};

// "finished" (any outcome) or one of the outcomes. False: the text is none of them.
bool finished_state(const char *text, int *outcome);
// Lists the finished messages of a shard, the newest first: those that ended before message
// `after` (0: all). *stop: the batch is full, or enough was read. *last: the message that was read
// last.
enum sluice_code finished_list(struct finished_read *r, uint64_t after, bool *stop, uint64_t *last,
                               struct sluice_error *error);
// Adds one finished message. view->worker must stay valid. A message whose row is not known any
// more has only seq, and at is 0.
enum sluice_code finished_add(struct finished_read *r, const struct finished_view *view, bool known,
                              struct sluice_error *error);
