// SPDX-License-Identifier: Apache-2.0
// The publisher's cursor (cursor.c), for the files of this folder.
#pragma once

#include "base/bytes.h"

#define CURSOR_MARKS_MAX 64

// An entry: its slot, its time, and the bytes of the entries before it.
struct cursor_mark {
    uint64_t slot;
    int64_t at;
    uint64_t bytes;
};

struct cursor {
    uint64_t slot;     // the events of all slots up to this one are published ...
    uint64_t sequence; // ... and this is the number of the last one
    uint64_t bytes;    // of the entries since the shard is published
    uint32_t marks_len;
    bool published;
    struct cursor_mark marks[CURSOR_MARKS_MAX]; // by slot
};

struct machine;
void cursor_enter(struct machine *m, uint64_t bytes);     // an entry begins; the shard is published
uint64_t cursor_mix(const struct machine *m, uint64_t h); // for the digest
void cursor_save(const struct machine *m, struct buf *out);
void cursor_load(struct machine *m, struct reader *r);
void cursor_check(const struct machine *m);
