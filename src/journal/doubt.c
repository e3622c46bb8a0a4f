// SPDX-License-Identifier: Apache-2.0
// Answers that contradict the folded state, and the halt that follows if they stay.
//
// Bytes can change on their way, and a replica can be wrong once. So a wrong answer is not believed
// at once: the handle reads again on a fresh connection, DOUBTS_MAX times, before it halts. Each
// time it begins with the last slot that it folded (PROVING). If that slot holds another entry, or
// is gone without a snapshot that replaces it, the store has lost something, whatever follows. If
// whole entries contradict the state (diverged_slot), no snapshot replaces the slot: there may be
// two histories, and the handle has folded the other one.
//
// A halted handle refuses all calls and looks again, more and more rarely. It goes on only after it
// has read from its own state to the tail without a contradiction. It never starts over from what
// is stored: a process that starts afresh may do that, because it has folded nothing.
#include "base/check.h"
#include "base/mutant.h"
#include "journal/inside.h"

#include <stdio.h>

#define DOUBTS_MAX 2

static void halt(struct journal *j, enum err err)
{
    CHECK(j->halt_text[0]);
    CHECK(err == ERR_CORRUPT || err == ERR_UNAVAILABLE);
    CHECK(j->phase != PHASE_NEW && j->phase != PHASE_HALTED);
    j->phase = PHASE_HALTED;
    j->halt_err = err;
    if (err == ERR_UNAVAILABLE) j->my_epoch = 0; // only another program goes on
    int64_t pause = j->config.look_min_ms;
    for (uint32_t i = 0; i < j->looks && pause < j->config.look_max_ms; i++)
        pause *= 2;
    if (pause > j->config.look_max_ms) pause = j->config.look_max_ms;
    j->looks++;
    j->look_at = j->now.lo + pause;
    j->retry_at = TIME_UNKNOWN;
    batch_fail(j, j->batch.maybe_landed ? ERR_UNKNOWN : err);
    journal_answer_all(j, &j->queue, err);
    journal_answer_all(j, &j->syncs, err);
    held_clear(&j->held);
}

void journal_halt_rules(struct journal *j, uint16_t rules)
{
    CHECK(rules > 0); // the decoders know no version 0
    journal_rules_sentence(rules, j->config.rules_oldest, j->config.rules_newest, j->halt_text,
                           sizeof j->halt_text);
    halt(j, ERR_UNAVAILABLE);
}

static void halt_corrupt(struct journal *j, struct read_name read, const char *why)
{
    const char *prefix = j->config.prefix;
    unsigned long long number = (unsigned long long)read.number;
    int len = read.part ? snprintf(j->halt_text, sizeof j->halt_text, "%s %llu of %s: %s",
                                   read.part, number, prefix, why)
                        : snprintf(j->halt_text, sizeof j->halt_text, "%s", why);
    CHECK(len > 0);
    halt(j, ERR_CORRUPT);
}

// The next request reads the last folded slot. A handle that has folded nothing starts over.
static void prove(struct journal *j)
{
    CHECK(!j->main.open && j->held.kind == HELD_NOTHING);
    j->fresh = true;
    j->unproven = false;
    if (j->halt_err) j->replaying = true; // it reads up to the tail
    if (j->core.slot > 0) {
        j->phase = MUTANT(PROOF_OFF) ? PHASE_READING : PHASE_PROVING;
    } else if (j->config.from_oldest) {
        j->phase = PHASE_READING;
    } else {
        journal_recover(j);
    }
}

void journal_diverged(struct journal *j, uint64_t slot)
{
    CHECK(slot > 0);
    if (slot > j->diverged_slot) j->diverged_slot = slot;
}

bool journal_may_doubt(const struct journal *j)
{
    return j->doubts < DOUBTS_MAX;
}

void journal_doubt(struct journal *j, struct read_name read, const char *why)
{
    CHECK(why && why[0]);
    held_clear(&j->held);
    if (!journal_may_doubt(j)) {
        halt_corrupt(j, read, why);
        return;
    }
    j->doubts++;
    prove(j);
    journal_back_off(j);
}

void journal_doubt_gone(struct journal *j)
{
    CHECK(j->diverged_slot > 0);
    journal_doubt(j, (struct read_name){"slot", j->core.slot},
                  "the slot is gone, and what the store has does not continue it");
}

void journal_look_again(struct journal *j)
{
    CHECK(j->phase == PHASE_HALTED && j->halt_err == ERR_CORRUPT);
    CHECK(!j->queue.head && !j->syncs.head && !j->batch.active); // all were answered
    j->doubts = DOUBTS_MAX; // one wrong answer is enough to stay halted
    prove(j);
}

void journal_on_proof(struct journal *j, const struct response *r)
{
    CHECK(j->phase == PHASE_PROVING && j->core.slot > 0);
    struct read_name read = {"slot", j->core.slot};
    if (r->err == ERR_NOT_FOUND && j->diverged_slot > 0) {
        journal_doubt_gone(j);
        return;
    }
    if (r->err == ERR_NOT_FOUND) { // collected, if a later snapshot is there
        j->unproven = true;
        journal_recover(j);
        return;
    }
    struct entry e = {0};
    const char *why = "the store answered with slots that were not requested";
    bool whole = false, same = false;
    if (r->rows_len > 0 && r->rows[0].first == j->core.slot) {
        why = "the slot holds another entry than before: the store replaced it";
        whole = entry_decode(r->rows[0].body, &e, &why) != ERR_CORRUPT;
        same = whole && hash128_equal(e.hash, j->core.chain);
    }
    entry_done(&e);
    if (!same) {
        if (whole) journal_diverged(j, j->core.slot);
        journal_doubt(j, read, why);
        return;
    }
    j->phase = PHASE_READING;
}

// A state that is older than the commit says nothing, unless no slot follows it.
static bool lost_a_commit(const struct journal *j, bool at_tail)
{
    if (j->committed == 0) return false;
    if (j->core.slot < j->committed_slot) return at_tail;
    return core_session(&j->core, j->config.writer, j->committed, j->born) == SESSION_NOT_COMMITTED;
}

bool journal_check_commits(struct journal *j, bool at_tail)
{
    if (!lost_a_commit(j, at_tail)) return true;
    halt_corrupt(j, (struct read_name){"slot", j->committed_slot},
                 "a commit that was answered is not in the history: the store lost it");
    j->look_at = TIME_NEVER; // the state that knew better is replaced: no later look can prove it
    return false;
}

bool journal_resume(struct journal *j)
{
    CHECK(j->phase == PHASE_IDLE);
    if (j->replaying && !journal_check_commits(j, true)) return false;
    if (j->core.slot < j->diverged_slot) {
        journal_doubt(
            j, (struct read_name){"slot", j->diverged_slot},
            "the store had an entry there that contradicts the ones before, and denies it");
        return false;
    }
    // An append that was refused in doubt is decided by the next one, not by this read.
    if (j->batch.active) return true;
    CHECK(!j->halt_err || j->replaying);
    j->halt_err = ERR_OK;
    j->halt_text[0] = 0;
    j->doubts = 0;
    j->diverged_slot = 0;
    return true;
}
