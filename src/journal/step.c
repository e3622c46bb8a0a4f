// SPDX-License-Identifier: Apache-2.0
// The requests to the store, one at a time (inside.h has the diagram), and the rule that keeps
// collection from losing a commit. An answer about slot k is trusted only if one of these is true:
//
//   - k was certainly absent at most V ago, in store time;
//   - the floor, read after the answer, is under k.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "journal/inside.h"

#include <string.h>

// Full jitter: handles that failed together do not retry together.
void journal_back_off(struct journal *j)
{
    int64_t delay = j->config.retry_min_ms;
    for (uint32_t i = 0; i < j->retries && delay < j->config.retry_max_ms; i++)
        delay *= 2;
    if (delay > j->config.retry_max_ms) delay = j->config.retry_max_ms;
    j->retries++;
    j->retry_at = j->now.lo + rng_range(&j->rng, 0, delay);
    CHECK(j->retry_at >= j->now.lo);
    CHECK(!j->main.open); // only an answer makes a handle wait
}

void journal_reset_retries(struct journal *j)
{
    j->retries = 0;
    j->retry_at = TIME_UNKNOWN;
}

static void ask_slots(struct journal *j, uint64_t first, size_t bytes_max)
{
    open_request_begin(&j->main, j, REQUEST_READ_LOG, "log", 0);
    j->main.request.first = first;
    j->main.request.limit = bytes_max;
}

static void ask_append(struct journal *j)
{
    CHECK(j->batch.active && j->batch.slot == j->core.slot + 1);
    CHECK(j->phase == PHASE_PUTTING && !j->replaying);
    open_request_begin(&j->main, j, REQUEST_APPEND, "log", 0);
    j->main.request.first = j->batch.slot;
    j->main.request.body = buf_bytes(&j->batch.bytes);
    // A batch that may have landed must be resolved, so the store cannot refuse it any more.
    j->main.request.grows = j->batch.grows && !j->batch.maybe_landed;
    pace_asked(j);
}

static int64_t idle_ready_at(const struct journal *j)
{
    CHECK(j->phase == PHASE_IDLE);
    int64_t at = j->syncs.head ? TIME_UNKNOWN : TIME_NEVER;
    int64_t put_at = TIME_NEVER;
    if (j->batch.active) {
        put_at = pace_resend_at(j);
    } else if (j->queue.head) {
        put_at = pace_propose_at(j);
    }
    return put_at < at ? put_at : at;
}

static int64_t phase_ready_at(const struct journal *j)
{
    switch (j->phase) {
    case PHASE_NEW:
        return TIME_NEVER;
    case PHASE_HALTED: // an entry that needs another program stays
        return j->halt_err == ERR_CORRUPT && !MUTANT(LOOK_OFF) ? j->look_at : TIME_NEVER;
    case PHASE_IDLE:
        return idle_ready_at(j);
    case PHASE_PUTTING:
        return pace_resend_at(j);
    case PHASE_READING: {
        bool only_lost = j->batch.active && !j->syncs.head && !j->replaying;
        return only_lost ? pace_read_lost_at(j) : TIME_UNKNOWN;
    }
    default:
        return TIME_UNKNOWN;
    }
}

int64_t journal_ready_at(const struct journal *j)
{
    int64_t at = phase_ready_at(j);
    return at > j->retry_at ? at : j->retry_at;
}

static void choose_work(struct journal *j)
{
    CHECK(j->phase == PHASE_IDLE && !j->main.open);
    bool may_propose = j->queue.head && !j->batch.active && j->now.lo >= pace_propose_at(j);
    bool read_tail = j->syncs.head || (may_propose && pace_wants_read(j));
    if (may_propose && !pace_wants_read(j)) batch_form(j);
    if (j->batch.active && j->now.lo >= pace_resend_at(j)) {
        j->phase = PHASE_PUTTING;
    } else if (read_tail) {
        j->phase = PHASE_READING;
    }
}

static void advance_request(struct journal *j)
{
    if (j->main.open || j->holds > 0) return;
    CHECK((j->phase == PHASE_CHECKING) == (j->held.kind != HELD_NOTHING));
    bool waits = j->phase == PHASE_IDLE && !j->batch.active && pace_lacks_credit(j);
    if (waits) batch_answer_idle(j);
    if (j->now.lo < journal_ready_at(j)) return;
    if (j->phase == PHASE_IDLE) choose_work(j);
    if (j->phase == PHASE_HALTED) journal_look_again(j);
    switch (j->phase) {
    case PHASE_NEW:
    case PHASE_IDLE:
    case PHASE_HALTED:
        return;
    case PHASE_LISTING:
        journal_ask_listing(j);
        break;
    case PHASE_LOADING:
        open_request_begin(&j->main, j, REQUEST_GET, "snap", j->candidates[0]);
        break;
    case PHASE_PROVING:
        ask_slots(j, j->core.slot, 1);
        break;
    case PHASE_READING:
        ask_slots(j, j->core.slot + 1, j->config.read_bytes_max);
        break;
    case PHASE_PUTTING:
        ask_append(j);
        break;
    case PHASE_CHECKING:
        open_request_begin(&j->main, j, REQUEST_GET, "floor", j->floor_index + 1);
        break;
    }
    j->main.request.fresh = j->fresh;
    j->fresh = false;
}

void journal_advance(struct journal *j)
{
    advance_request(j);
    journal_view_refresh(j);
}

void held_clear(struct held_request *h)
{
    CHECK(h->kind == HELD_ROWS || (!h->rows && h->rows_len == 0));
    for (size_t i = 0; i < h->rows_len; i++)
        bytes_free(h->rows[i].body);
    memory_free(h->rows);
    *h = (struct held_request){0};
}

static void journal_tail_seen(struct journal *j, uint64_t request)
{
    CHECK(request < j->next_request);
    if (!journal_resume(j)) return;
    struct pending_list all = j->syncs;
    struct pending_list seen = {0};
    j->syncs = (struct pending_list){0};
    for (struct pending_call *p = all.head, *next; p; p = next) {
        next = p->next;
        pending_push(p->after_request <= request ? &seen : &j->syncs, p);
    }
    CHECK(seen.len + j->syncs.len == all.len);
    journal_answer_all(j, &seen, ERR_OK);
    uint32_t every = j->config.rules.snapshot_every;
    if (every != 0 && j->replaying && j->core.slot >= j->last_snapshot + 2 * (uint64_t)every)
        journal_snapshot(j);
    j->replaying = false;
}

static void after_rows(struct journal *j)
{
    CHECK(j->held.kind == HELD_NOTHING);
    // During a replay, and while a sync is open (choose_work), reading continues until no slot
    // follows.
    j->phase = j->replaying ? PHASE_READING : PHASE_IDLE;
}

static int64_t absence_time(const struct journal *j, int64_t sound, struct interval answered)
{
    (void)j;
    return MUTANT(RECENT_LOOK) || MUTANT(RECENT_CHAIN) ? answered.lo : sound;
}

static void trust_append(struct journal *j, uint64_t request, struct interval time)
{
    CHECK(j->batch.active && j->batch.slot == j->core.slot + 1);
    if (!journal_apply(j, buf_bytes(&j->batch.bytes), absence_time(j, j->batch.sent_at, time)))
        return;
    j->phase = PHASE_IDLE;
    journal_tail_seen(j, request);
}

static void trust_gap(struct journal *j, uint64_t request, struct interval time)
{
    CHECK(!j->main.open && request < j->next_request);
    if (j->batch.active && j->batch.slot != j->core.slot + 1) {
        journal_diverged(j, j->core.slot + 1);
        journal_doubt(j, (struct read_name){"slot", j->core.slot + 1},
                      "the slot existed, and the store lost it");
        return;
    }
    if (time.lo > j->absent_at) j->absent_at = time.lo;
    j->phase = PHASE_IDLE;
    journal_tail_seen(j, request);
    if (j->phase != PHASE_IDLE) return; // the answer is in doubt
    pace_tail_read(j);
    // The append was refused because the slot exists, but a read finds it missing: wait before the
    // next attempt.
    if (j->batch.active) journal_back_off(j);
}

static void trust_rows(struct journal *j, const struct held_request *h)
{
    for (size_t i = 0; i < h->rows_len; i++) {
        const struct held_row *row = &h->rows[i];
        if (!journal_apply(j, row->body, absence_time(j, row->modified.lo, h->time))) return;
    }
    pace_rows_read(j, h->rows[h->rows_len - 1].modified, h->time);
    after_rows(j);
}

static void trust_held(struct journal *j)
{
    CHECK(j->held.kind != HELD_NOTHING);
    struct held_request h = j->held;
    j->held = (struct held_request){0};
    switch (h.kind) {
    case HELD_NOTHING:
        break;
    case HELD_APPENDED:
        trust_append(j, h.request, h.time);
        break;
    case HELD_GAP:
        trust_gap(j, h.request, h.time);
        break;
    case HELD_ROWS:
        trust_rows(j, &h);
        break;
    }
    held_clear(&h);
}

static void held_keep(struct journal *j, enum held_kind kind, const struct response *r)
{
    struct held_request *h = &j->held;
    CHECK(h->kind == HELD_NOTHING);
    *h = (struct held_request){.kind = kind, .request = r->id, .time = r->time};
    if (kind != HELD_ROWS) return;
    h->rows = memory_zeroed(r->rows_len, sizeof *h->rows);
    for (h->rows_len = 0; h->rows_len < r->rows_len; h->rows_len++) {
        const struct response_row *row = &r->rows[h->rows_len];
        h->rows[h->rows_len] =
            (struct held_row){.modified = row->modified, .body = bytes_copy(row->body)};
    }
}

// Returns true if the slot of the answer was certainly absent at most V before it.
static bool is_fresh(const struct journal *j, int64_t absent_at, struct interval answered)
{
    if (absent_at == TIME_UNKNOWN) return false;
    return answered.hi - absent_at <= j->config.rules.verify_ms;
}

// In consecutive rows, the creation of each row bounds the absence of the next.
static bool rows_are_fresh(const struct journal *j, const struct response *r)
{
    CHECK(r->rows_len > 0);
    int64_t absent_at = j->absent_at;
    for (size_t i = 0; i < r->rows_len; i++) {
        if (!is_fresh(j, absent_at, r->time)) return false;
        int64_t created = absence_time(j, r->rows[i].modified.lo, r->time);
        if (created > absent_at) absent_at = created;
    }
    return true;
}

static bool can_trust(const struct journal *j, enum held_kind kind, const struct response *r)
{
    CHECK(kind != HELD_NOTHING);
    if (MUTANT(FLOOR_CHECK_OFF) && kind != HELD_GAP) return true;
    if (MUTANT(REPLAY_GAP_IS_TAIL) && kind == HELD_GAP) return true;
    if (MUTANT(RECENT_LOOK) && kind != HELD_APPENDED) return true;
    return kind == HELD_ROWS ? rows_are_fresh(j, r) : is_fresh(j, j->absent_at, r->time);
}

static void trust_or_check(struct journal *j, enum held_kind kind, const struct response *r)
{
    CHECK(j->phase == PHASE_READING || j->phase == PHASE_PUTTING);
    journal_reset_retries(j);
    held_keep(j, kind, r);
    if (can_trust(j, kind, r)) {
        trust_held(j);
    } else {
        j->phase = PHASE_CHECKING;
    }
}

// The rows must be the requested slots, one after the other. Otherwise the answer is not valid.
static bool rows_fit(const struct journal *j, const struct response *r)
{
    for (size_t i = 0; i < r->rows_len; i++)
        if (r->rows[i].first != j->core.slot + 1 + i) return false;
    return r->rows_len > 0;
}

static void on_reading(struct journal *j, const struct response *r)
{
    CHECK(j->held.kind == HELD_NOTHING); // one answer is checked at a time
    if (r->err == ERR_NOT_FOUND) {
        trust_or_check(j, HELD_GAP, r);
    } else if (!rows_fit(j, r)) {
        journal_doubt(j, (struct read_name){"slot", j->core.slot + 1},
                      "the store answered with slots that were not requested");
    } else {
        trust_or_check(j, HELD_ROWS, r);
    }
}

static void on_checking(struct journal *j, const struct response *r)
{
    CHECK(j->held.kind != HELD_NOTHING);
    CHECK((j->floor_index == 0) == (j->floor_slot == 0));
    journal_reset_retries(j);
    if (r->err == ERR_NOT_FOUND) {
        bool gone = j->core.slot + 1 <= j->floor_slot;
        if (gone && j->diverged_slot > 0) {
            journal_doubt_gone(j);
        } else if (gone) {
            journal_recover(j);
        } else {
            trust_held(j);
        }
        return;
    }
    struct floor f;
    enum err err = floor_decode(r->body, &f);
    bool next = !err && journal_id_equal(&f.id, &j->config.id) && f.index == j->floor_index + 1;
    if (!next || f.slot <= j->floor_slot) {
        journal_doubt(j, (struct read_name){"floor", j->floor_index + 1},
                      "the object is damaged, or the floor does not rise");
        return;
    }
    j->floor_index = f.index;
    j->floor_slot = f.slot;
}

static void append_not_landed(struct journal *j, enum err err)
{
    CHECK(j->batch.active);
    CHECK(err == ERR_UNAVAILABLE || err == ERR_LIMIT || err == ERR_DENIED);
    if (j->batch.maybe_landed) { // an earlier attempt may still win: only the slot decides
        // A permanent refusal: waiting does not help.
        if (err == ERR_DENIED) {
            batch_unknown(j);
            journal_answer_all(j, &j->queue, err);
            journal_answer_all(j, &j->syncs, err);
        }
        journal_back_off(j);
    } else if (err == ERR_UNAVAILABLE) {
        batch_requeue(j);
        j->phase = PHASE_IDLE;
        journal_back_off(j);
    } else {
        if (err != ERR_LIMIT || !batch_refuse_growth(j)) batch_fail(j, err);
        j->phase = PHASE_IDLE;
    }
}

static void append_lost(struct journal *j)
{
    CHECK(j->batch.active);
    if (MUTANT(ENTRY_HASH_OFF)) batch_requeue(j);
    // If an earlier attempt ended in doubt, the slot may hold it. Then there is no reason to wait.
    if (!j->batch.maybe_landed) pace_lost(j);
    j->batch.maybe_landed = true; // the network may have delivered it twice: the slot decides
    journal_reset_retries(j);
    j->phase = PHASE_READING;
}

static void append_unknown(struct journal *j)
{
    CHECK(j->batch.active);
    if (MUTANT(UNKNOWN_IS_FAILED)) {
        batch_fail(j, ERR_UNAVAILABLE);
        j->phase = PHASE_IDLE;
        return;
    }
    j->batch.maybe_landed = true;
    journal_back_off(j);
}

static void on_putting(struct journal *j, const struct response *r)
{
    CHECK(j->batch.active && j->batch.slot == j->core.slot + 1);
    CHECK(!j->replaying);
    if (r->err == ERR_OK || r->err == ERR_CONFLICT) pace_answered(j);
    switch (r->err) {
    case ERR_OK:
        j->batch.maybe_landed = true;
        trust_or_check(j, HELD_APPENDED, r);
        break;
    case ERR_CONFLICT:
        append_lost(j);
        break;
    case ERR_UNKNOWN:
        append_unknown(j);
        break;
    case ERR_UNAVAILABLE:
    case ERR_LIMIT:
    case ERR_DENIED:
        append_not_landed(j, r->err);
        break;
    default:
        // The batch stays: the next append decides it, after the slot was read.
        if (j->core.slot > 0) journal_diverged(j, j->core.slot);
        journal_doubt(j, (struct read_name){r->why ? NULL : "slot", j->batch.slot},
                      r->why ? r->why : "the store refuses an append as no store may");
    }
}

// Retries reads that failed. If the store refused the read, waiting does not help, so the callers
// get the error.
static bool retry_read(struct journal *j, const struct response *r)
{
    CHECK(j->phase != PHASE_PUTTING); // an append has rules of its own
    switch (r->err) {
    case ERR_OK:
    case ERR_NOT_FOUND:
        return false;
    case ERR_CORRUPT:
        if (j->phase == PHASE_LOADING) return false;
        journal_doubt(j, (struct read_name){r->why ? NULL : "slot", j->core.slot + 1},
                      r->why ? r->why : "the store reports that its bytes are damaged");
        return true;
    case ERR_DENIED:
    case ERR_LIMIT:
        journal_answer_all(j, &j->queue, r->err);
        journal_answer_all(j, &j->syncs, r->err);
        break;
    default:
        break;
    }
    journal_back_off(j);
    return true;
}

static void on_main(struct journal *j, const struct response *r)
{
    CHECK(!j->main.open && j->phase != PHASE_HALTED);
    if (j->phase == PHASE_PUTTING) {
        on_putting(j, r);
        return;
    }
    if (retry_read(j, r)) return;
    switch (j->phase) {
    case PHASE_LISTING:
        journal_on_listing(j, r);
        break;
    case PHASE_LOADING:
        journal_on_loading(j, r);
        break;
    case PHASE_PROVING:
        journal_on_proof(j, r);
        break;
    case PHASE_READING:
        on_reading(j, r);
        break;
    case PHASE_CHECKING:
        on_checking(j, r);
        break;
    default:
        CHECK(false); // the other phases send no request
    }
}

static void on_snapshot(struct journal *j, const struct response *r)
{
    CHECK(j->snap_slot > 0);
    bool there = r->err == ERR_OK || r->err == ERR_CONFLICT;
    if (there && j->snap_slot > j->last_snapshot) j->last_snapshot = j->snap_slot;
}

void journal_respond(struct journal *j, const struct response *r, struct interval now)
{
    CHECK(!j->main.open || !j->snap.open || j->main.request.id != j->snap.request.id);
    journal_note_time(j, now);
    j->tight = r->tight;
    if (open_request_is(&j->snap, r->id)) {
        j->snap.open = false;
        on_snapshot(j, r);
    } else if (open_request_is(&j->main, r->id)) {
        j->main.open = false;
        if (j->phase != PHASE_HALTED) on_main(j, r);
    }
    journal_advance(j);
}
