// SPDX-License-Identifier: Apache-2.0
// /healthz and /readyz on a store that fails, or does not answer at all.
#define _XOPEN_SOURCE   700 // nftw
#define _DEFAULT_SOURCE     // usleep
#include "../support/fault_store.h"
#include "api/handle.h"
#include "gate_store.h"
#include "queues/queues.h"
#include "rig.h"
#include "store/mem.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sick {
    struct rig rig;
    struct store *fault; // the rig's store has it
};

static void start_on(struct rig *r, struct store *store)
{
    struct sluice_error error;
    struct server_config config = {.listen = "127.0.0.1:0"};
    *r = (struct rig){.line = -1};
    assert_int_equal(handle_open_take(store, "mem:", NULL, &r->store, &error), SLUICE_OK);
    assert_int_equal(server_start(&config, r->store, &r->server, &error), SLUICE_OK);
    r->port = (uint16_t)atoi(strrchr(server_address(r->server), ':') + 1);
}

static void start(struct sick *s)
{
    s->fault = store_fault_take(store_mem_new(), &(struct fault_options){0});
    start_on(&s->rig, s->fault);
}

static bool is_ready(void *ctx)
{
    return get(ctx, "/readyz") == 200;
}

static bool is_not_ready(void *ctx)
{
    return get(ctx, "/readyz") == 503;
}

static void ready_means_that_the_store_answers(void **state)
{
    (void)state;
    struct sick s;
    start(&s);
    assert_int_equal(get(&s.rig, "/readyz"), 200);
    store_fault_set(s.fault, &(struct fault_options){.lost_request = 10000});
    await(is_not_ready, &s.rig, "the store fails");
    assert_string_equal(got_text("code"), "UNAVAILABLE");
    assert_true(strlen(got_text("detail")) > 10);
    assert_int_equal(get(&s.rig, "/healthz"), 200); // starting it again would not help
    store_fault_set(s.fault, &(struct fault_options){0});
    await(is_ready, &s.rig, "the store is back");
    rig_stop(&s.rig);
}

// The write of the first answer is a moment ago, and would count for seconds.
static void a_failed_request_ends_what_was_known(void **state)
{
    (void)state;
    struct sick s;
    start(&s);
    assert_int_equal(get(&s.rig, "/readyz"), 200);
    store_fault_set(s.fault, &(struct fault_options){.lost_request = 10000});
    assert_int_equal(get(&s.rig, "/v1/queues"), 503);
    assert_int_equal(get(&s.rig, "/readyz"), 503);
    assert_string_equal(got_text("code"), "UNAVAILABLE");
    store_fault_set(s.fault, &(struct fault_options){0});
    await(is_ready, &s.rig, "the store is back");
    rig_stop(&s.rig);
}

static bool send_is_refused_at_once(void *ctx)
{
    struct rig *r = ctx;
    int line = dial(r);
    struct reply reply;
    say_request(line, &(struct ask){.method = "POST",
                                    .path = "/v1/queues/tasks/messages",
                                    .type = "text/plain",
                                    .body = "x"});
    bool answered = poll(&(struct pollfd){.fd = line, .events = POLLIN}, 1, 1000) > 0;
    if (answered) hear(line, false, &reply);
    (void)close(line);
    if (!answered) return false;
    bool refused = reply.status == 503 && strstr(reply.body, "\"UNAVAILABLE\"");
    reply_done(&reply);
    return refused;
}

// A disk that is gone: a send does not wait for 30 s for what /readyz knows.
static void a_store_that_fails_for_long_refuses_sends_at_once(void **state)
{
    (void)state;
    struct sick s;
    start(&s);
    assert_int_equal(call(&s.rig, "PUT", "/v1/queues/tasks", "{}"), 201);
    assert_int_equal(post(&s.rig, "/v1/queues/tasks/messages", "{\"body\": \"x\"}"), 201);
    store_fault_set(s.fault, &(struct fault_options){.lost_request = 10000});
    await(send_is_refused_at_once, &s.rig, "a send is refused at once");
    assert_true(send_is_refused_at_once(&s.rig)); // and each one after it
    store_fault_set(s.fault, &(struct fault_options){0});
    await(is_ready, &s.rig, "the store is back");
    assert_int_equal(post(&s.rig, "/v1/queues/tasks/messages", "{\"body\": \"x\"}"), 201);
    rig_stop(&s.rig);
}

// What the log says from here on.
static int hear_errors(void)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    (void)close(ends[1]);
    return ends[0];
}

static bool is_stuck(void *ctx)
{
    return get(ctx, "/readyz") == 503 && strcmp(got_text("reason"), "stuck") == 0;
}

// A question that needs no request to the store is answered sooner, also on a slow machine.
#define ASKING_MS 250

static void a_store_that_does_not_answer_is_noticed(void **state)
{
    (void)state;
    struct sick s;
    int told = hear_errors();
    start(&s);
    struct fault_options away = {.lost_request = 10000, .slow = 10000, .slow_ms = 6000};
    store_fault_set(s.fault, &away);
    int first = -1; // asks the store, once what it took at the start is no proof any more
    do {
        if (first >= 0) (void)close(first);
        first = dial(&s.rig);
        say_request(first, &(struct ask){.method = "GET", .path = "/readyz"});
    } while (poll(&(struct pollfd){.fd = first, .events = POLLIN}, 1, ASKING_MS) > 0);
    await(is_stuck, &s.rig, "the store does not answer");
    store_fault_set(s.fault, &(struct fault_options){0});
    struct reply reply;
    hear(first, false, &reply);
    assert_int_equal(reply.status, 503);
    reply_done(&reply);
    (void)close(first);
    await(is_ready, &s.rig, "the store is back");
    rig_stop(&s.rig);
    static char line[1 << 16]; // other requests to the store may be told as well
    assert_true(read(told, line, sizeof line - 1) > 0);
    if (!strstr(line, "event=store-slow call=")) fail_msg("%s", line);
    (void)close(told);
    (void)dup2(STDOUT_FILENO, STDERR_FILENO);
}

struct held {
    struct rig rig;
    struct store *gate; // the rig's store has it
    int asking;         // a connection whose /readyz waits for the held put
};

static bool put_is_held(void *ctx)
{
    struct held *h = ctx;
    struct reply reply;
    if (store_gate_puts(h->gate) > 0) return true;
    struct pollfd answer = {.fd = h->asking, .events = POLLIN};
    if (poll(&answer, 1, 0) == 0) return false;
    hear(h->asking, false, &reply); // what the store took at the start was proof enough
    reply_done(&reply);
    say_request(h->asking, &(struct ask){.method = "GET", .path = "/readyz"});
    return false;
}

// A put of /metrics shows that the answer before it is too old to be believed.
static bool metrics_asked_twice(void *ctx)
{
    struct held *h = ctx;
    struct reply reply;
    ask(&h->rig, &(struct ask){.method = "GET", .path = "/readyz"}, &reply);
    reply_done(&reply);
    ask(&h->rig, &(struct ask){.method = "GET", .path = "/metrics"}, &reply);
    assert_int_equal(reply.status, 200);
    reply_done(&reply);
    return store_gate_puts(h->gate) >= 3;
}

static void metrics_do_not_end_the_question_of_a_readiness_check(void **state)
{
    (void)state;
    struct held h = {.gate = store_gate_new()};
    struct reply reply;
    start_on(&h.rig, h.gate);
    store_gate_hold(h.gate, true);
    h.asking = dial(&h.rig);
    say_request(h.asking, &(struct ask){.method = "GET", .path = "/readyz"});
    await(put_is_held, &h, "the readiness check asks the store");
    await(metrics_asked_twice, &h, "every readiness check is answered");
    store_gate_hold(h.gate, false);
    hear(h.asking, false, &reply);
    assert_int_equal(reply.status, 200);
    reply_done(&reply);
    (void)close(h.asking);
    await(is_ready, &h.rig, "the store answers");
    rig_stop(&h.rig);
}

// The store took a write at the start, which is too old to count. The first check asks the store,
// and a second one at the same time is answered with what was known.
static void two_readiness_checks_at_once_find_a_new_node_ready(void **state)
{
    (void)state;
    struct held h = {.gate = store_gate_new()};
    struct reply reply;
    start_on(&h.rig, h.gate);
    store_gate_hold(h.gate, true);
    h.asking = dial(&h.rig);
    say_request(h.asking, &(struct ask){.method = "GET", .path = "/readyz"});
    await(put_is_held, &h, "the first check asks the store");
    int second = get(&h.rig, "/readyz");
    // A machine that is slower than the node's patience with its store has shown nothing.
    if (second == 503 && strcmp(got_text("reason"), "stuck") == 0) second = 200;
    store_gate_hold(h.gate, false);
    hear(h.asking, false, &reply);
    assert_int_equal(reply.status, 200);
    reply_done(&reply);
    (void)close(h.asking);
    rig_stop(&h.rig);
    assert_int_equal(second, 200);
}

// A node on a file store over a table of system calls.
static void start_on_disk(struct rig *r, const struct file_sys *sys, int64_t timeout_ms)
{
    struct sluice_error error;
    struct store *store;
    char why[STORE_WHY_MAX] = "";
    struct file_options options = {.sys = sys, .segment_bytes = 64 << 10, .step_bytes = 4 << 10};
    struct server_config config = {.listen = "127.0.0.1:0"};
    struct sluice_options patience = {.timeout_ms = timeout_ms};
    *r = (struct rig){.line = -1};
    scratch_make(r->dir);
    if (store_file_open(r->dir, &options, &store, why, sizeof why)) fail_msg("%s", why);
    assert_int_equal(handle_open_take(store, r->dir, &patience, &r->store, &error), SLUICE_OK);
    assert_int_equal(server_start(&config, r->store, &r->server, &error), SLUICE_OK);
    r->port = (uint16_t)atoi(strrchr(server_address(r->server), ':') + 1);
    assert_int_equal(call(r, "PUT", "/v1/queues/tasks", NULL), 201);
    assert_int_equal(post(r, "/v1/queues/tasks/messages", "{\"body\":\"1\"}"), 201);
}

static void a_full_disk_is_not_ready_and_gets_over_it(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_error error;
    char big[16384] = "{\"body\":\"";
    memset(big + 9, 'x', sizeof big - 12);
    memcpy(big + sizeof big - 3, "\"}", 3);
    start_on_disk(&r, &sys_faulty, 2000);
    sys_arm(SYS_WRITE | SYS_ALLOCATE, 1, ENOSPC, true);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", big), 429);
    assert_non_null(strstr(got_text("detail"), "No space left"));
    await(is_not_ready, &r, "nothing fits");
    assert_string_equal(got_text("code"), "LIMIT");
    assert_non_null(strstr(got_text("detail"), "No space left"));
    assert_false(server_store_is_dead(r.server, &error));
    assert_true(sys_disarm());
    await(is_ready, &r, "there is room");
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", big), 201);
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("ready"), 2); // what was refused did not happen
    rig_stop(&r);
}

static _Atomic bool nearly_full;

static int fstatfs_of_little(int fd, struct statfs *to)
{
    int failed = file_sys_linux.fstatfs(fd, to);
    if (atomic_load(&nearly_full)) to->f_bavail = 1;
    return failed;
}

static void a_node_whose_disk_is_nearly_full_is_ready_and_takes_no_messages(void **state)
{
    (void)state;
    struct rig r;
    struct file_sys sys = file_sys_linux;
    sys.fstatfs = fstatfs_of_little;
    start_on_disk(&r, &sys, 2000);
    await(is_ready, &r, "there is space");
    assert_string_equal(got_text("warning"), "");
    atomic_store(&nearly_full, true);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\":\"2\"}"), 429);
    assert_non_null(strstr(got_text("detail"), "nearly full"));
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", "{}"), 200);
    assert_int_equal(got_len("messages"), 1);
    await(is_ready, &r, "what takes messages out has to come here");
    assert_non_null(strstr(got_text("warning"), "nearly full"));
    atomic_store(&nearly_full, false);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\":\"2\"}"), 201);
    rig_stop(&r);
}

static void a_store_that_was_removed_is_not_ready(void **state)
{
    (void)state;
    struct rig r;
    start_on_disk(&r, NULL, 2000);
    scratch_remove(r.dir);
    await(is_not_ready, &r, "there is no directory");
    assert_string_equal(got_text("code"), "UNAVAILABLE");
    assert_int_equal(call(&r, "PUT", "/v1/queues/other", NULL), 503);
    assert_int_equal(get(&r, "/healthz"), 200);
    rig_stop(&r);
}

// No answer says that a queue or a message does not exist, because the client would act on it.
static void of_a_store_that_was_removed_nothing_is_said_to_be_missing(void **state)
{
    (void)state;
    static const struct {
        const char *method, *what, *body;
    } calls[] = {
        {"PUT", "", NULL},
        {"GET", "", NULL},
        {"PATCH", "", "{\"capacity\": 10}"},
        {"GET", "/stats", NULL},
        {"GET", "/workers", NULL},
        {"GET", "/messages", NULL},
        {"POST", "/messages", "{\"body\": \"2\"}"},
        {"POST", "/receive", "{}"},
        {"POST", "/pause", NULL},
        {"POST", "/purge", NULL},
        {"POST", "/redrive", NULL},
        {"GET", "/events", NULL},
        {"DELETE", "", NULL},
    };
    static const char *const queues[] = {"tasks", "asleep", "unheard-of"}; // open, not open, never
    struct rig r;
    int wrong = 0;
    start_on_disk(&r, NULL, 1000); // each call takes as long
    assert_int_equal(sluice_queue_create(r.store, "asleep", NULL, 0, NULL), SLUICE_OK);
    scratch_remove(r.dir);
    for (size_t q = 0; q < sizeof queues / sizeof *queues; q++)
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
            char path[100];
            (void)snprintf(path, sizeof path, "/v1/queues/%s%s", queues[q], calls[i].what);
            int status = call(&r, calls[i].method, path, calls[i].body);
            if (status != 503) print_message("# %s %s: %d\n", calls[i].method, path, status);
            wrong += status != 503;
        }
    assert_int_equal(wrong, 0);
    assert_int_equal(get(&r, "/v1/queues"), 503);
    assert_int_equal(get(&r, "/v1/queues?names=true"), 503);
    rig_stop(&r);
}

static void a_sync_that_fails_ends_the_node_and_denies_no_call(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_error error;
    start_on_disk(&r, &sys_faulty, 2000);
    assert_false(server_store_is_dead(r.server, &error));
    sys_arm(SYS_SYNC, 1, EIO, false);
    int status = post(&r, "/v1/queues/tasks/messages", "{\"body\":\"2\"}");
    assert_true(sys_disarm());
    assert_int_equal(status, 504); // it may be there
    assert_int_equal(get(&r, "/readyz"), 503);
    assert_non_null(strstr(got_text("detail"), "open the store again"));
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\":\"3\"}"), 503);
    assert_non_null(strstr(got_text("detail"), "open the store again"));
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", "{}"), 503);
    assert_int_equal(call(&r, "PUT", "/v1/queues/other", NULL), 503);
    assert_int_equal(get(&r, "/v1/queues"), 503);
    assert_true(server_store_is_dead(r.server, &error));
    rig_stop(&r);
}

static void damage(const char *path)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 100, SEEK_SET), 0);
    assert_int_equal(fputs("damaged", f) >= 0, true);
    assert_int_equal(fclose(f), 0);
}

static int damage_segment(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    if (kind == FTW_F && path[at->base] == '@' && path[at->base + 1] == '0') damage(path);
    return 0;
}

static void a_damaged_queue_is_not_the_store(void **state)
{
    (void)state;
    struct rig r, again = {.line = -1};
    struct sluice_error error;
    struct server_config config = {.listen = "127.0.0.1:0"};
    start_on_disk(&r, NULL, 2000);
    again.store = NULL;
    (void)server_stop(r.server, 1000);
    (void)close(r.line);
    sluice_close(r.store);
    assert_int_equal(nftw(r.dir, damage_segment, 10, FTW_PHYS), 0);
    assert_int_equal(sluice_open(r.dir, NULL, &again.store, &error), SLUICE_OK);
    assert_int_equal(server_start(&config, again.store, &again.server, &error), SLUICE_OK);
    again.port = (uint16_t)atoi(strrchr(server_address(again.server), ':') + 1);
    memcpy(again.dir, r.dir, sizeof again.dir);
    assert_int_equal(get(&again, "/v1/queues/tasks/stats"), 500);
    assert_string_equal(got_text("code"), "CORRUPT");
    assert_int_equal(get(&again, "/readyz"), 200);
    assert_int_equal(call(&again, "PUT", "/v1/queues/other", NULL), 201);
    assert_int_equal(get(&again, "/v1/queues/tasks/stats"), 500);
    assert_int_equal(get(&again, "/readyz"), 200);
    rig_stop(&again);
}

static void a_node_that_drains_is_alive_and_not_ready(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    assert_int_equal(get(&r, "/readyz"), 200);
    server_drain(r.server);
    assert_int_equal(get(&r, "/readyz"), 503);
    assert_string_equal(got_text("reason"), "stopping");
    assert_int_equal(get(&r, "/healthz"), 200);
    assert_int_equal(post(&r, "/v1/queues/tasks/messages", "{\"body\":\"x\"}"), 201);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ready_means_that_the_store_answers),
        cmocka_unit_test(a_failed_request_ends_what_was_known),
        cmocka_unit_test(a_store_that_fails_for_long_refuses_sends_at_once),
        cmocka_unit_test(a_store_that_does_not_answer_is_noticed),
        cmocka_unit_test(metrics_do_not_end_the_question_of_a_readiness_check),
        cmocka_unit_test(two_readiness_checks_at_once_find_a_new_node_ready),
        cmocka_unit_test(a_full_disk_is_not_ready_and_gets_over_it),
        cmocka_unit_test(a_node_whose_disk_is_nearly_full_is_ready_and_takes_no_messages),
        cmocka_unit_test(a_store_that_was_removed_is_not_ready),
        cmocka_unit_test(of_a_store_that_was_removed_nothing_is_said_to_be_missing),
        cmocka_unit_test(a_sync_that_fails_ends_the_node_and_denies_no_call),
        cmocka_unit_test(a_damaged_queue_is_not_the_store),
        cmocka_unit_test(a_node_that_drains_is_alive_and_not_ready),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
