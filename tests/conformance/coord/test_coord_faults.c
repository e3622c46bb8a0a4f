// SPDX-License-Identifier: Apache-2.0
// Faults of real servers, one or three: killed, stopped, cut off in the middle of an answer, wiped.
// It runs beside them (tests/servers/with-coord).
#include "world.h"

#include "base/memory.h"
#include "base/rng.h"
#include "fault_proxy.h"
#include "os/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// The first server, through a proxy.
static struct fault_proxy *proxy_before(struct world *w, uint64_t seed)
{
    char server[300] = "http://", scheme[16];
    const char *hosts = strstr(w->url, "://") + 3;
    size_t len = strcspn(hosts, ",/");
    const char *prefix = hosts + strcspn(hosts, "/");
    char rest[300];
    (void)snprintf(server + 7, sizeof server - 7, "%.*s", (int)len, hosts);
    (void)snprintf(scheme, sizeof scheme, "%.*s", (int)strcspn(w->url, ":"), w->url);
    (void)snprintf(rest, sizeof rest, "%s", prefix);
    struct fault_proxy *p = proxy_start(server, seed);
    NEED(p != NULL);
    (void)snprintf(w->url, sizeof w->url, "%s://%s%s", scheme, proxy_url(p) + 7, rest);
    return p;
}

// The method of a transaction.
static const char *write_method(const struct world *w)
{
    return strncmp(w->url, "etcd", 4) == 0 ? "POST" : "PUT";
}

// Heartbeats until the service answers again.
static enum err heartbeat_soon(struct world *w, struct coord *c)
{
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    for (;;) {
        enum err e = coord_heartbeat(c, &w->a);
        if (e != ERR_UNAVAILABLE && e != ERR_UNKNOWN) return e;
        NEED(clock_boot_ms() < end);
    }
}

static uint64_t claims_soon(struct world *w, struct coord *c, const char *shard)
{
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    for (;;) {
        enum err e = coord_claim(c, shard, 0, &w->a);
        if (e == ERR_OK) return w->a.token;
        if (e != ERR_UNAVAILABLE && e != ERR_UNKNOWN) ANSWERS(ERR_OK, &w->a, e);
        NEED(clock_boot_ms() < end);
    }
}

static void a_killed_server_makes_calls_unavailable(void **state)
{
    struct world *w = *state;
    w->timeout_ms = 600;
    struct coord *c = node_open(w);
    joins(w, c, "n");
    uint64_t token = claims(w, c, "q/0", 0);
    ANSWERS(ERR_OK, &w->a, coord_heartbeat(c, &w->a));
    int64_t until = w->a.until_ms;
    (void)control("kill 0");
    ANSWERS(ERR_UNAVAILABLE, &w->a, coord_list(c, &w->a));
    // The first write may have met the connection's end in the middle.
    enum err e = coord_heartbeat(c, &w->a);
    NEED(e == ERR_UNAVAILABLE || e == ERR_UNKNOWN);
    NEED(w->a.until_ms == until && w->a.why[0] != 0);
    ANSWERS(ERR_UNAVAILABLE, &w->a, coord_heartbeat(c, &w->a));
    ANSWERS(ERR_UNAVAILABLE, &w->a, coord_claim(c, "q/1", 0, &w->a));
    ANSWERS(ERR_UNAVAILABLE, &w->a, coord_watch(c, 1, 100, &w->a));
    (void)control("start 0");
    w->timeout_ms = 5000;
    ANSWERS(ERR_OK, &w->a, heartbeat_soon(w, c));
    ANSWERS(ERR_OK, &w->a, coord_validate(c, "q/0", token, &w->a));
    ANSWERS(ERR_OK, &w->a, coord_release(c, "q/0", token, &w->a));
    NEED(claims(w, c, "q/0", 0) > token);
}

static void a_stopped_server_leaves_writes_unknown_and_reads_unavailable(void **state)
{
    struct world *w = *state;
    w->timeout_ms = 900;
    struct coord *c = node_open(w);
    joins(w, c, "n");
    uint64_t token = claims(w, c, "q/0", 0);
    (void)control("stop 0");
    ANSWERS(ERR_UNAVAILABLE, &w->a, coord_list(c, &w->a));
    enum err e = coord_heartbeat(c, &w->a);
    NEED(e == ERR_UNKNOWN);
    ANSWERS(ERR_UNAVAILABLE, &w->a, coord_claim(c, "q/1", 0, &w->a)); // its read fails first
    (void)control("cont 0");
    ANSWERS(ERR_OK, &w->a, heartbeat_soon(w, c));
    ANSWERS(ERR_OK, &w->a, coord_claim_renew(c, "q/0", token, &w->a));
}

static void a_claim_whose_answer_is_lost_is_decided(void **state)
{
    struct world *w = *state;
    struct fault_proxy *p = proxy_before(w, 1);
    struct coord *c = node_open(w);
    joins(w, c, "n");
    uint64_t last = claims(w, c, "q/0", 0);
    for (int fault = PROXY_CUT_BEFORE; fault <= PROXY_TRUNCATE; fault++) {
        ANSWERS(ERR_OK, &w->a, coord_release(c, "q/0", last, &w->a));
        // etcd reads by POST, too: the second one is the transaction.
        proxy_script(p, write_method(w), PROXY_PASS, 0, w->url[0] == 'e' ? 1 : 0);
        proxy_script(p, write_method(w), (enum proxy_fault)fault, 0, 1);
        uint64_t token = claims(w, c, "q/0", 0);
        NEED(token == last + 1); // applied once
        last = token;
        ANSWERS(ERR_OK, &w->a, coord_validate(c, "q/0", last, &w->a));
    }
    proxy_calm(p);
    coord_free(w->handles[--w->handles_len]);
    proxy_stop(p);
}

static void a_claim_without_any_answer_is_unknown(void **state)
{
    struct world *w = *state;
    struct fault_proxy *p = proxy_before(w, 1);
    w->timeout_ms = 900;
    struct coord *c = node_open(w);
    joins(w, c, "n");
    proxy_script(p, NULL, PROXY_PASS, 0, 1); // the read before the transaction
    proxy_script(p, NULL, PROXY_CUT_AFTER, 0, 10000);
    ANSWERS(ERR_UNKNOWN, &w->a, coord_claim(c, "q/0", 0, &w->a));
    NEED(w->a.why[0] != 0);
    proxy_calm(p);
    coord_free(w->handles[--w->handles_len]);
    proxy_stop(p);
}

struct history {
    uint64_t held[3];
    bool doubt[3];
    uint64_t highest;
};

static void random_claim(struct history *h, size_t i, struct coord *c, struct coord_answer *a)
{
    enum err e = coord_claim(c, "q/0", 0, a);
    if (e == ERR_OK) {
        NEED(a->token > h->highest || h->held[i] == a->token || h->doubt[i]);
        NEED(a->token >= h->highest);
        h->highest = h->held[i] = a->token;
        h->doubt[i] = false;
    } else {
        NEED(e == ERR_CONFLICT || e == ERR_UNAVAILABLE || e == ERR_UNKNOWN);
        h->doubt[i] |= e == ERR_UNKNOWN;
    }
}

static void random_release(struct history *h, size_t i, struct coord *c, struct coord_answer *a)
{
    if (!h->held[i]) return;
    enum err e = coord_release(c, "q/0", h->held[i], a);
    NEED(e == ERR_OK || e == ERR_UNAVAILABLE || e == ERR_UNKNOWN ||
         (e == ERR_FENCED && h->doubt[i]));
    h->doubt[i] |= e == ERR_UNKNOWN;
    if (e == ERR_OK || e == ERR_UNKNOWN) h->held[i] = 0;
}

static void random_faults_never_give_two_holders_or_an_old_token(void **state)
{
    struct world *w = *state;
    struct fault_proxy *p = proxy_before(w, 7);
    struct history h = {0};
    struct rng rng;
    rng_init(&rng, 7);
    w->timeout_ms = 1500;
    for (int i = 0; i < 3; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "n%d", i);
        joins(w, node_open(w), name);
    }
    struct proxy_faults faults = proxy_all_faults(300);
    faults.delay_ms = 30;
    faults.stall_ms = 50;
    proxy_set(p, &faults);
    for (int step = 0; step < 80; step++) {
        size_t i = (size_t)rng_below(&rng, 3);
        if (rng_chance(&rng, 6000))
            random_claim(&h, i, w->handles[i], &w->a);
        else
            random_release(&h, i, w->handles[i], &w->a);
    }
    proxy_calm(p);
    int holders = 0;
    for (size_t i = 0; i < 3; i++)
        if (h.held[i] && !h.doubt[i])
            holders += coord_claim_renew(w->handles[i], "q/0", h.held[i], &w->a) == ERR_OK;
    NEED(holders <= 1);
    NEED(proxy_fault_total(p) > 10);
    while (w->handles_len > 0)
        coord_free(w->handles[--w->handles_len]);
    proxy_stop(p);
}

// Consul has a lower limit, and etcd whole seconds.
static void a_lease_that_the_service_refuses_becomes_longer(void **state)
{
    struct world *w = *state;
    w->lease_ms = 500;
    struct coord *c = node_open(w);
    joins(w, c, "n");
    NEED(w->a.lease_ms == (w->url[0] == 'e' ? 1000 : 10000));
    NEED(w->a.next_ms == w->a.lease_ms / 3);
}

static void a_watch_from_a_forgotten_revision_resumes(void **state)
{
    struct world *w = *state;
    struct coord *a = node_open(w), *b = node_open(w);
    joins(w, a, "a");
    lists_members(w, a, "a");
    uint64_t at = w->a.at;
    joins(w, b, "b");
    lists_members(w, a, "a b");
    (void)control("compact %llu", (unsigned long long)w->a.at);
    ANSWERS(ERR_OK, &w->a, coord_watch(a, at, 5000, &w->a));
    NEED(w->a.members_len == 2);
}

static void a_server_that_was_wiped_is_another_service(void **state)
{
    struct world *w = *state;
    struct coord *c = node_open(w);
    joins(w, c, "n");
    (void)control("kill 0");
    (void)control("wipe 0");
    (void)control("start 0");
    ANSWERS(ERR_CORRUPT, &w->a, coord_list(c, &w->a));
    NEED(strstr(w->a.why, "it is another service"));
    struct coord_member m = member_of("n", "n");
    enum err e = coord_join(c, &m, false, &w->a);
    NEED(e == ERR_CORRUPT);
}

static void a_killed_leader_costs_no_session_and_no_claim(void **state)
{
    struct world *w = *state;
    struct coord *c = node_open(w);
    joins(w, c, "n");
    uint64_t token = claims(w, c, "q/0", 0);
    for (int round = 0; round < 2; round++) {
        int leader = control("leader");
        (void)control("kill %d", leader);
        ANSWERS(ERR_OK, &w->a, heartbeat_soon(w, c));
        ANSWERS(ERR_OK, &w->a, coord_claim_renew(c, "q/0", token, &w->a));
        ANSWERS(ERR_OK, &w->a, coord_release(c, "q/0", token, &w->a));
        uint64_t next = claims_soon(w, c, "q/0");
        NEED(next == token + 1);
        token = next;
        (void)control("start %d", leader);
    }
}

static void a_stopped_server_is_left_for_another(void **state)
{
    struct world *w = *state;
    w->timeout_ms = 3000;
    struct coord *c = node_open(w);
    joins(w, c, "n");
    for (int i = 0; i < 3; i++) {
        (void)control("stop %d", i);
        ANSWERS(ERR_OK, &w->a, heartbeat_soon(w, c));
        (void)claims_soon(w, c, i == 0 ? "q/0" : i == 1 ? "q/1" : "q/2");
        (void)control("cont %d", i);
    }
}

static void without_a_majority_nothing_is_granted(void **state)
{
    struct world *w = *state;
    w->timeout_ms = 1500;
    struct coord *c = node_open(w);
    joins(w, c, "n");
    uint64_t token = claims(w, c, "q/0", 0);
    (void)control("kill 1");
    (void)control("kill 2");
    ANSWERS(ERR_UNAVAILABLE, &w->a, coord_list(c, &w->a));
    enum err e = coord_claim(c, "q/1", 0, &w->a);
    NEED(e == ERR_UNAVAILABLE || e == ERR_UNKNOWN);
    e = coord_release(c, "q/0", token, &w->a);
    NEED(e == ERR_UNAVAILABLE || e == ERR_UNKNOWN);
    (void)control("start 1");
    (void)control("start 2");
    ANSWERS(ERR_OK, &w->a, heartbeat_soon(w, c));
    NEED(claims_soon(w, c, "q/1") > 0);
}

static enum err opens(struct world *w, const char *user, const char *password, const char *token,
                      char why[static COORD_WHY_MAX])
{
    struct coord *c = NULL;
    struct coord_config config = {.user = user,
                                  .password = password,
                                  .token = token,
                                  .ca_file = getenv("SLUICE_TEST_COORD_CA")};
    enum err e = coord_open(w->url, &config, &c, why);
    coord_free(c);
    return e;
}

static void wrong_credentials_are_refused_with_a_sentence(void **state)
{
    struct world *w = *state;
    char why[COORD_WHY_MAX] = "";
    if (!getenv("SLUICE_TEST_COORD_USER") && !getenv("SLUICE_TEST_COORD_TOKEN")) {
        (void)printf("# skipped: the servers ask for no credentials\n");
        return;
    }
    answers_at(ERR_DENIED, opens(w, NULL, NULL, NULL, why), why, __FILE__, __LINE__);
    NEED(strstr(why, "refuses"));
    answers_at(ERR_DENIED, opens(w, "root", "no-such-password", "00000000-no-such-token", why), why,
               __FILE__, __LINE__);
    NEED(strstr(why, "refuses user \"root\"") || strstr(why, "refuses the ACL token"));
    NEED(!strstr(why, "no-such"));
    answers_at(ERR_OK,
               opens(w, getenv("SLUICE_TEST_COORD_USER"), getenv("SLUICE_TEST_COORD_PASSWORD"),
                     getenv("SLUICE_TEST_COORD_TOKEN"), why),
               why, __FILE__, __LINE__);
}

static void a_server_of_an_unknown_authority_is_refused(void **state)
{
    struct world *w = *state;
    char why[COORD_WHY_MAX] = "";
    struct coord *c = NULL;
    struct coord_config config = {.token = getenv("SLUICE_TEST_COORD_TOKEN")};
    if (!getenv("SLUICE_TEST_COORD_CA")) {
        (void)printf("# skipped: the servers have no TLS\n");
        return;
    }
    answers_at(ERR_DENIED, coord_open(w->url, &config, &c, why), why, __FILE__, __LINE__);
    NEED(strstr(why, "securely") && strstr(why, "CA file"));
}

int main(void)
{
    static const struct coord_test single[] = {
        COORD_TEST(a_killed_server_makes_calls_unavailable),
        COORD_TEST(a_stopped_server_leaves_writes_unknown_and_reads_unavailable),
        COORD_TEST(a_claim_whose_answer_is_lost_is_decided),
        COORD_TEST(a_claim_without_any_answer_is_unknown),
        COORD_TEST(random_faults_never_give_two_holders_or_an_old_token),
        COORD_TEST(a_lease_that_the_service_refuses_becomes_longer),
        COORD_TEST(a_watch_from_a_forgotten_revision_resumes),
        COORD_TEST(a_server_that_was_wiped_is_another_service),
    };
    static const struct coord_test cluster[] = {
        COORD_TEST(a_killed_leader_costs_no_session_and_no_claim),
        COORD_TEST(a_stopped_server_is_left_for_another),
        COORD_TEST(without_a_majority_nothing_is_granted),
    };
    static const struct coord_test secure[] = {
        COORD_TEST(wrong_credentials_are_refused_with_a_sentence),
        COORD_TEST(a_server_of_an_unknown_authority_is_refused),
    };
    if (getenv("SLUICE_TEST_COORD_CA"))
        return coord_tests_run("coord secure", secure, sizeof secure / sizeof *secure);
    if (server_count() > 1)
        return coord_tests_run("coord cluster faults", cluster, sizeof cluster / sizeof *cluster);
    return coord_tests_run("coord faults", single, sizeof single / sizeof *single);
}
