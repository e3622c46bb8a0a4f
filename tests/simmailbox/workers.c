// SPDX-License-Identifier: Apache-2.0
// Workers that reach only the store: each runs the worker's side of the mailbox and a program that
// receives, works, renews, and acks or fails. A worker can die, and starts again with another
// instance.
#include "base/check.h"
#include "base/memory.h"
#include "world.h"

#include <string.h>

static bool is_gone(const struct world *w, uint32_t i, uint64_t life)
{
    return !w->workers[i].alive || w->workers[i].life != life;
}

static uint32_t room(const struct world *w, const struct here_worker *h)
{
    uint32_t open = 0;
    for (uint32_t j = 0; j < JOBS_MAX; j++)
        open += h->jobs[j].open;
    return open < w->mix.capacity ? w->mix.capacity - open : 0;
}

static void write_object(struct world *w, uint32_t i, uint64_t life, uint64_t n);
static void look_for_mark(struct world *w, uint32_t i, uint64_t life, uint64_t n);
static void read_object(struct world *w, uint32_t i, uint64_t life, uint64_t n);

static void wake(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    struct here_worker *h = &w->workers[i];
    if (is_gone(w, i, life) || w->now != h->wake_at) return; // an earlier wish
    h->wake_at = TIME_NEVER;
    idle_begin(&h->idle);
    mailbox_tick(h->box, clock_of(w));
    worker_step(w, i);
    if (is_gone(w, i, life)) return;
    idle_end(&h->idle, &w->findings, i, w->now, mailbox_wake_at(h->box), w->now - 3);
}

// A direct commit. Its answer can be lost.
struct direct {
    uint64_t id;
    struct op op;
};

static void direct_commit(struct world *w, uint32_t i, uint64_t life, uint64_t n)
{
    struct direct *d = (struct direct *)(uintptr_t)n;
    struct here_worker *h = &w->workers[i];
    // The request was on its way: it takes effect even if the worker has died meanwhile.
    bool lost = chance(w, w->mix.lost_request), unheard = chance(w, w->mix.lost_reply);
    if (!lost) CHECK(commit(w, 0, &d->op, 1, TIME_NEVER));
    w->by_direct++;
    trace_line(&w->trace, w->now, "worker %u commits directly%s", i,
               lost      ? ": lost"
               : unheard ? ": not answered"
                         : "");
    struct request_id request;
    CHECK(op_request(&d->op, &request));
    uint64_t ticket;
    memcpy(&ticket, request.bytes + 1, sizeof ticket);
    if (request.bytes[0] == 2 && request.bytes[15] == 0 && ticket <= w->asked_len &&
        (lost || unheard))
        w->asked[ticket - 1].excused = true;
    if (!is_gone(w, i, life)) {
        if (lost || unheard)
            mailbox_done(h->box, d->id, lost ? ERR_UNAVAILABLE : ERR_UNKNOWN, BYTES_EMPTY,
                         clock_of(w));
        else
            mailbox_done(h->box, d->id, w->results[0].err, result_of(w, 0), clock_of(w));
        worker_step(w, i);
    }
    bytes_free(d->op.payload);
    memory_free(d);
}

// False: a process that died still has the name.
static bool join(struct world *w, uint32_t i)
{
    CLEANUP(buf_done) struct buf rows;
    CLEANUP(buf_done) struct buf payload;
    buf_init(&rows, SIZE_MAX);
    buf_init(&payload, SIZE_MAX);
    worker_change_put(&rows, &(struct worker_change){.act = WORKER_JOIN,
                                                     .name = bytes_str(w->workers[i].name),
                                                     .instance = w->workers[i].instance,
                                                     .capacity = w->mix.capacity,
                                                     .ttl_ms = 15000,
                                                     .flags = WORKER_MAILBOX});
    workers_encode(&payload, &(struct op_workers){.count = 1, .rows = buf_bytes(&rows)});
    struct op one = {.kind = OP_WORKERS, .payload = buf_bytes(&payload)};
    CHECK(commit(w, 0, &one, 1, machine_now(w->machine)));
    return w->results[0].err == ERR_OK;
}

static void job_ends(struct world *w, uint32_t i, uint64_t life, uint64_t n);

static void open_job(struct world *w, uint32_t i, const struct lock_ref *ref, int64_t deadline)
{
    struct here_worker *h = &w->workers[i];
    check_delivered(w, i, ref->seq);
    uint32_t j = 0;
    while (j < JOBS_MAX && h->jobs[j].open)
        j++;
    if (j == JOBS_MAX) return; // only a mutant gives more than was wanted
    h->jobs[j] = (struct job){.open = true,
                              .seq = ref->seq,
                              .ref = *ref,
                              .deadline = deadline,
                              .ends = w->now + rng_range(&w->rng, 1, w->mix.work_ms)};
    trace_line(&w->trace, w->now, "worker %u opens %llu until %lld", i,
               (unsigned long long)ref->seq, (long long)deadline);
    at(w, h->jobs[j].ends, job_ends, i, h->life, j);
    int64_t half = w->now + (deadline - w->now) / 2;
    if (half > w->now && half < h->jobs[j].ends) at(w, half, job_ends, i, h->life, j | 256);
}

static void request(struct world *w, uint32_t i, uint16_t kind, const struct lock_ref *ref)
{
    if (w->asked_len == w->asked_cap) {
        w->asked_cap = w->asked_cap < 64 ? 64 : w->asked_cap * 2;
        w->asked = memory_resize(w->asked, w->asked_cap * sizeof *w->asked);
    }
    w->asked[w->asked_len++] = (struct asked){
        .worker = i, .life = w->workers[i].life, .kind = kind, .ref = *ref, .since = w->now};
    uint64_t ticket = w->asked_len;
    trace_line(&w->trace, w->now, "worker %u asks %llu: op %u of message %llu", i,
               (unsigned long long)ticket, kind, (unsigned long long)ref->seq);
    CLEANUP(buf_done) struct buf refs;
    CLEANUP(buf_done) struct buf payload;
    buf_init(&refs, SIZE_MAX);
    buf_init(&payload, SIZE_MAX);
    lock_ref_put(&refs, ref);
    struct op_outcome op = {
        .queue = w->id, .arrived_at = w->now, .count = 1, .refs = buf_bytes(&refs)};
    op.request.bytes[0] = 2;
    memcpy(op.request.bytes + 1, &ticket, sizeof ticket);
    outcome_encode(&payload, &op);
    mailbox_request(w->workers[i].box, ticket,
                    (struct op){.kind = kind, .payload = buf_bytes(&payload)}, clock_of(w));
}

// The job is done, or half of its lease has passed (n has 256).
static void job_ends(struct world *w, uint32_t i, uint64_t life, uint64_t n)
{
    if (is_gone(w, i, life)) return;
    struct here_worker *h = &w->workers[i];
    struct job *j = &h->jobs[n & 255];
    if (!j->open) return;
    if (h->paused_until > w->now) {
        at(w, h->paused_until, job_ends, i, life, n);
        return;
    }
    if (w->now + 3 >= j->deadline) { // the worker stops the job
        if (!j->renews) j->open = false;
    } else if (n & 256) {
        if (!j->renews && j->ends > w->now) request(w, i, OP_RENEW, &j->ref);
        j->renews = j->ends > w->now;
    } else if (j->ends <= w->now) {
        j->open = false;
        request(w, i, chance(w, 1000) ? OP_FAIL : OP_ACK, &j->ref);
    }
    worker_step(w, i);
}

static void note_renewal(struct world *w, uint32_t i, const struct asked *a, struct bytes body)
{
    struct result result;
    struct outcome_row row = {0};
    struct here_worker *h = &w->workers[i];
    bool known = !result_open(body, OP_RENEW, &result) && outcome_row_next(&result, &row);
    for (uint32_t n = 0; n < JOBS_MAX; n++) {
        struct job *j = &h->jobs[n];
        if (!j->open || !j->renews || !hash128_equal(j->ref.token, a->ref.token)) continue;
        j->renews = false;
        if (known && row.reason == REASON_NONE) j->deadline = row.until;
        at(w, j->ends > w->now ? j->ends : w->now, job_ends, i, h->life, n);
    }
}

// In direct mode the worker claims like any direct writer.
static void claim(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)x;
    struct here_worker *h = &w->workers[i];
    if (is_gone(w, i, life)) return;
    h->claiming = false;
    uint32_t max = room(w, h);
    if (max == 0 || !mailbox_is_direct(h->box) || mailbox_takes(h->box)) return;
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, SIZE_MAX);
    struct op_claim op = {.worker = bytes_str(h->name), .max = max};
    uint64_t seed = rng_next(&w->rng);
    memcpy(op.seed, &seed, sizeof seed);
    claim_encode(&payload, &op);
    struct op one = {.kind = OP_CLAIM, .payload = buf_bytes(&payload)};
    CHECK(commit(w, 0, &one, 1, TIME_NEVER));
    struct result result;
    struct grant grant;
    CHECK(!result_open(result_of(w, 0), OP_CLAIM, &result));
    while (grant_next(&result, &grant)) {
        struct lock_ref ref = {grant.seq, grant.token};
        mailbox_claimed(h->box, &ref, clock_of(w));
        open_job(w, i, &ref, grant.deadline);
        w->claims++;
    }
    worker_step(w, i);
}

static void perform(struct world *w, uint32_t i, const struct mailbox_effect *e)
{
    struct here_worker *h = &w->workers[i];
    idle_act(&h->idle);
    switch (e->kind) {
    case MAILBOX_WRITE:
        at(w, w->now + latency(w), write_object, i, h->life, e->number);
        break;
    case MAILBOX_READ:
        at(w, w->now + latency(w), read_object, i, h->life, e->number);
        break;
    case MAILBOX_LOOK:
        at(w, w->now + latency(w), look_for_mark, i, h->life, 0);
        break;
    case MAILBOX_DIRECT: {
        struct direct *d = NEW(struct direct);
        *d = (struct direct){e->id, {e->op_kind, bytes_copy(e->body)}};
        at(w, w->now + latency(w), direct_commit, i, h->life, (uint64_t)(uintptr_t)d);
        break;
    }
    case MAILBOX_REPLY: {
        struct asked *a = &w->asked[e->ticket - 1];
        check_reply(w, e->ticket, e->err, e->body);
        if (a->kind == OP_RENEW) note_renewal(w, i, a, e->body);
        break;
    }
    case MAILBOX_MESSAGE:
        w->by_box++;
        open_job(w, i, &e->ref, e->deadline);
        break;
    case MAILBOX_JOIN:
        (void)join(w, i);
        break;
    }
}

void worker_step(struct world *w, uint32_t i)
{
    struct here_worker *h = &w->workers[i];
    struct mailbox_effect e;
    for (bool any = true; any && !w->findings.broken;) {
        bool direct = mailbox_is_direct(h->box);
        mailbox_want(h->box, direct ? 0 : room(w, h), 0, clock_of(w));
        if (direct && !h->claiming) {
            h->claiming = true;
            at(w, w->now + rng_range(&w->rng, 50, 500), claim, i, h->life, 0);
        }
        for (any = false; mailbox_effect(h->box, &e); any = true)
            perform(w, i, &e);
    }
    check_overdue(w);
    int64_t due = mailbox_wake_at(h->box);
    if (due < w->now) due = w->now;
    if (due == TIME_NEVER) return;
    due += 3; // the clock is that wide
    if (due < h->paused_until && !w->healed) due = h->paused_until;
    if (due != h->wake_at) at(w, due, wake, i, h->life, 0);
    h->wake_at = due;
}

static void write_object(struct world *w, uint32_t i, uint64_t life, uint64_t n)
{
    if (is_gone(w, i, life)) return;
    struct here_worker *h = &w->workers[i];
    char box[MAILBOX_BOX_MAX + 1], key[MAILBOX_KEY_MAX];
    mailbox_box(box, h->instance, bytes_str(h->name));
    mailbox_key(key, PREFIX, MAILBOX_OUT, box, n);
    enum err err = store_write(w, key, mailbox_writing(h->box));
    trace_line(&w->trace, w->now, "worker %u writes %s: %s", i, key, err_name(err));
    mailbox_written(h->box, n, err, clock_of(w));
    worker_step(w, i);
}

static void read_object(struct world *w, uint32_t i, uint64_t life, uint64_t n)
{
    if (is_gone(w, i, life)) return;
    struct here_worker *h = &w->workers[i];
    char box[MAILBOX_BOX_MAX + 1], key[MAILBOX_KEY_MAX];
    struct bytes body = BYTES_EMPTY;
    mailbox_box(box, h->instance, bytes_str(h->name));
    mailbox_key(key, PREFIX, MAILBOX_IN, box, n);
    enum err err = store_read(w, key, &body);
    if (!err) trace_line(&w->trace, w->now, "worker %u reads %s", i, key);
    if (!err) h->heard_at = w->now;
    mailbox_read(h->box, n, err, body, clock_of(w));
    worker_step(w, i);
}

static void look_for_mark(struct world *w, uint32_t i, uint64_t life, uint64_t n)
{
    (void)n;
    if (is_gone(w, i, life)) return;
    struct here_worker *h = &w->workers[i];
    struct interval modified = {w->marked_at, w->marked_at};
    enum err err = w->marked_at == TIME_UNKNOWN ? ERR_NOT_FOUND : ERR_OK;
    if (chance(w, w->mix.unavailable + w->mix.lost_reply)) err = ERR_UNAVAILABLE;
    trace_line(&w->trace, w->now, "worker %u looks for the mark: %s", i, err_name(err));
    mailbox_looked(h->box, err, modified, clock_of(w));
    worker_step(w, i);
}

static void worker_start(struct world *w, uint32_t i, uint64_t life, uint64_t x)
{
    (void)life, (void)x;
    struct here_worker *h = &w->workers[i];
    h->instance = 1001 + w->lives;
    if (!join(w, i)) {
        trace_line(&w->trace, w->now, "worker %u: the name is taken", i);
        at(w, w->now + rng_range(&w->rng, 500, 2000), worker_start, i, 0, 0);
        return;
    }
    h->alive = true;
    h->life = ++w->lives;
    h->wake_at = TIME_NEVER;
    h->heard_at = w->now;
    h->claiming = false;
    struct mailbox_worker_config config = {.queue = w->id,
                                           .worker = bytes_str(h->name),
                                           .instance = h->instance,
                                           .seed = rng_next(&w->rng),
                                           .beat_ms = 5000};
    h->box = mailbox_worker_new(&config, clock_of(w));
    worker_step(w, i);
}

static void die(struct world *w, uint32_t index, uint64_t life, uint64_t x)
{
    (void)index, (void)life, (void)x;
    if (w->healed) return;
    uint32_t i = (uint32_t)rng_below(&w->rng, w->mix.workers);
    struct here_worker *h = &w->workers[i];
    if (h->alive && chance(w, 5000)) {
        int64_t until = w->now + rng_range(&w->rng, 100, 8000);
        if (until > h->paused_until) h->paused_until = until;
    } else if (h->alive) {
        trace_line(&w->trace, w->now, "worker %u dies", i);
        h->alive = false;
        mailbox_worker_free(h->box);
        h->box = NULL;
        memset(h->jobs, 0, sizeof h->jobs);
        w->deaths++;
        at(w, w->now + rng_range(&w->rng, 1, 5000), worker_start, i, 0, 0);
    }
    at(w, w->now + rng_range(&w->rng, 1, 2 * w->mix.death_every), die, 0, 0, 0);
}

void workers_start(struct world *w)
{
    for (uint32_t i = 0; i < w->mix.workers; i++) {
        (void)snprintf(w->workers[i].name, sizeof w->workers[i].name, "w%u", i);
        at(w, w->now + latency(w), worker_start, i, 0, 0);
    }
    if (w->mix.death_every) at(w, w->now + w->mix.death_every, die, 0, 0, 0);
}

void workers_end(struct world *w)
{
    const struct heap_row *top;
    while ((top = heap_top(&w->queue))) { // commits that are on their way
        struct sim_event e = w->events[top->ref];
        heap_remove(&w->queue, top->ref);
        if (e.fn != direct_commit) continue;
        struct direct *d = (struct direct *)(uintptr_t)e.n;
        bytes_free(d->op.payload);
        memory_free(d);
    }
    for (uint32_t i = 0; i < WORKERS_HERE; i++)
        mailbox_worker_free(w->workers[i].box);
}
