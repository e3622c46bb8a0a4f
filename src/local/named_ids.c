// SPDX-License-Identifier: Apache-2.0
#include "local/named_ids.h"

#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse_row(struct named_id *row, const struct sluice_error *why,
                       struct sluice_error *first)
{
    row->code = why->code;
    (void)snprintf(row->reason, sizeof row->reason, "%s", why->reason);
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
        if (!id_parse(q, ids[i] ? ids[i] : "", &rows[i].shard, &rows[i].seq, &why)) continue;
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
    struct named_id **sorted = memory_zeroed(len + 1, sizeof *sorted);
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
    memory_free(sorted);
}

void named_ids_parse(const struct open_queue *q, const char *const *ids, size_t len,
                     struct named_id *rows, struct sluice_error *first, bool *foreign)
{
    parse(q, ids, len, rows, first, foreign);
    refuse_twice(ids, len, rows, first);
}

enum sluice_code named_ids_open(struct sluice *s, const char *queue, const char *const *ids,
                                size_t len, struct open_queue **q, struct named_id *rows,
                                struct sluice_error *first, struct sluice_error *error)
{
    bool foreign;
    enum sluice_code code = queue_get(s, queue, q, error);
    if (code) return code;
    named_ids_parse(*q, ids, len, rows, first, &foreign);
    if (foreign) { // the open queue may be an old life of its name
        struct open_queue *fresh = NULL;
        code = queue_get_fresh(s, queue, &fresh, error);
        queue_let_go(q);
        *q = fresh;
        if (code) return code;
        named_ids_parse(*q, ids, len, rows, first, &foreign);
    }
    return SLUICE_OK;
}

static void read_rules(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(uint16_t *)ctx = machine_rules(m);
}

bool queue_has_rules(struct open_queue *q, uint16_t rules)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        uint16_t has = 0;
        struct shard_runner *d = runner_if_open(q, i);
        if (d) runner_inspect(d, read_rules, &has);
        if (has < rules) return false; // a version is never lowered
    }
    return true;
}

enum sluice_code queue_needs_rules(struct open_queue *q, uint16_t rules, const char *what,
                                   struct sluice_error *error)
{
    const char *name = q->row.name;
    if (queue_has_rules(q, rules)) return SLUICE_OK;
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        uint16_t has = 0;
        struct shard_runner *d;
        if (queue_synced_runner(q, i, &d, NULL)) continue;
        runner_inspect(d, read_rules, &has);
        if (has >= rules) continue;
        enum sluice_code code = refuse(error, ERR_CONFLICT, "queue",
                                       "%s version %u of the rules, and queue %s has version %u; "
                                       "run \"sluice upgrade %s\" first",
                                       what, rules, name, has, name);
        if (error) (void)snprintf(error->reason, sizeof error->reason, UPGRADE_NEEDED);
        return code;
    }
    return SLUICE_OK;
}
