// SPDX-License-Identifier: Apache-2.0
// A state from the store: the list of snapshots, one of them, and the slots after it (step.c).
#include "base/check.h"
#include "base/text.h"
#include "journal/inside.h"

#include <string.h>

bool snapshot_key_slot(const struct journal *j, const char *key, uint64_t *slot)
{
    size_t skip = strlen(j->config.prefix) + strlen("/snap/");
    if (strlen(key) != skip + 20) return false;
    uint64_t n = 0;
    for (const char *c = key + skip; *c; c++) {
        if (*c < '0' || *c > '9') return false;
        n = n * 10 + (uint64_t)(*c - '0');
    }
    *slot = n;
    return n > 0;
}

void journal_ask_listing(struct journal *j)
{
    CHECK(j->phase == PHASE_LISTING);
    CHECK(j->listing_on || j->candidates[0] == 0); // candidates come only from pages
    open_request_begin(&j->main, j, REQUEST_LIST, "snap", 0);
    j->main.request.limit = 1000;
    if (j->listing_on) j->main.request.after = j->main.after;
}

void journal_recover(struct journal *j)
{
    CHECK(!j->main.open);
    held_clear(&j->held);
    memset(j->candidates, 0, sizeof j->candidates);
    j->candidate_damaged = false;
    j->listing_on = false;
    j->phase = PHASE_LISTING;
}

static void replay_from_start(struct journal *j)
{
    CHECK(j->core.slot == 0); // a folded state is replaced only by a snapshot
    core_done(&j->core);
    j->fold.reset(j->fold.ctx);
    j->ended_slot = 0;
    j->absent_at = TIME_UNKNOWN;
    j->replaying = true;
    j->phase = PHASE_READING;
}

// A listing can lag. Without a snapshot newer than the folded state, loading one gains nothing yet.
static void listing_complete(struct journal *j)
{
    CHECK(!j->listing_on);
    bool folded = j->core.slot > 0;
    if (folded && j->candidates[0] <= j->core.slot && j->unproven) {
        journal_diverged(j, j->core.slot);
        journal_doubt(j, (struct read_name){"slot", j->core.slot},
                      "the slot was folded, and the store lost it");
    } else if (folded && j->candidates[0] <= j->core.slot) {
        journal_recover(j);
        journal_back_off(j);
    } else if (j->candidates[0] == 0) {
        replay_from_start(j);
    } else {
        j->phase = PHASE_LOADING;
    }
}

// The newest snapshot is wanted. With from_oldest, it is the oldest one whose following slots all
// exist.
static bool is_better(const struct journal *j, uint64_t slot)
{
    CHECK(slot > 0); // 0 means that there is no candidate
    if (!j->config.from_oldest) return slot > j->candidates[0];
    return j->candidates[0] == 0 && slot >= j->floor_slot && slot > j->core.slot;
}

void journal_on_listing(struct journal *j, const struct response *r)
{
    CHECK(j->phase == PHASE_LISTING);
    for (size_t i = 0; i < r->rows_len; i++) {
        uint64_t slot;
        if (!snapshot_key_slot(j, r->rows[i].key, &slot) || !is_better(j, slot)) continue;
        memmove(j->candidates + 1, j->candidates, sizeof j->candidates - sizeof *j->candidates);
        j->candidates[0] = slot;
    }
    CHECK(j->candidates[0] >= j->candidates[1]);
    journal_reset_retries(j);
    j->listing_on = r->more && r->rows_len > 0;
    if (j->listing_on) {
        (void)text_copy(j->main.after, sizeof j->main.after, r->rows[r->rows_len - 1].key);
    } else {
        listing_complete(j);
    }
}

static void next_candidate(struct journal *j)
{
    CHECK(j->phase == PHASE_LOADING);
    uint64_t tried = j->candidates[0];
    memmove(j->candidates, j->candidates + 1, sizeof j->candidates - sizeof *j->candidates);
    j->candidates[SNAPSHOTS_KEPT - 1] = 0;
    if (j->candidates[0] > j->core.slot) return;
    if (j->candidate_damaged) {
        journal_doubt(j, (struct read_name){"snapshot", tried}, "no snapshot can be read");
        return;
    }
    journal_recover(j);
    journal_back_off(j);
}

void journal_on_loading(struct journal *j, const struct response *r)
{
    CHECK(j->phase == PHASE_LOADING);
    CHECK(j->candidates[0] > j->core.slot);
    enum err err = r->err;
    if (!err) err = journal_load(j, r->body, j->candidates[0]);
    if (err == ERR_CORRUPT && journal_may_doubt(j)) {
        journal_doubt(j, (struct read_name){"snapshot", j->candidates[0]}, "it is damaged");
        return;
    }
    if (err == ERR_CORRUPT) { // the older snapshot, or the first slot, replaces the state
        journal_forget(j);
        j->candidate_damaged = true;
    }
    if (err) {
        next_candidate(j);
        return;
    }
    if (j->phase == PHASE_HALTED) return;
    journal_reset_retries(j);
    j->replaying = true;
    j->phase = PHASE_READING;
}
