// SPDX-License-Identifier: Apache-2.0
// The calls of a journal handle. Each notes an event, advances the requests by one step, and leaves
// requests and replies to be taken.
#include "journal/journal.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "journal/inside.h"

#include <string.h>

void journal_config_defaults(struct journal_config *c)
{
    *c = (struct journal_config){
        .retry_min_ms = 20,
        .retry_max_ms = 2000,
        .look_min_ms = 1000,
        .look_max_ms = 60000,
        .read_bytes_max = (size_t)1 << 20,
        .entry_bytes_max = ENTRY_LEN_MAX,
        .courtesy_ms = 1000,
        .courtesy_live_ms = 5000,
        .rules = {.session_ttl_ms = 24 * 3600 * 1000,
                  .sessions_max = 4096,
                  .digest_every = 256,
                  .verify_ms = 60 * 1000,
                  .retain_ms = 3600 * 1000,
                  .retain_tight_ms = 5 * 60 * 1000,
                  .floor_every_ms = 15 * 60 * 1000,
                  .floor_lag_ms = 3600 * 1000,
                  .snapshot_every = 1024,
                  .sweep_every_ms = 3600 * 1000,
                  .orphan_ms = 2 * 3600 * 1000},
    };
}

struct journal *journal_new(const struct journal_config *config, const struct fold *fold)
{
    CHECK(config->rules.retain_ms > config->rules.verify_ms);
    int64_t tight_ms = config->rules.retain_tight_ms;
    CHECK(tight_ms == 0 || tight_ms > config->rules.verify_ms);
    CHECK(config->entry_bytes_max <= ENTRY_LEN_MAX);
    CHECK(config->puts_per_second >= 0 && config->puts_per_second <= JOURNAL_PUTS_MAX);
    CHECK(memchr(config->prefix, 0, sizeof config->prefix));
    CHECK(config->retry_min_ms >= 0 && config->retry_min_ms <= config->retry_max_ms);
    CHECK(config->read_bytes_max > 0);
    CHECK(config->rules.session_ttl_ms > 0);
    CHECK(fold->reset && fold->apply && fold->digest);
    struct journal *j = NEW(struct journal);
    j->config = *config;
    j->fold = *fold;
    rng_init(&j->rng, config->seed);
    journal_writer_mark(&j->config.writer, config->rules_newest);
    core_init(&j->core);
    j->now = (struct interval){0, 0};
    j->absent_at = TIME_UNKNOWN;
    j->retry_at = TIME_UNKNOWN;
    j->deadline_at = TIME_NEVER;
    j->next_request = 1;
    buf_init(&j->batch.bytes, config->entry_bytes_max);
    buf_init(&j->snap_bytes, SNAPSHOT_LEN_MAX);
    buf_init(&j->text, SIZE_MAX);
    j->fold.reset(j->fold.ctx);
    journal_view_refresh(j);
    return j;
}

static void reply_free(struct reply *r)
{
    if (!r) return;
    bytes_free(r->out.body);
    memory_free(r);
}

void journal_free(struct journal *j)
{
    if (!j) return;
    CHECK(!j->replies == !j->replies_tail);
    pending_free_all(&j->queue);
    pending_free_all(&j->syncs);
    pending_free_all(&j->batch.ops);
    held_clear(&j->held);
    while (j->replies) {
        struct reply *next = j->replies->next;
        reply_free(j->replies);
        j->replies = next;
    }
    reply_free(j->reply_out);
    buf_done(&j->batch.bytes);
    buf_done(&j->snap_bytes);
    buf_done(&j->text);
    core_done(&j->core);
    memory_free(j);
}

// A clock does not run backwards, so a lower bound of its time stays valid.
void journal_note_time(struct journal *j, struct interval now)
{
    CHECK(now.lo <= now.hi);
    j->heard_lo = now.lo;
    if (now.lo > j->now.lo) j->now.lo = now.lo;
    j->now.hi = now.hi > j->now.lo ? now.hi : j->now.lo;
    CHECK(j->now.lo <= j->now.hi);
}

void journal_start(struct journal *j, struct interval now)
{
    CHECK(j->phase == PHASE_NEW);
    CHECK(j->core.slot == 0 && !j->main.open);
    journal_note_time(j, now);
    j->born = j->now.lo;
    pace_start(j);
    j->phase = j->config.from_oldest ? PHASE_READING : PHASE_LISTING;
    j->replaying = true;
    journal_advance(j);
}

static struct pending_call *pending_new(struct journal *j, uint64_t ticket, struct op op,
                                        int64_t deadline)
{
    CHECK(op.payload.len <= JOURNAL_OP_MAX); // a longer one is refused before it is copied
    struct pending_call *p = NEW(struct pending_call);
    *p = (struct pending_call){.ticket = ticket,
                               .op = {.kind = op.kind, .payload = bytes_copy(op.payload)},
                               .deadline = deadline,
                               .after_request = j->next_request};
    if (j->fold.grows && op.kind >= OP_KIND_MACHINE) p->grows = j->fold.grows(j->fold.ctx, &op);
    if (deadline < j->deadline_at) j->deadline_at = deadline;
    return p;
}

static void refuse(struct journal *j, uint64_t ticket, enum err err)
{
    CHECK(err != ERR_OK);
    struct pending_call *p = pending_new(j, ticket, (struct op){0}, TIME_NEVER);
    struct pending_list one = {p, p, 1};
    journal_answer_all(j, &one, err);
    journal_view_refresh(j);
}

static uint16_t newest_rules(const struct journal *j)
{
    return j->config.rules_newest > 0 ? j->config.rules_newest : 1;
}

static void enqueue(struct journal *j, uint64_t ticket, struct op op, int64_t deadline,
                    struct interval now)
{
    CHECK(j->phase != PHASE_NEW);
    journal_note_time(j, now);
    if (j->halt_err) {
        refuse(j, ticket, j->halt_err);
    } else if (op.payload.len > JOURNAL_OP_MAX) {
        refuse(j, ticket, ERR_LIMIT);
    } else if (journal_rules_needed(j, &op, 1) > newest_rules(j)) {
        refuse(j, ticket, ERR_INVALID); // this program could not fold its entry
    } else {
        pending_push(&j->queue, pending_new(j, ticket, op, deadline));
        journal_advance(j);
    }
}

void journal_submit(struct journal *j, uint64_t ticket, struct op op, int64_t deadline,
                    struct interval now)
{
    CHECK(op.kind >= OP_KIND_MACHINE);
    enqueue(j, ticket, op, deadline, now);
}

void journal_sync(struct journal *j, uint64_t ticket, int64_t deadline, struct interval now)
{
    CHECK(j->phase != PHASE_NEW);
    journal_note_time(j, now);
    if (j->halt_err) {
        refuse(j, ticket, j->halt_err);
        return;
    }
    pending_push(&j->syncs, pending_new(j, ticket, (struct op){0}, deadline));
    journal_advance(j);
}

void journal_own(struct journal *j, uint64_t ticket, uint64_t expected,
                 const struct journal_owner *owner, int64_t deadline, struct interval now)
{
    CHECK(owner->address.len <= JOURNAL_ADDRESS_MAX);
    LOCAL(buf, payload, JOURNAL_OP_MAX);
    buf_put_u64(&payload, expected);
    buf_put(&payload, bytes_of(owner->coord, sizeof owner->coord));
    buf_put_u64(&payload, owner->token);
    buf_put_sized(&payload, owner->address);
    struct op op = {.kind = JOURNAL_OP_OWN, .payload = buf_bytes(&payload)};
    j->pace.courtesy_until = TIME_UNKNOWN; // a new owner does not pause for the former one
    enqueue(j, ticket, op, deadline, now);
}

void journal_coord_switch(struct journal *j, uint64_t ticket, const uint8_t coord[16],
                          int64_t deadline, struct interval now)
{
    struct op op = {.kind = JOURNAL_OP_COORD, .payload = bytes_of(coord, 16)};
    enqueue(j, ticket, op, deadline, now);
}

void journal_touch(struct journal *j, uint64_t ticket, int64_t deadline, struct interval now)
{
    enqueue(j, ticket, (struct op){.kind = JOURNAL_OP_TOUCH}, deadline, now);
}

void journal_hold(struct journal *j)
{
    CHECK(j->holds < UINT32_MAX);
    j->holds++;
}

void journal_release(struct journal *j, struct interval now)
{
    journal_note_time(j, now);
    CHECK(j->holds > 0);
    j->holds--;
    journal_advance(j);
}

size_t journal_queued(const struct journal *j)
{
    CHECK(!j->queue.head == (j->queue.len == 0));
    CHECK(!j->syncs.head == (j->syncs.len == 0));
    return j->queue.len + j->syncs.len;
}

void journal_tick(struct journal *j, struct interval now)
{
    CHECK(j->phase != PHASE_NEW);
    journal_note_time(j, now);
    if (j->heard_lo >= j->deadline_at) journal_expire(j);
    journal_advance(j);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t journal_wake_at(const struct journal *j)
{
    CHECK(!j->halt_err || (!j->queue.head && !j->syncs.head && !j->batch.active)); // all answered
    int64_t ready_at = j->main.open ? TIME_NEVER : journal_ready_at(j);
    if (MUTANT(JOURNAL_WAKES_PAST) && j->main.open) return j->now.lo;
    // Otherwise the handle is on hold, and its release advances it.
    bool waits = ready_at > j->now.lo;
    return earlier(j->deadline_at, waits ? ready_at : TIME_NEVER);
}

static bool journal_has_waiting(const struct journal *j);

static struct journal_view view_now(const struct journal *j)
{
    return (struct journal_view){.slot = journal_slot(j),
                                 .epoch = journal_epoch(j),
                                 .halt_err = journal_halt_err(j),
                                 .is_owner = journal_is_owner(j),
                                 .is_current = journal_is_current(j),
                                 .has_waiting = journal_has_waiting(j),
                                 .has_replies = j->replies != NULL};
}

void journal_view_refresh(struct journal *j)
{
    if (MUTANT(VIEW_OLD) && j->view.is_owner) return;
    j->view = view_now(j);
}

const struct journal_view *journal_view(const struct journal *j)
{
    return &j->view;
}

static bool view_is_fresh(const struct journal *j)
{
    const struct journal_view a = j->view, b = view_now(j);
    return a.slot == b.slot && a.epoch == b.epoch && a.halt_err == b.halt_err &&
           a.is_owner == b.is_owner && a.is_current == b.is_current &&
           a.has_waiting == b.has_waiting && a.has_replies == b.has_replies;
}

bool journal_next_request(struct journal *j, struct request *out)
{
    CHECK(view_is_fresh(j)); // after each event the caller takes requests
    return open_request_take(&j->main, out) || open_request_take(&j->snap, out);
}

bool journal_next_reply(struct journal *j, struct journal_reply *out)
{
    CHECK(!j->replies == !j->replies_tail);
    reply_free(j->reply_out);
    j->reply_out = j->replies;
    if (!j->replies) return false;
    j->replies = j->replies->next;
    if (!j->replies) j->replies_tail = NULL;
    j->view.has_replies = j->replies != NULL;
    *out = j->reply_out->out;
    return true;
}

uint64_t journal_slot(const struct journal *j)
{
    return j->core.slot;
}

int64_t journal_time(const struct journal *j)
{
    return j->core.now;
}

uint64_t journal_digest(const struct journal *j)
{
    return hash64_mix(core_digest(&j->core), j->fold.digest(j->fold.ctx));
}

uint64_t journal_epoch(const struct journal *j)
{
    return j->core.epoch;
}

struct journal_owner journal_owner(const struct journal *j)
{
    CHECK(j->core.address_len <= sizeof j->core.address);
    struct journal_owner owner = {.token = j->core.token,
                                  .address = bytes_of(j->core.address, j->core.address_len)};
    memcpy(owner.coord, j->core.coord, sizeof owner.coord);
    return owner;
}

bool journal_is_owner(const struct journal *j)
{
    return !j->halt_err && j->my_epoch != 0 && j->my_epoch == j->core.epoch;
}

int64_t journal_owner_seen_at(const struct journal *j)
{
    return j->pace.owner_at;
}

bool journal_is_ready(const struct journal *j)
{
    CHECK(j->phase != PHASE_IDLE || j->held.kind == HELD_NOTHING);
    return j->phase == PHASE_IDLE && !j->main.open && !j->replaying;
}

// There are ops that are in no entry yet.
static bool journal_has_waiting(const struct journal *j)
{
    CHECK(!j->queue.head == !j->queue.tail);
    return j->queue.head != NULL;
}

bool journal_is_settled(const struct journal *j)
{
    CHECK(j->batch.active || !j->batch.ops.head);
    bool works = j->queue.head || j->syncs.head || j->batch.active || j->snap.open;
    return journal_is_ready(j) && !works;
}

bool journal_is_current(const struct journal *j)
{
    CHECK(j->phase != PHASE_IDLE || !j->replaying);
    bool recovering = j->replaying || j->phase < PHASE_READING;
    return !recovering && !j->halt_err;
}

uint64_t journal_last_snapshot(const struct journal *j)
{
    return j->last_snapshot;
}

bool journal_clock_alarm(const struct journal *j)
{
    return j->core.now > j->now.hi;
}

bool journal_halted(const struct journal *j, const char **why)
{
    CHECK(j->phase != PHASE_HALTED || j->halt_err);
    if (why) *why = j->halt_err ? j->halt_text : NULL;
    return j->halt_err != ERR_OK;
}

enum err journal_halt_err(const struct journal *j)
{
    return j->halt_err;
}

uint64_t journal_floor(const struct journal *j)
{
    CHECK((j->floor_index == 0) == (j->floor_slot == 0));
    return j->floor_slot;
}

uint64_t journal_floor_index(const struct journal *j)
{
    return j->floor_index;
}
