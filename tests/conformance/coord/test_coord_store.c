// SPDX-License-Identifier: Apache-2.0
// What is special about coordination by the store: its requests, which users pay for, and its
// faults.
#include "world.h"

#include "base/memory.h"
#include "base/rng.h"
#include "coord/record.h"
#include "fault_store.h"
#include "os/clock.h"
#include "store/mem.h"
#include "store/meter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define LEASE_MS 20000

static struct coord *open_on(struct store *s, int64_t lease_ms, int64_t lone_ms)
{
    struct coord_config config = {.lease_ms = lease_ms, .lone_ms = lone_ms, .store = s};
    struct coord *c = NULL;
    char why[COORD_WHY_MAX] = "";
    answers_at(ERR_OK, coord_open("store:", &config, &c, why), why, __FILE__, __LINE__);
    return c;
}

static void join_at(struct coord *c, const char *name, struct coord_answer *a)
{
    struct coord_member m = member_of(name, name);
    ANSWERS(ERR_OK, a, coord_join(c, &m, false, a));
}

// The requests since the last call: "put_new 1 put 0 get 0 list 2 delete 0".
static void count_requests(struct store *meter, struct meter_snapshot *before, char to[128])
{
    static const enum meter_kind kinds[] = {METER_PUT_NEW, METER_PUT, METER_GET, METER_LIST,
                                            METER_DELETE};
    struct meter_snapshot now;
    store_meter_read(meter, &now);
    to[0] = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t len = strlen(to);
        (void)snprintf(
            to + len, 128 - len, "%s%s %llu", i ? " " : "", meter_kind_name(kinds[i]),
            (unsigned long long)(now.kind[kinds[i]].requests - before->kind[kinds[i]].requests));
    }
    *before = now;
}

static void a_lone_node_writes_when_it_starts_and_leaves(void **state)
{
    (void)state;
    struct store *s = store_meter_take(store_mem_new());
    struct coord *c = open_on(s, 0, 0);
    struct coord_answer a;
    struct meter_snapshot seen = {0};
    char got[128];
    coord_answer_init(&a);
    join_at(c, "lone", &a);
    NEED(a.next_ms == COORD_LONE_MS && a.lease_ms == COORD_LEASE_MS);
    NEED(a.until_ms > clock_boot_ms() + COORD_LONE_MS);
    count_requests(s, &seen, got);
    assert_string_equal(got, "put_new 1 put 0 get 0 list 2 delete 0");
    for (int i = 0; i < 10; i++) {
        ANSWERS(ERR_OK, &a, coord_heartbeat(c, &a));
        NEED(a.next_ms == COORD_LONE_MS && a.members_len == 1);
    }
    count_requests(s, &seen, got);
    assert_string_equal(got, "put_new 0 put 0 get 0 list 10 delete 0");
    // A watch waits for the lists of the heartbeats, and makes none.
    ANSWERS(ERR_NOT_FOUND, &a, coord_watch(c, a.at, 50, &a));
    count_requests(s, &seen, got);
    assert_string_equal(got, "put_new 0 put 0 get 0 list 0 delete 0");
    ANSWERS(ERR_OK, &a, coord_leave(c, &a));
    count_requests(s, &seen, got);
    assert_string_equal(got, "put_new 0 put 1 get 0 list 0 delete 0");
    coord_answer_done(&a);
    coord_free(c);
    store_free(s);
}

static void heartbeats_begin_with_a_second_member(void **state)
{
    (void)state;
    struct store *s = store_meter_take(store_mem_new());
    struct coord *a = open_on(s, 0, 0), *b = open_on(s, 0, 0);
    struct coord_answer x;
    struct meter_snapshot seen = {0};
    char got[128];
    coord_answer_init(&x);
    join_at(a, "a", &x);
    join_at(b, "b", &x);
    NEED(x.next_ms == COORD_LEASE_MS / 3);
    ANSWERS(ERR_OK, &x, coord_heartbeat(a, &x));
    NEED(x.next_ms == COORD_LEASE_MS / 3 && x.members_len == 2);
    NEED(x.until_ms <= clock_boot_ms() + COORD_LEASE_MS);
    count_requests(s, &seen, got);
    for (int i = 0; i < 10; i++)
        ANSWERS(ERR_OK, &x, coord_heartbeat(a, &x));
    count_requests(s, &seen, got);
    assert_string_equal(got, "put_new 0 put 10 get 0 list 10 delete 0");
    ANSWERS(ERR_OK, &x, coord_leave(b, &x));
    ANSWERS(ERR_OK, &x, coord_heartbeat(a, &x));
    NEED(x.next_ms == COORD_LONE_MS && x.members_len == 1);
    coord_answer_done(&x);
    coord_free(a);
    coord_free(b);
    store_free(s);
}

static void the_requests_of_a_claim_are_few(void **state)
{
    (void)state;
    struct store *s = store_meter_take(store_mem_new());
    struct coord *a = open_on(s, LEASE_MS, 0), *b = open_on(s, LEASE_MS, 0);
    struct coord_answer x;
    struct meter_snapshot seen = {0};
    char got[128];
    coord_answer_init(&x);
    join_at(a, "a", &x);
    join_at(b, "b", &x);
    ANSWERS(ERR_OK, &x, coord_list(a, &x));
    count_requests(s, &seen, got);
    ANSWERS(ERR_OK, &x, coord_claim(a, "q/0", 0, &x));
    uint64_t token = x.token;
    count_requests(s, &seen, got);
    assert_string_equal(got, "put_new 1 put 0 get 0 list 2 delete 0");
    ANSWERS(ERR_OK, &x, coord_validate(b, "q/0", token, &x));
    count_requests(s, &seen, got);
    assert_string_equal(got, "put_new 0 put 0 get 1 list 2 delete 0");
    ANSWERS(ERR_OK, &x, coord_leave(a, &x));
    count_requests(s, &seen, got);
    ANSWERS(ERR_OK, &x, coord_claim(b, "q/0", 0, &x));
    NEED(x.token > token);
    count_requests(s, &seen, got);
    assert_string_equal(got, "put_new 1 put 0 get 1 list 3 delete 1");
    coord_answer_done(&x);
    coord_free(a);
    coord_free(b);
    store_free(s);
}

// A lone node is silent. A node that joins must give it the time to notice.
static void a_silent_member_is_not_taken_for_dead_at_once(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct coord *lone = open_on(s, 200, 60000), *b = open_on(s, 200, 60000);
    struct coord_answer x;
    coord_answer_init(&x);
    join_at(lone, "lone", &x);
    ANSWERS(ERR_OK, &x, coord_claim(lone, "q/0", 0, &x));
    (void)nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL); // over the lease
    join_at(b, "b", &x);
    NEED(x.members_len == 2);
    ANSWERS(ERR_CONFLICT, &x, coord_claim(b, "q/0", 0, &x));
    coord_answer_done(&x);
    coord_free(lone);
    coord_free(b);
    store_free(s);
}

static bool has_member(struct coord *c, const char *name, struct coord_answer *a)
{
    ANSWERS(ERR_OK, a, coord_heartbeat(c, a));
    for (size_t i = 0; i < a->members_len; i++)
        if (strcmp(a->members[i].name, name) == 0) return true;
    return false;
}

static void a_silent_member_that_does_not_answer_is_gone_after_a_lease(void **state)
{
    (void)state;
    enum { BRIEF_MS = 500 };
    struct store *s = store_mem_new();
    struct coord *lone = open_on(s, BRIEF_MS, 60000), *b = open_on(s, BRIEF_MS, 60000);
    struct coord_answer x;
    coord_answer_init(&x);
    join_at(lone, "a-lone", &x);
    ANSWERS(ERR_OK, &x, coord_claim(lone, "q/0", 0, &x));
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000},
                    NULL); // else its join is a sign of life
    join_at(b, "b", &x);
    NEED(x.members_len == 2 && x.members[0].silent && !x.members[1].silent);
    struct coord_member silent = x.members[0];
    coord_answers(b, &silent, false);
    coord_answers(b, &silent, true); // it stays
    int64_t asked = clock_boot_ms();
    while (clock_boot_ms() - asked < BRIEF_MS + 100)
        NEED(has_member(b, "a-lone", &x));
    asked = clock_boot_ms();
    for (bool listed = true; listed;) {
        coord_answers(b, &silent, false); // the time goes on from the first one
        listed = has_member(b, "a-lone", &x);
        NEED(listed || clock_boot_ms() - asked >= BRIEF_MS);
        NEED(clock_boot_ms() - asked < 60000);
    }
    ANSWERS(ERR_OK, &x, coord_claim(b, "q/0", 0, &x));
    // It lives after all. It sees the other member, and the other one sees it.
    ANSWERS(ERR_CONFLICT, &x, coord_claim(lone, "q/0", x.token, &x));
    ANSWERS(ERR_OK, &x, coord_heartbeat(lone, &x));
    NEED(has_member(b, "a-lone", &x));
    coord_answer_done(&x);
    coord_free(lone);
    coord_free(b);
    store_free(s);
}

static void the_incarnation_is_not_in_the_store(void **state)
{
    (void)state;
    static const char secret[] = "9f86d081884c7d65-the-incarnation";
    struct store *s = store_mem_new();
    struct coord *c = open_on(s, 0, 0);
    struct coord_member m = member_of("n", secret);
    struct coord_answer x;
    struct store_answer list, body;
    coord_answer_init(&x);
    store_answer_init(&list);
    store_answer_init(&body);
    ANSWERS(ERR_OK, &x, coord_join(c, &m, false, &x));
    ANSWERS(ERR_OK, &x, coord_claim(c, "q/0", 0, &x));
    ANSWERS(ERR_OK, &list, store_list(s, "", NULL, 100, &list));
    NEED(list.rows_len == 2);
    for (size_t i = 0; i < list.rows_len; i++) {
        const char *key = store_row_key(&list, i);
        ANSWERS(ERR_OK, &body, store_get(s, key, 0, SIZE_MAX, &body));
        buf_put_u8(&body.body, 0);
        NEED(!strstr((const char *)body.body.data, secret));
        NEED(strstr((const char *)body.body.data, "\"incarnationSha256\":\""));
    }
    store_answer_done(&body);
    store_answer_done(&list);
    coord_answer_done(&x);
    coord_free(c);
    store_free(s);
}

// The result of a call with faults must agree with what a later call without faults sees.
struct history {
    struct store *store; // the faulty one
    struct coord *node[3];
    uint64_t held[3]; // the token that the node believes to hold; 0: none
    bool doubt[3];    // a call about it ended in UNKNOWN
    uint64_t highest; // token that any call returned
};

static void step_claim(struct history *h, size_t i, struct coord_answer *a)
{
    enum err e = coord_claim(h->node[i], "q/0", 0, a);
    if (e == ERR_OK) {
        NEED(a->token >= h->highest);
        NEED(a->token > h->highest || h->held[i] == a->token || h->doubt[i]);
        h->highest = a->token;
        h->held[i] = a->token;
        h->doubt[i] = false;
    } else {
        NEED(e == ERR_CONFLICT || e == ERR_UNAVAILABLE || e == ERR_UNKNOWN);
        h->doubt[i] |= e == ERR_UNKNOWN;
    }
}

static void step_release(struct history *h, size_t i, struct coord_answer *a)
{
    if (!h->held[i]) return;
    enum err e = coord_release(h->node[i], "q/0", h->held[i], a);
    NEED(e == ERR_OK || e == ERR_UNAVAILABLE || e == ERR_UNKNOWN || e == ERR_FENCED);
    NEED(e != ERR_FENCED || h->doubt[i]);
    if (e == ERR_UNKNOWN) h->doubt[i] = true;
    if (e == ERR_OK || e == ERR_UNKNOWN) h->held[i] = 0;
}

static void faults_never_give_two_holders_or_an_old_token(void **state)
{
    (void)state;
    static const struct fault_options calm = {0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct fault_options faults = {.seed = seed,
                                       .lost_request = 400,
                                       .lost_reply = 400,
                                       .unknown_lost = 400,
                                       .unknown_late = 400,
                                       .late_calls = 6};
        struct history h = {.store = store_fault_take(store_mem_new(), &calm)};
        struct coord_answer a;
        struct rng rng;
        coord_answer_init(&a);
        rng_init(&rng, seed);
        for (size_t i = 0; i < 3; i++) {
            char name[8];
            (void)snprintf(name, sizeof name, "n%zu", i);
            h.node[i] = open_on(h.store, LEASE_MS, LEASE_MS);
            join_at(h.node[i], name, &a);
        }
        store_fault_set(h.store, &faults);
        for (int step = 0; step < 60; step++) {
            size_t i = (size_t)rng_below(&rng, 3);
            if (rng_chance(&rng, 6000))
                step_claim(&h, i, &a);
            else
                step_release(&h, i, &a);
        }
        store_fault_set(h.store, &calm);
        store_fault_flush(h.store);
        size_t holders = 0;
        for (size_t i = 0; i < 3; i++) {
            if (!h.held[i] || h.doubt[i]) continue;
            holders += coord_claim_renew(h.node[i], "q/0", h.held[i], &a) == ERR_OK;
        }
        NEED(holders <= 1);
        for (size_t i = 0; i < 3; i++)
            coord_free(h.node[i]);
        coord_answer_done(&a);
        store_free(h.store);
    }
}

static void a_store_that_is_away_makes_calls_unavailable(void **state)
{
    (void)state;
    static const struct fault_options calm = {0}, away = {.lost_request = 10000};
    struct store *s = store_fault_take(store_mem_new(), &calm);
    struct coord *c = open_on(s, LEASE_MS, LEASE_MS);
    struct coord_member m = member_of("n", "n");
    struct coord_answer a;
    coord_answer_init(&a);
    store_fault_set(s, &away);
    ANSWERS(ERR_UNAVAILABLE, &a, coord_join(c, &m, false, &a));
    store_fault_set(s, &calm);
    ANSWERS(ERR_OK, &a, coord_join(c, &m, false, &a));
    int64_t until = a.until_ms;
    store_fault_set(s, &away);
    ANSWERS(ERR_UNAVAILABLE, &a, coord_heartbeat(c, &a));
    NEED(a.until_ms == until); // not longer
    NEED(a.why[0] != 0);
    ANSWERS(ERR_UNAVAILABLE, &a, coord_claim(c, "q/0", 0, &a));
    ANSWERS(ERR_UNAVAILABLE, &a, coord_list(c, &a));
    ANSWERS(ERR_UNAVAILABLE, &a, coord_leave(c, &a));
    store_fault_set(s, &calm);
    ANSWERS(ERR_OK, &a, coord_heartbeat(c, &a));
    coord_answer_done(&a);
    coord_free(c);
    store_free(s);
}

static void pass_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

// A store in front of another that acts before a create, fails it, or delays an overwrite.
struct hook_store {
    struct store base;
    void (*before_create)(void *ctx); // called once
    void *ctx;
    enum err fails[4]; // of the next creates, which are then not made; ERR_OK: the end
    size_t fails_at;
    int64_t put_ms;     // an overwrite takes so long
    enum err put_fails; // an overwrite is not made, and returns this
};

static enum err hook_put_new(struct store *s, const char *key, struct bytes body,
                             struct store_answer *a)
{
    struct hook_store *h = (struct hook_store *)s;
    void (*act)(void *ctx) = h->before_create;
    h->before_create = NULL;
    if (act) act(h->ctx);
    enum err e = h->fails_at < 4 ? h->fails[h->fails_at] : ERR_OK;
    if (!e) return store_put_new(s->inner, key, body, a);
    h->fails_at++;
    return e;
}

static enum err hook_put(struct store *s, const char *key, struct bytes body,
                         struct store_answer *a)
{
    const struct hook_store *h = (const struct hook_store *)s;
    pass_ms(h->put_ms);
    if (h->put_fails) return h->put_fails;
    return store_put(s->inner, key, body, a);
}

static void hook_free(struct store *s)
{
    memory_free(s);
}

static const struct store_ops hook_ops = {
    .put_new = hook_put_new, .put = hook_put, .free = hook_free};

static struct hook_store *hook_new(struct store *inner)
{
    struct hook_store *h = NEW(struct hook_store);
    store_init_around(&h->base, &hook_ops, inner);
    return h;
}

struct rival {
    struct coord *c;
    uint64_t token;
};

// Claims twice, so that the token which the slow node is about to create is deleted.
static void rival_claims_twice(void *ctx)
{
    struct rival *r = ctx;
    struct coord_answer a;
    coord_answer_init(&a);
    ANSWERS(ERR_OK, &a, coord_claim(r->c, "q/0", 0, &a));
    ANSWERS(ERR_OK, &a, coord_claim(r->c, "q/0", a.token, &a));
    r->token = a.token;
    coord_answer_done(&a);
}

static void a_slow_claim_of_a_deleted_token_is_found_out(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct hook_store *hook = hook_new(s);
    struct coord *slow = open_on(&hook->base, LEASE_MS, LEASE_MS);
    struct rival rival = {.c = open_on(s, LEASE_MS, LEASE_MS)};
    struct coord_answer a;
    coord_answer_init(&a);
    join_at(slow, "slow", &a);
    join_at(rival.c, "rival", &a);
    hook->before_create = rival_claims_twice;
    hook->ctx = &rival;
    ANSWERS(ERR_CONFLICT, &a, coord_claim(slow, "q/0", 0, &a));
    NEED(strcmp(a.holder.name, "rival") == 0 && a.holder.token == rival.token);
    ANSWERS(ERR_OK, &a, coord_claim_renew(rival.c, "q/0", rival.token, &a));
    coord_answer_done(&a);
    coord_free(slow);
    coord_free(rival.c);
    store_free(&hook->base);
    store_free(s);
}

static void a_refusal_after_an_unknown_create_is_unknown(void **state)
{
    (void)state;
    static const enum err ends[] = {ERR_UNAVAILABLE, ERR_DENIED, ERR_LIMIT};
    struct store *s = store_mem_new();
    struct hook_store *hook = hook_new(s);
    struct coord *c = open_on(&hook->base, LEASE_MS, LEASE_MS);
    struct coord_answer a;
    coord_answer_init(&a);
    join_at(c, "n", &a);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const enum err fails[4] = {ERR_UNKNOWN, ends[i], ends[i], ERR_OK};
        memcpy(hook->fails, fails, sizeof fails);
        hook->fails_at = 0;
        ANSWERS(ERR_UNKNOWN, &a, coord_claim(c, "q/0", 0, &a));
        hook->fails_at = 0;
        hook->fails[0] = ends[i]; // without the doubt
        hook->fails[1] = ERR_OK;
        ANSWERS(ends[i], &a, coord_claim(c, "q/0", 0, &a));
        hook->fails_at = 4;
    }
    ANSWERS(ERR_OK, &a, coord_claim(c, "q/0", 0, &a));
    coord_answer_done(&a);
    coord_free(c);
    store_free(&hook->base);
    store_free(s);
}

static void a_session_does_nothing_after_its_lease(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct coord *c = open_on(s, 200, 200);
    struct coord_answer a;
    coord_answer_init(&a);
    join_at(c, "n", &a);
    pass_ms(a.until_ms - clock_boot_ms() + 20);
    ANSWERS(ERR_NOT_FOUND, &a, coord_claim(c, "q/0", 0, &a));
    NEED(strstr(a.why, "join again"));
    join_at(c, "n", &a);
    coord_answer_done(&a);
    coord_free(c);
    store_free(s);
}

// Another node may have seen the session end before the heartbeat arrived.
static void a_heartbeat_that_arrives_after_the_lease_does_not_renew(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct hook_store *hook = hook_new(s);
    struct coord *c = open_on(&hook->base, 2000, 2000), *other = open_on(s, 20000, 20000);
    struct coord_answer a;
    coord_answer_init(&a);
    join_at(other, "other", &a);
    join_at(c, "n", &a);
    ANSWERS(ERR_OK, &a, coord_claim(c, "q/0", 0, &a));
    uint64_t token = a.token;
    hook->put_ms = 2100;
    ANSWERS(ERR_NOT_FOUND, &a, coord_heartbeat(c, &a));
    NEED(strstr(a.why, "was not renewed within its lease of 2000 ms"));
    // It keeps the record alive. The next join does not bring back the claims of that session: the
    // node has forgotten them, and no other node could ever get them.
    hook->put_ms = 0;
    join_at(c, "n", &a);
    ANSWERS(ERR_OK, &a, coord_claim(other, "q/0", 0, &a));
    NEED(a.token > token);
    coord_answer_done(&a);
    coord_free(c);
    coord_free(other);
    store_free(&hook->base);
    store_free(s);
}

static void a_failed_heartbeat_does_not_prolong_the_session(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct hook_store *hook = hook_new(s);
    struct coord *c = open_on(&hook->base, LEASE_MS, 3 * LEASE_MS);
    struct coord *other = open_on(s, LEASE_MS, 3 * LEASE_MS);
    struct coord_answer a;
    coord_answer_init(&a);
    join_at(c, "n", &a);
    int64_t lone_until = a.until_ms;
    join_at(other, "other", &a);
    // The first heartbeat may have told the other node that this one is not lone any more.
    hook->put_fails = ERR_UNAVAILABLE;
    ANSWERS(ERR_UNAVAILABLE, &a, coord_heartbeat(c, &a));
    NEED(a.until_ms == lone_until);
    hook->put_fails = ERR_UNKNOWN;
    ANSWERS(ERR_UNKNOWN, &a, coord_heartbeat(c, &a));
    NEED(a.until_ms < lone_until && a.until_ms <= clock_boot_ms() + LEASE_MS);
    int64_t until = a.until_ms;
    pass_ms(5);
    ANSWERS(ERR_UNKNOWN, &a, coord_heartbeat(c, &a));
    NEED(a.until_ms == until);
    hook->put_fails = ERR_OK;
    ANSWERS(ERR_OK, &a, coord_heartbeat(c, &a));
    NEED(a.until_ms > until);
    coord_answer_done(&a);
    coord_free(c);
    coord_free(other);
    store_free(&hook->base);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_node_writes_when_it_starts_and_leaves),
        cmocka_unit_test(heartbeats_begin_with_a_second_member),
        cmocka_unit_test(the_requests_of_a_claim_are_few),
        cmocka_unit_test(a_silent_member_is_not_taken_for_dead_at_once),
        cmocka_unit_test(a_silent_member_that_does_not_answer_is_gone_after_a_lease),
        cmocka_unit_test(the_incarnation_is_not_in_the_store),
        cmocka_unit_test(faults_never_give_two_holders_or_an_old_token),
        cmocka_unit_test(a_slow_claim_of_a_deleted_token_is_found_out),
        cmocka_unit_test(a_refusal_after_an_unknown_create_is_unknown),
        cmocka_unit_test(a_session_does_nothing_after_its_lease),
        cmocka_unit_test(a_heartbeat_that_arrives_after_the_lease_does_not_renew),
        cmocka_unit_test(a_failed_heartbeat_does_not_prolong_the_session),
        cmocka_unit_test(a_store_that_is_away_makes_calls_unavailable),
    };
    return cmocka_run_group_tests_name("coord store", tests, NULL, NULL);
}
