// SPDX-License-Identifier: Apache-2.0
// What a runner tells of its folded state, read under its lock.
#include "runner/runner.h"

#include <string.h>

static void read_owner(void *ctx, const struct journal *j, const struct machine *m, int64_t now)
{
    (void)m;
    (void)now;
    struct runner_owner *out = ctx;
    struct journal_owner owner = journal_owner(j);
    out->epoch = journal_epoch(j);
    memcpy(out->coord, owner.coord, sizeof out->coord);
    out->token = owner.token;
    bool text = owner.address.len > 0 && !memchr(owner.address.data, 0, owner.address.len);
    if (text) memcpy(out->address, owner.address.data, owner.address.len);
    out->seen_at = journal_owner_seen_at(j);
    out->mine = journal_is_owner(j);
    out->rules_newest = journal_owner_rules(j);
}

void runner_owner(struct shard_runner *r, struct runner_owner *out)
{
    *out = (struct runner_owner){.seen_at = TIME_UNKNOWN};
    runner_read_journal(r, read_owner, out);
}

struct inspection {
    runner_inspect_fn *inspect;
    void *ctx;
};

static void read_machine(void *ctx, const struct journal *j, const struct machine *m, int64_t now)
{
    (void)j;
    const struct inspection *i = ctx;
    i->inspect(i->ctx, m, now);
}

void runner_inspect(struct shard_runner *r, runner_inspect_fn *inspect, void *ctx)
{
    struct inspection i = {inspect, ctx};
    runner_read_journal(r, read_machine, &i);
}
