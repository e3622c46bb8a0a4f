// SPDX-License-Identifier: Apache-2.0
#include "ops/named_ids.h"

#include "base/memory.h"
#include "base/text.h"
#include "ops/change.h"
#include "os/entropy.h"

#include <stdlib.h>
#include <string.h>

static void refuse_row(struct named_id *row, const struct sluice_error *why,
                       struct sluice_error *first)
{
    row->code = why->code;
    (void)text_copy(row->reason, sizeof row->reason, why->reason);
    if (!first->code) *first = *why;
}

static void parse(const struct open_queue *q, const char *const *ids, size_t len,
                  struct named_id *rows, struct sluice_error *first, bool *foreign)
{
    *first = (struct sluice_error){.code = SLUICE_OK};
    *foreign = false;
    for (size_t i = 0; i < len; i++) {
        struct sluice_error why;
        rows[i] = (struct named_id){.code = SLUICE_OK};
        if (!id_parse(queue_ref(q), ids[i] ? ids[i] : "", &rows[i].shard, &rows[i].seq, &why))
            continue;
        *foreign = *foreign || why.code == SLUICE_NOT_FOUND;
        rows[i] = (struct named_id){0}; // its numbers are of another queue
        refuse_row(&rows[i], &why, first);
    }
}

static int by_number(const void *left, const void *right)
{
    const struct named_id *a = *(const struct named_id *const *)left;
    const struct named_id *b = *(const struct named_id *const *)right;
    if (a->shard != b->shard) return a->shard < b->shard ? -1 : 1;
    if (a->seq != b->seq) return a->seq < b->seq ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void refuse_twice(const char *const *ids, size_t len, struct named_id *rows,
                         struct sluice_error *first)
{
    CLEANUP(memory_let_go) struct named_id **sorted = memory_zeroed(len + 1, sizeof *sorted);
    for (size_t i = 0; i < len; i++)
        sorted[i] = &rows[i];
    qsort(sorted, len, sizeof *sorted, by_number);
    for (size_t i = 1; i < len; i++) {
        struct sluice_error why;
        const struct named_id *a = sorted[i - 1];
        struct named_id *b = sorted[i];
        if (a->seq == 0 || a->shard != b->shard || a->seq != b->seq) continue;
        (void)refuse(&why, ERR_INVALID, "id", "message %s is given twice", ids[b - rows]);
        refuse_row(b, &why, first);
    }
}

void named_ids_parse(const struct open_queue *q, const char *const *ids, size_t len,
                     struct named_id *rows, struct sluice_error *first, bool *foreign)
{
    parse(q, ids, len, rows, first, foreign);
    refuse_twice(ids, len, rows, first);
}

struct request_id request_or_new(const struct sluice_request *request)
{
    struct request_id id;
    if (request)
        memcpy(id.bytes, request->bytes, sizeof id.bytes);
    else
        entropy_fill(id.bytes, sizeof id.bytes);
    return id;
}

enum call_built named_ids_begin(struct local_call *c, bool may_block, const char *const *ids,
                                size_t len, struct named_id *rows, struct sluice_error *first)
{
    bool foreign;
    named_ids_parse(c->queue, ids, len, rows, first, &foreign);
    if (!foreign) return CALL_BUILT;
    enum call_built built = change_open_again(c, may_block);
    if (built == CALL_BUILT) named_ids_parse(c->queue, ids, len, rows, first, &foreign);
    return built;
}
