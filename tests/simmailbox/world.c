// SPDX-License-Identifier: Apache-2.0
// The world's time, its store, and its journal: entries go through one machine in the order in
// which they are committed.
#include "world.h"

#include "base/check.h"
#include "base/memory.h"

#include <string.h>

static void draw(struct world *w)
{
    struct rng *r = &w->rng;
    struct mix *m = &w->mix;
    bool faults = rng_chance(r, 8000);
    *m = (struct mix){.workers = (uint32_t)rng_range(r, 1, WORKERS_HERE),
                      .capacity = (uint32_t)rng_range(r, 1, JOBS_MAX),
                      .messages = (uint32_t)rng_range(r, 5, MESSAGES_MAX),
                      .run_ms = rng_range(r, 5000, 30000),
                      .latency_ms = rng_range(r, 1, 80),
                      .work_ms = rng_range(r, 10, 5000),
                      .visibility_ms = rng_range(r, 2000, 10000)};
    m->heal_ms = 120000 + m->messages * (m->work_ms + 3000) * 2;
    if (rng_chance(r, 5000)) m->lag_ms = rng_range(r, 50, 4000);
    if (faults) {
        m->lost_request = (uint32_t)rng_below(r, 800);
        m->lost_reply = (uint32_t)rng_below(r, 800);
        m->late = (uint32_t)rng_below(r, 800);
        m->unavailable = (uint32_t)rng_below(r, 800);
    }
    if (rng_chance(r, 5000)) m->owner_every = rng_range(r, 1500, 10000);
    if (rng_chance(r, 4000)) m->stall_every = rng_range(r, 1500, 10000);
    if (rng_chance(r, 4000)) m->death_every = rng_range(r, 1500, 10000);
    if (rng_chance(r, 4000)) m->outage_every = rng_range(r, 3000, 15000);
    if (rng_chance(r, 5000)) m->sender_every = rng_range(r, 200, 3000);
    if (rng_chance(r, 3000)) m->slow_ms = rng_range(r, 200, 2500);
}

void world_init(struct world *w, uint64_t seed, FILE *print, struct buf *all)
{
    rng_init(&w->rng, seed);
    trace_init(&w->trace, print, all);
    heap_init(&w->queue);
    w->now = WORLD_START;
    w->marked_at = TIME_UNKNOWN;
    memcpy(w->id.bytes, "0123456789abcdef", 16);
    draw(w);
    struct queue_config config;
    config_defaults(&config);
    config.visibility_timeout_ms = w->mix.visibility_ms;
    config.retries_max = 1000;
    config.backoff.initial_ms = 100;
    config.backoff.max_ms = 1000;
    w->machine = machine_new(&w->id, 0, &config);
    buf_init(&w->text, SIZE_MAX);
    events_init(&w->out);
}

void world_done(struct world *w)
{
    workers_end(w);
    nodes_done(w);
    machine_free(w->machine);
    for (size_t i = 0; i < w->objects_len; i++)
        bytes_free(w->objects[i].body);
    memory_free(w->objects);
    memory_free(w->asked);
    memory_free(w->events);
    memory_free(w->events_free);
    heap_done(&w->queue);
    buf_done(&w->text);
    events_done(&w->out);
}

int64_t latency(struct world *w)
{
    return rng_range(&w->rng, 1, w->mix.latency_ms);
}

bool chance(struct world *w, uint32_t hundredths)
{
    return !w->healed && rng_chance(&w->rng, hundredths);
}

struct interval clock_of(struct world *w)
{
    int64_t off = rng_range(&w->rng, 0, 3);
    return (struct interval){w->now - off, w->now + 3 - off};
}

void at(struct world *w, int64_t when, event_fn *fn, uint32_t index, uint64_t life, uint64_t n)
{
    CHECK(when >= w->now);
    uint32_t e;
    if (w->free_len > 0) {
        e = w->events_free[--w->free_len];
    } else {
        if (w->events_len == w->events_cap) {
            w->events_cap = w->events_cap < 64 ? 64 : w->events_cap * 2;
            w->events = memory_resize(w->events, w->events_cap * sizeof *w->events);
            w->events_free = memory_resize(w->events_free, w->events_cap * sizeof *w->events_free);
        }
        e = w->events_len++;
    }
    w->events[e] = (struct sim_event){fn, index, life, n};
    heap_push(&w->queue, when, ++w->order, e);
}

static struct object *object_find(struct world *w, const char *key)
{
    for (size_t i = 0; i < w->objects_len; i++)
        if (!w->objects[i].deleted && strcmp(w->objects[i].key, key) == 0) return &w->objects[i];
    return NULL;
}

static void object_add(struct world *w, const char *key, struct bytes body)
{
    if (w->objects_len == w->objects_cap) {
        w->objects_cap = w->objects_cap < 64 ? 64 : w->objects_cap * 2;
        w->objects = memory_resize(w->objects, w->objects_cap * sizeof *w->objects);
    }
    struct object *o = &w->objects[w->objects_len++];
    *o = (struct object){.body = bytes_copy(body), .created = w->now, .listed_from = w->now};
    (void)snprintf(o->key, sizeof o->key, "%s", key);
    if (w->mix.lag_ms > 0 && !w->healed) o->listed_from += rng_range(&w->rng, 0, w->mix.lag_ms);
}

// A write that takes effect after its caller has given up, or for the second time. Its key and body
// wait in an object that is marked as deleted and never listed.
static void late_write(struct world *w, uint32_t index, uint64_t life, uint64_t n)
{
    (void)index, (void)life;
    char key[MAILBOX_KEY_MAX];
    (void)snprintf(key, sizeof key, "%s", w->objects[n].key);
    if (object_find(w, key)) return;
    CLEANUP(buf_done) struct buf body;
    buf_init(&body, SIZE_MAX);
    buf_put(&body, w->objects[n].body);
    object_add(w, key, buf_bytes(&body));
}

static void write_later(struct world *w, const char *key, struct bytes body)
{
    object_add(w, key, body);
    struct object *o = &w->objects[w->objects_len - 1];
    o->deleted = true;
    o->unlisted_from = 0;
    at(w, w->now + rng_range(&w->rng, 1, 6000), late_write, 0, 0, w->objects_len - 1);
}

enum err store_write(struct world *w, const char *key, struct bytes body)
{
    if (chance(w, w->mix.unavailable)) return ERR_UNAVAILABLE;
    if (chance(w, w->mix.lost_request)) return ERR_UNKNOWN;
    if (chance(w, w->mix.late)) {
        write_later(w, key, body);
        return ERR_UNKNOWN;
    }
    bool exists = object_find(w, key);
    if (!exists) object_add(w, key, body);
    if (!exists && chance(w, w->mix.late)) write_later(w, key, body); // repeated
    if (chance(w, w->mix.lost_reply)) return ERR_UNKNOWN;
    return exists ? ERR_CONFLICT : ERR_OK;
}

enum err store_read(struct world *w, const char *key, struct bytes *body)
{
    if (chance(w, w->mix.unavailable + w->mix.lost_reply)) return ERR_UNAVAILABLE;
    struct object *o = object_find(w, key);
    if (!o) return ERR_NOT_FOUND;
    *body = o->body;
    return ERR_OK;
}

enum err store_remove(struct world *w, const char *key)
{
    if (chance(w, w->mix.lost_request)) return ERR_UNKNOWN;
    struct object *o = object_find(w, key);
    if (!o) return ERR_OK;
    o->deleted = true;
    o->unlisted_from = w->now;
    if (w->mix.lag_ms > 0 && !w->healed) o->unlisted_from += rng_range(&w->rng, 0, w->mix.lag_ms);
    return ERR_OK;
}

static void note_acks(struct world *w, const struct op *ops, size_t ops_len, bool before)
{
    for (size_t i = 0; i < ops_len; i++) {
        struct op_outcome op;
        if (ops[i].kind != OP_ACK || outcome_decode(ops[i].payload, &op)) continue;
        for (uint32_t n = 0; n < op.count; n++) {
            struct lock_ref ref = outcome_ref(&op, n);
            struct message_view view;
            CHECK(ref.seq <= MESSAGES_MAX);
            bool locked = machine_lock(w->machine, &ref) == REASON_NONE;
            bool over = machine_find(w->machine, ref.seq, w->now, &view) == ERR_CONFLICT;
            struct hash128 *by = &w->acked_by[ref.seq];
            if (before && locked) *by = ref.token;
            if (!before && !over && hash128_equal(*by, ref.token)) *by = (struct hash128){0};
        }
    }
}

bool commit(struct world *w, uint64_t epoch, const struct op *ops, size_t ops_len, int64_t limit)
{
    if (epoch != 0 && epoch != w->epoch) return false;
    struct interval time = clock_of(w);
    if (limit < time.lo) time.lo = limit;
    int64_t before = machine_now(w->machine);
    struct machine_entry e = {.slot = ++w->slot,
                              .time = time,
                              .now = time.lo > before ? time.lo : before,
                              .epoch = epoch,
                              .ops = ops,
                              .ops_len = ops_len};
    CHECK(ops_len <= sizeof w->results / sizeof *w->results);
    if (epoch != 0) check_in_time(w, ops, ops_len, e.now);
    buf_clear(&w->text);
    events_clear(&w->out);
    note_acks(w, ops, ops_len, true);
    machine_apply(w->machine, &e, w->results, &w->text, &w->out);
    note_acks(w, ops, ops_len, false);
    machine_check(w->machine);
    w->commits++;
    return true;
}

struct bytes result_of(struct world *w, size_t op)
{
    return bytes_of(w->text.data + w->results[op].body_at, w->results[op].body_len);
}

// Sends messages. It is a direct writer, so its entries pass deadlines.
static void send(struct world *w, uint32_t index, uint64_t life, uint64_t n)
{
    (void)index, (void)life;
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, SIZE_MAX);
    uint32_t count = (uint32_t)rng_range(&w->rng, 1, 6);
    if (count > w->mix.messages - w->sent) count = w->mix.messages - w->sent;
    if (count == 0) return;
    struct request_id request = {{1, (uint8_t)n, (uint8_t)(n >> 8)}};
    send_begin(&payload, &request);
    for (uint32_t i = 0; i < count; i++)
        send_add(&payload, &(struct message){.body = bytes_str("work")});
    send_end(&payload, 0, count);
    struct op op = {.kind = OP_SEND, .payload = buf_bytes(&payload)};
    // In half of the worlds the owner sends, so that only its entries pass deadlines.
    bool owner = w->mix.sender_every == 0;
    int64_t limit = owner ? machine_now(w->machine) : TIME_NEVER;
    CHECK(commit(w, 0, &op, 1, limit));
    w->sent += count;
    int64_t every = owner ? 300 : w->mix.sender_every;
    at(w, w->now + rng_range(&w->rng, 1, every), send, 0, 0, n + 1);
}

static void heal(struct world *w, uint32_t index, uint64_t life, uint64_t n)
{
    (void)index, (void)life, (void)n;
    w->healed = true;
    w->outage_until = 0;
    trace_line(&w->trace, w->now, "healed");
}

static bool is_over(struct world *w)
{
    struct machine_stats stats;
    machine_stats(w->machine, machine_now(w->machine), &stats);
    if (!w->healed || w->sent < w->mix.messages || stats.counts[STATE_PROCESSED] < w->sent)
        return false;
    for (uint32_t i = 0; i < w->mix.workers; i++)
        if (!w->workers[i].alive || mailbox_open_requests(w->workers[i].box) > 0) return false;
    return true;
}

void world_run(struct world *w)
{
    nodes_start(w);
    workers_start(w);
    at(w, w->now, send, 0, 0, 1);
    at(w, w->now + w->mix.run_ms, heal, 0, 0, 0);
    int64_t end = w->now + w->mix.run_ms + w->mix.heal_ms;
    const struct heap_row *top;
    while ((top = heap_top(&w->queue)) && top->key <= end && !w->findings.broken && !is_over(w)) {
        struct sim_event e = w->events[top->ref];
        w->now = top->key;
        w->events_free[w->free_len++] = top->ref;
        heap_remove(&w->queue, top->ref);
        w->steps++;
        e.fn(w, e.index, e.life, e.n);
    }
    if (!w->findings.broken) check_end(w);
}
