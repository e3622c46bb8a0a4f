// SPDX-License-Identifier: Apache-2.0
// Scenarios in words, on real stores through real runners.
#include "inside.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "shift_store.h"
#include "store/file/file.h"
#include "store/mem.h"

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static _Atomic int64_t passed_ms;

static int64_t boot_ms_and_passed(void)
{
    return clock_boot_ms() + passed_ms;
}

static int64_t realtime_ms_and_passed(void)
{
    return clock_realtime_ms() + passed_ms;
}

static struct store *open_file(struct bench *b)
{
    static struct file_sys sys;
    scratch_make(b->dir);
    sys = file_sys_linux;
    sys.boot_ms = boot_ms_and_passed;
    sys.realtime_ms = realtime_ms_and_passed; // the store's clock follows it
    passed_ms = 0;
    return file_open(b->dir, &(struct file_options){.sys = &sys});
}

// A prefix of the bucket that no test has used. The bucket ends with its server.
static struct store *open_s3(void)
{
    char prefix[S3_PREFIX_LEN];
    s3_prefix(prefix);
    return store_shift_take(s3_open_at(prefix));
}

// The same with a Redis server.
static struct store *open_redis(void)
{
    char prefix[S3_PREFIX_LEN];
    s3_prefix(prefix);
    return store_shift_take(redis_open_at(prefix));
}

struct bench *bench_open(const char *backend)
{
    struct bench *b = NEW(struct bench);
    bool file = strcmp(backend, "file") == 0;
    bool redis = strcmp(backend, "redis") == 0;
    b->kind = file ? BENCH_FILE : redis || strcmp(backend, "s3") == 0 ? BENCH_SERVER : BENCH_MEM;
    b->clock = b->kind == BENCH_MEM    ? store_mem_new()
               : b->kind == BENCH_FILE ? open_file(b)
               : redis                 ? open_redis()
                                       : open_s3();
    b->store = b->clock;
    b->node_owns = strcmp(backend, "http-owner") == 0;
    return b;
}

void bench_close(struct bench *b)
{
    while (b->workers_len > 0)
        spec_close(b->workers[b->workers_len - 1]);
    drivers_end(b);
    if (b->kind == BENCH_FILE) scratch_remove(b->dir);
    memory_free(b);
}

void bench_snapshots(struct bench *b, uint32_t every)
{
    struct journal_config c;
    journal_config_defaults(&c);
    b->rules = c.rules;
    b->rules.snapshot_every = every;
    b->rules.digest_every = every / 2;
}

void bench_patience(struct bench *b, int64_t ms)
{
    b->patience_ms = ms;
}

void bench_make_faulty(struct bench *b)
{
    b->store = store_fault_take(b->clock, &(struct fault_options){.seed = 1});
}

void bench_faults(struct bench *b, const struct fault_options *faults)
{
    store_fault_set(b->store, faults ? faults : &(struct fault_options){0});
}

void bench_pass(struct bench *b, int64_t ms)
{
    switch (b->kind) {
    case BENCH_MEM:
        store_mem_step(b->clock, ms);
        break;
    case BENCH_FILE:
        passed_ms += ms;
        break;
    case BENCH_SERVER:
        store_shift_pass(b->clock, ms);
        break;
    }
    for (size_t i = 0; i < b->workers_len; i++)
        spec_look(b->workers[i]);
    drivers_look(b);
}

static void configure(struct queue_config *c, va_list words)
{
    config_defaults(c);
    struct config_error error = {""};
    for (const char *word; (word = va_arg(words, const char *));) {
        char key[64];
        const char *value = strchr(word, '=');
        assert_non_null(value);
        (void)snprintf(key, sizeof key, "%.*s", (int)(value - word), word);
        assert_int_equal(config_set(c, key, value + 1, &error), ERR_OK);
    }
    assert_int_equal(config_check(c, NULL, &error), ERR_OK);
}

struct client *spec_new(struct bench *b, const char *queue, const char *name, ...)
{
    struct client *w = NEW(struct client);
    if (b->workers_len == 0) drivers_begin(b);
    w->bench = b;
    (void)snprintf(w->name, sizeof w->name, "%s", name);
    struct runner_config config = {.rules = b->rules,
                                   .patience_ms = b->patience_ms,
                                   .no_courtesy = true,
                                   .dispatch = &b->dispatch,
                                   .keeps_events = true,
                                   .moves_dead_letters = true};
    atomic_store(&b->dispatch.state, ROLLOUT_OFF);
    (void)snprintf(config.queue, sizeof config.queue, "%s", queue);
    (void)snprintf((char *)config.id.queue, sizeof config.id.queue, "%s", queue);
    va_list words;
    va_start(words, name);
    configure(&config.birth, words);
    va_end(words);
    assert_int_equal(runner_open(b->store, &config, &w->runner), ERR_OK);
    kept_reply_init(&w->answer);
    spec_join(w, &config);
    assert_true(b->workers_len < WORKERS_MAX_HERE);
    b->workers[b->workers_len++] = w;
    spec_look(w);
    return w;
}

void spec_close(struct client *w)
{
    struct bench *b = w->bench;
    size_t at = 0;
    while (b->workers[at] != w)
        at++;
    b->workers_len--;
    memmove(&b->workers[at], &b->workers[at + 1], (b->workers_len - at) * sizeof b->workers[0]);
    spec_leave(w);
    runner_close(w->runner);
    kept_reply_done(&w->answer);
    memory_free(w->events);
    memory_free(w);
}

// When the test moves the store's clock by more than a call's patience, a call that was under way
// gives up; the next one knows the time. And after an outage the journal rests longer than a hasty
// one has patience.
void spec_look(struct client *w)
{
    enum err err = runner_sync(w->runner);
    for (int i = 0; err == ERR_UNAVAILABLE && i < 10; i++)
        err = runner_sync(w->runner);
    assert_int_equal(err, ERR_OK);
}

struct request_id request_new(void)
{
    struct request_id request;
    entropy_fill(request.bytes, sizeof request.bytes);
    return request;
}

// Does the op and opens its result.
enum err bench_perform(struct client *w, uint16_t kind, struct buf *payload, struct result *out)
{
    assert_false(payload->bad);
    struct op op = {.kind = kind, .payload = buf_bytes(payload)};
    enum err err = runner_do(w->runner, op, &w->answer);
    assert_int_equal(result_open(buf_bytes(&w->answer.body), kind, out), ERR_OK);
    return err;
}

uint64_t spec_send_to(struct client *w, const char *group, const char *body)
{
    struct message m = {.group = bytes_str(group), .body = bytes_str(body)};
    struct send_row row = spec_send_message(w, &m, NULL);
    assert_int_equal(row.reason, REASON_NONE);
    return row.seq;
}

uint64_t spec_send(struct client *w, const char *body)
{
    return spec_send_to(w, "", body);
}

struct op_claim bench_claim(const char *worker, size_t max)
{
    struct op_claim claim = {
        .request = request_new(), .worker = bytes_str(worker), .max = (uint32_t)max};
    entropy_fill(claim.seed, sizeof claim.seed);
    return claim;
}

size_t spec_claim(struct client *w, struct held_message *out, size_t max)
{
    struct request_id request = request_new();
    return spec_claim_as(w, &request, out, max);
}

bool spec_claim_one(struct client *w, struct held_message *out)
{
    return spec_claim(w, out, 1) == 1;
}

size_t spec_take(struct client *w, struct held_message *out, size_t max)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 20);
    struct op_claim claim = bench_claim(w->name, max);
    claim_encode(&payload, &claim);
    struct result result;
    assert_int_equal(bench_perform(w, OP_TAKE, &payload, &result), ERR_OK);
    struct grant g;
    size_t count = 0;
    while (grant_next(&result, &g))
        out[count++] = (struct held_message){.seq = g.seq,
                                             .token = g.token,
                                             .fence = g.fence,
                                             .deadline = g.deadline,
                                             .deliveries = g.deliveries,
                                             .order = g.order};
    return count;
}

static enum reason outcome(struct client *w, uint16_t kind, const struct held_message *m,
                           int64_t wait_ms, const char *why)
{
    return spec_settle(w, &(struct settle_step){kind, wait_ms, why, NULL}, m);
}

enum reason spec_ack_as(struct client *w, const struct request_id *request,
                        const struct held_message *m)
{
    return spec_settle(w, &(struct settle_step){OP_ACK, 0, "", request}, m);
}

enum reason spec_ack(struct client *w, const struct held_message *m)
{
    return outcome(w, OP_ACK, m, 0, "");
}

enum reason spec_fail(struct client *w, const struct held_message *m, const char *why)
{
    return outcome(w, OP_FAIL, m, 0, why);
}

enum reason spec_release(struct client *w, const struct held_message *m)
{
    return outcome(w, OP_RELEASE, m, 0, "");
}

enum reason spec_renew(struct client *w, const struct held_message *m, int64_t lease_ms)
{
    return outcome(w, OP_RENEW, m, lease_ms, "");
}

static enum reason change_worker(struct client *w, const struct worker_change *row)
{
    CLEANUP(buf_done) struct buf rows;
    CLEANUP(buf_done) struct buf payload;
    buf_init(&rows, 1 << 10);
    buf_init(&payload, 1 << 10);
    worker_change_put(&rows, row);
    workers_encode(&payload, &(struct op_workers){request_new(), 1, buf_bytes(&rows)});
    struct result result;
    (void)bench_perform(w, OP_WORKERS, &payload, &result);
    return result.reason;
}

#define INSTANCE 1 // of every client's process

enum reason spec_register(struct client *w, uint32_t capacity, int64_t ttl_ms)
{
    return change_worker(w, &(struct worker_change){.act = WORKER_JOIN,
                                                    .name = bytes_str(w->name),
                                                    .instance = INSTANCE,
                                                    .capacity = capacity,
                                                    .ttl_ms = ttl_ms,
                                                    .flags = WORKER_MAILBOX});
}

enum reason spec_beat(struct client *w)
{
    return change_worker(w, &(struct worker_change){.act = WORKER_BEAT,
                                                    .name = bytes_str(w->name),
                                                    .instance = INSTANCE});
}

enum reason spec_unregister(struct client *w)
{
    return change_worker(w, &(struct worker_change){.act = WORKER_LEAVE,
                                                    .name = bytes_str(w->name),
                                                    .instance = INSTANCE});
}

enum reason spec_evict(struct client *w, const char *worker)
{
    return change_worker(w,
                         &(struct worker_change){.act = WORKER_EVICT, .name = bytes_str(worker)});
}

void spec_own(struct client *w, uint64_t token)
{
    struct journal_owner owner = {.coord = "spec", .token = token, .address = bytes_str(w->name)};
    assert_int_equal(runner_own(w->runner, token - 1, &owner), ERR_OK);
}

bool spec_dispatch(struct client *w)
{
    spec_look(w);
    bool granted = runner_dispatch(w->runner);
    spec_look(w);
    return granted;
}

uint32_t spec_grant(struct client *w, uint32_t max, int64_t ticket_ms)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 10);
    struct op_dispatch op = {.request = request_new(), .ticket_ms = ticket_ms, .max = max};
    entropy_fill(op.seed, sizeof op.seed);
    dispatch_encode(&payload, &op);
    struct result result;
    assert_int_equal(bench_perform(w, OP_DISPATCH, &payload, &result), ERR_OK);
    return result.count;
}

static void look_at_state(void *ctx, const struct machine *m, int64_t now)
{
    struct state_look *look = ctx;
    machine_check(m);
    machine_stats(m, now, &look->stats);
    look->slot = machine_slot(m);
    if (look->seq != 0) look->err = machine_find(m, look->seq, now, &look->view);
    struct finished_view v;
    look->ended = look->err == ERR_CONFLICT && machine_finished(m, look->seq, now, &v);
    if (!look->ended) return;
    look->end = (struct spec_end){.at = v.at, .attempts = v.attempts};
    (void)strcpy(look->end.outcome, finished_outcome_name(v.outcome));
    (void)snprintf(look->end.worker, sizeof look->end.worker, "%.*s", (int)v.worker.len,
                   (const char *)v.worker.data);
}

struct state_look bench_look(struct client *w, uint64_t seq)
{
    struct state_look look = {.seq = seq};
    spec_look(w);
    runner_inspect(w->runner, look_at_state, &look);
    return look;
}

uint64_t spec_slot(struct client *w)
{
    struct runner_owner owner;
    uint64_t slot = bench_look(w, 0).slot;
    runner_owner(w->runner, &owner);
    return slot - owner.epoch;
}

enum err spec_find(struct client *w, uint64_t seq, struct message_view *out)
{
    struct state_look look = bench_look(w, seq);
    *out = look.view;
    return look.err;
}

const char *held_header(const struct held_message *m, const char *name)
{
    for (int i = 0; i < m->headers_len; i++)
        if (strcmp(m->headers[i][0], name) == 0) return m->headers[i][1];
    return NULL;
}
