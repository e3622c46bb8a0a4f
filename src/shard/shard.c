// SPDX-License-Identifier: Apache-2.0
// Joins the parts of a shard: the machine as the journal's fold, calls as the journal's ops, and
// the order of the work after each step.
#include "shard/shard.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "shard/inside.h"

#include <string.h>

#define CACHE_BYTES       ((size_t)8 << 20)
#define EVENTS_READ_BYTES ((size_t)64 << 10)
#define CATCH_UP_MS       30000 // after that the caller syncs again
#define OWNER_LATE_MS     1000

static void fold_reset(void *ctx)
{
    struct shard *s = ctx;
    machine_reset(s->machine);
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
    counters_note(s, e, results != NULL, machine_expired(s->machine) - expired);
    size_t events_max = s->config.from_oldest ? EVENTS_FROM_OLDEST_MAX : EVENTS_HELD_MAX;
    if (s->events.len >= events_max && !s->full) {
        s->full = true;
        journal_hold(s->journal);
    }
    // A message that was just sent is likely to be claimed next. That is not so in a replay, which
    // would only fill the cache.
    if (journal_is_current(s->journal))
        CHECK(!cache_add(s->cache, &s->config.journal.id, e->slot, e->bytes));
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
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, SIZE_MAX);
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
    return machine_load(s->machine, saved);
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

struct shard *shard_new(const struct shard_config *config)
{
    CHECK(memchr(config->queue, 0, sizeof config->queue));
    struct shard *s = NEW(struct shard);
    s->config = *config;
    if (s->config.cache_bytes == 0) s->config.cache_bytes = CACHE_BYTES;
    struct queue_id id;
    memcpy(id.bytes, config->journal.id.queue, sizeof id.bytes);
    s->machine = machine_new(&id, config->journal.id.shard, &config->birth);
    s->cache = cache_new(s->config.cache_bytes);
    s->fetch.again = s->dead_letters_at = s->ledger_at = TIME_UNKNOWN;
    s->waits_end = s->listens_end = TIME_NEVER;
    s->listed_at = TIME_NEVER;
    s->held_at = TIME_UNKNOWN;
    events_init(&s->events);
    buf_init(&s->dead_letter_op, JOURNAL_OP_MAX);
    buf_init(&s->dead_letter_reason, FAIL_REASON_MAX);
    buf_init(&s->dead_letter_headers, MESSAGE_HEADERS_MAX);
    struct fold fold = {.ctx = s,
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
    struct journal_config journal = config->journal;
    journal.from_oldest = config->from_oldest;
    journal.rules_newest = config->rules_newest ? config->rules_newest : rules_newest();
    journal.rules_oldest = config->rules_oldest ? config->rules_oldest : RULES_OLDEST;
    CHECK(journal.rules_oldest <= journal.rules_newest);
    // The rows of a read are folded at once, and ten bytes can become an event of a hundred.
    if (config->from_oldest && journal.read_bytes_max > EVENTS_READ_BYTES)
        journal.read_bytes_max = EVENTS_READ_BYTES;
    s->journal = journal_new(&journal, &fold);
    return s;
}

void call_free(struct call *c)
{
    CHECK(!c->next); // it is in no list
    if (c->payload.data != c->near) bytes_free(c->payload);
    bytes_free(c->result);
    memory_free(c->grants);
    memory_free(c->deliveries);
    memory_free(c->reason_places);
    memory_free(c->reasons);
    signals_free(c->signals);
    buf_done(&c->text);
    memory_free(c);
}

static void answer_free(struct answer *a)
{
    if (!a) return;
    CHECK(a->call && a->out.ticket == a->call->ticket);
    call_free(a->call);
    memory_free(a);
}

void shard_free(struct shard *s)
{
    if (!s) return;
    for (int state = CALL_SYNCING; state < CALL_STATES; state++)
        while (s->calls[state].head)
            call_free(call_take(s, s->calls[state].head));
    while (s->answers) {
        struct answer *next = s->answers->next;
        answer_free(s->answers);
        s->answers = next;
    }
    for (int state = CALL_SYNCING; state < CALL_STATES; state++)
        CHECK(!s->calls[state].tail);
    answer_free(s->answer_out);
    fetch_done(s);
    listen_done(s);
    journal_free(s->journal);
    machine_free(s->machine);
    cache_free(s->cache);
    events_done(&s->events);
    buf_done(&s->dead_letter_op);
    buf_done(&s->dead_letter_reason);
    buf_done(&s->dead_letter_headers);
    memory_free(s);
}

struct call *call_new(struct shard *s, uint64_t ticket, int64_t deadline)
{
    (void)s;
    struct call *c = NEW(struct call);
    c->ticket = ticket;
    c->deadline = deadline;
    buf_init(&c->text, SIZE_MAX);
    return c;
}

void call_push(struct shard *s, struct call *c, enum call_state state)
{
    CHECK(state < CALL_STATES);
    struct call_list *l = &s->calls[state];
    CHECK(!c->next);
    CHECK(!l->head == !l->tail);
    c->state = state;
    c->next = NULL;
    if (l->tail) {
        l->tail->next = c;
    } else {
        l->head = c;
    }
    l->tail = c;
}

struct call *call_take(struct shard *s, struct call *c)
{
    CHECK(c->state < CALL_STATES);
    struct call_list *l = &s->calls[c->state];
    struct call *before = NULL;
    for (struct call *at = l->head; at != c; at = at->next) {
        CHECK(at);
        before = at;
    }
    *(before ? &before->next : &l->head) = c->next;
    if (l->tail == c) l->tail = before;
    CHECK(!l->head == !l->tail);
    c->next = NULL;
    return c;
}

void call_answer(struct shard *s, struct call *c, enum err err, struct bytes body)
{
    CHECK(!c->next); // it is in no list
    if (c->silent) {
        call_free(c);
        return;
    }
    CHECK(c->fetched <= c->grants_len && c->reasons_found <= c->reason_places_len);
    CHECK(!s->answers == !s->answers_tail);
    struct answer *a = NEW(struct answer);
    a->call = c;
    if (body.data != c->result.data) {
        bytes_free(c->result);
        c->result = bytes_copy(body);
    }
    CHECK(c->deliveries || c->fetched == 0);
    a->out = (struct shard_reply){.ticket = c->ticket,
                                  .err = err,
                                  .body = c->result,
                                  .deliveries = c->deliveries,
                                  .deliveries_len = err ? 0 : c->fetched,
                                  .reasons = c->reasons,
                                  .reasons_len = err ? 0 : c->reasons_found};
    if (c->signals && !err) signals_tell(c, &a->out);
    if (s->answers_tail) {
        s->answers_tail->next = a;
    } else {
        s->answers = a;
    }
    s->answers_tail = a;
}

void call_commit(struct shard *s, struct call *c)
{
    CHECK(c->kind >= OP_KIND_MACHINE && !c->awaits);
    CHECK(!c->recalls); // it only looks for an earlier result
    call_push(s, c, CALL_JOURNAL);
    if (c->receives) s->offered += c->max;
    struct op op = {.kind = c->kind, .payload = c->payload};
    cost_ledger_journal_submit(s, c, op);
}

void call_refuse(struct shard *s, struct call *c, enum reason reason)
{
    CHECK(reason != REASON_NONE);
    CLEANUP(buf_done) struct buf body;
    buf_init(&body, 64);
    result_begin(&body, reason);
    call_answer(s, c, reason_err(reason), buf_bytes(&body));
}

int64_t shard_now(const struct shard *s)
{
    CHECK(s->now.lo <= s->now.hi);
    return s->now.lo;
}

// Performs what one step leads to, until nothing more follows.
static void go_on(struct shard *s)
{
    replies_handle(s);
    receive_wake(s);
    follow_wake(s);
    listen_wake(s);
    fetch_go_on(s);
    replies_handle(s); // refusals that came at once
    CHECK(!s->answers == !s->answers_tail);
}

void shard_start(struct shard *s, struct interval now)
{
    CHECK(s->now.lo == 0 && !s->answers); // once
    shard_note_time(s, now);
    journal_start(s->journal, now);
    go_on(s);
}

static uint32_t messages_in(struct op op)
{
    return op.kind == OP_SEND ? ops_messages(&op, 1) : 0;
}

void shard_submit(struct shard *s, uint64_t ticket, struct op op, int64_t deadline,
                  struct interval now)
{
    CHECK(op.kind >= OP_KIND_MACHINE);
    shard_note_time(s, now);
    struct call *c = call_new(s, ticket, deadline);
    c->kind = op.kind;
    c->payload = bytes_copy(op.payload);
    uint32_t messages = messages_in(op);
    c->max = messages;
    CHECK(c->max == 0 || c->kind == OP_SEND);
    journal_hold(s->journal);
    if (call_certain_refusal(s, c) != REASON_NONE) {
        call_push(s, c, CALL_SYNCING); // the local state may be old
        journal_sync(s->journal, call_ticket(c), deadline, s->now);
    } else {
        call_commit(s, c);
        receive_join_send(s, messages);
    }
    journal_release(s->journal, s->now);
    go_on(s);
}

static struct call *receive_new(struct shard *s, uint64_t ticket, const struct op_claim *claim,
                                int64_t wait_until, int64_t deadline, struct interval now)
{
    shard_note_time(s, now);
    struct call *c = call_new(s, ticket, deadline);
    c->kind = OP_CLAIM;
    c->receives = true;
    c->wait_until = wait_until < deadline ? wait_until : deadline;
    CHECK(c->wait_until <= c->deadline);
    CHECK(!c->awaits && !c->recalls && !c->tail_seen); // the caller chooses
    receive_set_claim(c, claim);
    return c;
}

void shard_receive(struct shard *s, uint64_t ticket, const struct op_claim *claim,
                   int64_t wait_until, int64_t deadline, struct interval now)
{
    receive_try(s, receive_new(s, ticket, claim, wait_until, deadline, now));
    go_on(s);
}

void shard_receive_after(struct shard *s, uint64_t op_ticket, struct op op, uint64_t ticket,
                         const struct op_claim *claim, int64_t wait_until, int64_t op_deadline,
                         int64_t deadline, struct interval now)
{
    CHECK(op.kind != OP_SEND && op.kind != OP_CLAIM); // it ends locks
    struct call *c = receive_new(s, ticket, claim, wait_until, deadline, now);
    journal_hold(s->journal);
    if (MUTANT(JOINED_FIRST)) receive_join_op(s, c);
    shard_submit(s, op_ticket, op, op_deadline, now);
    if (!MUTANT(JOINED_FIRST)) receive_join_op(s, c);
    journal_release(s->journal, s->now);
    go_on(s);
}

void shard_await(struct shard *s, uint64_t ticket, struct bytes worker, int64_t wait_until,
                 int64_t deadline, struct interval now)
{
    struct op_claim claim = {.worker = worker, .max = 1};
    struct call *c = receive_new(s, ticket, &claim, wait_until, deadline, now);
    c->awaits = true;
    CHECK(c->max == 1);
    receive_try(s, c);
    go_on(s);
}

void shard_recall(struct shard *s, uint64_t ticket, const struct op_claim *claim, bool sync,
                  int64_t deadline, struct interval now)
{
    struct call *c = receive_new(s, ticket, claim, TIME_UNKNOWN, deadline, now);
    c->recalls = true;
    CHECK(c->wait_until == TIME_UNKNOWN); // it does not wait
    c->tail_seen = !sync || MUTANT(RECALL_BLIND);
    receive_try(s, c);
    go_on(s);
}

void shard_notify_next(struct shard *s, struct interval now)
{
    shard_note_time(s, now);
    go_on(s);
}

static void submit_sync(struct shard *s, uint64_t ticket, int64_t deadline, bool silent)
{
    struct call *c = call_new(s, ticket, deadline);
    CHECK(!c->receives && c->kind == 0);
    c->silent = silent;
    call_push(s, c, CALL_SYNCING);
    journal_sync(s->journal, call_ticket(c), deadline, s->now);
}

void shard_sync(struct shard *s, uint64_t ticket, int64_t deadline, struct interval now)
{
    shard_note_time(s, now);
    submit_sync(s, ticket, deadline, false);
    go_on(s);
}

void catch_up_start(struct shard *s)
{
    CHECK(!s->catching_up && s->now.hi < TIME_NEVER - CATCH_UP_MS);
    s->catching_up = true;
    s->catch_up_err = ERR_OK;
    s->catch_up_from = journal_slot(s->journal);
    submit_sync(s, 0, s->now.hi + CATCH_UP_MS, true);
}

void shard_catch_up(struct shard *s, struct interval now)
{
    shard_note_time(s, now);
    if (!s->catching_up) catch_up_start(s);
    go_on(s); // also if it only learned the time: a lock may have expired
}

void shard_own(struct shard *s, uint64_t ticket, uint64_t expected,
               const struct journal_owner *owner, int64_t deadline, struct interval now)
{
    shard_note_time(s, now);
    struct call *c = call_new(s, ticket, deadline);
    call_push(s, c, CALL_JOURNAL);
    journal_own(s->journal, call_ticket(c), expected, owner, deadline, s->now);
    go_on(s);
}

void shard_coord_switch(struct shard *s, uint64_t ticket, const uint8_t coord[16], int64_t deadline,
                        struct interval now)
{
    shard_note_time(s, now);
    struct call *c = call_new(s, ticket, deadline);
    call_push(s, c, CALL_JOURNAL);
    journal_coord_switch(s->journal, call_ticket(c), coord, deadline, s->now);
    go_on(s);
}

void shard_touch(struct shard *s, uint64_t ticket, int64_t deadline, struct interval now)
{
    shard_note_time(s, now);
    struct call *c = call_new(s, ticket, deadline);
    call_push(s, c, CALL_JOURNAL);
    journal_touch(s->journal, call_ticket(c), deadline, s->now);
    go_on(s);
}

void shard_respond(struct shard *s, const struct response *r, struct interval now)
{
    shard_note_time(s, now);
    shard_add_cost(s, &r->cost);
    if (open_request_is(&s->fetch.ask, r->id)) {
        fetch_respond(s, r);
    } else {
        cost_ledger_journal_respond(s, r);
    }
    go_on(s);
}

static void touch_silently(struct shard *s)
{
    if (s->touching || !journal_is_current(s->journal)) return;
    CHECK(!journal_halt_err(s->journal));
    struct call *c = call_new(s, 0, TIME_NEVER);
    c->silent = true;
    s->touching = true;
    call_push(s, c, CALL_JOURNAL);
    journal_touch(s->journal, call_ticket(c), TIME_NEVER, s->now);
}

// When the fold itself must reach a due time, because a projection is not enough. An owner commits
// an entry a moment late, so that many locks share it. A handle that listens does if no owner did.
static int64_t touch_at(const struct shard *s)
{
    int64_t due = machine_wake_at(s->machine);
    bool owns = journal_is_owner(s->journal), watches = owns || s->calls[CALL_LISTENING].head;
    bool serves = s->calls[CALL_WAITING].head && shard_may_grant(s);
    if (owns && machine_dispatches(s->machine)) serves = true;
    if (s->config.keeps_time || serves || due == TIME_NEVER) return due;
    if (!watches || !machine_has_locks(s->machine)) return TIME_NEVER;
    return due + (owns ? 1 : 2) * OWNER_LATE_MS;
}

void shard_pass_time(struct shard *s, struct interval now)
{
    shard_note_time(s, now);
    touch_silently(s);
    go_on(s);
}

void shard_tick(struct shard *s, struct interval now)
{
    shard_note_time(s, now);
    if (s->held_at != TIME_UNKNOWN) journal_join_no_more(s->journal);
    journal_tick(s->journal, s->now);
    go_on(s);
    if (touch_at(s) <= shard_now(s)) touch_silently(s);
    go_on(s);
}

bool shard_dispatch(struct shard *s, const uint8_t seed[16], struct interval now)
{
    shard_note_time(s, now);
    bool published = tickets_publish(s, seed);
    CHECK(!published || journal_is_owner(s->journal));
    if (published) go_on(s);
    return published;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t first_deadline(const struct shard *s, enum call_state state)
{
    CHECK(state < CALL_STATES);
    int64_t at = TIME_NEVER;
    for (const struct call *c = s->calls[state].head; c; c = c->next)
        at = earlier(at, c->deadline);
    return at;
}

int64_t shard_wake_at(const struct shard *s)
{
    int64_t at = earlier(journal_wake_at(s->journal), earlier(s->waits_end, s->listens_end));
    at = earlier(at, first_deadline(s, CALL_FETCHING));
    at = earlier(at, first_deadline(s, CALL_OUTBOX));
    if (!s->touching && journal_is_current(s->journal)) at = earlier(at, touch_at(s));
    at = earlier(at, fetch_wake_at(s));
    at = earlier(at, follow_wake_at(s));
    if (s->dead_letters_at > s->now.lo) at = earlier(at, s->dead_letters_at);
    return held_wake_at(s, at);
}

bool shard_next_request(struct shard *s, struct request *out)
{
    CHECK(!s->fetch.ask.open || s->fetch.wanted != 0);
    return journal_next_request(s->journal, out) || open_request_take(&s->fetch.ask, out);
}

bool shard_next_reply(struct shard *s, struct shard_reply *out)
{
    CHECK(!s->answers == !s->answers_tail);
    answer_free(s->answer_out);
    s->answer_out = s->answers;
    if (!s->answers) return false;
    s->answers = s->answers->next;
    if (!s->answers) s->answers_tail = NULL;
    CHECK(s->answer_out->call && s->answer_out->out.ticket == s->answer_out->call->ticket);
    *out = s->answer_out->out;
    return true;
}
