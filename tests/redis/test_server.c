// SPDX-License-Identifier: Apache-2.0
// A store on a real Redis server: what is refused, and what the server does meanwhile.
#include "rig.h"

#include "os/clock.h"

#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define APPENDED 1000 // bytes of a slot

struct world {
    struct place place;
    struct store *s;
    struct store_answer a;
};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    place_make(&w->place, "");
    w->s = place_store(&w->place);
    store_answer_init(&w->a);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    store_answer_done(&w->a);
    store_free(w->s);
    free(w);
    return 0;
}

static void append(struct world *w, uint64_t first, uint64_t last)
{
    for (uint64_t slot = first; slot <= last; slot++) {
        struct bytes body = body_make(slot, 100);
        ANSWERS(ERR_OK, &w->a, store_append(w->s, LOG, slot, body, &w->a));
        bytes_free(body);
    }
}

static void each_setting_that_loses_messages_is_refused(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *set, *unset, *says;
    } rows[] = {
        {"CONFIG SET appendonly no", "CONFIG SET appendonly yes",
         "appendonly is \"no\" on the server; it must be \"yes\""},
        {"CONFIG SET appendfsync everysec", "CONFIG SET appendfsync always",
         "appendfsync is \"everysec\" on the server; it must be \"always\""},
        {"CONFIG SET appendfsync no", "CONFIG SET appendfsync always",
         "appendfsync is \"no\" on the server; it must be \"always\""},
        {"CONFIG SET no-appendfsync-on-rewrite yes", "CONFIG SET no-appendfsync-on-rewrite no",
         "no-appendfsync-on-rewrite is \"yes\" on the server; it must be \"no\""},
        {"CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory-policy noeviction",
         "maxmemory-policy is \"allkeys-lru\" on the server; it must be \"noeviction\""},
        {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE",
         "the server's role is \"slave\"; it must be \"master\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        operator_does(rows[i].set);
        refused(w->place.url, ERR_INVALID, rows[i].says);
        operator_does(rows[i].unset);
    }
    store_free(place_store(&w->place));
}

static void the_operator_may_choose_less_and_every_process_says_so(void **state)
{
    (void)state;
    struct place less, none;
    char why[STORE_WHY_MAX];
    place_make(&less, "&durability=everysec");
    place_make(&none, "&durability=none");
    operator_does("CONFIG SET appendfsync everysec");
    struct store *s = place_store(&less);
    NEED(store_concern(s, STORE_NOT_DURABLE, why) && strstr(why, "durability=everysec"));
    store_free(s);
    operator_does("CONFIG SET appendonly no");
    refused(less.url, ERR_INVALID, "appendonly is \"no\"");
    s = place_store(&none);
    NEED(store_concern(s, STORE_NOT_DURABLE, why) && strstr(why, "durability=none"));
    store_free(s);
    operator_does("CONFIG SET appendonly yes");
    operator_does("CONFIG SET appendfsync always");
}

static void a_setting_that_changes_later_stops_writes_until_it_is_right_again(void **state)
{
    struct world *w = *state;
    append(w, 1, 1);
    operator_does("CONFIG SET appendfsync everysec");
    operator_does("CLIENT KILL TYPE normal");
    ANSWERS(ERR_UNAVAILABLE, &w->a, store_append(w->s, LOG, 2, bytes_str("x"), &w->a));
    NEED(strstr(w->a.why, "appendfsync is \"everysec\"") != NULL);
    operator_does("CONFIG SET appendfsync always");
    append(w, 2, 3);
}

static void users_and_passwords_get_a_sentence(void **state)
{
    struct world *w = *state;
    char url[URL_MAX];
    const char *port = getenv("SLUICE_TEST_REDIS_PORT");
    operator_does("ACL SETUSER part on >right ~* +@all -xtrim");
    operator_does("ACL SETUSER blind on >right ~* +@all -config");
    (void)setenv("SLUICE_REDIS_PASSWORD", "right", 1);
    (void)snprintf(url, sizeof url, "redis://part@127.0.0.1:%s/1", port);
    refused(url, ERR_DENIED, "user \"part\" may not run XTRIM");
    (void)snprintf(url, sizeof url, "redis://blind@127.0.0.1:%s/1", port);
    refused(url, ERR_INVALID, "the server does not tell its setting appendonly");
    (void)setenv("SLUICE_REDIS_PASSWORD", "wrong", 1);
    (void)snprintf(url, sizeof url, "redis://part@127.0.0.1:%s/1", port);
    refused(url, ERR_DENIED, "the server refused user \"part\"");
    refused(w->place.url, ERR_DENIED, "the server refused user \"default\"");
    (void)unsetenv("SLUICE_REDIS_PASSWORD");
    operator_does("CONFIG SET requirepass secret");
    refused(w->place.url, ERR_DENIED, "SLUICE_REDIS_PASSWORD");
    (void)setenv("SLUICE_REDIS_PASSWORD", "secret", 1);
    store_free(place_store(&w->place));
    (void)unsetenv("SLUICE_REDIS_PASSWORD");
    // The operator's socket needs the password, too.
    char line[300];
    (void)snprintf(line, sizeof line,
                   "redis-cli -s '%s' -a secret --no-auth-warning CONFIG SET "
                   "requirepass '' >/dev/null",
                   getenv("SLUICE_TEST_REDIS_SOCKET"));
    NEED(system(line) == 0);
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%s/99", port);
    refused(url, ERR_INVALID, "database 99 does not exist on the server");
    refused("redis://127.0.0.1:1/0", ERR_UNAVAILABLE, "cannot connect to 127.0.0.1:1");
    (void)snprintf(url, sizeof url, "rediss://127.0.0.1:%s/0?timeoutMs=300", port);
    refused(url, ERR_UNAVAILABLE, "127.0.0.1 did not answer the TLS handshake");
    refused("redis://h?passwordFile=/none", ERR_INVALID, "passwordFile \"/none\" cannot be read");
    refused("rediss://h?ca=/none", ERR_INVALID, "/none has no certificate of an authority");
}

static void a_dropped_slot_is_never_created_again(void **state)
{
    struct world *w = *state;
    append(w, 1, 5);
    ANSWERS(ERR_OK, &w->a, store_drop(w->s, LOG, 1, 5, &w->a));
    for (int life = 0; life < 2; life++) {
        for (uint64_t slot = 1; slot <= 5; slot++)
            ANSWERS(ERR_CONFLICT, &w->a, store_append(w->s, LOG, slot, bytes_str("x"), &w->a));
        control("restart");
    }
    ANSWERS(ERR_INVALID, &w->a, store_append(w->s, LOG, 7, bytes_str("x"), &w->a));
    append(w, 6, 7);
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->s, LOG, 5, 1, &w->a));
}

static void lose_slots(struct world *w, uint64_t kept)
{
    char command[300];
    (void)snprintf(command, sizeof command, "DEL {%s:q/id/0}l:%s {%s:q/id/0}m:%s", w->place.prefix,
                   LOG, w->place.prefix, LOG);
    operator_does(command);
    struct store *other = place_store(&w->place);
    for (uint64_t slot = 1; slot <= kept; slot++)
        ANSWERS(ERR_OK, &w->a, store_append(other, LOG, slot, bytes_str("other"), &w->a));
    store_free(other);
}

static void acknowledged_slots_that_are_gone_after_a_restart_are_named(void **state)
{
    struct world *w = *state;
    append(w, 1, 5);
    lose_slots(w, 2);
    control("restart");
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(w->s, LOG, 6, 1, &w->a));
    NEED(strstr(w->a.why, "in \"" LOG "\", slots 3 to 5 are gone") != NULL);
    ANSWERS(ERR_CORRUPT, &w->a, store_append(w->s, LOG, 3, bytes_str("x"), &w->a));
    struct store *fresh = place_store(&w->place); // goes on with what is stored
    ANSWERS(ERR_OK, &w->a, store_append(fresh, LOG, 3, bytes_str("x"), &w->a));
    store_free(fresh);
}

static void an_acknowledged_slot_with_other_bytes_is_named(void **state)
{
    struct world *w = *state;
    append(w, 1, 5);
    lose_slots(w, 6);
    control("restart");
    ANSWERS(ERR_CORRUPT, &w->a, store_append(w->s, LOG, 6, bytes_str("x"), &w->a));
    NEED(strstr(w->a.why, "slots 5 to 5 are replaced by others") != NULL);
}

static void slots_that_are_gone_without_a_restart_are_named_by_the_next_append(void **state)
{
    struct world *w = *state;
    append(w, 1, 5);
    lose_slots(w, 0);
    ANSWERS(ERR_CORRUPT, &w->a, store_append(w->s, LOG, 6, bytes_str("x"), &w->a));
    NEED(strstr(w->a.why, "slots 1 to 5 are gone") != NULL);
}

static void a_restart_that_loses_nothing_is_not_a_loss(void **state)
{
    struct world *w = *state;
    append(w, 1, 5);
    ANSWERS(ERR_OK, &w->a, store_drop(w->s, LOG, 1, 5, &w->a));
    control("restart");
    append(w, 6, 8);
    control("restart");
    ANSWERS(ERR_OK, &w->a, store_read_log(w->s, LOG, 6, 1000, &w->a));
    NEED(w->a.rows_len == 3);
}

static void foreign_keys_are_never_overwritten(void **state)
{
    struct world *w = *state;
    char command[300], reply[100];
    (void)snprintf(command, sizeof command, "SET {%s:c}o:mine foreign", w->place.prefix);
    operator_does(command);
    ANSWERS(ERR_CORRUPT, &w->a, store_put(w->s, "mine", bytes_str("x"), &w->a));
    ANSWERS(ERR_CORRUPT, &w->a, store_put_new(w->s, "mine", bytes_str("x"), &w->a));
    ANSWERS(ERR_CORRUPT, &w->a, store_get(w->s, "mine", 0, SIZE_MAX, &w->a));
    const char *key = "mine";
    ANSWERS(ERR_OK, &w->a, store_delete(w->s, &key, 1, &w->a));
    (void)snprintf(command, sizeof command, "GET {%s:c}o:mine", w->place.prefix);
    operator_says(command, reply, sizeof reply);
    NEED(strcmp(reply, "foreign") == 0);
    (void)snprintf(command, sizeof command, "SET {%s:q/id/0}l:%s foreign", w->place.prefix, LOG);
    operator_does(command);
    ANSWERS(ERR_CORRUPT, &w->a, store_append(w->s, LOG, 1, bytes_str("x"), &w->a));
    ANSWERS(ERR_CORRUPT, &w->a, store_read_log(w->s, LOG, 1, 1, &w->a));
}

static void a_full_server_takes_outcomes_longer_than_messages(void **state)
{
    struct world *w = *state;
    char reply[4096], command[100];
    operator_says("INFO memory", reply, sizeof reply);
    const char *used = strstr(reply, "used_memory:");
    NEED(used != NULL);
    long long bytes = atoll(used + 12);
    ANSWERS(ERR_OK, &w->a, store_check_space(w->s, 1000, &w->a));
    (void)snprintf(command, sizeof command, "CONFIG SET maxmemory %lld", bytes + 400000);
    operator_does(command);
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    enum err e = ERR_OK; // what it knows of the memory is up to a second old
    while (e == ERR_OK && clock_boot_ms() < end)
        e = store_check_space(w->s, 1 << 20, &w->a);
    ANSWERS(ERR_LIMIT, &w->a, e);
    NEED(strstr(w->a.why, "bytes of memory; new messages wait") != NULL);
    append(w, 1, 3); // there is a reserve for these
    operator_does("CONFIG SET maxmemory 1000");
    ANSWERS(ERR_LIMIT, &w->a, store_append(w->s, LOG, 4, bytes_str("x"), &w->a));
    ANSWERS(ERR_LIMIT, &w->a, store_put_new(w->s, "key", bytes_str("x"), &w->a));
    ANSWERS(ERR_OK, &w->a, store_read_log(w->s, LOG, 3, 1, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(w->s, LOG, 4, 1, &w->a));
    operator_does("CONFIG SET maxmemory 0");
    append(w, 4, 4);
}

static long long memory_used(void)
{
    char reply[8192];
    operator_says("INFO memory", reply, sizeof reply);
    const char *used = strstr(reply, "used_memory:");
    NEED(used != NULL);
    return atoll(used + 12);
}

// More is sent in a second than the reserve has: what was sent since the last look counts.
static void a_fast_sender_does_not_use_the_reserve(void **state)
{
    struct world *w = *state;
    char command[64], body[3000];
    memset(body, 'x', sizeof body);
    long long limit = memory_used() + (12 << 20);
    (void)snprintf(command, sizeof command, "CONFIG SET maxmemory %lld", limit);
    operator_does(command);
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    while (store_check_space(w->s, 64 << 20, &w->a) == ERR_OK && clock_boot_ms() < end)
        clock_sleep(10); // it learns of the limit
    uint64_t slot = 0;
    while (store_check_space(w->s, sizeof body, &w->a) == ERR_OK) {
        slot++;
        ANSWERS(ERR_OK, &w->a, store_append(w->s, LOG, slot, bytes_of(body, sizeof body), &w->a));
    }
    NEED(w->a.tight && slot > 1000);
    NEED(limit - memory_used() > limit / 8 / 2);
    ANSWERS(ERR_OK, &w->a, store_read_log(w->s, LOG, 1, 1, &w->a));
    NEED(w->a.tight); // every answer says so, not only the refusal
    operator_does("CONFIG SET maxmemory 0");
}

static void scripts_that_the_server_forgot_are_sent_again(void **state)
{
    struct world *w = *state;
    for (uint64_t slot = 1; slot <= 5; slot++) {
        operator_does("SCRIPT FLUSH");
        append(w, slot, slot);
    }
}

static size_t open_files(void)
{
    size_t count = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        count++;
    if (d) (void)closedir(d);
    return count;
}

static uint64_t reconnects = 300;
static int64_t stop_ms; // how long the server is stopped, at least

static void a_cut_idle_connection_costs_no_write_no_memory_and_no_descriptor(void **state)
{
    struct world *w = *state;
    append(w, 1, 100);
    size_t files = open_files(), bytes = mallinfo2().uordblks;
    for (uint64_t slot = 101; slot <= 100 + reconnects; slot++) {
        operator_does("CLIENT KILL TYPE normal");
        append(w, slot, slot);
    }
    NEED(open_files() == files);
    NEED(mallinfo2().uordblks < bytes + 65536);
}

static void a_paused_server_is_waited_for(void **state)
{
    struct world *w = *state;
    append(w, 1, 1);
    operator_does("CLIENT PAUSE 300 ALL");
    int64_t start = clock_boot_ms();
    append(w, 2, 2);
    NEED(clock_boot_ms() - start >= 100);
}

static void a_stopped_server_costs_a_timeout_and_the_write_is_in_doubt(void **state)
{
    (void)state;
    struct world w = {0};
    char pid[40] = "";
    place_make(&w.place, "&timeoutMs=1500");
    w.s = place_store(&w.place);
    store_answer_init(&w.a);
    append(&w, 1, 1);
    char line[600];
    (void)snprintf(line, sizeof line, "%s pid", getenv("SLUICE_TEST_REDIS_CONTROL"));
    FILE *out = popen(line, "r");
    NEED(out && fgets(pid, sizeof pid, out));
    (void)pclose(out);
    NEED(kill((pid_t)atoi(pid), SIGSTOP) == 0);
    struct bytes body = body_make(2, 100);
    int64_t start = clock_boot_ms();
    enum err e = store_append(w.s, LOG, 2, body, &w.a);
    enum err read = store_read_log(w.s, LOG, 1, 1, &w.a);
    int64_t took = clock_boot_ms() - start, longest = 0;
    uint64_t refusals = 0;
    while (clock_boot_ms() - start < stop_ms) { // every call ends, in its time
        int64_t before = clock_boot_ms();
        enum err again = store_append(w.s, LOG, 2, body, &w.a);
        if (clock_boot_ms() - before > longest) longest = clock_boot_ms() - before;
        refusals += again == ERR_UNKNOWN || again == ERR_UNAVAILABLE;
        if (again != ERR_UNKNOWN && again != ERR_UNAVAILABLE) read = again;
    }
    NEED(kill((pid_t)atoi(pid), SIGCONT) == 0);
    if (stop_ms > 0)
        printf("# stopped for %lld ms: %llu calls refused, the longest took %lld ms\n",
               (long long)(clock_boot_ms() - start), (unsigned long long)refusals,
               (long long)longest);
    NEED(e == ERR_UNKNOWN);
    NEED(read == ERR_UNAVAILABLE);
    NEED(took < DEADLINE_MS && longest < DEADLINE_MS);
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    do { // the same bytes to the same slot, until the slot is decided
        e = store_append(w.s, LOG, 2, body, &w.a);
    } while ((e == ERR_UNKNOWN || e == ERR_UNAVAILABLE) && clock_boot_ms() < end);
    NEED(e == ERR_OK || e == ERR_CONFLICT);
    bytes_free(body);
    ANSWERS(ERR_OK, &w.a, store_read_log(w.s, LOG, 2, 1, &w.a));
    NEED(body_is(store_row_bytes(&w.a, 0), 2, 100));
    store_answer_done(&w.a);
    store_free(w.s);
}

static void time_stands_still_rather_than_go_back(void **state)
{
    struct world *w = *state;
    char command[300];
    append(w, 1, 1);
    int64_t ahead = w->a.time.lo + 3600000;
    (void)snprintf(command, sizeof command, "HSET {%s:q/id/0}m:%s time %lld", w->place.prefix, LOG,
                   (long long)ahead); // as if the server before this one had a clock ahead
    operator_does(command);
    append(w, 2, 2);
    NEED(w->a.time.lo == ahead);
    ANSWERS(ERR_OK, &w->a, store_put(w->s, "key", bytes_str("x"), &w->a));
    NEED(w->a.time.lo == ahead);
    char why[STORE_WHY_MAX];
    NEED(store_concern(w->s, STORE_CLOCK_OFF, why) && strstr(why, "time stands still"));
}

static void all_waits_of_a_process_share_one_connection(void **state)
{
    struct world *w = *state;
    enum { SLEEPERS = 16 };
    struct sleeper all[SLEEPERS];
    char reply[65536];
    for (int i = 0; i < SLEEPERS; i++) {
        all[i] = (struct sleeper){.s = w->s};
        (void)snprintf(all[i].log, sizeof all[i].log, "q/id/%d/log", i);
        NEED(pthread_create(&all[i].thread, NULL, sleep_in_store, &all[i]) == 0);
    }
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    size_t lines = 0, blocked = 0;
    while (blocked == 0 && clock_boot_ms() < end) {
        operator_says("CLIENT LIST", reply, sizeof reply);
        lines = blocked = 0;
        for (const char *at = reply; (at = strstr(at, "name=sluice")); at++)
            lines++;
        for (const char *at = reply; (at = strstr(at, "cmd=xread")); at++)
            blocked++;
    }
    NEED(blocked == 1 && lines == 2);
    for (int i = SLEEPERS - 1; i >= 0; i--)
        ANSWERS(ERR_OK, &w->a, store_append(w->s, all[i].log, 1, bytes_str("x"), &w->a));
    for (int i = 0; i < SLEEPERS; i++) {
        (void)pthread_join(all[i].thread, NULL);
        NEED(all[i].e == ERR_OK);
    }
}

static void *append_first(void *arg)
{
    struct sleeper *me = arg;
    struct store_answer a;
    struct bytes body = body_make(1, APPENDED);
    store_answer_init(&a);
    me->e = store_append(me->s, me->log, 1, body, &a);
    store_answer_done(&a);
    bytes_free(body);
    return NULL;
}

// The longest input that a connection of the store has sent and the server has not done yet.
static size_t longest_input(size_t *connections)
{
    char reply[65536];
    size_t longest = 0;
    operator_says("CLIENT LIST", reply, sizeof reply);
    *connections = 0;
    for (const char *at = reply; (at = strstr(at, "name=sluice")); at++, ++*connections) {
        const char *field = strstr(at, " qbuf=");
        size_t len = field ? strtoul(field + strlen(" qbuf="), NULL, 10) : 0;
        if (len > longest) longest = len;
    }
    return longest;
}

// The server does no write for a while. The requests of all threads arrive meanwhile: none of them
// waits for the answer to another.
static void appends_of_several_logs_share_a_connection_and_a_round_trip(void **state)
{
    struct world *w = *state;
    enum { WRITERS = 8 };
    struct sleeper all[WRITERS];
    size_t connections = 0, longest = 0;
    append(w, 1, 1); // the server knows the script
    operator_does("CLIENT PAUSE 4000 WRITE");
    for (int i = 0; i < WRITERS; i++) {
        all[i] = (struct sleeper){.s = w->s};
        (void)snprintf(all[i].log, sizeof all[i].log, "q/id/%d/log", i + 1);
        NEED(pthread_create(&all[i].thread, NULL, append_first, &all[i]) == 0);
    }
    int64_t end = clock_boot_ms() + 3500;
    while (longest < (WRITERS - 1) * APPENDED && clock_boot_ms() < end)
        longest = longest_input(&connections);
    operator_does("CLIENT UNPAUSE");
    for (int i = 0; i < WRITERS; i++) {
        (void)pthread_join(all[i].thread, NULL);
        NEED(all[i].e == ERR_OK);
    }
    NEED(longest >= (WRITERS - 1) * APPENDED);
    NEED(connections == 1);
}

static void names_of_all_tags(struct world *w, const char *prefix, const char *after, size_t limit,
                              const char *want)
{
    char got[500] = "";
    ANSWERS(ERR_OK, &w->a, store_list(w->s, prefix, after, limit, &w->a));
    for (size_t i = 0; i < w->a.rows_len; i++) {
        size_t len = strlen(got);
        (void)snprintf(got + len, sizeof got - len, "%s%s", i ? " " : "", store_row_key(&w->a, i));
    }
    assert_string_equal(got, want);
}

static void a_list_joins_the_shards_and_the_rest_in_order(void **state)
{
    struct world *w = *state;
    static const char *const keys[] = {"q/a/1/snap/2", "z",           "q/a/0/snap/1", "q/b/0/x",
                                       "q/a/0-x",      "catalog/n/1", "q/a/0/data/7"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ANSWERS(ERR_OK, &w->a, store_put(w->s, keys[i], bytes_str("x"), &w->a));
    names_of_all_tags(w, "", NULL, 100,
                      "catalog/n/1 q/a/0-x q/a/0/data/7 q/a/0/snap/1 q/a/1/snap/2 q/b/0/x z");
    names_of_all_tags(w, "q/a/", NULL, 100, "q/a/0-x q/a/0/data/7 q/a/0/snap/1 q/a/1/snap/2");
    names_of_all_tags(w, "", "q/a/0/data/7", 2, "q/a/0/snap/1 q/a/1/snap/2");
    NEED(w->a.more);
    names_of_all_tags(w, "q/a/0/s", NULL, 10, "q/a/0/snap/1");
    names_of_all_tags(w, "", "q/b/0/x", 10, "z");
    NEED(!w->a.more);
}

static void prefixes_share_nothing(void **state)
{
    struct world *w = *state;
    struct place other;
    place_make(&other, "");
    struct store *s = place_store(&other);
    append(w, 1, 2);
    ANSWERS(ERR_OK, &w->a, store_put(w->s, "key", bytes_str("x"), &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_get(s, "key", 0, SIZE_MAX, &w->a));
    ANSWERS(ERR_NOT_FOUND, &w->a, store_read_log(s, LOG, 1, 1, &w->a));
    ANSWERS(ERR_OK, &w->a, store_list(s, "", NULL, 10, &w->a));
    NEED(w->a.rows_len == 0);
    store_free(s);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
    if (argc > 1) reconnects = strtoull(argv[1], NULL, 10);
    if (argc > 2) stop_ms = strtoll(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        WORLD_TEST(each_setting_that_loses_messages_is_refused),
        WORLD_TEST(the_operator_may_choose_less_and_every_process_says_so),
        WORLD_TEST(a_setting_that_changes_later_stops_writes_until_it_is_right_again),
        WORLD_TEST(users_and_passwords_get_a_sentence),
        WORLD_TEST(a_dropped_slot_is_never_created_again),
        WORLD_TEST(acknowledged_slots_that_are_gone_after_a_restart_are_named),
        WORLD_TEST(an_acknowledged_slot_with_other_bytes_is_named),
        WORLD_TEST(slots_that_are_gone_without_a_restart_are_named_by_the_next_append),
        WORLD_TEST(a_restart_that_loses_nothing_is_not_a_loss),
        WORLD_TEST(foreign_keys_are_never_overwritten),
        WORLD_TEST(a_full_server_takes_outcomes_longer_than_messages),
        WORLD_TEST(a_fast_sender_does_not_use_the_reserve),
        WORLD_TEST(scripts_that_the_server_forgot_are_sent_again),
        WORLD_TEST(a_cut_idle_connection_costs_no_write_no_memory_and_no_descriptor),
        WORLD_TEST(a_paused_server_is_waited_for),
        cmocka_unit_test(a_stopped_server_costs_a_timeout_and_the_write_is_in_doubt),
        WORLD_TEST(time_stands_still_rather_than_go_back),
        WORLD_TEST(all_waits_of_a_process_share_one_connection),
        WORLD_TEST(appends_of_several_logs_share_a_connection_and_a_round_trip),
        WORLD_TEST(a_list_joins_the_shards_and_the_rest_in_order),
        WORLD_TEST(prefixes_share_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
