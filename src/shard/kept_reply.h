// SPDX-License-Identifier: Apache-2.0
// The reply of a shard, kept for the caller.
#pragma once

#include "shard/shard.h"

// The signals of an answer (shard_reply.signals).
struct kept_signals {
    size_t len;
    struct signal_delivery rows[];
};

// The reply of a shard to a call, with copies of its texts: it outlives the shard's own. Init it
// once, pass it to any number of calls, release it at the end.
struct kept_reply {
    struct buf body;             // the fold's result (queue/codec/result.h)
    struct delivery *deliveries; // receive: views into text
    size_t deliveries_len;
    // Also views into text. A waiting call must stay small, so an answer has one of these.
    union {
        struct reason_text *reasons;  // runner_read
        struct kept_signals *signals; // all other calls; NULL: none
    };
    size_t reasons_len;
    struct buf text;
    char *why; // if the store caused an error: what the store reported; NULL: nothing
};

struct kept_signals *kept_signals_new(size_t len); // freed with the answer that gets it
void kept_reply_init(struct kept_reply *a);
void kept_reply_done(struct kept_reply *a);
void kept_reply_clear(struct kept_reply *a);
// Copies the deliveries and the reasons.
void kept_reply_keep(struct kept_reply *a, const struct shard_reply *r);
