// SPDX-License-Identifier: Apache-2.0
// Handles and collectors on a store whose answers are damaged, or false with a good checksum. No
// promise about the data is left then. But no handle may abort, and every ticket is answered once,
// by its deadline. HOSTILE_SEED=<first seed> runs other seeds.
#include "../unit/unit.h"
#include "base/memory.h"
#include "falsify.h"
#include "journal/inside.h"
#include "register.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS    500
#define STEPS    1500
#define HANDLES  2
#define OPEN_MAX 8

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
    struct falsify store;
    struct handle handles[HANDLES];
    struct interval now;
    int64_t last_deadline;
    uint8_t answered[STEPS + 1];           // by ticket
    const struct handle *asked[STEPS + 1]; // by ticket
    uint64_t tickets;
    uint64_t halted;
};

static bool half(struct scene *s)
{
    return rng_chance(&s->rng, 5000);
}

static bool digest_of(struct bytes machine, uint64_t *out)
{
    struct registers *m = registers_new(600000);
    struct fold fold = registers_fold(m);
    bool sound = !fold.load(fold.ctx, machine);
    if (sound) *out = fold.digest(fold.ctx);
    registers_free(m);
    return sound;
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

static void serve(struct scene *s, struct handle *h)
{
    if (h->sent_len == 0) return;
    size_t at = rng_below(&s->rng, h->sent_len);
    struct sent sent = h->sent[at];
    h->sent[at] = h->sent[--h->sent_len];
    const struct response *r = falsify_perform(&s->store, &sent.request, s->now);
    if (sent.collector) {
        collector_respond(h->collector, r, s->now);
    } else {
        journal_respond(h->journal, r, s->now);
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
    falsify_init(&s->store, &s->rng);
    s->store.digest = digest_of;
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
    falsify_done(&s->store);
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
