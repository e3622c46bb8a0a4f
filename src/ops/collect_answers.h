// SPDX-License-Identifier: Apache-2.0
// The answers of running messages, for a poll of a collect.
#pragma once

#include "ops/listen.h"
#include "protocol/signal_list.h"

struct collect_answers {
    const struct request_id *questions;
    size_t questions_len;
    struct collected_list *out; // its `asked` gets the messages whose answers have not come
    struct signal_list *list;   // gets the answers
    size_t left;                // bytes of texts
};

// Reads what became of the questions to the messages of a part. It blocks.
void collect_answers(struct collect_answers *a, struct open_queue *q, const struct listen_part *p,
                     struct shard_runner *r, struct sluice_error *error);
