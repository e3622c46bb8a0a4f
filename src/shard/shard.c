// SPDX-License-Identifier: Apache-2.0
// Joins the parts of a shard: calls as the journal's ops, and the order of the work after each
// step.
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
    struct journal_config journal = config->journal;
    journal.from_oldest = config->from_oldest;
    journal.rules_newest = config->rules_newest ? config->rules_newest : rules_newest();
    journal.rules_oldest = config->rules_oldest ? config->rules_oldest : RULES_OLDEST;
    CHECK(journal.rules_oldest <= journal.rules_newest);
    // The rows of a read are folded at once, and ten bytes can become an event of a hundred.
    if (config->from_oldest && journal.read_bytes_max > EVENTS_READ_BYTES)
        journal.read_bytes_max = EVENTS_READ_BYTES;
    struct fold fold = shard_fold(s);
    s->journal = journal_new(&journal, &fold);
    s->view = journal_view(s->journal);
    return s;
}

void call_free(struct shard_call *c)
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

static void answer_free(struct shard_answer_row *a)
{
    if (!a) return;
    CHECK(a->call && a->out.ticket == a->call->ticket);
    call_free(a->call);
    memory_free(a);
}

void shard_free(struct shard *s)
{
    if (!s) return;
    for (int state = SHARD_CALL_SYNCING; state < SHARD_CALL_STATES; state++)
        while (s->calls[state].head)
            call_free(call_take(s, s->calls[state].head));
    while (s->answers) {
        struct shard_answer_row *next = s->answers->next;
        answer_free(s->answers);
        s->answers = next;
    }
    for (int state = SHARD_CALL_SYNCING; state < SHARD_CALL_STATES; state++)
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

struct shard_call *call_new(struct shard *s, uint64_t ticket, int64_t deadline)
{
    (void)s;
    struct shard_call *c = NEW(struct shard_call);
    c->ticket = ticket;
    c->deadline = deadline;
    buf_init(&c->text, SIZE_MAX);
    return c;
}

void call_push(struct shard *s, struct shard_call *c, enum shard_call_state state)
{
    CHECK(state < SHARD_CALL_STATES);
    struct shard_call_list *l = &s->calls[state];
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

struct shard_call *call_take(struct shard *s, struct shard_call *c)
{
    CHECK(c->state < SHARD_CALL_STATES);
    struct shard_call_list *l = &s->calls[c->state];
    struct shard_call *before = NULL;
    for (struct shard_call *at = l->head; at != c; at = at->next) {
        CHECK(at);
        before = at;
    }
    *(before ? &before->next : &l->head) = c->next;
    if (l->tail == c) l->tail = before;
    CHECK(!l->head == !l->tail);
    c->next = NULL;
    return c;
}

void call_answer(struct shard *s, struct shard_call *c, enum err err, struct bytes body)
{
    CHECK(!c->next); // it is in no list
    if (c->silent) {
        call_free(c);
        return;
    }
    CHECK(c->fetched <= c->grants_len && c->reasons_found <= c->reason_places_len);
    CHECK(!s->answers == !s->answers_tail);
    struct shard_answer_row *a = NEW(struct shard_answer_row);
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

void call_commit(struct shard *s, struct shard_call *c)
{
    CHECK(c->kind >= OP_KIND_MACHINE && !c->awaits);
    CHECK(!c->recalls); // it only looks for an earlier result
    call_push(s, c, SHARD_CALL_JOURNAL);
    if (c->receives) s->offered += c->max;
    struct op op = {.kind = c->kind, .payload = c->payload};
    cost_ledger_journal_submit(s, c, op);
}

void call_refuse(struct shard *s, struct shard_call *c, enum reason reason)
{
    CHECK(reason != REASON_NONE);
    LOCAL(buf, body, 64);
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
    struct shard_call *c = call_new(s, ticket, deadline);
    c->kind = op.kind;
    c->payload = bytes_copy(op.payload);
    uint32_t messages = messages_in(op);
    c->max = messages;
    CHECK(c->max == 0 || c->kind == OP_SEND);
    steps_hold(s);
    if (call_certain_refusal(s, c) != REASON_NONE) {
        call_push(s, c, SHARD_CALL_SYNCING); // the local state may be old
        journal_sync(s->journal, call_ticket(c), deadline, s->now);
    } else {
        call_commit(s, c);
        receive_join_send(s, messages);
    }
    steps_release(s);
    go_on(s);
}

static struct shard_call *new_receive(struct shard *s, uint64_t ticket, const struct op_claim *o,
                                      int64_t wait_until, int64_t deadline, struct interval now)
{
    shard_note_time(s, now);
    struct shard_call *c = call_new(s, ticket, deadline);
    c->kind = OP_CLAIM;
    c->receives = true;
    c->wait_until = wait_until < deadline ? wait_until : deadline;
    CHECK(c->wait_until <= c->deadline);
    CHECK(!c->awaits && !c->recalls && !c->tail_seen); // the caller chooses
    receive_set_claim(c, o);
    return c;
}

void shard_receive(struct shard *s, uint64_t ticket, const struct op_claim *claim,
                   int64_t wait_until, int64_t deadline, struct interval now)
{
    receive_try(s, new_receive(s, ticket, claim, wait_until, deadline, now));
    go_on(s);
}

void shard_receive_after(struct shard *s, uint64_t op_ticket, struct op op, uint64_t ticket,
                         const struct op_claim *claim, int64_t wait_until, int64_t op_deadline,
                         int64_t deadline, struct interval now)
{
    CHECK(op.kind != OP_SEND && op.kind != OP_CLAIM); // it ends locks
    struct shard_call *c = new_receive(s, ticket, claim, wait_until, deadline, now);
    steps_hold(s);
    if (MUTANT(JOINED_FIRST)) receive_join_op(s, c);
    shard_submit(s, op_ticket, op, op_deadline, now);
    if (!MUTANT(JOINED_FIRST)) receive_join_op(s, c);
    steps_release(s);
    go_on(s);
}

void shard_await(struct shard *s, uint64_t ticket, struct bytes worker, int64_t wait_until,
                 int64_t deadline, struct interval now)
{
    struct op_claim claim = {.worker = worker, .max = 1};
    struct shard_call *c = new_receive(s, ticket, &claim, wait_until, deadline, now);
    c->awaits = true;
    CHECK(c->max == 1);
    receive_try(s, c);
    go_on(s);
}

void shard_recall(struct shard *s, uint64_t ticket, const struct op_claim *claim, bool sync,
                  int64_t deadline, struct interval now)
{
    struct shard_call *c = new_receive(s, ticket, claim, TIME_UNKNOWN, deadline, now);
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
    struct shard_call *c = call_new(s, ticket, deadline);
    CHECK(!c->receives && c->kind == 0);
    c->silent = silent;
    call_push(s, c, SHARD_CALL_SYNCING);
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
    s->catch_up_from = s->view->slot;
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
    struct shard_call *c = call_new(s, ticket, deadline);
    call_push(s, c, SHARD_CALL_JOURNAL);
    journal_own(s->journal, call_ticket(c), expected, owner, deadline, s->now);
    go_on(s);
}

void shard_coord_switch(struct shard *s, uint64_t ticket, const uint8_t coord[16], int64_t deadline,
                        struct interval now)
{
    shard_note_time(s, now);
    struct shard_call *c = call_new(s, ticket, deadline);
    call_push(s, c, SHARD_CALL_JOURNAL);
    journal_coord_switch(s->journal, call_ticket(c), coord, deadline, s->now);
    go_on(s);
}

void shard_touch(struct shard *s, uint64_t ticket, int64_t deadline, struct interval now)
{
    shard_note_time(s, now);
    struct shard_call *c = call_new(s, ticket, deadline);
    call_push(s, c, SHARD_CALL_JOURNAL);
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
    if (s->touching || !s->view->is_current) return;
    CHECK(!s->view->halt_err);
    struct shard_call *c = call_new(s, 0, TIME_NEVER);
    c->silent = true;
    s->touching = true;
    call_push(s, c, SHARD_CALL_JOURNAL);
    journal_touch(s->journal, call_ticket(c), TIME_NEVER, s->now);
}

// When the fold itself must reach a due time, because a projection is not enough. An owner commits
// an entry a moment late, so that many locks share it. A handle that listens does if no owner did.
static int64_t touch_at(const struct shard *s)
{
    int64_t due = machine_wake_at(s->machine);
    bool owns = s->view->is_owner, watches = owns || s->calls[SHARD_CALL_LISTENING].head;
    bool serves = s->calls[SHARD_CALL_WAITING].head && shard_may_grant(s);
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
    bool granted = tickets_dispatch(s, seed);
    CHECK(!granted || s->view->is_owner);
    if (granted) go_on(s);
    return granted;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t first_deadline(const struct shard *s, enum shard_call_state state)
{
    CHECK(state < SHARD_CALL_STATES);
    int64_t at = TIME_NEVER;
    for (const struct shard_call *c = s->calls[state].head; c; c = c->next)
        at = earlier(at, c->deadline);
    return at;
}

int64_t shard_wake_at(const struct shard *s)
{
    int64_t at = earlier(journal_wake_at(s->journal), earlier(s->waits_end, s->listens_end));
    at = earlier(at, first_deadline(s, SHARD_CALL_FETCHING));
    at = earlier(at, first_deadline(s, SHARD_CALL_OUTBOX));
    if (!s->touching && s->view->is_current) at = earlier(at, touch_at(s));
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
