// SPDX-License-Identifier: Apache-2.0
// Handles and collectors on a store whose answers are damaged, or false with a good checksum. No
// promise about the data is left then. But no handle may abort, and every ticket is answered once,
// by its deadline. HOSTILE_SEED=<first seed> runs other seeds.
#include "../unit/unit.h"
#include "base/memory.h"
#include "bucket.h"
#include "journal/inside.h"
#include "register.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS     500
#define STEPS     1500
#define HANDLES   2
#define OPEN_MAX  8
#define SLOTS_MAX 10000 // the simulated store keeps its slots in an array

struct sent {
    struct request request;
    bool collector;
};

struct handle {
    struct registers *registers;
    struct journal *journal;
    struct collector *collector;
    struct sent sent[OPEN_MAX];
    size_t sent_len;
};

struct scene {
    struct rng rng;
    struct bucket bucket;
    struct bucket_answer answer;
    struct buf body; // that replaces the one of the answer
    struct handle handles[HANDLES];
    struct interval now;
    int64_t last_deadline;
    uint32_t falsity;                      // hundredths of a percent of the answers
    uint8_t answered[STEPS + 1];           // by ticket
    const struct handle *asked[STEPS + 1]; // by ticket
    uint64_t tickets;
    uint64_t halted;
};

static uint64_t odd_number(struct scene *s, uint64_t near)
{
    const uint64_t numbers[] = {0,
                                1,
                                2,
                                near - 1,
                                near + 1,
                                UINT32_MAX,
                                INT64_MAX,
                                (uint64_t)INT64_MIN,
                                UINT64_MAX,
                                (uint64_t)ENTRY_TIME_MAX,
                                (uint64_t)s->now.lo,
                                rng_next(&s->rng)};
    return numbers[rng_below(&s->rng, sizeof numbers / sizeof *numbers)];
}

static bool half(struct scene *s)
{
    return rng_chance(&s->rng, 5000);
}

static void open_handle(struct scene *s, struct handle *h)
{
    struct journal_config c;
    journal_config_defaults(&c);
    (void)snprintf(c.prefix, sizeof c.prefix, "q/test/0");
    c.writer = (struct hash128){rng_next(&s->rng), rng_next(&s->rng)};
    c.seed = rng_next(&s->rng);
    c.from_oldest = rng_chance(&s->rng, 1000);
    c.high_latency = half(s);
    c.puts_per_second = half(s) ? 2 : 0;
    c.rules = (struct journal_rules){.session_ttl_ms = 600000,
                                     .sessions_max = 3,
                                     .digest_every = 4,
                                     .verify_ms = 60000,
                                     .retain_ms = 120000,
                                     .retain_tight_ms = 90000,
                                     .floor_every_ms = 10000,
                                     .snapshot_every = 3};
    h->registers = registers_new(600000);
    struct fold fold = registers_fold(h->registers);
    h->journal = journal_new(&c, &fold);
    h->collector = collector_new(h->journal);
    h->sent_len = 0;
    journal_start(h->journal, s->now);
}

// Its open tickets get no answer.
static void close_handle(struct scene *s, struct handle *h)
{
    s->halted += journal_halted(h->journal, NULL);
    for (uint64_t ticket = 1; ticket <= s->tickets; ticket++)
        if (s->asked[ticket] == h) s->answered[ticket] = 1;
    collector_free(h->collector);
    journal_free(h->journal);
    registers_free(h->registers);
}

static void take(struct scene *s, struct handle *h)
{
    struct journal_reply reply;
    struct sent sent = {0};
    while (journal_next_request(h->journal, &sent.request)) {
        assert_true(h->sent_len < OPEN_MAX);
        h->sent[h->sent_len++] = sent;
    }
    sent.collector = true;
    while (collector_next_request(h->collector, &sent.request)) {
        assert_true(h->sent_len < OPEN_MAX);
        h->sent[h->sent_len++] = sent;
    }
    while (journal_next_reply(h->journal, &reply)) {
        assert_in_range(reply.ticket, 1, s->tickets);
        assert_int_equal(s->answered[reply.ticket], 0);
        s->answered[reply.ticket] = 1;
    }
}

static void put_checksum(uint8_t *data, size_t len, bool floor)
{
    size_t sum_len = floor ? 8 : 16;
    CLEANUP(buf_done) struct buf sum;
    buf_init(&sum, 16);
    struct hash128 hash = hash128_of(bytes_of(data, len - sum_len));
    if (floor) {
        buf_put_u64(&sum, hash.lo);
    } else {
        buf_put_hash128(&sum, hash);
    }
    memcpy(data + len - sum_len, sum.data, sum_len);
}

// Another number somewhere in the bytes, mostly with the right checksum.
static void falsify_bytes(struct scene *s, uint8_t *data, size_t len, bool floor)
{
    if (len < 40) return;
    uint64_t number = odd_number(s, 5);
    size_t width = half(s) ? 8 : 4;
    size_t at = rng_below(&s->rng, len - 24) / 4 * 4;
    memcpy(data + at, &number, width);
    if (rng_chance(&s->rng, 8000)) put_checksum(data, len, floor);
}

static void falsify_core(struct scene *s, struct core *c)
{
    uint64_t number = odd_number(s, c->slot);
    size_t row = c->sessions_len > 0 ? rng_below(&s->rng, c->sessions_len) : 0;
    switch (rng_below(&s->rng, 8)) {
    case 0:
        c->now = (int64_t)number;
        break;
    case 1:
        c->epoch = number;
        break;
    case 2:
        c->token = number;
        break;
    case 3:
        c->horizon = (int64_t)number;
        break;
    case 4:
        c->chain.lo = number;
        break;
    case 5:
        if (c->sessions_len > 0) c->sessions[row].time = (int64_t)number;
        break;
    case 6:
        if (c->sessions_len > 0) c->sessions[row].sequence = number;
        break;
    default:
        break;
    }
}

static uint64_t digest_of(const struct core *c, struct bytes machine)
{
    struct registers *m = registers_new(600000);
    struct fold fold = registers_fold(m);
    uint64_t digest = 0;
    if (!fold.load(fold.ctx, machine)) digest = hash64_mix(core_digest(c), fold.digest(fold.ctx));
    registers_free(m);
    return digest;
}

// A snapshot of a state that never was, with the digest of that state.
static void falsify_snapshot(struct scene *s, struct response *r)
{
    struct core core, loaded;
    struct snapshot snapshot;
    core_init(&core);
    core_init(&loaded);
    CLEANUP(buf_done) struct buf saved;
    buf_init(&saved, SNAPSHOT_LEN_MAX);
    if (!snapshot_decode(r->body, &core, &snapshot)) {
        falsify_core(s, &core);
        if (half(s)) snapshot.floor_index = odd_number(s, snapshot.floor_index);
        if (half(s)) snapshot.floor_slot = odd_number(s, snapshot.floor_slot);
        if (half(s)) snapshot.absent_at = (int64_t)odd_number(s, 0);
        core_save(&core, &saved);
        struct reader reader = reader_of(buf_bytes(&saved));
        if (!core_load(&loaded, &reader)) { // otherwise the snapshot stays as it was
            snapshot.core = &loaded;
            snapshot.digest = digest_of(&loaded, snapshot.machine);
            buf_clear(&s->body);
            snapshot_encode(&snapshot, &s->body);
            r->body = buf_bytes(&s->body);
        }
    }
    core_done(&core);
    core_done(&loaded);
}

static void falsify_row(struct scene *s, struct response_row *row)
{
    char *key = (char *)row->key;
    switch (rng_below(&s->rng, 5)) {
    case 0:
        row->first = odd_number(s, row->first);
        break;
    case 1:
        row->last = odd_number(s, row->last);
        break;
    case 2:
        row->modified.lo = rng_range(&s->rng, 0, s->now.hi);
        row->modified.hi = row->modified.lo + 999;
        break;
    case 3:
        if (key) key[strlen(key) - 1 - rng_below(&s->rng, 20)] = (char)('0' + s->now.lo % 10);
        break;
    default:
        if (row->body.len > 0) falsify_bytes(s, (uint8_t *)row->body.data, row->body.len, false);
        break;
    }
}

// Most errors that an append cannot have halt the handle at once, so they are rare.
static enum err odd_err(struct scene *s, const struct request *q)
{
    static const enum err possible[] = {ERR_OK,          ERR_CONFLICT, ERR_UNKNOWN,
                                        ERR_UNAVAILABLE, ERR_LIMIT,    ERR_DENIED};
    if (q->kind != REQUEST_APPEND || rng_chance(&s->rng, 500))
        return (enum err)rng_below(&s->rng, ERR_COUNT);
    return possible[rng_below(&s->rng, sizeof possible / sizeof *possible)];
}

static void falsify(struct scene *s, const struct request *q, struct bucket_answer *a)
{
    struct response *r = &a->response;
    switch (rng_below(&s->rng, 6)) {
    case 0:
        r->err = odd_err(s, q);
        break;
    case 1:
        r->rows_len = r->rows_len > 0 ? rng_below(&s->rng, r->rows_len) : 0;
        break;
    case 2:
        r->time.lo = rng_range(&s->rng, 0, s->now.hi);
        r->time.hi = r->time.lo + 999;
        break;
    case 3:
        r->more = !r->more;
        break;
    default:
        if (r->rows_len > 0) falsify_row(s, &a->rows[rng_below(&s->rng, r->rows_len)]);
        if (r->body.len == 0) break;
        if (strstr(q->key, "/snap/") && half(s)) {
            falsify_snapshot(s, r);
        } else {
            falsify_bytes(s, (uint8_t *)r->body.data, r->body.len, strstr(q->key, "/floor/"));
        }
        break;
    }
}

// As store_append and store_drop do.
static bool store_refuses(const struct request *q)
{
    if (q->kind == REQUEST_APPEND) return q->first == 0 || q->first > SLOTS_MAX;
    return q->kind == REQUEST_DROP && (q->first == 0 || q->first > q->last);
}

static void serve(struct scene *s, struct handle *h)
{
    if (h->sent_len == 0) return;
    size_t at = rng_below(&s->rng, h->sent_len);
    struct sent sent = h->sent[at];
    h->sent[at] = h->sent[--h->sent_len];
    struct bucket_answer *a = &s->answer;
    if (store_refuses(&sent.request)) {
        enum err err = sent.request.kind == REQUEST_DROP ? ERR_INVALID : ERR_LIMIT;
        a->response = (struct response){.id = sent.request.id, .err = err, .time = s->now};
    } else {
        bucket_perform(&s->bucket, &sent.request, s->now.lo, a);
    }
    a->response.tight = rng_chance(&s->rng, 1000);
    bool snapshot = a->response.body.len > 0 && strstr(sent.request.key, "/snap/");
    if (rng_chance(&s->rng, snapshot ? 3 * s->falsity : s->falsity)) falsify(s, &sent.request, a);
    if (sent.collector) {
        collector_respond(h->collector, &a->response, s->now);
    } else {
        journal_respond(h->journal, &a->response, s->now);
    }
}

static void ask(struct scene *s, struct handle *h)
{
    struct register_ask ask = {
        .verb = (enum register_verb)rng_below(&s->rng, REGISTER_END), .name = "a", .a = 1};
    uint64_t request = rng_next(&s->rng);
    memcpy(ask.request, &request, sizeof request);
    if (rng_chance(&s->rng, 50)) ask.verb = REGISTER_END;
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 4096);
    struct op op = register_op(&ask, &payload);
    int64_t deadline = s->now.lo + rng_range(&s->rng, 1, 60000);
    struct journal_owner owner = {.token = rng_below(&s->rng, 100)};
    uint64_t ticket = ++s->tickets;
    s->asked[ticket] = h;
    if (deadline > s->last_deadline) s->last_deadline = deadline;
    switch (rng_below(&s->rng, 8)) {
    case 0:
        journal_sync(h->journal, ticket, deadline, s->now);
        break;
    case 1:
        journal_touch(h->journal, ticket, deadline, s->now);
        break;
    case 2:
        journal_own(h->journal, ticket, journal_epoch(h->journal), &owner, deadline, s->now);
        break;
    case 3:
        journal_coord_switch(h->journal, ticket, owner.coord, deadline, s->now);
        break;
    default:
        journal_submit(h->journal, ticket, op, deadline, s->now);
        break;
    }
}

static void collect(struct scene *s, struct handle *h)
{
    if (half(s)) {
        collector_start(h->collector, s->now);
    } else if (half(s)) {
        collector_finish(h->collector, s->now);
    } else {
        collector_tick(h->collector, s->now);
    }
    (void)collector_wants_time(h->collector);
}

static void pass_time(struct scene *s, int64_t ms)
{
    s->now.lo += ms;
    s->now.hi = s->now.lo + 20;
    for (size_t i = 0; i < HANDLES; i++) {
        journal_tick(s->handles[i].journal, s->now);
        take(s, &s->handles[i]);
    }
}

static void step(struct scene *s)
{
    struct handle *h = &s->handles[rng_below(&s->rng, HANDLES)];
    switch (rng_below(&s->rng, 10)) {
    case 0:
        ask(s, h);
        break;
    case 1:
        collect(s, h);
        break;
    case 2:
        if (rng_chance(&s->rng, journal_halted(h->journal, NULL) ? 2000 : 500)) {
            close_handle(s, h);
            open_handle(s, h);
        }
        pass_time(s, rng_range(&s->rng, 1, rng_chance(&s->rng, 500) ? 150000 : 2000));
        break;
    default:
        serve(s, h);
        break;
    }
    take(s, h);
}

static void run(uint64_t seed, uint64_t *halted)
{
    struct scene *s = NEW(struct scene);
    s->now = (struct interval){1000000000, 1000000020};
    rng_init(&s->rng, seed);
    bucket_init(&s->bucket, &s->rng);
    s->bucket.run_max = 4;
    bucket_answer_init(&s->answer);
    buf_init(&s->body, SNAPSHOT_LEN_MAX);
    s->falsity = (uint32_t)rng_range(&s->rng, 0, 1500);
    for (size_t i = 0; i < HANDLES; i++)
        open_handle(s, &s->handles[i]);
    for (size_t i = 0; i < STEPS; i++)
        step(s);
    pass_time(s, s->last_deadline > s->now.lo ? s->last_deadline - s->now.lo : 1);
    for (uint64_t ticket = 1; ticket <= s->tickets; ticket++)
        assert_int_equal(s->answered[ticket], 1);
    for (size_t i = 0; i < HANDLES; i++)
        close_handle(s, &s->handles[i]);
    *halted += s->halted;
    buf_done(&s->body);
    bucket_answer_done(&s->answer);
    bucket_done(&s->bucket);
    memory_free(s);
}

static volatile uint64_t seed_now;

// A failed CHECK ends the process.
static void print_seed(int number)
{
    (void)number;
    char line[64];
    int len = snprintf(line, sizeof line, "# HOSTILE_SEED=%llu\n", (unsigned long long)seed_now);
    (void)!write(STDOUT_FILENO, line, (size_t)len);
}

static void false_answers_end_no_process_and_leave_no_ticket_open(void **state)
{
    (void)state;
    uint64_t halted = 0;
    const char *from = getenv("HOSTILE_SEED");
    uint64_t first = from ? strtoull(from, NULL, 10) : 1;
    (void)signal(SIGABRT, print_seed);
    for (seed_now = first; seed_now < first + SEEDS; seed_now++)
        run(seed_now, &halted);
    (void)signal(SIGABRT, SIG_DFL);
    assert_true(halted > SEEDS / 4); // the false answers are noticed
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(false_answers_end_no_process_and_leave_no_ticket_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
