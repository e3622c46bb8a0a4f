// SPDX-License-Identifier: Apache-2.0
// Writers in a fixture: each asks the store only when the test performs it.
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#define START 1000000000

struct interval fixture_instant(const struct fixture *s)
{
    return (struct interval){s->now - s->blur, s->now + s->blur};
}

void fixture_open(struct fixture *s)
{
    *s = (struct fixture){.now = START};
    rng_init(&s->rng, 1);
    bucket_init(&s->bucket, &s->rng);
}

struct journal_config config_plain(uint64_t seed)
{
    struct journal_config c;
    journal_config_defaults(&c);
    (void)snprintf(c.prefix, sizeof c.prefix, "q/test/0");
    c.writer = (struct hash128){seed, 1};
    c.seed = seed;
    c.rules.snapshot_every = 0;
    c.from_oldest = true;
    return c;
}

struct journal_config config_high_latency(uint64_t seed)
{
    struct journal_config c = config_plain(seed);
    c.high_latency = true;
    return c;
}

void writer_answer(struct writer *h, const struct request *q, enum err instead)
{
    struct bucket_answer a;
    bucket_answer_init(&a);
    struct response r = {.id = q->id, .err = instead, .time = fixture_instant(h->fixture)};
    if (!instead) {
        bucket_perform(&h->fixture->bucket, q, h->fixture->now, &a);
        r = a.response;
        r.id = q->id;
    }
    journal_respond(h->journal, &r, fixture_instant(h->fixture));
    bucket_answer_done(&a);
}

bool writer_take(struct writer *h, struct request *q)
{
    return journal_next_request(h->journal, q);
}

void writer_take_none(struct writer *h)
{
    struct request q;
    assert_false(writer_take(h, &q));
}

struct request writer_take_append(struct writer *h)
{
    struct request q;
    assert_true(writer_take(h, &q));
    assert_int_equal(q.kind, REQUEST_APPEND);
    return q;
}

void writer_expect_reads(struct writer *h, int count)
{
    struct request q;
    for (int i = 0; i < count; i++) {
        assert_true(writer_take(h, &q));
        assert_int_equal(q.kind, REQUEST_READ_LOG);
        writer_answer(h, &q, ERR_OK);
    }
}

struct writer fixture_writer(struct fixture *s, const struct journal_config *c)
{
    struct writer h = {.fixture = s, .registers = registers_new(600000)};
    struct fold fold = registers_fold(h.registers);
    h.journal = journal_new(c, &fold);
    journal_start(h.journal, fixture_instant(s));
    struct request q;
    while (writer_take(&h, &q))
        writer_answer(&h, &q, ERR_OK);
    return h;
}

void writer_dismiss(struct writer *h)
{
    journal_free(h->journal);
    registers_free(h->registers);
}

uint64_t writer_ask_until(struct writer *h, int64_t deadline)
{
    struct register_ask ask = {.verb = REGISTER_ADD, .name = "x", .a = 1};
    uint64_t ticket = ++h->fixture->tickets;
    memcpy(ask.request, &ticket, sizeof ticket);
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 256);
    journal_submit(h->journal, ticket, register_op(&ask, &payload), deadline,
                   fixture_instant(h->fixture));
    return ticket;
}

uint64_t writer_ask(struct writer *h)
{
    return writer_ask_until(h, TIME_NEVER);
}

void writer_heard(struct writer *h, uint64_t ticket, enum err err)
{
    struct journal_reply r;
    assert_true(journal_next_reply(h->journal, &r));
    assert_int_equal(r.ticket, ticket);
    assert_int_equal(r.err, err);
}

void writer_pass(struct writer *h, int64_t ms)
{
    h->fixture->now += ms;
    journal_tick(h->journal, fixture_instant(h->fixture));
}

// To the moment at which the handle wants to be woken; returns how long that took.
int64_t writer_pass_until_woken(struct writer *h)
{
    int64_t at = journal_wake_at(h->journal);
    assert_true(at != TIME_NEVER && at > h->fixture->now);
    int64_t waited = at - h->fixture->now;
    writer_pass(h, waited);
    return waited;
}

void writer_put(struct writer *h)
{
    struct request q = writer_take_append(h);
    h->fixture->now += PUT_MS;
    writer_answer(h, &q, ERR_OK);
}

void writer_commit(struct writer *h)
{
    uint64_t ticket = writer_ask(h);
    writer_put(h);
    writer_heard(h, ticket, ERR_OK);
}

void fixture_close(struct fixture *s)
{
    bucket_done(&s->bucket);
}

// Reads what the other committed.
void writer_catch_up(struct writer *h)
{
    uint64_t ticket = ++h->fixture->tickets;
    journal_sync(h->journal, ticket, TIME_NEVER, fixture_instant(h->fixture));
    struct request q;
    while (writer_take(h, &q))
        writer_answer(h, &q, ERR_OK);
    writer_heard(h, ticket, ERR_OK);
}
