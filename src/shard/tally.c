// SPDX-License-Identifier: Apache-2.0
// Counting what passes. A replay has nothing to tell that was not told before, and is not counted.
#include "shard/inside.h"

void tally_note(struct shard *s, const struct fold_entry *e, bool mine, uint64_t expired)
{
    if (!journal_is_current(s->journal)) return;
    s->tally.expired += expired;
    if (mine)
        histogram_view_add(&s->tally.ops, &histogram_sizes, e->ops_len);
    else
        s->tally.others++;
}

const struct shard_tally *shard_tally(const struct shard *s)
{
    return &s->tally;
}
