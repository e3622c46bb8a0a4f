// SPDX-License-Identifier: Apache-2.0
// A store whose answers are sometimes damaged, or false with a good checksum: the simulated store
// (bucket.h) and what is done to its answers.
#pragma once

#include "bucket.h"

struct falsify {
    struct rng *rng; // borrowed
    struct bucket bucket;
    struct bucket_answer answer;
    uint32_t chance; // of a false answer, in hundredths of a percent
    struct interval now;
    // The digest of a machine's bytes; returns false if they are damaged.
    bool (*digest)(struct bytes machine, uint64_t *out);
    struct buf body; // that replaces the one of the answer
};

void falsify_init(struct falsify *f, struct rng *rng);
void falsify_done(struct falsify *f);
// The answer is valid until the next call.
const struct response *falsify_perform(struct falsify *f, const struct request *q,
                                       struct interval now);
