// SPDX-License-Identifier: Apache-2.0
// Shards and collectors on a store whose answers are damaged, or false with a good checksum
// (../journal/falsify.h). No promise about messages is left then. But no shard may abort, and every
// ticket is answered once, by its deadline. HOSTILE_SEED=<first seed> runs other seeds.
#include "../journal/falsify.h"
#include "../unit/unit.h"
#include "base/memory.h"
#include "shard/shard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS        150
#define STEPS        1500
#define TICKETS      (2 * STEPS)
#define HANDLES      2
#define OPEN_MAX     8
#define HELD_MAX     8
#define CATCH_UPS_MS 120000 // longer than one catch-up of a shard

struct sent {
    struct request request;
    bool collector;
};

struct handle {
    struct shard *shard;
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
    struct grant held[HELD_MAX]; // locks, a ring
    size_t held_len;
    uint8_t answered[TICKETS + 1];           // by ticket
    const struct handle *asked[TICKETS + 1]; // by ticket
    uint64_t tickets;
    uint64_t halted;
    uint64_t delivered;
};

static const struct queue_id queue = {.bytes = "hostile queue 1"};

static bool half(struct scene *s)
{
    return rng_chance(&s->rng, 5000);
}

static struct queue_config birth_config(void)
{
    struct queue_config c;
    config_defaults(&c);
    assert_int_equal(config_set(&c, "failureStrategy.maxRetries", "1", NULL), ERR_OK);
    (void)snprintf(c.dead_letter_queue, sizeof c.dead_letter_queue, "dead");
    return c;
}

static bool digest_of(struct bytes machine, uint64_t *out)
{
    struct queue_config birth = birth_config();
    struct machine *m = machine_new(&queue, 0, &birth);
    bool sound = !machine_load(m, machine);
    if (sound) *out = machine_digest(m);
    machine_free(m);
    return sound;
}

static void open_handle(struct scene *s, struct handle *h)
{
    struct shard_config c = {.queue = "tasks", .birth = birth_config()};
    journal_config_defaults(&c.journal);
    memcpy(c.journal.id.queue, queue.bytes, sizeof queue.bytes);
    (void)snprintf(c.journal.prefix, sizeof c.journal.prefix, "q/test/0");
    c.journal.writer = (struct hash128){rng_next(&s->rng), rng_next(&s->rng)};
    c.journal.seed = rng_next(&s->rng);
    c.journal.rules = (struct journal_rules){.session_ttl_ms = 600000,
                                             .sessions_max = 3,
                                             .digest_every = 4,
                                             .verify_ms = 60000,
                                             .retain_ms = 120000,
                                             .retain_tight_ms = 90000,
                                             .floor_every_ms = 10000,
                                             .snapshot_every = 3};
    c.cache_bytes = half(s) ? 1 : 0;
    c.from_oldest = rng_chance(&s->rng, 500);
    c.keeps_events = half(s);
    c.moves_dead_letters = true;
    h->shard = shard_new(&c);
    h->collector = collector_new(shard_journal(h->shard));
    h->sent_len = 0;
    shard_start(h->shard, s->now);
}

// Its open tickets get no answer.
static void close_handle(struct scene *s, struct handle *h)
{
    s->halted += journal_halted(shard_journal(h->shard), NULL);
    for (uint64_t ticket = 1; ticket <= s->tickets; ticket++)
        if (s->asked[ticket] == h) s->answered[ticket] = 1;
    collector_free(h->collector);
    shard_free(h->shard);
}

static void take_requests(struct handle *h)
{
    struct sent sent = {0};
    while (shard_next_request(h->shard, &sent.request)) {
        assert_true(h->sent_len < OPEN_MAX);
        h->sent[h->sent_len++] = sent;
    }
    sent.collector = true;
    while (collector_next_request(h->collector, &sent.request)) {
        assert_true(h->sent_len < OPEN_MAX);
        h->sent[h->sent_len++] = sent;
    }
}

static void take(struct scene *s, struct handle *h)
{
    struct shard_reply reply;
    struct dead_letter letter;
    while (shard_next_reply(h->shard, &reply)) {
        assert_in_range(reply.ticket, 1, s->tickets);
        assert_int_equal(s->answered[reply.ticket], 0);
        s->answered[reply.ticket] = 1;
        for (size_t i = 0; i < reply.deliveries_len; i++)
            s->held[s->held_len++ % HELD_MAX] = reply.deliveries[i].grant;
        s->delivered += reply.deliveries_len;
    }
    if (shard_next_dead_letter(h->shard, &letter)) {
        if (half(s)) {
            shard_dead_letter_arrived(h->shard, letter.number, s->now);
        } else {
            shard_dead_letter_failed(h->shard, letter.number, s->now);
        }
    }
    shard_events_taken(h->shard);
    take_requests(h);
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
        shard_respond(h->shard, r, s->now);
    }
}

static uint64_t ticket_of(struct scene *s, const struct handle *h)
{
    assert_true(s->tickets < TICKETS);
    s->asked[++s->tickets] = h;
    return s->tickets;
}

static struct request_id request_of(struct scene *s)
{
    struct request_id id;
    for (size_t i = 0; i < sizeof id; i++)
        ((uint8_t *)&id)[i] = (uint8_t)rng_below(&s->rng, 256);
    return id;
}

static void put_send(struct scene *s, struct buf *payload)
{
    struct request_id id = request_of(s);
    uint32_t count = (uint32_t)rng_range(&s->rng, 1, 3);
    send_begin(payload, &id);
    for (uint32_t i = 0; i < count; i++)
        send_add(payload, &(struct message){.body = bytes_str("a body of some length"),
                                            .headers = BYTES_EMPTY});
    send_end(payload, 0, count);
}

static void put_outcome(struct scene *s, struct buf *payload)
{
    const struct grant *g = &s->held[rng_below(&s->rng, HELD_MAX)];
    CLEANUP(buf_done) struct buf refs;
    buf_init(&refs, LOCK_REF_BYTES);
    lock_ref_put(&refs, &(struct lock_ref){g->seq, g->token});
    struct op_outcome op = {.request = request_of(s),
                            .queue = queue,
                            .arrived_at = s->now.lo,
                            .reason = bytes_str("it failed"),
                            .count = 1,
                            .refs = buf_bytes(&refs)};
    outcome_encode(payload, &op);
}

static void submit(struct scene *s, struct handle *h, int64_t deadline)
{
    static const uint16_t outcomes[] = {OP_ACK, OP_FAIL, OP_FAIL, OP_RELEASE, OP_RENEW};
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 16);
    uint16_t kind = OP_SEND;
    if (half(s)) {
        put_send(s, &payload);
    } else {
        kind = outcomes[rng_below(&s->rng, sizeof outcomes / sizeof *outcomes)];
        put_outcome(s, &payload);
    }
    struct op op = {.kind = kind, .payload = buf_bytes(&payload)};
    if (kind != OP_ACK) {
        shard_submit(h->shard, ticket_of(s, h), op, deadline, s->now);
        return;
    }
    struct op_claim claim = {.request = request_of(s), .worker = bytes_str("one"), .max = 2};
    uint64_t ack = ticket_of(s, h), ticket = ticket_of(s, h);
    shard_receive_after(h->shard, ack, op, ticket, &claim, s->now.lo + 500, deadline, deadline,
                        s->now);
}

static void receive(struct scene *s, struct handle *h, int64_t deadline)
{
    struct op_claim claim = {.request = request_of(s), .worker = bytes_str("one"), .max = 2};
    int64_t wait_until = s->now.lo + rng_range(&s->rng, 0, 5000);
    if (rng_chance(&s->rng, 8000)) {
        shard_receive(h->shard, ticket_of(s, h), &claim, wait_until, deadline, s->now);
    } else if (rng_chance(&s->rng, 3000)) {
        shard_follow(h->shard, ticket_of(s, h), wait_until, s->now);
    } else if (half(s)) {
        shard_await(h->shard, ticket_of(s, h), claim.worker, wait_until, deadline, s->now);
    } else {
        shard_recall(h->shard, ticket_of(s, h), &claim, half(s), deadline, s->now);
    }
}

static void ask(struct scene *s, struct handle *h)
{
    int64_t deadline = s->now.lo + rng_range(&s->rng, 1, 60000);
    struct journal_owner owner = {.token = rng_below(&s->rng, 100)};
    struct place place = {.slot = rng_below(&s->rng, 40), .skip = (uint32_t)rng_below(&s->rng, 3)};
    struct reason_place reason = {.slot = rng_below(&s->rng, 40)};
    struct shard_places wants = {&place, 1, &reason, 1};
    if (deadline > s->last_deadline) s->last_deadline = deadline;
    switch (rng_below(&s->rng, 12)) {
    case 0:
        shard_sync(h->shard, ticket_of(s, h), deadline, s->now);
        break;
    case 1:
        shard_touch(h->shard, ticket_of(s, h), deadline, s->now);
        break;
    case 2:
        shard_own(h->shard, ticket_of(s, h), journal_epoch(shard_journal(h->shard)), &owner,
                  deadline, s->now);
        break;
    case 3:
        shard_read(h->shard, ticket_of(s, h), &wants, deadline, s->now);
        break;
    case 4:
        shard_dead_letters(h->shard, ticket_of(s, h), deadline, s->now);
        break;
    case 5:
    case 6:
    case 7:
        receive(s, h, deadline);
        break;
    default:
        submit(s, h, deadline);
        break;
    }
}

static void pass_time(struct scene *s, int64_t ms)
{
    s->now.lo += ms;
    s->now.hi = s->now.lo + 20;
    for (size_t i = 0; i < HANDLES; i++) {
        shard_tick(s->handles[i].shard, s->now);
        take(s, &s->handles[i]);
    }
}

static void restart(struct scene *s, struct handle *h)
{
    close_handle(s, h);
    open_handle(s, h);
}

static void step(struct scene *s)
{
    struct handle *h = &s->handles[rng_below(&s->rng, HANDLES)];
    bool halted = journal_halted(shard_journal(h->shard), NULL);
    switch (rng_below(&s->rng, 10)) {
    case 0:
        ask(s, h);
        break;
    case 1:
        collector_start(h->collector, s->now);
        break;
    case 2:
        if (rng_chance(&s->rng, halted ? 2000 : 500)) restart(s, h);
        pass_time(s, rng_range(&s->rng, 1, rng_chance(&s->rng, 500) ? 150000 : 2000));
        break;
    default:
        serve(s, h);
        break;
    }
    take(s, h);
}

static void run(uint64_t seed, struct scene *sum)
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
    // A follow ends at the tail, or when a catch-up has read nothing. The last one may have.
    for (int i = 0; i < 2; i++)
        pass_time(s, CATCH_UPS_MS);
    for (uint64_t ticket = 1; ticket <= s->tickets; ticket++)
        assert_int_equal(s->answered[ticket], 1);
    for (size_t i = 0; i < HANDLES; i++)
        close_handle(s, &s->handles[i]);
    sum->halted += s->halted;
    sum->delivered += s->delivered;
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
    struct scene *sum = NEW(struct scene);
    const char *from = getenv("HOSTILE_SEED");
    uint64_t first = from ? strtoull(from, NULL, 10) : 1;
    (void)signal(SIGABRT, print_seed);
    for (seed_now = first; seed_now < first + SEEDS; seed_now++)
        run(seed_now, sum);
    (void)signal(SIGABRT, SIG_DFL);
    assert_true(sum->halted > SEEDS / 4); // the false answers are noticed
    assert_true(sum->delivered > SEEDS);  // and messages are delivered all the same
    memory_free(sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(false_answers_end_no_process_and_leave_no_ticket_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
