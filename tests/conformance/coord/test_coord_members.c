// SPDX-License-Identifier: Apache-2.0
// The contract of members: join, heartbeat, leave, list and watch.
#include "world.h"

#include "base/digits.h"
#include "os/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void a_member_is_listed_with_its_record(void **state)
{
    struct world *w = *state;
    struct coord *c = node_open(w), *other = node_open(w);
    joins(w, c, "node-a");
    lists_members(w, other, "node-a");
    const struct coord_member *m = &w->a.members[0];
    struct coord_member want = member_of("node-a", "node-a");
    NEED(strcmp(m->url, want.url) == 0 && strcmp(m->version, want.version) == 0);
    NEED(m->capacity == 7 && m->rules_lo == 1 && m->rules_hi == 2);
    NEED(memcmp(m->incarnation, want.incarnation, sizeof m->incarnation) == 0);
    NEED(w->a.leader.name[0] == 0);
}

static void members_are_listed_by_name(void **state)
{
    struct world *w = *state;
    joins(w, node_open(w), "n3");
    joins(w, node_open(w), "n1");
    joins(w, node_open(w), "n2");
    lists_members(w, w->handles[0], "n1 n2 n3");
    lists_members(w, node_open(w), "n1 n2 n3");
}

static void a_name_in_use_by_a_live_node_is_refused(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, a, "same");
    struct coord_member m = member_of("same", "another incarnation");
    ANSWERS(ERR_CONFLICT, &w->a, coord_join(b, &m, false, &w->a));
    NEED(strstr(w->a.why, "the name \"same\" is in use by a live node at http://same:7333"));
    NEED(strcmp(w->a.holder.name, "same") == 0);
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_heartbeat(b, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_heartbeat(a, &w->a));
}

static void a_replaced_incarnation_is_fenced_and_holds_nothing(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, a, "same");
    uint64_t token = claims(w, a, "q/0", 0);
    struct coord_member m = member_of("same", "another incarnation");
    ANSWERS(ERR_OK, &w->a, coord_join(b, &m, true, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_validate(b, "q/0", token, &w->a));
    NEED(claims(w, b, "q/0", 0) > token);
    ANSWERS(ERR_FENCED, &w->a, coord_heartbeat(a, &w->a));
    NEED(strstr(w->a.why, "another incarnation of node \"same\""));
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_heartbeat(a, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_heartbeat(b, &w->a));
    lists_members(w, b, "same");
    NEED(memcmp(w->a.members[0].incarnation, m.incarnation, sizeof m.incarnation) == 0);
}

static void a_repeated_join_is_fine_and_keeps_the_claims(void **state)
{
    struct world *w = *state;
    struct coord *c = node_open(w);
    joins(w, c, "n");
    uint64_t token = claims(w, c, "q/0", 0);
    joins(w, c, "n");
    ANSWERS(ERR_OK, &w->a, coord_validate(c, "q/0", token, &w->a));
    lists_members(w, c, "n");
}

static void leaving_frees_everything_at_once(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, a, "a");
    joins(w, b, "b");
    uint64_t epoch = leads(w, a, 0), token = claims(w, a, "q/0", 0);
    ANSWERS(ERR_OK, &w->a, coord_leave(a, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_leave(a, &w->a));
    lists_members(w, b, "b");
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_observe(b, &w->a));
    NEED(leads(w, b, 0) > epoch);
    NEED(claims(w, b, "q/0", 0) > token);
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_heartbeat(a, &w->a));
    NEED(w->a.why[0] != 0);
    joins(w, a, "a");
    lists_members(w, b, "a b");
}

static void a_session_that_is_not_renewed_ends(void **state)
{
    struct world *w = *state;
    w->lease_ms = SHORT_MS;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, b, "b");
    joins(w, a, "a");
    uint64_t epoch = leads(w, a, 0), token = claims(w, a, "q/0", 0);
    ANSWERS(ERR_OK, &w->a, coord_heartbeat(a, &w->a));
    int64_t until = w->a.until_ms;
    wait_until_gone(w, b, "a");
    if (strcmp(coord_backend(a), "mem") != 0) NEED(clock_boot_ms() >= until);
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_validate(b, "q/0", token, &w->a));
    NEED(claims(w, b, "q/0", 0) > token);
    NEED(leads(w, b, 0) > epoch);
    ANSWERS(ERR_FENCED, &w->a, coord_validate(b, "q/0", token, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_claim_renew(a, "q/0", token, &w->a));
    NEED(w->a.why[0] != 0);
    ANSWERS(ERR_OK, &w->a, coord_heartbeat(b, &w->a));
    joins(w, a, "a");
    ANSWERS(ERR_CONFLICT, &w->a, coord_claim(a, "q/0", 0, &w->a));
    NEED(strcmp(w->a.holder.name, "b") == 0);
}

static void heartbeats_keep_a_session(void **state)
{
    struct world *w = *state;
    w->lease_ms = SHORT_MS;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, a, "a");
    joins(w, b, "b");
    uint64_t token = claims(w, a, "q/0", 0);
    int64_t end = clock_boot_ms() + 5 * SHORT_MS / 4;
    while (clock_boot_ms() < end) {
        ANSWERS(ERR_OK, &w->a, coord_heartbeat(a, &w->a));
        NEED(w->a.next_ms <= SHORT_MS / 2);
        ANSWERS(ERR_OK, &w->a, coord_heartbeat(b, &w->a));
        ANSWERS(ERR_CONFLICT, &w->a, coord_claim(b, "q/0", 0, &w->a));
        (void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    }
    ANSWERS(ERR_OK, &w->a, coord_claim_renew(a, "q/0", token, &w->a));
}

static void nothing_is_done_without_a_session(void **state)
{
    struct world *w = *state;
    struct coord *c = node_open(w);
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_heartbeat(c, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_lead(c, 0, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_claim(c, "q/0", 0, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, coord_claim_renew(c, "q/0", 1, &w->a));
    NEED(strstr(w->a.why, "join first"));
    ANSWERS(ERR_OK, &w->a, coord_leave(c, &w->a));
    lists_members(w, c, "");
}

static void a_bad_record_is_refused(void **state)
{
    struct world *w = *state;
    struct coord *c = node_open(w);
    static const char *const names[] = {"", "-a", "a/b", "a b", ".", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct coord_member m = member_of(names[i], "x");
        ANSWERS(ERR_INVALID, &w->a, coord_join(c, &m, false, &w->a));
        NEED(w->a.why[0] != 0);
    }
    struct coord_member m = member_of("n", "x");
    m.url[3] = '"';
    ANSWERS(ERR_INVALID, &w->a, coord_join(c, &m, false, &w->a));
    m = member_of("n", "x");
    m.rules_lo = 3;
    ANSWERS(ERR_INVALID, &w->a, coord_join(c, &m, false, &w->a));
    lists_members(w, c, "");
}

static void a_watch_without_a_change_waits(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w);
    joins(w, a, "a");
    ANSWERS(ERR_OK, &w->a, coord_watch(a, 0, LONG_MS, &w->a));
    NEED(w->a.members_len == 1);
    // Other tests write to the same server: a watch may wake for nothing, but not for ever.
    int64_t began = clock_boot_ms(), waited = 0;
    for (int i = 0; i < 50; i++) {
        int64_t start = clock_boot_ms();
        enum err e = coord_watch(a, w->a.at, 300, &w->a);
        waited = clock_boot_ms() - start;
        if (e == ERR_NOT_FOUND) break;
        ANSWERS(ERR_OK, &w->a, e);
        NEED(w->a.members_len == 1);
    }
    NEED(waited >= 290);
    NEED(clock_boot_ms() - began < DEADLINE_MS);
}

static void a_watch_resumes_after_changes_that_it_missed(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, a, "a");
    lists_members(w, a, "a");
    uint64_t at = w->a.at;
    joins(w, b, "b");
    ANSWERS(ERR_OK, &w->a, coord_heartbeat(a, &w->a)); // `store:` learns of it here
    ANSWERS(ERR_OK, &w->a, coord_watch(a, at, LONG_MS, &w->a));
    NEED(w->a.members_len == 2 && w->a.at != at);
    uint64_t epoch = leads(w, b, 0);
    at = w->a.at = 0;
    lists_members(w, a, "a b");
    NEED(w->a.leader.token == epoch && strcmp(w->a.leader.name, "b") == 0);
    at = w->a.at;
    ANSWERS(ERR_OK, &w->a, coord_resign(b, epoch, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_heartbeat(a, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_watch(a, at, LONG_MS, &w->a));
    NEED(w->a.leader.token == 0);
}

struct watcher {
    struct coord *c;
    uint64_t at;
    struct coord_answer a;
    enum err e;
};

static void *watch_on_a_thread(void *arg)
{
    struct watcher *x = arg;
    size_t had = 1;
    do
        x->e = coord_watch(x->c, x->at, DEADLINE_MS, &x->a);
    while (x->e == ERR_OK && x->a.members_len == had && (x->at = x->a.at));
    return NULL;
}

static void a_watch_wakes_when_a_member_joins(void **state)
{
    struct world *w = *state;
    w->lease_ms = SHORT_MS; // an observer on `store:` lists every third of it
    struct coord *a = node_open(w), *observer = node_open(w);
    w->lease_ms = LONG_MS;
    struct coord *b = node_open(w);
    joins(w, a, "a");
    ANSWERS(ERR_OK, &w->a, coord_list(observer, &w->a));
    struct watcher x = {.c = observer, .at = w->a.at};
    coord_answer_init(&x.a);
    pthread_t thread;
    NEED(pthread_create(&thread, NULL, watch_on_a_thread, &x) == 0);
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    ANSWERS(ERR_OK, &w->a, coord_heartbeat(a, &w->a));
    joins(w, b, "b");
    NEED(pthread_join(thread, NULL) == 0);
    ANSWERS(ERR_OK, &x.a, x.e);
    NEED(x.a.members_len == 2 && strcmp(x.a.members[1].name, "b") == 0);
    coord_answer_done(&x.a);
}

static void the_handles_of_a_service_have_one_id(void **state)
{
    struct world *w = *state;
    uint8_t a[COORD_ID_LEN], b[COORD_ID_LEN];
    struct coord *c = node_open(w), *other = node_open(w);
    coord_id(c, a);
    coord_id(other, b);
    NEED(memcmp(a, b, sizeof a) == 0);
    bool zeros = true;
    for (size_t i = 0; i < sizeof a; i++)
        zeros = zeros && a[i] == 0;
    NEED(zeros == (strcmp(coord_backend(c), "store") == 0));
}

static void another_id_than_the_expected_one_is_refused(void **state)
{
    struct world *w = *state;
    struct coord *c = NULL;
    char why[COORD_WHY_MAX] = "", hex[2 * COORD_ID_LEN + 1];
    uint8_t id[COORD_ID_LEN];
    if (in_memory(w)) return; // no URL opens it
    coord_id(node_open(w), id);
    id[3] ^= 1;
    struct coord_config config = {.id = id,
                                  .store = w->store,
                                  .user = getenv("SLUICE_TEST_COORD_USER"),
                                  .password = getenv("SLUICE_TEST_COORD_PASSWORD"),
                                  .token = getenv("SLUICE_TEST_COORD_TOKEN"),
                                  .ca_file = getenv("SLUICE_TEST_COORD_CA")};
    answers_at(ERR_CORRUPT, coord_open(w->url, &config, &c, why), why, __FILE__, __LINE__);
    *digits_put_hex(hex, id, sizeof id) = 0;
    NEED(strstr(why, hex) && strstr(why, "it is another service"));
    NEED(c == NULL);
}

static void a_node_that_leaves_says_so_in_its_record(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    struct coord_member self = member_of("a", "secret of a");
    joins(w, b, "b");
    ANSWERS(ERR_OK, &w->a, coord_join(a, &self, false, &w->a));
    uint64_t token = claims(w, a, "q/0", 0);
    ANSWERS(ERR_OK, &w->a, coord_list(b, &w->a));
    NEED(w->a.members_len == 2 && !w->a.members[0].leaving);
    self.leaving = true;
    ANSWERS(ERR_OK, &w->a, coord_join(a, &self, false, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_list(b, &w->a));
    NEED(w->a.members_len == 2 && w->a.members[0].leaving && !w->a.members[1].leaving);
    NEED(w->a.members[0].age_ms >= 0 && w->a.members[0].age_ms < LONG_MS);
    ANSWERS(ERR_OK, &w->a, coord_validate(b, "q/0", token, &w->a)); // it keeps what it holds
    ANSWERS(ERR_OK, &w->a, coord_heartbeat(a, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_list(b, &w->a));
    NEED(w->a.members_len == 2 && w->a.members[0].leaving);
}

static void a_lone_node_goes_on_seeing_itself(void **state)
{
    struct world *w = *state;
    w->lease_ms = SHORT_MS;
    struct coord *a = node_open(w);
    joins(w, a, "a");
    for (int i = 0; i < 10; i++) { // longer than a minute and a lease, which are short here
        (void)nanosleep(&(struct timespec){.tv_nsec = 400 * 1000000}, NULL);
        ANSWERS(ERR_OK, &w->a, coord_heartbeat(a, &w->a));
    }
    lists_members(w, a, "a");
}

int main(void)
{
    static const struct coord_test tests[] = {
        COORD_TEST(a_member_is_listed_with_its_record),
        COORD_TEST(members_are_listed_by_name),
        COORD_TEST(a_name_in_use_by_a_live_node_is_refused),
        COORD_TEST(a_replaced_incarnation_is_fenced_and_holds_nothing),
        COORD_TEST(a_repeated_join_is_fine_and_keeps_the_claims),
        COORD_TEST(leaving_frees_everything_at_once),
        COORD_TEST(a_session_that_is_not_renewed_ends),
        COORD_TEST(heartbeats_keep_a_session),
        COORD_TEST(nothing_is_done_without_a_session),
        COORD_TEST(a_bad_record_is_refused),
        COORD_TEST(a_watch_without_a_change_waits),
        COORD_TEST(a_watch_resumes_after_changes_that_it_missed),
        COORD_TEST(a_watch_wakes_when_a_member_joins),
        COORD_TEST(the_handles_of_a_service_have_one_id),
        COORD_TEST(another_id_than_the_expected_one_is_refused),
        COORD_TEST(a_node_that_leaves_says_so_in_its_record),
        COORD_TEST(a_lone_node_goes_on_seeing_itself),
    };
    return coord_tests_run("members", tests, sizeof tests / sizeof *tests);
}
