// SPDX-License-Identifier: Apache-2.0
// The machine as the journal's fold.
#include "base/check.h"
#include "base/mutant.h"
#include "shard/inside.h"

static void fold_reset(void *ctx)
{
    struct shard *s = ctx;
    machine_reset(s->machine);
    s->owner_only = machine_owner_only(s->machine);
}

static void fold_apply(void *ctx, const struct fold_entry *e, struct op_result *results,
                       struct buf *text)
{
    struct shard *s = ctx;
    struct machine_entry entry = {.slot = e->slot,
                                  .time = e->time,
                                  .now = e->now,
                                  .epoch = e->epoch,
                                  .bytes = e->bytes,
                                  .ops = e->ops,
                                  .ops_len = e->ops_len};
    CHECK(e->ops_len == 0 || e->ops);
    uint64_t expired = machine_expired(s->machine);
    machine_apply(s->machine, &entry, results, text, s->config.keeps_events ? &s->events : NULL);
    CHECK(machine_slot(s->machine) == e->slot);
    s->owner_only = machine_owner_only(s->machine);
    counters_note(s, e, results != NULL, machine_expired(s->machine) - expired);
    size_t events_max = s->config.from_oldest ? EVENTS_FROM_OLDEST_MAX : EVENTS_HELD_MAX;
    if (s->events.len >= events_max && !s->full) {
        s->full = true;
        journal_hold(s->journal);
    }
    // A message that was just sent is likely to be claimed next. That is not so in a replay, which
    // would only fill the cache.
    if (s->view->is_current) CHECK(!cache_add(s->cache, &s->config.journal.id, e->slot, e->bytes));
}

static bool fold_recall(void *ctx, const struct op *op, struct op_result *result, struct buf *text)
{
    const struct shard *s = ctx;
    return machine_recall(s->machine, op, result, text);
}

// A claim that lost the race for the last message needs no entry, nor does the cost ledger alone.
static bool fold_idle(void *ctx, const struct op *op, int64_t now)
{
    const struct shard *s = ctx;
    if (op->kind == OP_SPENT) return true;
    struct op_claim claim;
    if (op->kind != OP_CLAIM || claim_decode(op->payload, &claim)) return false;
    if (machine_claimable(s->machine, now, claim.worker)) return false;
    struct op_result earlier; // the same request id must get its earlier result again
    LOCAL(buf, text, SIZE_MAX);
    return !machine_recall(s->machine, op, &earlier, &text);
}

static bool fold_grows(void *ctx, const struct op *op)
{
    (void)ctx;
    return op->kind == OP_SEND || op->kind == OP_ARRIVE;
}

static void fold_save(void *ctx, struct buf *out)
{
    const struct shard *s = ctx;
    machine_save(s->machine, out);
    CHECK(out->bad || out->len > 0);
}

static enum err fold_load(void *ctx, struct bytes saved)
{
    struct shard *s = ctx;
    enum err err = machine_load(s->machine, saved);
    s->owner_only = machine_owner_only(s->machine);
    return err;
}

static uint64_t fold_digest(void *ctx)
{
    const struct shard *s = ctx;
    return machine_digest(s->machine);
}

static bool fold_needs(void *ctx, uint64_t first, uint64_t last)
{
    const struct shard *s = ctx;
    CHECK(0 < first && first <= last);
    return machine_needs(s->machine, first, last);
}

static uint64_t fold_floor_limit(void *ctx, int64_t now)
{
    const struct shard *s = ctx;
    return machine_floor_limit(s->machine, now);
}

static enum fold_hold fold_holds(void *ctx, struct bytes name)
{
    static const enum fold_hold holds[] = {
        [BODY_FREE] = FOLD_FREE, [BODY_YET] = FOLD_YET, [BODY_HELD] = FOLD_HELD};
    const struct shard *s = ctx;
    size_t hold = (size_t)machine_holds(s->machine, name);
    CHECK(hold < sizeof holds / sizeof *holds);
    return holds[hold];
}

static uint16_t fold_rules(void *ctx, const struct op *ops, size_t ops_len)
{
    const struct shard *s = ctx;
    CHECK(ops_len == 0 || ops);
    return machine_rules_needed(s->machine, ops, MUTANT(RULES_UNMARKED) ? 0 : ops_len);
}

static bool fold_ended(void *ctx)
{
    const struct shard *s = ctx;
    return machine_deleted(s->machine);
}

struct fold shard_fold(struct shard *s)
{
    return (struct fold){.ctx = s,
                         .reset = fold_reset,
                         .apply = fold_apply,
                         .recall = fold_recall,
                         .idle = fold_idle,
                         .grows = fold_grows,
                         .save = fold_save,
                         .load = fold_load,
                         .digest = fold_digest,
                         .needs = fold_needs,
                         .floor_limit = fold_floor_limit,
                         .holds = fold_holds,
                         .rules = fold_rules,
                         .ended = fold_ended};
}
