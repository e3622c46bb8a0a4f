// SPDX-License-Identifier: Apache-2.0
// The small world's rules, and its checks: an answer "done" is in the history, and what is folded
// is the history.
#include "scene.h"

#include "base/check.h"
#include "base/memory.h"
#include "journal/snapshot.h"
#include "request_name.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define START  1000
#define PREFIX "q/explore/0"

#define SAY(s, ...)                                                                                \
    do {                                                                                           \
        if ((s)->trace) trace_line((s)->trace, ((s)->now - START) * 1000, __VA_ARGS__);            \
    } while (0)

static struct interval now(const struct scene *s)
{
    return (struct interval){s->now, s->now};
}

static char name_of(uint32_t writer)
{
    return (char)('A' + writer);
}

static void fold_reset(void *ctx)
{
    struct scene_writer *w = ctx;
    w->inner.reset(w->inner.ctx);
}

static void fold_apply(void *ctx, const struct fold_entry *e, struct op_result *results,
                       struct buf *text)
{
    struct scene_writer *w = ctx;
    const struct history_slot *h = history_at(&w->scene->history, e->slot);
    w->inner.apply(w->inner.ctx, e, results, text);
    if (!h || !bytes_equal(h->bytes, e->bytes))
        findings_add(&w->scene->findings, "I1",
                     "%c folds a slot %" PRIu64 " that is not the history's", name_of(w->index),
                     e->slot);
}

static bool fold_recall(void *ctx, const struct op *op, struct op_result *result, struct buf *text)
{
    struct scene_writer *w = ctx;
    return w->inner.recall(w->inner.ctx, op, result, text);
}

static void fold_save(void *ctx, struct buf *out)
{
    struct scene_writer *w = ctx;
    w->inner.save(w->inner.ctx, out);
}

static enum err fold_load(void *ctx, struct bytes saved)
{
    struct scene_writer *w = ctx;
    return w->inner.load(w->inner.ctx, saved);
}

static uint64_t fold_digest(void *ctx)
{
    struct scene_writer *w = ctx;
    return w->inner.digest(w->inner.ctx);
}

static bool fold_needs(void *ctx, uint64_t first, uint64_t last)
{
    struct scene_writer *w = ctx;
    return w->inner.needs(w->inner.ctx, first, last);
}

static bool fold_ended(void *ctx)
{
    struct scene_writer *w = ctx;
    return w->inner.ended(w->inner.ctx);
}

static struct fold listening_fold(struct scene_writer *w)
{
    return (struct fold){.ctx = w,
                         .reset = fold_reset,
                         .apply = fold_apply,
                         .recall = fold_recall,
                         .save = fold_save,
                         .load = fold_load,
                         .digest = fold_digest,
                         .needs = fold_needs,
                         .ended = fold_ended};
}

// Only these wait for their turn; see scene.h for why the others need not. A first read does not:
// waiting before it is the same as hearing later of what led to it. One that follows another, or a
// snapshot, does.
static bool waits(const struct scene_writer *w, bool collector, enum request_kind kind)
{
    if (kind == REQUEST_READ_LOG) return !collector && w->reading;
    return kind == REQUEST_APPEND || kind == REQUEST_DROP;
}

static void settle(struct scene *s, struct scene_writer *w);

static void respond(struct scene *s, uint32_t writer, bool collector, enum request_kind kind,
                    const struct response *r)
{
    struct scene_writer *w = &s->writers[writer];
    w->reading = !collector && (kind == REQUEST_READ_LOG || kind == REQUEST_GET);
    if (collector) {
        collector_respond(s->collector, r, now(s));
        if (collector_wants_time(s->collector))
            journal_touch(w->journal, UINT64_MAX, TIME_NEVER, now(s));
    } else {
        journal_respond(w->journal, r, now(s));
    }
    settle(s, w);
}

static void at_once(struct scene *s, uint32_t writer, bool collector, const struct request *q)
{
    struct bucket_answer a;
    bucket_answer_init(&a);
    bucket_perform(&s->bucket, q, s->now, &a);
    SAY(s, "%c%s: %s %s: %s", name_of(writer), collector ? "'s collector" : "",
        request_kind_name(q->kind), q->key + strlen(PREFIX) + 1, err_name(a.response.err));
    respond(s, writer, collector, q->kind, &a.response);
    bucket_answer_done(&a);
}

static void take_off(struct scene *s, uint32_t writer, bool collector, const struct request *q)
{
    if (!waits(&s->writers[writer], collector, q->kind)) {
        at_once(s, writer, collector, q);
        return;
    }
    size_t i = 0;
    while (s->flights[i].used)
        CHECK(++i < SCENE_FLIGHTS_MAX);
    struct scene_flight *f = &s->flights[i];
    *f = (struct scene_flight){
        .used = true, .writer = writer, .collector = collector, .request = *q};
    (void)snprintf(f->key, sizeof f->key, "%s", q->key);
    f->request.key = f->key;
    f->request.body = bytes_copy(q->body);
    bucket_answer_init(&f->answer);
}

static void land(struct scene_flight *f)
{
    bytes_free(f->request.body);
    bucket_answer_done(&f->answer);
    *f = (struct scene_flight){0};
}

static void heard(struct scene *s, struct scene_writer *w, const struct journal_reply *r)
{
    struct ticket *t = tickets_at(&s->tickets, r->ticket);
    if (!t) {
        w->syncing = false;
        return;
    }
    SAY(s, "%c: op %" PRIu64 " is answered %s at slot %" PRIu64, name_of(w->index), r->ticket,
        err_name(r->err), r->slot);
    t->answered = true;
    t->err = r->err;
    if (r->err == ERR_OK && t->slot == 0) {
        findings_add(&s->findings, "I2", "op %" PRIu64 " was answered done, the history lacks it",
                     r->ticket);
    } else if (r->err == ERR_OK && r->slot != 0 && r->slot != t->slot) {
        findings_add(&s->findings, "I2", "op %" PRIu64 " was answered done in another slot",
                     r->ticket);
    }
}

static void settle(struct scene *s, struct scene_writer *w)
{
    struct request q;
    struct journal_reply r;
    const char *why;
    while (journal_next_reply(w->journal, &r))
        heard(s, w, &r);
    while (journal_next_request(w->journal, &q))
        take_off(s, w->index, false, &q);
    while (w->index == 1 && s->collector && collector_next_request(s->collector, &q))
        take_off(s, w->index, true, &q);
    if (journal_halted(w->journal, &why))
        findings_add(&s->findings, "I1", "%c halted: %s", name_of(w->index), why);
}

static void slot_made(void *ctx, uint64_t slot, struct bytes body)
{
    struct scene *s = ctx;
    history_slot_made(&s->history, slot, body, s->now);
}

static void init_tickets(struct scene *s)
{
    tickets_init(&s->tickets);
    for (uint32_t i = 0; i < SCENE_WRITERS * SCENE_OPS_MAX; i++) {
        struct ask ask = {.what = {.verb = REGISTER_ADD, .name = "n", .a = 1 << i}};
        ask_name(&ask, i, i);
        ask.what.attempt = i + 1;
        bool last = i == SCENE_OPS_MAX + s->bounds.ops[1] - 1; // of writer B
        if (s->bounds.ends && last) ask.what.verb = REGISTER_END;
        asks_push(&s->tickets, &ask);
        tickets_push(&s->tickets, &(struct ticket){.kind = TICKET_OP, .ask = i});
    }
}

static void init_writer(struct scene *s, struct scene_writer *w)
{
    struct journal_config c;
    journal_config_defaults(&c);
    (void)snprintf(c.prefix, sizeof c.prefix, "%s", PREFIX);
    c.writer.lo = w->index + 1;
    c.seed = w->index + 1;
    c.retry_min_ms = c.retry_max_ms = 0;
    c.read_bytes_max = 1;
    c.rules = (struct journal_rules){.session_ttl_ms = 1000000,
                                     .sessions_max = 16,
                                     .verify_ms = SCENE_VERIFY,
                                     .retain_ms = SCENE_RETAIN,
                                     .floor_every_ms = 0,
                                     .snapshot_every = 1};
    w->machine = registers_new(1000000);
    w->inner = registers_fold(w->machine);
    struct fold fold = listening_fold(w);
    w->journal = journal_new(&c, &fold);
    journal_start(w->journal, now(s));
    settle(s, w);
}

static void act_perform(struct scene *s, struct scene_flight *f);

// The exploration starts when both have found the journal empty.
void scene_init(struct scene *s, const struct scene_bounds *bounds, struct trace *trace)
{
    *s = (struct scene){.bounds = *bounds, .now = START, .trace = trace};
    rng_init(&s->rng, 1);
    bucket_init(&s->bucket, &s->rng);
    s->bucket.watch = (struct bucket_watch){.ctx = s, .slot_made = slot_made};
    init_tickets(s);
    history_init(&s->history, &s->tickets, 1000000, &s->findings);
    buf_init(&s->payload, 4096);
    buf_init(&s->state, (size_t)1 << 20);
    for (uint32_t i = 0; i < SCENE_WRITERS; i++) {
        s->writers[i] = (struct scene_writer){.scene = s, .index = i};
        init_writer(s, &s->writers[i]);
        while (s->flights[0].used)
            act_perform(s, &s->flights[0]);
        CHECK(journal_is_ready(s->writers[i].journal));
    }
    s->collector = collector_new(s->writers[1].journal);
}

void scene_done(struct scene *s)
{
    collector_free(s->collector);
    for (uint32_t i = 0; i < SCENE_WRITERS; i++) {
        journal_free(s->writers[i].journal);
        registers_free(s->writers[i].machine);
    }
    for (size_t i = 0; i < SCENE_FLIGHTS_MAX; i++)
        if (s->flights[i].used) land(&s->flights[i]);
    bucket_done(&s->bucket);
    history_done(&s->history);
    tickets_done(&s->tickets);
    buf_done(&s->payload);
    buf_done(&s->state);
}

static size_t flight_actions(const struct scene *s, uint32_t i, struct action *out)
{
    const struct scene_flight *f = &s->flights[i];
    size_t len = 0;
    if (!f->performed) out[len++] = (struct action){ACTION_PERFORM, i};
    if (f->request.kind != REQUEST_APPEND || f->writer != 0 || f->abandoned) return len;
    if (f->performed) out[len++] = (struct action){ACTION_ANSWER, i};
    if (s->unknowns < s->bounds.unknowns) out[len++] = (struct action){ACTION_UNKNOWN, i};
    return len;
}

// Would a round of collection change anything? If not, it is not worth a state.
static bool collectable(const struct scene *s)
{
    const char *floor = NULL;
    uint32_t newer = 0;
    for (size_t i = 0; i < s->bucket.objects_len; i++) {
        const char *key = s->bucket.objects[i]->key;
        if (strstr(key, "/floor/")) floor = s->bucket.objects[i]->key;
    }
    uint64_t floor_slot = 0;
    struct floor f;
    if (floor && floor_decode(bucket_object(&s->bucket, floor)->body, &f) == ERR_OK)
        floor_slot = f.slot;
    for (size_t i = 0; i < s->bucket.objects_len; i++) {
        const char *snap = strstr(s->bucket.objects[i]->key, "/snap/");
        if (snap) newer += strtoull(snap + strlen("/snap/"), NULL, 10) > floor_slot;
    }
    for (uint64_t n = 1; n <= floor_slot; n++) {
        const struct bucket_slot *slot = bucket_slot(&s->bucket, n);
        if (slot && s->now - slot->made_at >= SCENE_RETAIN) return true;
    }
    bool unfinished = registers_ended(s->writers[1].machine) && newer > 0;
    return newer >= 2 || unfinished;
}

static size_t writer_actions(const struct scene *s, uint32_t i, struct action *out)
{
    const struct scene_writer *w = &s->writers[i];
    size_t len = 0;
    if (!journal_is_ready(w->journal)) return 0;
    if (w->asked < s->bounds.ops[i]) out[len++] = (struct action){ACTION_ASK, i};
    bool may_look = i == 0 && s->looks < s->bounds.looks && !w->syncing;
    if (may_look) out[len++] = (struct action){ACTION_SYNC, i};
    return len;
}

size_t scene_actions(struct scene *s, struct action out[SCENE_ACTIONS_MAX])
{
    size_t len = 0;
    for (uint32_t i = 0; i < SCENE_FLIGHTS_MAX; i++)
        if (s->flights[i].used) len += flight_actions(s, i, out + len);
    for (uint32_t i = 0; i < SCENE_WRITERS; i++)
        len += writer_actions(s, i, out + len);
    bool rests = !collector_running(s->collector) && journal_is_ready(s->writers[1].journal);
    if (rests && collectable(s)) out[len++] = (struct action){ACTION_COLLECT, 0};
    bool more = s->bounds.ticks == 0 || s->now - START < s->bounds.ticks;
    if (more) out[len++] = (struct action){ACTION_TICK, 0};
    CHECK(len <= SCENE_ACTIONS_MAX);
    return len;
}

static void act_perform(struct scene *s, struct scene_flight *f)
{
    f->performed = true;
    bucket_perform(&s->bucket, &f->request, s->now, &f->answer);
    SAY(s, "store: %c%s %s %" PRIu64 "%s: %s", name_of(f->writer),
        f->collector ? "'s collector" : "", request_kind_name(f->request.kind), f->request.first,
        f->abandoned ? " (late)" : "", err_name(f->answer.response.err));
    if (f->abandoned) {
        land(f);
    } else if (f->request.kind != REQUEST_APPEND || f->writer != 0) {
        // The place is free before the answer, which may ask the next thing.
        struct scene_flight done = *f;
        *f = (struct scene_flight){0};
        done.request.key = done.key;
        respond(s, done.writer, done.collector, done.request.kind, &done.answer.response);
        land(&done);
    }
}

static void act_answer(struct scene *s, struct scene_flight *f)
{
    struct scene_flight done = *f;
    *f = (struct scene_flight){0};
    SAY(s, "%c: append %" PRIu64 ": %s", name_of(done.writer), done.request.first,
        err_name(done.answer.response.err));
    respond(s, done.writer, false, REQUEST_APPEND, &done.answer.response);
    land(&done);
}

static void act_unknown(struct scene *s, struct scene_flight *f)
{
    struct response r = {.id = f->request.id, .err = ERR_UNKNOWN, .time = now(s)};
    uint32_t writer = f->writer;
    s->unknowns++;
    SAY(s, "%c: append %" PRIu64 ": UNKNOWN", name_of(writer), f->request.first);
    if (f->performed) {
        land(f);
    } else {
        f->abandoned = true;
    }
    respond(s, writer, false, REQUEST_APPEND, &r);
}

static void act_ask(struct scene *s, struct scene_writer *w)
{
    uint32_t place = w->index * SCENE_OPS_MAX + w->asked++;
    struct op op = register_op(&s->tickets.asks[place].what, &s->payload);
    SAY(s, "%c: op %u is asked", name_of(w->index), place + 1);
    journal_submit(w->journal, place + 1, op, TIME_NEVER, now(s));
    settle(s, w);
}

static void act_sync(struct scene *s, struct scene_writer *w)
{
    w->syncing = true;
    s->looks++;
    SAY(s, "%c: looks for news", name_of(w->index));
    journal_sync(w->journal, UINT64_MAX, TIME_NEVER, now(s));
    settle(s, w);
}

static void act_tick(struct scene *s)
{
    s->now++;
    SAY(s, "the clock ticks");
    for (uint32_t i = 0; i < SCENE_WRITERS; i++) {
        journal_tick(s->writers[i].journal, now(s));
        settle(s, &s->writers[i]);
    }
}

void scene_act(struct scene *s, struct action action)
{
    switch (action.kind) {
    case ACTION_TICK:
        act_tick(s);
        break;
    case ACTION_ASK:
        act_ask(s, &s->writers[action.a]);
        break;
    case ACTION_SYNC:
        act_sync(s, &s->writers[action.a]);
        break;
    case ACTION_COLLECT:
        SAY(s, "B's collector starts a round");
        if (registers_ended(s->writers[1].machine)) {
            collector_finish(s->collector, now(s));
        } else {
            collector_start(s->collector, now(s));
        }
        settle(s, &s->writers[1]);
        break;
    case ACTION_PERFORM:
        act_perform(s, &s->flights[action.a]);
        break;
    case ACTION_ANSWER:
        act_answer(s, &s->flights[action.a]);
        break;
    case ACTION_UNKNOWN:
        act_unknown(s, &s->flights[action.a]);
        break;
    }
}
