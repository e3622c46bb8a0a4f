// SPDX-License-Identifier: Apache-2.0
// Hands in a shop: each asks the store only when the test performs it.
#include "shop.h"

#include <stdio.h>
#include <string.h>

#define START 1000000000

struct interval shop_moment(const struct shop *s)
{
    return (struct interval){s->now - s->blur, s->now + s->blur};
}

void shop_open(struct shop *s)
{
    *s = (struct shop){.now = START};
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

struct journal_config config_far(uint64_t seed)
{
    struct journal_config c = config_plain(seed);
    c.far = true;
    return c;
}

void hand_answer(struct hand *h, const struct request *q, enum err instead)
{
    struct bucket_answer a;
    bucket_answer_init(&a);
    struct response r = {.id = q->id, .err = instead, .time = shop_moment(h->shop)};
    if (!instead) {
        bucket_perform(&h->shop->bucket, q, h->shop->now, &a);
        r = a.response;
        r.id = q->id;
    }
    journal_respond(h->journal, &r, shop_moment(h->shop));
    bucket_answer_done(&a);
}

bool hand_take(struct hand *h, struct request *q)
{
    return journal_next_request(h->journal, q);
}

void hand_take_none(struct hand *h)
{
    struct request q;
    assert_false(hand_take(h, &q));
}

struct request hand_take_append(struct hand *h)
{
    struct request q;
    assert_true(hand_take(h, &q));
    assert_int_equal(q.kind, REQUEST_APPEND);
    return q;
}

void hand_expect_reads(struct hand *h, int count)
{
    struct request q;
    for (int i = 0; i < count; i++) {
        assert_true(hand_take(h, &q));
        assert_int_equal(q.kind, REQUEST_READ_LOG);
        hand_answer(h, &q, ERR_OK);
    }
}

struct hand shop_hire(struct shop *s, const struct journal_config *c)
{
    struct hand h = {.shop = s, .registers = registers_new(600000)};
    struct fold fold = registers_fold(h.registers);
    h.journal = journal_new(c, &fold);
    journal_start(h.journal, shop_moment(s));
    struct request q;
    while (hand_take(&h, &q))
        hand_answer(&h, &q, ERR_OK);
    return h;
}

void hand_dismiss(struct hand *h)
{
    journal_free(h->journal);
    registers_free(h->registers);
}

uint64_t hand_ask_until(struct hand *h, int64_t deadline)
{
    struct register_ask ask = {.verb = REGISTER_ADD, .name = "x", .a = 1};
    uint64_t ticket = ++h->shop->tickets;
    memcpy(ask.request, &ticket, sizeof ticket);
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 256);
    journal_submit(h->journal, ticket, register_op(&ask, &payload), deadline, shop_moment(h->shop));
    return ticket;
}

uint64_t hand_ask(struct hand *h)
{
    return hand_ask_until(h, TIME_NEVER);
}

void hand_heard(struct hand *h, uint64_t ticket, enum err err)
{
    struct journal_reply r;
    assert_true(journal_next_reply(h->journal, &r));
    assert_int_equal(r.ticket, ticket);
    assert_int_equal(r.err, err);
}

void hand_pass(struct hand *h, int64_t ms)
{
    h->shop->now += ms;
    journal_tick(h->journal, shop_moment(h->shop));
}

// To the moment at which the handle wants to be woken; returns how long that took.
int64_t hand_pass_until_woken(struct hand *h)
{
    int64_t at = journal_wake_at(h->journal);
    assert_true(at != TIME_NEVER && at > h->shop->now);
    int64_t waited = at - h->shop->now;
    hand_pass(h, waited);
    return waited;
}

void hand_put(struct hand *h)
{
    struct request q = hand_take_append(h);
    h->shop->now += PUT_MS;
    hand_answer(h, &q, ERR_OK);
}

void hand_commit(struct hand *h)
{
    uint64_t ticket = hand_ask(h);
    hand_put(h);
    hand_heard(h, ticket, ERR_OK);
}

void shop_close(struct shop *s)
{
    bucket_done(&s->bucket);
}

// Reads what the other committed.
void hand_catch_up(struct hand *h)
{
    uint64_t ticket = ++h->shop->tickets;
    journal_sync(h->journal, ticket, TIME_NEVER, shop_moment(h->shop));
    struct request q;
    while (hand_take(h, &q))
        hand_answer(h, &q, ERR_OK);
    hand_heard(h, ticket, ERR_OK);
}
