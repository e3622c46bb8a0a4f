// SPDX-License-Identifier: Apache-2.0
// A plan as a value: copies, versions, look-ups and the sentences about its moves.
#include "cluster/placement.h"

#include "base/check.h"
#include "base/interval.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

void plan_init(struct plan *p)
{
    *p = (struct plan){.rebalanced_at = TIME_UNKNOWN};
}

void plan_done(struct plan *p)
{
    memory_free(p->nodes);
    memory_free(p->rows);
    plan_init(p);
}

void plan_copy(struct plan *to, const struct plan *from)
{
    CHECK(to != from);
    struct plan copy = *from;
    copy.nodes = memory_zeroed(from->nodes_len + 1, sizeof *copy.nodes);
    copy.rows = memory_zeroed(from->rows_len + 1, sizeof *copy.rows);
    if (from->nodes_len > 0) memcpy(copy.nodes, from->nodes, from->nodes_len * sizeof *copy.nodes);
    if (from->rows_len > 0) memcpy(copy.rows, from->rows, from->rows_len * sizeof *copy.rows);
    plan_done(to);
    *to = copy;
}

int plan_compare_version(const struct plan *a, const struct plan *b)
{
    if (a->epoch != b->epoch) return a->epoch < b->epoch ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

const struct plan_row *plan_find(const struct plan *p, const struct shard_key *shard)
{
    size_t low = 0, high = p->rows_len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = shard_key_compare(&p->rows[middle].shard, shard);
        if (order == 0) return &p->rows[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct member_id *plan_owner(const struct plan *p, const struct shard_key *shard)
{
    const struct plan_row *row = plan_find(p, shard);
    if (!row || row->owner == SHARD_NONE) return NULL;
    CHECK(row->owner < p->nodes_len);
    return &p->nodes[row->owner];
}

bool plan_same_owners(const struct plan *a, const struct plan *b)
{
    if (a->rows_len != b->rows_len) return false;
    for (size_t i = 0; i < a->rows_len; i++) {
        const struct plan_row *x = &a->rows[i], *y = &b->rows[i];
        if (shard_key_compare(&x->shard, &y->shard) != 0) return false;
        if ((x->owner == SHARD_NONE) != (y->owner == SHARD_NONE)) return false;
        if (x->owner == SHARD_NONE) continue;
        if (!member_id_equal(&a->nodes[x->owner], &b->nodes[y->owner])) return false;
    }
    return true;
}

static const char *const names[] = {
    [MOVE_NONE] = "stays",
    [MOVE_NEW] = "new",
    [MOVE_OWNER_GONE] = "owner-gone",
    [MOVE_OWNER_RESTARTED] = "owner-restarted",
    [MOVE_OWNER_LEAVES] = "owner-leaves",
    [MOVE_OVER_BOUND] = "over-bound",
    [MOVE_UNDER_SHARE] = "under-share",
    [MOVE_NO_MEMBER] = "no-member",
    [MOVE_QUEUE_BOUND] = "queue-bound",
    [MOVE_QUEUE_SHARE] = "queue-share",
    [MOVE_TRAFFIC] = "traffic",
};

const char *move_reason_name(enum move_reason reason)
{
    CHECK((size_t)reason < sizeof names / sizeof *names);
    return names[reason];
}

static const char *name_of(const struct plan *p, uint32_t node)
{
    CHECK(node == SHARD_NONE || node < p->nodes_len);
    return node == SHARD_NONE ? "no node" : p->nodes[node].name;
}

void plan_explain(const struct plan *p, const struct plan_row *row, char out[PLACEMENT_REASON_MAX])
{
    const char *from = name_of(p, row->from), *to = name_of(p, row->owner);
    size_t len = PLACEMENT_REASON_MAX;
    CHECK(row->reason < MOVE_REASONS);
    switch (row->reason) {
    case MOVE_NONE:
        (void)snprintf(out, len, "it stays");
        return;
    case MOVE_NEW:
        (void)snprintf(out, len, "no node owned it");
        return;
    case MOVE_NO_MEMBER:
        (void)snprintf(out, len, "no healthy member can take it");
        return;
    case MOVE_OWNER_GONE:
        (void)snprintf(out, len, "its owner %s is no longer a member", from);
        return;
    case MOVE_OWNER_RESTARTED:
        (void)snprintf(out, len, "its owner %s has restarted", from);
        return;
    case MOVE_OWNER_LEAVES:
        (void)snprintf(out, len, "its owner %s gives its shards away", from);
        return;
    case MOVE_OVER_BOUND:
        (void)snprintf(out, len, "its owner %s has more shards than its bound", from);
        return;
    case MOVE_UNDER_SHARE:
        (void)snprintf(out, len, "%s has the most shards for its capacity, and %s has too few",
                       from, to);
        return;
    case MOVE_QUEUE_BOUND:
        (void)snprintf(out, len, "its owner %s has more shards of this queue than its bound", from);
        return;
    case MOVE_QUEUE_SHARE:
        (void)snprintf(out, len, "%s has the most shards of this queue, and %s has too few", from,
                       to);
        return;
    case MOVE_TRAFFIC:
        (void)snprintf(out, len, "the traffic of %s and %s becomes more even", from, to);
        return;
    case MOVE_REASONS:
        return;
    }
}
