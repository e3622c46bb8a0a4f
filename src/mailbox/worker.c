// SPDX-License-Identifier: Apache-2.0
// The requests of a worker: they gather, they are written, and they are answered or committed
// directly.
#include "mailbox/worker.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "mailbox/worker_inside.h"

#include <string.h>

#define EXPECT_FIRST_MS 400
#define EXPECT_MAX_MS   1800
#define PACE_MIN_MS     200
#define PACE_MAX_MS     2000
#define WRITE_AGAIN_MS  200
#define WRITE_LATE_MS   1000
#define FIRST_MS        4000
#define PROBE_FIRST_MS  2000
#define PROBE_MAX_MS    60000
#define SILENT_MS       5000  // an owner that leaves a request unanswered
#define GONE_MS         15000 // an owner for which only receives wait
#define PROBE_POLLS_MS  2000  // how long the worker polls for the answer to a probe
#define OBJECT_BODY_MAX ((size_t)4 << 20)

struct mailbox_worker *mailbox_worker_new(const struct mailbox_worker_config *config,
                                          struct interval now)
{
    CHECK(config->instance > 0 && config->beat_ms > 0);
    struct mailbox_worker *w = NEW(struct mailbox_worker);
    w->config = *config;
    w->name = bytes_copy(config->worker);
    w->config.worker = w->name;
    rng_init(&w->rng, config->seed);
    buf_init(&w->object, MAILBOX_OBJECT_MAX);
    w->now = now;
    // The first object shows whether an owner answers. Workers that start together write it at
    // different times.
    int64_t first_ms = (int64_t)rng_below(&w->rng, FIRST_MS);
    w->written_at = now.lo - config->beat_ms + (first_ms < config->beat_ms ? first_ms : 0);
    w->newest_at = now.lo;
    w->expect_ms = EXPECT_FIRST_MS;
    w->pace_ms = EXPECT_FIRST_MS;
    w->poll_at = now.lo;
    w->unseen_at = TIME_NEVER;
    w->looked_at = TIME_UNKNOWN;
    w->marked_at = TIME_UNKNOWN;
    w->probe_ms = PROBE_FIRST_MS;
    return w;
}

static void open_free(struct mailbox_request *r)
{
    bytes_free(r->payload);
    bytes_free(r->signals);
    memory_free(r);
}

static void effect_free(struct effect_row *e)
{
    if (!e) return;
    if (e->owned) bytes_free(e->effect.body);
    bytes_free(e->effect.signals);
    memory_free(e);
}

void mailbox_worker_free(struct mailbox_worker *w)
{
    if (!w) return;
    while (w->open) {
        struct mailbox_request *r = w->open;
        w->open = r->next;
        open_free(r);
    }
    while (w->held) {
        struct held_ticket *t = w->held;
        w->held = t->next;
        bytes_free(t->message);
        memory_free(t);
    }
    while (w->effects) {
        struct effect_row *e = w->effects;
        w->effects = e->next;
        effect_free(e);
    }
    effect_free(w->effect_out);
    buf_done(&w->object);
    bytes_free(w->name);
    memory_free(w);
}

void side_effect_put(struct mailbox_worker *w, const struct mailbox_effect *e, bool owned)
{
    struct effect_row *row = NEW(struct effect_row);
    row->effect = *e;
    row->owned = owned;
    *(w->effects_tail ? &w->effects_tail->next : &w->effects) = row;
    w->effects_tail = row;
}

bool mailbox_effect(struct mailbox_worker *w, struct mailbox_effect *out)
{
    CHECK(!w->effects == !w->effects_tail);
    effect_free(w->effect_out);
    w->effect_out = w->effects;
    if (!w->effects) return false;
    w->effects = w->effects->next;
    if (!w->effects) w->effects_tail = NULL;
    *out = w->effect_out->effect;
    return true;
}

void side_open_add(struct mailbox_worker *w, uint64_t ticket, struct op op, uint32_t takes)
{
    struct mailbox_request *r = NEW(struct mailbox_request);
    CHECK(op.kind >= OP_KIND_MACHINE);
    r->id = ++w->ids;
    r->ticket = ticket;
    r->op_kind = op.kind;
    r->payload = bytes_copy(op.payload);
    r->since = w->now.lo;
    r->takes = takes;
    CHECK(op_request(&op, &r->request) && request_id_set(&r->request));
    *(w->open_tail ? &w->open_tail->next : &w->open) = r;
    w->open_tail = r;
}

static struct mailbox_request *side_open_find(struct mailbox_worker *w,
                                              const struct request_id *request)
{
    struct mailbox_request *r = w->open;
    while (r && memcmp(r->request.bytes, request->bytes, sizeof request->bytes) != 0)
        r = r->next;
    return r;
}

static void open_remove(struct mailbox_worker *w, struct mailbox_request *r)
{
    struct mailbox_request *before = NULL;
    for (struct mailbox_request *at = w->open; at != r; at = at->next) {
        CHECK(at);
        before = at;
    }
    *(before ? &before->next : &w->open) = r->next;
    if (w->open_tail == r) w->open_tail = before;
    CHECK(!w->open == !w->open_tail);
}

// Passes the answer on, or hands out the messages whose tickets the request renewed. Frees it.
static void side_answer(struct mailbox_worker *w, struct mailbox_request *r, enum err err,
                        struct bytes result)
{
    open_remove(w, r);
    if (r->takes > 0) {
        side_taken(w, r, err, result);
    } else {
        struct mailbox_effect e = {.kind = MAILBOX_REPLY, .ticket = r->ticket, .err = err};
        e.body = bytes_copy(result);
        e.signals = r->signals;
        r->signals = BYTES_EMPTY;
        side_effect_put(w, &e, true);
    }
    open_free(r);
}

// The op that is committed directly has the request id of the one in the object.
static void go_direct(struct mailbox_worker *w, struct mailbox_request *r)
{
    CHECK(r->state != REQUEST_IS_DIRECT);
    r->state = REQUEST_IS_DIRECT;
    if (MUTANT(MAILBOX_DIRECT_OTHER_ID)) {
        uint64_t other = rng_next(&w->rng);
        memcpy((uint8_t *)r->payload.data + 1, &other, sizeof other);
    }
    struct mailbox_effect e = {
        .kind = MAILBOX_DIRECT, .id = r->id, .op_kind = r->op_kind, .body = bytes_copy(r->payload)};
    side_effect_put(w, &e, true);
}

static void become_direct(struct mailbox_worker *w)
{
    if (w->direct) return;
    w->direct = true;
    side_tickets_forget(w);
    w->probe = 0;
    w->probe_ms = PROBE_FIRST_MS;
    w->probe_at = w->now.lo + w->probe_ms;
}

// How long the newest sign of life of the owner lets a wait go on that ends at `end`: its mark, or
// an object that it wrote for this worker.
static int64_t extended(const struct mailbox_worker *w, int64_t end)
{
    int64_t sign = w->marked_at > w->newest_at ? w->marked_at : w->newest_at;
    CHECK(sign != TIME_UNKNOWN);
    if (MUTANT(MAILBOX_MARK_OLD) && w->marked_at != TIME_UNKNOWN) return TIME_NEVER;
    return sign + MAILBOX_FRESH_MS > end ? sign + MAILBOX_FRESH_MS : end;
}

static int64_t patience_end(const struct mailbox_worker *w, const struct mailbox_request *r)
{
    int64_t end = extended(w, r->since + MAILBOX_ANSWER_MS), most = r->since + MAILBOX_PATIENCE_MS;
    return end < most || MUTANT(MAILBOX_MARK_OLD) ? end : most;
}

// Returns whether a look must answer first, because none has ended since `end`. Asks for it.
static bool looks(struct mailbox_worker *w, int64_t end)
{
    if (w->looked_at != TIME_UNKNOWN && w->looked_at >= end) return false;
    if (!w->look_open) side_effect_put(w, &(struct mailbox_effect){.kind = MAILBOX_LOOK}, false);
    w->look_open = true;
    return true;
}

// A request that waits too long is committed directly. If the owner wrote nothing for longer, it
// may be gone: then later requests do not wait for it, and receives claim directly. An owner that
// is only slow would become slower if all its workers competed with it.
static void give_up_waiting(struct mailbox_worker *w)
{
    for (struct mailbox_request *r = w->open; r; r = r->next) {
        int64_t end = patience_end(w, r);
        if (r->state == REQUEST_IS_DIRECT || w->now.lo < end) continue;
        if (MUTANT(MAILBOX_UNANSWERED)) continue;
        if (w->now.lo < r->since + MAILBOX_PATIENCE_MS && looks(w, end)) continue;
        if (w->now.lo >= extended(w, w->newest_at + SILENT_MS)) become_direct(w);
        w->expect_ms = EXPECT_MAX_MS; // read less often: the owner is slow, or gone
        go_direct(w, r);
    }
    for (struct mailbox_request *r = w->open; r && w->direct; r = r->next)
        if (r->state == REQUEST_GATHERING) go_direct(w, r);
}

// When the owner counts as gone although no request waits for it. A receive that waits has none.
// Then an object that the owner does not handle shows it.
static int64_t silent_at(const struct mailbox_worker *w)
{
    if (w->direct || w->want == 0 || w->unseen_at == TIME_NEVER) return TIME_NEVER;
    return extended(w, (w->unseen_at > w->newest_at ? w->unseen_at : w->newest_at) + GONE_MS);
}

static bool gathers(const struct mailbox_worker *w, const struct mailbox_request **first)
{
    for (*first = w->open; *first; *first = (*first)->next)
        if ((*first)->state == REQUEST_GATHERING) return true;
    return false;
}

// When the next object is written. A renewal of tickets does not wait for other requests, because a
// receive waits for it.
static int64_t write_due(const struct mailbox_worker *w)
{
    const struct mailbox_request *first;
    if (w->writing) return w->write_open ? TIME_NEVER : w->write_at;
    if (w->direct) return w->probe_at;
    int64_t due = w->written_at + w->config.beat_ms;
    if (!gathers(w, &first)) return due;
    for (const struct mailbox_request *r = first; r; r = r->next)
        if (r->takes > 0) return w->now.lo;
    int64_t full = first->since + MAILBOX_LINGER_MS;
    return full < due ? full : due;
}

static uint32_t put_requests(struct mailbox_worker *w, struct buf *rows)
{
    uint32_t count = 0;
    for (struct mailbox_request *r = w->open; r && !w->direct; r = r->next) {
        if (r->state != REQUEST_GATHERING) continue;
        bool full = rows->len + r->payload.len > OBJECT_BODY_MAX || count == MAILBOX_ROWS_MAX;
        if (count > 0 && full) break;
        mailbox_row_put(rows, &(struct mailbox_row){
                                  .kind = MAILBOX_OP, .code = r->op_kind, .body = r->payload});
        r->state = REQUEST_WRITING;
        r->number = w->out_last;
        count++;
    }
    return count;
}

static void begin_object(struct mailbox_worker *w)
{
    LOCAL(buf, rows, MAILBOX_OBJECT_MAX);
    w->writing = ++w->out_last;
    w->written_at = w->now.lo;
    if (w->unseen_at == TIME_NEVER) w->unseen_at = w->now.lo;
    struct mailbox_object o = {.way = MAILBOX_OUT,
                               .queue = w->config.queue,
                               .shard = w->config.shard,
                               .instance = w->config.instance,
                               .number = w->writing,
                               .seen = w->in_last,
                               .worker = w->name};
    o.count = put_requests(w, &rows);
    o.rows = buf_bytes(&rows);
    buf_clear(&w->object);
    mailbox_encode(&w->object, &o);
    CHECK(!rows.bad && !w->object.bad);
    if (!w->direct) return;
    if (w->probe == 0) w->probe = w->writing;
    // Without an owner no object is a heartbeat, so the registration may have expired.
    side_effect_put(w, &(struct mailbox_effect){.kind = MAILBOX_JOIN}, false);
    w->probe_ms = w->probe_ms * 2 < PROBE_MAX_MS ? w->probe_ms * 2 : PROBE_MAX_MS;
    // Workers that lost their owner together do not all probe at once.
    w->probe_at = w->now.lo + w->probe_ms / 2 + (int64_t)rng_below(&w->rng, (uint64_t)w->probe_ms);
}

static void write_on(struct mailbox_worker *w)
{
    if (write_due(w) > w->now.lo) return;
    if (!w->writing) begin_object(w);
    w->write_open = true;
    struct mailbox_effect e = {
        .kind = MAILBOX_WRITE, .number = w->writing, .body = buf_bytes(&w->object)};
    side_effect_put(w, &e, false);
}

// The worker reads while something can come: an answer, a ticket for a receive, or the answer to a
// probe.
static bool expects(const struct mailbox_worker *w)
{
    if (w->want > 0 && !w->direct) return true;
    if (w->direct && w->probe > 0 && w->now.lo - w->written_at < PROBE_POLLS_MS) return true;
    for (const struct mailbox_request *r = w->open; r; r = r->next)
        if (r->state == REQUEST_WRITTEN) return true;
    return false;
}

static void read_on(struct mailbox_worker *w)
{
    if (w->read_open || !expects(w) || w->poll_at > w->now.lo) return;
    w->read_open = true;
    side_effect_put(w, &(struct mailbox_effect){.kind = MAILBOX_READ, .number = w->in_last + 1},
                    false);
}

static void note_time(struct mailbox_worker *w, struct interval now)
{
    CHECK(now.lo <= now.hi);
    if (now.lo > w->now.lo) w->now.lo = now.lo;
    w->now.hi = now.hi > w->now.lo ? now.hi : w->now.lo;
}

static void go_on(struct mailbox_worker *w)
{
    side_tickets_expire(w);
    side_take_tickets(w);
    if (silent_at(w) <= w->now.lo && !looks(w, silent_at(w))) become_direct(w);
    give_up_waiting(w);
    write_on(w);
    read_on(w);
}

void mailbox_request(struct mailbox_worker *w, uint64_t ticket, struct op op, struct interval now)
{
    CHECK(ticket > 0);
    note_time(w, now);
    side_open_add(w, ticket, op, 0);
    go_on(w);
}

void mailbox_want(struct mailbox_worker *w, uint32_t count, int64_t lease_ms, struct interval now)
{
    note_time(w, now);
    if (count > w->want) { // a new receive: look soon
        w->pace_ms = w->expect_ms;
        if (w->poll_at > w->now.lo + w->pace_ms) w->poll_at = w->now.lo + w->pace_ms;
    }
    w->want = count;
    w->lease_ms = lease_ms;
    go_on(w);
}

void mailbox_written(struct mailbox_worker *w, uint64_t number, enum err err, struct interval now)
{
    note_time(w, now);
    CHECK(w->writing == number && w->write_open);
    w->write_open = false;
    if (err && err != ERR_CONFLICT) { // no other process uses the name: a conflict is its own
        w->write_at = w->now.lo + WRITE_AGAIN_MS;
    } else {
        w->writing = 0;
        bool any = false;
        for (struct mailbox_request *r = w->open; r; r = r->next)
            if (r->state == REQUEST_WRITING) {
                r->state = REQUEST_WRITTEN;
                // The owner has its time from now on, unless the write took very long.
                int64_t late = r->since + WRITE_LATE_MS;
                r->since = w->now.lo < late ? w->now.lo : late;
                any = true;
            }
        w->pace_ms = w->expect_ms;
        w->misses = 0;
        int64_t first = w->now.lo + w->expect_ms;
        if (any || w->poll_at > first) w->poll_at = first;
    }
    go_on(w);
}

static void note_answered(struct mailbox_worker *w, uint64_t seen)
{
    if (seen >= w->out_last) w->unseen_at = TIME_NEVER;
    if (w->direct && w->probe > 0 && seen >= w->probe) {
        w->direct = false;
        w->probe = 0;
    }
}

// If the first read finds the answer, it may have been there for long: the worker reads sooner next
// time. Otherwise a worker that expects a slow owner would find that it is one.
static void note_latency(struct mailbox_worker *w, const struct mailbox_request *r)
{
    int64_t took = w->now.lo - r->since;
    if (took < 0 || took > EXPECT_MAX_MS) took = EXPECT_MAX_MS;
    w->expect_ms = w->misses == 0 ? w->expect_ms * 3 / 4 : (w->expect_ms * 7 + took) / 8;
    if (w->expect_ms < PACE_MIN_MS) w->expect_ms = PACE_MIN_MS;
}

// The answer comes next. NULL: the request has its answer already.
static void note_signals(struct mailbox_request *r, struct bytes rows)
{
    if (!r) return;
    bytes_free(r->signals);
    r->signals = bytes_copy(rows);
}

// Returns whether a row was of use.
static bool take_rows(struct mailbox_worker *w, const struct mailbox_object *o)
{
    bool useful = false;
    struct reader rows = reader_of(o->rows);
    struct mailbox_row row;
    for (uint32_t i = 0; i < o->count && mailbox_row_next(&rows, &row); i++) {
        struct mailbox_answer answer;
        struct mailbox_signals signals;
        struct mailbox_ticket ticket;
        if (mailbox_signals_read(&row, &signals)) {
            note_signals(side_open_find(w, &signals.request), signals.rows);
        } else if (mailbox_answer_read(&row, &answer)) {
            struct mailbox_request *r = side_open_find(w, &answer.request);
            if (!r) continue; // it was done directly, or this is a repeat
            note_latency(w, r);
            if (MUTANT(MAILBOX_ANSWERED_AGAIN) && r->state == REQUEST_IS_DIRECT && r->takes == 0) {
                struct mailbox_effect e = {.kind = MAILBOX_REPLY, .ticket = r->ticket};
                e.err = answer.err;
                e.body = bytes_copy(answer.result);
                side_effect_put(w, &e, true);
                continue;
            }
            side_answer(w, r, answer.err, answer.result);
            useful = true;
        } else if (mailbox_ticket_read(&row, &ticket)) {
            useful = side_ticket_add(w, &ticket) || useful;
        }
    }
    return useful;
}

static bool is_for(const struct mailbox_worker *w, const struct mailbox_object *o, uint64_t number)
{
    return o->way == MAILBOX_IN && o->instance == w->config.instance && o->number == number &&
           o->shard == w->config.shard && bytes_equal(o->worker, w->name) &&
           memcmp(o->queue.bytes, w->config.queue.bytes, sizeof o->queue.bytes) == 0;
}

void mailbox_read(struct mailbox_worker *w, uint64_t number, enum err err, struct bytes object,
                  struct interval now)
{
    note_time(w, now);
    CHECK(w->read_open && number == w->in_last + 1);
    w->read_open = false;
    struct mailbox_object o;
    if (err) {
        w->misses++;
        w->poll_at = w->now.lo + w->pace_ms;
        w->pace_ms = w->pace_ms * 3 / 2 < PACE_MAX_MS ? w->pace_ms * 3 / 2 : PACE_MAX_MS;
    } else {
        // A damaged object is passed over. Its requests are committed directly, and its tickets
        // return to their places.
        w->in_last = number;
        w->newest_at = w->now.lo;
        w->pace_ms = w->expect_ms / 2 < PACE_MIN_MS ? PACE_MIN_MS : w->expect_ms / 2;
        w->poll_at = w->now.lo; // unless this one has all that is expected
        if (mailbox_decode(object, &o) == ERR_OK && is_for(w, &o, number)) {
            note_answered(w, o.seen);
            bool useful = take_rows(w, &o);
            if (useful && o.seen >= w->out_last) w->poll_at += w->pace_ms;
            if (o.flags & MAILBOX_UNKNOWN_WORKER)
                side_effect_put(w, &(struct mailbox_effect){.kind = MAILBOX_JOIN}, false);
        }
    }
    go_on(w);
}

void mailbox_looked(struct mailbox_worker *w, enum err err, struct interval modified,
                    struct interval now)
{
    note_time(w, now);
    CHECK(w->look_open);
    w->look_open = false;
    w->looked_at = w->now.lo;
    // A mark that seems to be from the future is as good as one of now.
    int64_t at = modified.hi < w->now.lo ? modified.hi : w->now.lo;
    if (!err && modified.lo != TIME_UNKNOWN && (w->marked_at == TIME_UNKNOWN || at > w->marked_at))
        w->marked_at = at;
    go_on(w);
}

static struct mailbox_request *open_of(const struct mailbox_worker *w, uint64_t id)
{
    struct mailbox_request *r = w->open;
    CHECK(id > 0);
    while (r && r->id != id)
        r = r->next;
    return r;
}

void mailbox_done_signals(struct mailbox_worker *w, uint64_t id, struct bytes rows)
{
    note_signals(open_of(w, id), rows);
}

void mailbox_done(struct mailbox_worker *w, uint64_t id, enum err err, struct bytes result,
                  struct interval now)
{
    note_time(w, now);
    struct mailbox_request *r = open_of(w, id);
    // The owner may have answered meanwhile.
    if (r) side_answer(w, r, err, result);
    go_on(w);
}

void mailbox_tick(struct mailbox_worker *w, struct interval now)
{
    note_time(w, now);
    go_on(w);
}

int64_t mailbox_wake_at(const struct mailbox_worker *w)
{
    int64_t at = write_due(w);
    for (const struct mailbox_request *r = w->open; r; r = r->next) {
        if (r->state == REQUEST_IS_DIRECT || MUTANT(MAILBOX_UNANSWERED)) continue;
        int64_t end = w->look_open ? r->since + MAILBOX_PATIENCE_MS : patience_end(w, r);
        if (end < at) at = end;
    }
    bool reads = w->read_open && !MUTANT(MAILBOX_WAKES_PAST);
    if (!reads && expects(w) && w->poll_at < at) at = w->poll_at;
    if (!w->look_open && silent_at(w) < at) at = silent_at(w);
    return at;
}

struct bytes mailbox_writing(const struct mailbox_worker *w)
{
    CHECK(w->writing && w->write_open);
    return buf_bytes(&w->object);
}

bool mailbox_is_direct(const struct mailbox_worker *w)
{
    return w->direct;
}

size_t mailbox_open_requests(const struct mailbox_worker *w)
{
    size_t count = 0;
    for (const struct mailbox_request *r = w->open; r; r = r->next)
        count++;
    return count;
}
