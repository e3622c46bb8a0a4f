// SPDX-License-Identifier: Apache-2.0
// Why messages failed (failures.c), for the files of src/queue.
#pragma once

#include "base/bytes.h"
#include "base/map.h"
#include "queue/tables/name_table.h"

struct machine;

// One failure of a message.
struct failure_row {
    uint64_t slot;
    int64_t at;
    uint32_t op;
    uint32_t attempt;
    uint32_t worker; // index in names; 0: not known
    uint32_t next;   // the failure before it, or the next free row
    uint8_t kind;    // enum failure_kind
};

struct failures {
    struct failure_row *rows;
    uint32_t rows_len;
    uint32_t rows_cap;
    uint32_t rows_free;
    uint32_t messages; // messages with failures
    struct name_table names;
    struct map by_seq; // the newest failure of each message
};

// The record is LOCKED, its worker known.
void failure_note(struct machine *m, uint32_t h, bool failed);
void failures_drop(struct machine *m, uint64_t seq); // there may be none
void failures_clear(struct machine *m);
void failures_save(const struct machine *m, struct buf *out);
void failures_load(struct machine *m, struct reader *r);
void failures_check(const struct machine *m);
