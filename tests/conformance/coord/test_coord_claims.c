// SPDX-License-Identifier: Apache-2.0
// The contract of claims and of the leader's lease: one holder, tokens that rise.
#include "world.h"

#include "base/memory.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void a_shard_has_one_holder(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, a, "a");
    joins(w, b, "b");
    uint64_t token = claims(w, a, "q/0", 0);
    ANSWERS(ERR_CONFLICT, &w->a, coord_claim(b, "q/0", 0, &w->a));
    NEED(strcmp(w->a.holder.name, "a") == 0 && w->a.holder.token == token);
    NEED(strstr(w->a.why, "shard q/0 is held by node \"a\""));
    (void)claims(w, b, "q/1", 0);
    (void)claims(w, b, "q", 0);
    ANSWERS(ERR_OK, &w->a, coord_validate(b, "q/0", token, &w->a));
}

static void a_claim_that_is_held_keeps_its_token(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w);
    joins(w, a, "a");
    uint64_t token = claims(w, a, "q/0", 0);
    NEED(claims(w, a, "q/0", 0) == token);
    NEED(claims(w, a, "q/0", token) > token);
}

static void tokens_rise_from_holder_to_holder(void **state)
{
    struct world *w = *state;
    struct coord *nodes[2] = {node_open(w), node_open(w)};
    uint64_t last = 0;
    joins(w, nodes[0], "a");
    joins(w, nodes[1], "b");
    for (int i = 0; i < 6; i++) {
        uint64_t token = claims(w, nodes[i % 2], "q/0", 0);
        NEED(token > last);
        ANSWERS(ERR_OK, &w->a, coord_release(nodes[i % 2], "q/0", token, &w->a));
        ANSWERS(ERR_OK, &w->a, coord_release(nodes[i % 2], "q/0", token, &w->a));
        ANSWERS(ERR_NOT_FOUND, &w->a, coord_validate(nodes[0], "q/0", token, &w->a));
        last = token;
    }
}

// A service that was restored from a backup has forgotten its newest tokens. The journal knows
// them.
static void a_token_is_above_the_one_that_the_journal_knows(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, a, "a");
    joins(w, b, "b");
    uint64_t token = claims(w, a, "q/0", 1000000000);
    ANSWERS(ERR_OK, &w->a, coord_release(a, "q/0", token, &w->a));
    NEED(claims(w, b, "q/0", 0) > token);
    NEED(leads(w, a, 5000000000) > 5000000000);
}

static void validation_tells_held_from_fenced_from_free(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, a, "a");
    joins(w, b, "b");
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_validate(b, "q/0", 1, &w->a));
    uint64_t first = claims(w, a, "q/0", 0);
    ANSWERS(ERR_OK, &w->a, coord_validate(b, "q/0", first, &w->a));
    NEED(strcmp(w->a.holder.name, "a") == 0);
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_validate(b, "q/0", first + 1, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_release(a, "q/0", first, &w->a));
    uint64_t second = claims(w, b, "q/0", 0);
    ANSWERS(ERR_FENCED, &w->a, coord_validate(a, "q/0", first, &w->a));
    ANSWERS(ERR_FENCED, &w->a, coord_claim_renew(a, "q/0", first, &w->a));
    ANSWERS(ERR_FENCED, &w->a, coord_claim_renew(a, "q/0", second, &w->a)); // it is b's
    ANSWERS(ERR_FENCED, &w->a, coord_release(a, "q/0", first, &w->a));
    ANSWERS(ERR_FENCED, &w->a, coord_release(a, "q/0", second, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_claim_renew(b, "q/0", second, &w->a));
    NEED(w->a.token == second);
}

static void one_node_leads_and_its_epochs_rise(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w), *observer = node_open(w);
    joins(w, a, "a");
    joins(w, b, "b");
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_observe(observer, &w->a));
    uint64_t epoch = leads(w, a, 0);
    ANSWERS(ERR_CONFLICT, &w->a, coord_lead(b, 0, &w->a));
    NEED(strstr(w->a.why, "the leader's lease is held by node \"a\""));
    ANSWERS(ERR_OK, &w->a, coord_observe(observer, &w->a));
    NEED(strcmp(w->a.holder.name, "a") == 0 && w->a.holder.token == epoch);
    ANSWERS(ERR_OK, &w->a, coord_lead_renew(a, epoch, &w->a));
    NEED(w->a.next_ms > 0 && w->a.until_ms > 0);
    ANSWERS(ERR_FENCED, &w->a, coord_lead_renew(b, epoch, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_resign(a, epoch, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_lead_renew(a, epoch, &w->a));
    uint64_t next = leads(w, b, 0);
    NEED(next > epoch);
    ANSWERS(ERR_FENCED, &w->a, coord_lead_renew(a, epoch, &w->a));
    ANSWERS(ERR_FENCED, &w->a, coord_resign(a, epoch, &w->a));
}

static void malformed_claims_are_refused(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w);
    char longest[COORD_SHARD_MAX + 2];
    memset(longest, 's', sizeof longest);
    longest[sizeof longest - 1] = 0;
    const char *const bad[] = {"", "/", "a/", "/a", "a//b", "a b", "..", "a/../b", longest};
    joins(w, a, "a");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ANSWERS(ERR_INVALID, &w->a, coord_claim(a, bad[i], 0, &w->a));
        ANSWERS(ERR_INVALID, &w->a, coord_release(a, bad[i], 1, &w->a));
        ANSWERS(ERR_INVALID, &w->a, coord_validate(a, bad[i], 1, &w->a));
        NEED(w->a.why[0] != 0);
    }
    ANSWERS(ERR_INVALID, &w->a, coord_claim(a, "q", COORD_TOKEN_MAX, &w->a));
    ANSWERS(ERR_INVALID, &w->a, coord_release(a, "q", 0, &w->a));
    ANSWERS(ERR_INVALID, &w->a, coord_validate(a, "q", UINT64_MAX, &w->a));
    longest[COORD_SHARD_MAX] = 0;
    (void)claims(w, a, longest, 0);
}

struct racer {
    struct coord *c;
    enum err e;
    uint64_t token;
    pthread_t thread;
    pthread_barrier_t *start;
};

static void *race(void *arg)
{
    struct racer *r = arg;
    struct coord_answer a;
    coord_answer_init(&a);
    (void)pthread_barrier_wait(r->start);
    r->e = coord_claim(r->c, "raced", 0, &a);
    r->token = a.token;
    coord_answer_done(&a);
    return NULL;
}

static void of_many_claims_at_once_one_wins(void **state)
{
    enum { RACERS = 6, ROUNDS = 5 };
    struct world *w = *state;
    struct racer racers[RACERS];
    pthread_barrier_t start;
    uint64_t last = 0;
    NEED(pthread_barrier_init(&start, NULL, RACERS) == 0);
    for (int i = 0; i < RACERS; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "n%d", i);
        racers[i] = (struct racer){.c = node_open(w), .start = &start};
        joins(w, racers[i].c, name);
    }
    for (int round = 0; round < ROUNDS; round++) {
        struct racer *winner = NULL;
        for (int i = 0; i < RACERS; i++)
            NEED(pthread_create(&racers[i].thread, NULL, race, &racers[i]) == 0);
        for (int i = 0; i < RACERS; i++)
            NEED(pthread_join(racers[i].thread, NULL) == 0);
        for (int i = 0; i < RACERS; i++) {
            if (racers[i].e == ERR_CONFLICT || racers[i].e == ERR_UNAVAILABLE) continue;
            ANSWERS(ERR_OK, &w->a, racers[i].e);
            NEED(!winner);
            winner = &racers[i];
        }
        if (!winner) continue; // on a store, all may lose to each other
        NEED(winner->token > last);
        last = winner->token;
        ANSWERS(ERR_OK, &w->a, coord_validate(racers[0].c, "raced", last, &w->a));
        ANSWERS(ERR_OK, &w->a, coord_release(winner->c, "raced", last, &w->a));
    }
    NEED(last > 0);
    NEED(pthread_barrier_destroy(&start) == 0);
}

static void a_newer_plan_replaces_an_older_one(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    struct buf got;
    buf_init(&got, COORD_PLAN_MAX);
    joins(w, a, "a");
    joins(w, b, "b");
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_plan_read(b, &got, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_list(b, &w->a));
    NEED(w->a.plan_epoch == 0 && w->a.plan_number == 0);
    ANSWERS(ERR_OK, &w->a, coord_plan_write(a, 3, 9, bytes_str("one"), &w->a));
    ANSWERS(ERR_OK, &w->a, coord_plan_write(a, 3, 10, bytes_str("two"), &w->a));
    ANSWERS(ERR_OK, &w->a, coord_list(b, &w->a));
    NEED(w->a.plan_epoch == 3 && w->a.plan_number == 10);
    ANSWERS(ERR_OK, &w->a, coord_plan_read(b, &got, &w->a));
    NEED(w->a.plan_epoch == 3 && w->a.plan_number == 10);
    NEED(bytes_equal(buf_bytes(&got), bytes_str("two")));
    ANSWERS(ERR_OK, &w->a, coord_plan_write(b, 4, 1, bytes_str("three"), &w->a));
    ANSWERS(ERR_OK, &w->a, coord_plan_read(a, &got, &w->a));
    NEED(bytes_equal(buf_bytes(&got), bytes_str("three")));
    buf_done(&got);
}

static void a_former_leader_cannot_replace_a_plan(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    struct buf got;
    buf_init(&got, COORD_PLAN_MAX);
    joins(w, a, "a");
    joins(w, b, "b");
    ANSWERS(ERR_OK, &w->a, coord_plan_write(b, 7, 1, bytes_str("new"), &w->a));
    ANSWERS(ERR_CONFLICT, &w->a, coord_plan_write(a, 6, 50, bytes_str("old"), &w->a));
    NEED(strstr(w->a.why, "plan 1 of epoch 7"));
    ANSWERS(ERR_OK, &w->a, coord_plan_read(a, &got, &w->a));
    NEED(bytes_equal(buf_bytes(&got), bytes_str("new")));
    ANSWERS(ERR_INVALID, &w->a, coord_plan_write(a, 0, 1, bytes_str("none"), &w->a));
    buf_done(&got);
}

static void a_plan_wakes_a_watch(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, a, "a");
    joins(w, b, "b");
    ANSWERS(ERR_OK, &w->a, coord_list(b, &w->a));
    uint64_t at = w->a.at;
    ANSWERS(ERR_OK, &w->a, coord_plan_write(a, 1, 1, bytes_str("plan"), &w->a));
    for (int tries = 0; tries < 20 && w->a.plan_epoch != 1; tries++) {
        w->a.plan_epoch = 0;
        enum err e = coord_watch(b, at, 10000, &w->a);
        NEED(e == ERR_OK || e == ERR_NOT_FOUND);
    }
    NEED(w->a.plan_epoch == 1 && w->a.plan_number == 1);
}

int main(void)
{
    static const struct coord_test tests[] = {
        COORD_TEST(a_shard_has_one_holder),
        COORD_TEST(a_claim_that_is_held_keeps_its_token),
        COORD_TEST(tokens_rise_from_holder_to_holder),
        COORD_TEST(a_token_is_above_the_one_that_the_journal_knows),
        COORD_TEST(validation_tells_held_from_fenced_from_free),
        COORD_TEST(one_node_leads_and_its_epochs_rise),
        COORD_TEST(malformed_claims_are_refused),
        COORD_TEST(of_many_claims_at_once_one_wins),
        COORD_TEST(a_newer_plan_replaces_an_older_one),
        COORD_TEST(a_former_leader_cannot_replace_a_plan),
        COORD_TEST(a_plan_wakes_a_watch),
    };
    return coord_tests_run("claims", tests, sizeof tests / sizeof *tests);
}
