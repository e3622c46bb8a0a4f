// SPDX-License-Identifier: Apache-2.0
// The fold: an entry into the state, a state from a snapshot, a snapshot from the state. If bytes
// contradict the state, they are damaged or the store is faulty, and to continue would hide it. The
// handle then reads again, or halts (doubt.c). It also halts before an entry that this program
// cannot fold.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "journal/inside.h"

#include <string.h>

static const char *wrong_place(const struct journal *j, const struct entry *e)
{
    CHECK(0 < e->slot && e->slot <= ENTRY_SLOT_MAX); // entry_decode refuses all others
    if (!journal_id_equal(&e->id, &j->config.id)) return "a slot holds another queue's entry";
    if (e->slot != j->core.slot + 1) return "a slot holds an entry of another slot";
    if (!hash128_equal(e->previous, j->core.chain))
        return "an entry does not continue the one before it: the store lost or replaced a slot";
    return NULL;
}

static const char *contradiction(const struct journal *j, const struct entry *e)
{
    CHECK(e->slot == j->core.slot + 1); // wrong_place comes first: the digest is of the slot before
    if (e->rules != journal_rules_needed(j, e->ops, e->ops_len))
        return "an entry names another version of the rules than the state before it";
    for (size_t i = 0; i < e->ops_len; i++) {
        if (e->ops[i].kind != JOURNAL_OP_DIGEST) continue;
        struct reader r = reader_of(e->ops[i].payload);
        uint64_t digest = read_u64(&r);
        if (!reader_end(&r) || digest != journal_digest(j))
            return "the digest of the state differs from the one in the entry";
    }
    return NULL;
}

// Another writer owns the shard now: ops that were submitted to the owner must not be proposed.
static void demote(struct journal *j)
{
    CHECK(j->my_epoch != 0);
    j->my_epoch = 0;
    journal_answer_all(j, &j->queue, ERR_FENCED);
}

static void note_ownership(struct journal *j, bool mine, uint64_t epoch_before)
{
    if (j->core.epoch == epoch_before) return;
    CHECK(j->core.epoch > epoch_before);
    if (mine) {
        j->my_epoch = j->core.epoch;
    } else if (j->my_epoch != 0 && !MUTANT(EPOCH_OFF)) {
        demote(j);
    }
}

static void fold_entry(struct journal *j, struct bytes bytes, const struct entry *e, bool mine)
{
    CHECK(!mine || (j->batch.active && j->batch.slot == e->slot));
    CHECK(!mine || e->ops_len == j->batch.first_op + j->batch.ops.len); // an op for each caller
    struct op_result *results = mine ? memory_zeroed(e->ops_len, sizeof *results) : NULL;
    struct buf *text = mine ? &j->text : NULL;
    if (text) buf_clear(text);
    uint64_t epoch_before = j->core.epoch;
    bool in_force = core_apply(&j->core, &j->config.rules, e, results);
    if (in_force) {
        struct fold_entry view = {.slot = e->slot,
                                  .time = e->time,
                                  .now = j->core.now,
                                  .epoch = e->epoch,
                                  .bytes = bytes,
                                  .ops = e->ops,
                                  .ops_len = e->ops_len};
        journal_view_refresh(j);
        j->fold.apply(j->fold.ctx, &view, results, text);
    }
    bool at_stake = j->batch.active && j->batch.slot == e->slot;
    struct pace_fold how = {.mine = mine,
                            .in_force = in_force,
                            .answered = mine ? e->ops_len - j->batch.first_op : 0,
                            .epoch_before = epoch_before};
    if (mine) {
        batch_committed(j, results, !in_force);
    } else if (at_stake) {
        batch_requeue(j);
    }
    note_ownership(j, mine, epoch_before);
    if (in_force && j->core.epoch != 0 &&
        (e->epoch == j->core.epoch || j->core.epoch != epoch_before)) {
        j->owner_writer = e->writer;
        j->owner_writer_epoch = j->core.epoch;
    }
    pace_folded(j, e, &how);
    memory_free(results);
}

// Records the first slot after which the fold has ended. A handle that loads a snapshot of an ended
// fold knows only the snapshot's slot.
static void note_ended(struct journal *j)
{
    bool ended = j->fold.ended && j->fold.ended(j->fold.ctx);
    if (!ended || j->ended_slot == 0) j->ended_slot = ended ? j->core.slot : 0;
    CHECK(j->ended_slot <= j->core.slot);
}

// An ended fold has hardly any entries, so the floor can rise only if each own entry is followed by
// a snapshot.
static bool snapshot_due(const struct journal *j, bool mine)
{
    if (mine && j->ended_slot != 0) return true;
    uint32_t every = j->config.rules.snapshot_every;
    if (every == 0 || !mine || j->core.slot % every != 0) return false;
    return j->bytes_since >= (uint64_t)j->config.snapshot_ratio * j->last_snapshot_len;
}

bool journal_apply(struct journal *j, struct bytes bytes, int64_t created)
{
    CHECK(j->phase != PHASE_HALTED);
    CHECK(!j->main.open); // the answer with these bytes was the only one
    struct entry e;
    const char *why = NULL;
    struct read_name read = {"slot", j->core.slot + 1};
    enum err err = entry_decode(bytes, &e, &why);
    if (err == ERR_CORRUPT) {
        journal_doubt(j, read, why);
        return false;
    }
    why = err ? NULL : wrong_place(j, &e);
    if (err || (!why && !journal_folds(j, e.rules))) {
        // The slot holds another writer's entry, so an append to it did not land.
        if (j->batch.active && j->batch.slot == j->core.slot + 1) j->batch.maybe_landed = false;
        journal_halt_rules(j, e.rules);
        entry_done(&e);
        return false;
    }
    if (!why) why = contradiction(j, &e);
    if (why) {
        // An answer about another slot or queue can be one that was misdelivered.
        bool here = e.slot == read.number && journal_id_equal(&e.id, &j->config.id);
        entry_done(&e);
        if (here) journal_diverged(j, read.number);
        journal_doubt(j, read, why);
        return false;
    }
    bool mine = j->batch.active && j->batch.slot == e.slot && hash128_equal(j->batch.hash, e.hash);
    fold_entry(j, bytes, &e, mine);
    note_ended(j);
    // The next slot was created after this one, so it was absent until then.
    if (created > j->absent_at) j->absent_at = created;
    j->bytes_since += bytes.len;
    if (!j->halt_err) j->looks = 0;
    if (snapshot_due(j, mine)) journal_snapshot(j);
    entry_done(&e);
    return true;
}

void journal_snapshot(struct journal *j)
{
    // Slot 0: a damaged snapshot was thrown away, and an older one is not loaded yet.
    if (j->snap.open || j->core.slot == 0) return;
    CHECK(j->phase != PHASE_HALTED);
    CHECK((j->floor_index == 0) == (j->floor_slot == 0));
    CHECK(j->core.slot <= ENTRY_SLOT_MAX && j->core.now >= 0); // as core_load asks
    LOCAL(buf, machine, SNAPSHOT_LEN_MAX);
    j->fold.save(j->fold.ctx, &machine);
    struct snapshot s = {.id = j->config.id,
                         .rules = journal_rules_needed(j, NULL, 0),
                         .core = &j->core,
                         .absent_at = j->absent_at,
                         .floor_index = j->floor_index,
                         .floor_slot = j->floor_slot,
                         .digest = journal_digest(j),
                         .machine = buf_bytes(&machine)};
    buf_clear(&j->snap_bytes);
    snapshot_encode(&s, &j->snap_bytes);
    // Too large to write: the journal continues without it.
    if (machine.bad || j->snap_bytes.bad) return;
    CHECK(j->snap_bytes.len > 0);
    j->snap_slot = j->core.slot;
    j->last_snapshot_len = j->snap_bytes.len;
    j->bytes_since = 0;
    open_request_begin(&j->snap, j, REQUEST_PUT_NEW, "snap", j->snap_slot);
    j->snap.request.body = buf_bytes(&j->snap_bytes);
    j->snap.request.background = true;
}

void journal_forget(struct journal *j)
{
    core_done(&j->core);
    j->fold.reset(j->fold.ctx);
    j->ended_slot = 0;
    if (j->my_epoch != 0) demote(j); // what is read next may have fewer epochs
}

// After an error the state is empty: it may have been half loaded.
static enum err adopt(struct journal *j, struct core *core, const struct snapshot *s)
{
    CHECK(core->slot > j->core.slot); // a load never goes back
    enum err err = j->fold.load(j->fold.ctx, s->machine);
    if (!err) {
        struct core old = j->core;
        j->core = *core;
        *core = old;
        if (journal_digest(j) != s->digest) err = ERR_CORRUPT;
    }
    if (err) journal_forget(j);
    return err;
}

enum err journal_load(struct journal *j, struct bytes bytes, uint64_t slot)
{
    CHECK(slot > 0);
    CHECK(j->phase == PHASE_LOADING);
    struct core core;
    struct snapshot s;
    core_init(&core);
    enum err err = snapshot_decode(bytes, &core, &s);
    if (!err && (!journal_id_equal(&s.id, &j->config.id) || core.slot != slot)) err = ERR_CORRUPT;
    if (err == ERR_UNAVAILABLE || (!err && !journal_folds(j, s.rules))) {
        core_done(&core);
        journal_halt_rules(j, s.rules);
        return ERR_OK;
    }
    if (!err) err = adopt(j, &core, &s);
    core_done(&core);
    if (err) return err;
    note_ended(j);
    bool looked = MUTANT(RECENT_LOOK) || MUTANT(RECENT_CHAIN);
    j->absent_at = looked ? j->now.lo : s.absent_at;
    if (s.floor_index > j->floor_index) {
        j->floor_index = s.floor_index;
        j->floor_slot = s.floor_slot;
    }
    j->unproven = false;
    if (!journal_check_commits(j, false)) return ERR_OK;
    j->last_snapshot = slot;
    j->last_snapshot_len = bytes.len;
    j->bytes_since = 0;
    if (j->batch.active && j->batch.slot <= j->core.slot) batch_jumped(j);
    if (j->my_epoch != 0 && j->my_epoch != j->core.epoch && !MUTANT(EPOCH_OFF)) demote(j);
    return ERR_OK;
}
