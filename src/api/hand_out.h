// SPDX-License-Identifier: Apache-2.0
// What a claim brought, on its way to the caller: cut to the room there is, with its bodies.
#pragma once

#include "api/bodies.h"

struct hand_out {
    struct open_queue *queue;
    uint32_t shard;
    struct desk *desk;
    bool named;              // the request id is the caller's
    struct later_room *room; // later.h; NULL: there is
};

// The messages to *out, if there are any; blocks when haul_blocks. What is not handed out is given
// back, all of it in one entry, unless an error says that the same request may be made again.
enum sluice_code hand_out(const struct hand_out *h, const struct desk_answer *a,
                          struct sluice_batch **out, struct sluice_error *error);
// An answer may be an earlier one's: drops the locks that were given up, finished or followed by
// others since. One that has only run out stays, for nobody else has the message.
void hand_out_good(struct desk *d, struct desk_answer *a);
