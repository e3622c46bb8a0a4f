// SPDX-License-Identifier: Apache-2.0
// Which uploaded bodies messages refer to (bodies.c), for the files of src/queue.
#pragma once

#include "base/bytes.h"
#include "base/map.h"
#include "queue/codec/message.h"

struct machine;

// An unfinished message whose body is its own object.
struct body_row {
    uint64_t seq;
    uint64_t key; // body_name.random[0]
};

struct bodies {
    struct body_row *rows; // in no order
    uint32_t len;
    uint32_t cap;
    struct map by_seq;
    struct map by_key;
};

bool body_is_stale(const struct machine *m, const struct body_reference *r);
void body_hold(struct machine *m, uint64_t seq, uint64_t key);
void body_release(struct machine *m, uint64_t seq); // finished; the message may have no such body
void body_rename(struct machine *m, uint64_t from, uint64_t to);
void bodies_release_backlog(struct machine *m); // before backlog_clear
void bodies_clear(struct machine *m);
extern const struct row_table body_rows;
void bodies_check(const struct machine *m);
bool bodies_live(const struct machine *m); // each one has a message that needs it
