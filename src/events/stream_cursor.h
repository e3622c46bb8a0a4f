// SPDX-License-Identifier: Apache-2.0
// Where a client of /v1/stream is, as text: the id of each event. For every queue it has the first
// digits of the queue's id and, for every shard, the slot of the last event and its number in the
// slot: "3f9a01c2.17_1.9_3-77aa10b0.4_1" for a queue with two shards and one with one. It is the
// same at every node.
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define CURSOR_LIFE 8 // digits of a queue's id

// Of an event in its shard. Slot 0: before all events.
struct stream_position {
    uint64_t slot;
    uint64_t n; // number of the event in its slot, from 1
};

int stream_place_compare(const struct stream_position *a, const struct stream_position *b);

struct cursor_row {
    char life[CURSOR_LIFE + 1];
    uint32_t first; // in `places`
    uint32_t shards;
};

struct stream_cursor {
    struct cursor_row *rows;
    size_t len;
    struct stream_position *places;
    size_t places_len;
};

// Returns false if the text is no cursor. Free it with stream_cursor_done in any case.
bool stream_cursor_read(const char *text, struct stream_cursor *out);
void stream_cursor_done(struct stream_cursor *c);
// The places in the queue with this id, by shard. NULL: the cursor does not have the queue, or
// with another number of shards.
const struct stream_position *stream_cursor_find(const struct stream_cursor *c, const char *life,
                                                 uint32_t shards);
void stream_cursor_put(struct buf *to, bool first, const char *life,
                       const struct stream_position *places, uint32_t shards);
