// SPDX-License-Identifier: Apache-2.0
// Counters of folded entries, and read access to the parts of a shard. A replay repeats what was
// counted before, so it is not counted.
#include "base/check.h"
#include "shard/inside.h"

void counters_note(struct shard *s, const struct fold_entry *e, bool mine, uint64_t expired)
{
    CHECK(expired <= machine_expired(s->machine));
    if (!s->view->is_current) {
        machine_forget_ends(s->machine);
        return;
    }
    s->counters.expired += expired;
    struct shard_totals *totals = s->config.totals;
    if (!mine) s->counters.others++;
    if (!totals) return;
    if (mine)
        histogram_add(&totals->ops, &histogram_sizes, e->ops_len);
    else
        atomic_fetch_add_explicit(&totals->others, 1, memory_order_relaxed);
}

const struct shard_counters *shard_counters(const struct shard *s)
{
    return &s->counters;
}

const struct machine *shard_machine(const struct shard *s)
{
    return s->machine;
}

struct journal *shard_journal(struct shard *s)
{
    return s->journal;
}
