// SPDX-License-Identifier: Apache-2.0
// Answers by request id (requests.c), for the files of src/queue.
#pragma once

#include "base/map.h"
#include "base/ring.h"
#include "queue/codec/ops.h"

struct machine;

struct request_row {
    struct request_id id;
    int64_t expires_at;
    struct bytes body; // owned
    uint16_t kind;
};

struct requests {
    struct request_row *rows; // in the ring, as in struct dedup
    struct ring ring;
    uint64_t first;
    size_t bytes;
    struct map index;
};

const struct request_row *request_find(const struct machine *m, const struct request_id *id);
void request_add(struct machine *m, const struct request_row *row); // copies the body
void requests_expire(struct machine *m);
void requests_clear(struct machine *m);
const struct request_row *request_at(const struct machine *m, size_t index);
extern const struct row_table request_rows;
