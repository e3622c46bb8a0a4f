// SPDX-License-Identifier: Apache-2.0
// Workers that reach only a real bucket, and a node that owns the queue: both are killed, and every
// message is processed once.
//
//     mailbox_exchange [NAME]          the tests; SLUICE_TEST_S3 names an empty bucket
//     mailbox_exchange hold STORE      a worker that receives, says so, and never acknowledges
#include "../support/node_process.h"
#include "../unit/unit.h"
#include "api/handle.h"
#include "base/check.h"
#include "ops/mailbox_session.h"
#include "os/clock.h"
#include "os/entropy.h"

#include <pthread.h>
#include <sluice.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE    "boxes"
#define WORKERS  4
#define MESSAGES 60
#define LIMIT_MS 100000

struct fixture {
    char store[300];
    struct node_process node;
    _Atomic uint32_t done;
    _Atomic uint32_t acked[MESSAGES], tickets;
    int64_t until;
};

struct one_worker {
    struct fixture *f;
    pthread_t thread;
    char name[16];
};

static struct sluice *open_at(const char *url)
{
    struct sluice *s = NULL;
    struct sluice_error error = {.message = ""};
    if (sluice_open(url, NULL, &s, &error)) fail_msg("%s: %s", url, error.message);
    return s;
}

static void join(struct sluice *s, const char *name)
{
    struct sluice_error error = {.message = ""};
    struct mailbox_join join = {.worker = name,
                                .instance = entropy_u64() | 1,
                                .capacity = 5,
                                .ttl_ms = 20000,
                                .labels = ""};
    assert_true(mailbox_wanted(s->engine, QUEUE, true));
    if (mailbox_join(s->engine, QUEUE, &join, &error)) fail_msg("join: %s", error.message);
}

// Starts a node, which owns the queue, and sends the messages through it.
static void begin(struct fixture *f, const char *part)
{
    *f = (struct fixture){.node = {.program = getenv("SLUICE"), .store = f->store}};
    (void)snprintf(f->store, sizeof f->store, "%s/%s", getenv("SLUICE_TEST_S3"), part);
    f->until = clock_boot_ms() + LIMIT_MS;
    if (!node_process_start(&f->node)) fail_msg("%s", f->node.problem);
    struct sluice *s = open_at(f->node.url);
    struct sluice_error error;
    struct sluice_upgrade upgrade;
    struct sluice_setting visibility = {"visibilityTimeout", "15s"};
    assert_int_equal(sluice_queue_create(s, QUEUE, &visibility, 1, &error), SLUICE_OK);
    assert_int_equal(sluice_queue_upgrade(s, QUEUE, SLUICE_UPGRADE_FORCE, &upgrade, &error),
                     SLUICE_OK);
    char bodies[MESSAGES][8];
    struct sluice_send messages[MESSAGES] = {0};
    for (size_t i = 0; i < MESSAGES; i++) {
        (void)snprintf(bodies[i], sizeof bodies[i], "%zu", i);
        messages[i] = (struct sluice_send){.body = bodies[i], .body_len = strlen(bodies[i])};
    }
    assert_int_equal(sluice_send(s, QUEUE, messages, MESSAGES, NULL, NULL, &error), SLUICE_OK);
    sluice_close(s);
}

static void cycle(struct one_worker *w, struct sluice *s)
{
    struct fixture *f = w->f;
    struct sluice_batch *batch;
    struct sluice_receive o = {.worker = w->name, .max = 5, .wait_ms = 1000};
    if (sluice_receive(s, QUEUE, &o, &batch, NULL)) return;
    const char *tokens[5];
    struct sluice_outcome outcomes[5];
    enum sluice_code code = batch->len > 0 ? SLUICE_UNKNOWN : SLUICE_OK;
    for (size_t i = 0; i < batch->len; i++)
        tokens[i] = batch->messages[i].token;
    for (int tries = 0; tries < 5 && code == SLUICE_UNKNOWN; tries++)
        code = sluice_ack(s, QUEUE, tokens, batch->len, outcomes, NULL);
    for (size_t i = 0; i < batch->len; i++) {
        char body[8] = "";
        memcpy(body, batch->messages[i].body, batch->messages[i].body_len);
        if (batch->messages[i].order > 0) atomic_fetch_add(&f->tickets, 1);
        if (outcomes[i].code) continue; // another worker gets it
        atomic_fetch_add(&f->acked[atoi(body)], 1);
        atomic_fetch_add(&f->done, 1);
    }
    sluice_batch_free(batch);
}

static void *work(void *arg)
{
    struct one_worker *w = arg;
    struct sluice *s = open_at(w->f->store);
    join(s, w->name);
    while (atomic_load(&w->f->done) < MESSAGES && clock_boot_ms() < w->f->until)
        cycle(w, s);
    mailbox_leave(s->engine, QUEUE, w->name);
    sluice_close(s);
    return NULL;
}

static void start(struct fixture *f, struct one_worker *workers)
{
    for (size_t i = 0; i < WORKERS; i++) {
        workers[i] = (struct one_worker){.f = f};
        (void)snprintf(workers[i].name, sizeof workers[i].name, "w/%zu", i);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
}

// Every message was acknowledged once, and the journal agrees.
static void end(struct fixture *f, struct one_worker *workers)
{
    struct sluice_stats stats;
    for (size_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    for (size_t i = 0; i < MESSAGES; i++)
        assert_int_equal(atomic_load(&f->acked[i]), 1);
    struct sluice *s = open_at(f->store);
    assert_int_equal(sluice_stats(s, QUEUE, &stats, NULL), SLUICE_OK);
    assert_int_equal(stats.processed, MESSAGES);
    assert_int_equal(stats.ready + stats.locked, 0);
    sluice_close(s);
    node_process_kill(&f->node);
}

static void workers_with_mailboxes_process_every_message_once(void **state)
{
    (void)state;
    struct fixture f;
    struct one_worker workers[WORKERS];
    begin(&f, "plain");
    start(&f, workers);
    end(&f, workers);
    assert_true(atomic_load(&f.tickets) > 0); // at least some came through a mailbox
}

// A message that came as a ticket.
static struct sluice_batch *take_ticket(struct fixture *f, struct sluice *s, const char *worker)
{
    struct sluice_receive o = {.worker = worker, .max = 1, .wait_ms = 1000};
    for (struct sluice_batch *b; clock_boot_ms() < f->until;) {
        if (sluice_receive(s, QUEUE, &o, &b, NULL)) continue;
        if (b->len == 1 && b->messages[0].order > 0) return b;
        sluice_batch_free(b);
    }
    fail_msg("no ticket came");
    return NULL;
}

static void a_mailbox_carries_results_and_progress(void **state)
{
    (void)state;
    static struct fixture f;
    struct sluice_batch *shown;
    struct sluice_outcome o;
    enum sluice_code code = SLUICE_UNKNOWN;
    begin(&f, "carried");
    struct sluice *s = open_at(f.store);
    join(s, "far");
    struct sluice_batch *b = take_ticket(&f, s, "far");
    const char *token = b->messages[0].token, *id = b->messages[0].id;
    struct sluice_renewal renewal = {.token = token, .has_progress = 1, .percent = 30};
    for (int tries = 0; tries < 5 && code == SLUICE_UNKNOWN; tries++)
        code = sluice_renew_with(s, QUEUE, &renewal, 1, 60000, &o, NULL);
    assert_int_equal(code, SLUICE_OK);
    assert_int_equal(sluice_show(s, QUEUE, id, &shown, NULL), SLUICE_OK);
    assert_int_equal(shown->messages[0].percent, 30);
    sluice_batch_free(shown);
    struct sluice_ack ack = {.token = token, .result = "42", .result_len = 2};
    code = SLUICE_UNKNOWN;
    for (int tries = 0; tries < 5 && code == SLUICE_UNKNOWN; tries++)
        code = sluice_ack_with(s, QUEUE, &ack, 1, &o, NULL);
    assert_int_equal(code, SLUICE_OK);
    assert_int_equal(sluice_show(s, QUEUE, id, &shown, NULL), SLUICE_OK);
    assert_string_equal(shown->messages[0].state, "processed");
    assert_int_equal(shown->messages[0].result_len, 2);
    assert_memory_equal(shown->messages[0].result, "42", 2);
    sluice_batch_free(shown);
    sluice_batch_free(b);
    mailbox_leave(s->engine, QUEUE, "far");
    sluice_close(s);
    node_process_kill(&f.node);
}

static const char *steer(struct sluice *s, const char *const *id, char signal[SLUICE_SIGNAL_ID_MAX])
{
    static const char payload[] = "{\"speed\": 2}";
    struct sluice_error error = {.message = ""};
    struct sluice_signals *sent;
    struct sluice_signal what = {.kind = "steer",
                                 .ids = id,
                                 .ids_len = 1,
                                 .payload = payload,
                                 .payload_len = sizeof payload - 1};
    if (sluice_signal(s, QUEUE, &what, NULL, &sent, &error)) fail_msg("%s", error.message);
    memcpy(signal, sent->id, SLUICE_SIGNAL_ID_MAX);
    sluice_signals_free(sent);
    return payload;
}

static void acked(struct sluice *s, const char *token, uint32_t number)
{
    struct sluice_signal_answer answer = {.token = token, .number = number};
    struct sluice_error error = {.message = ""};
    enum sluice_code code = SLUICE_UNKNOWN;
    for (int tries = 0; tries < 5 && code == SLUICE_UNKNOWN; tries++)
        code = sluice_signals_ack(s, QUEUE, &answer, 1, NULL, &error);
    if (code) fail_msg("signal %u: %s", number, error.message);
}

// A signal that was sent before the message ran comes with it. A later one comes as a number in the
// answer of a renewal, and by a poll. The messages are many, so each of them has a signal.
static void a_worker_with_a_mailbox_gets_signals(void **state)
{
    (void)state;
    static struct fixture f;
    struct sluice_batch *list;
    struct sluice_outcome o;
    struct sluice_signals *got;
    char signal[SLUICE_SIGNAL_ID_MAX];
    const char *payload = "";
    begin(&f, "signals");
    struct sluice *node = open_at(f.node.url), *s = open_at(f.store);
    struct sluice_peek peek = {.max = MESSAGES};
    assert_int_equal(sluice_peek(node, QUEUE, &peek, &list, NULL), SLUICE_OK);
    assert_int_equal(list->len, MESSAGES);
    for (size_t i = 0; i < list->len; i++)
        payload = steer(node, &(const char *){list->messages[i].id}, signal);
    sluice_batch_free(list);
    join(s, "far");
    struct sluice_batch *b = take_ticket(&f, s, "far");
    const char *token = b->messages[0].token, *id = b->messages[0].id;
    assert_int_equal(b->messages[0].signals_len, 1);
    assert_int_equal(b->messages[0].signals[0].number, 1);
    assert_string_equal(b->messages[0].signals[0].payload, payload);
    acked(s, token, 1);
    steer(node, &id, signal);
    enum sluice_code code = SLUICE_UNKNOWN;
    for (int tries = 0; tries < 5 && code == SLUICE_UNKNOWN; tries++)
        code = sluice_renew(s, QUEUE, &token, 1, 60000, &o, NULL);
    assert_int_equal(code, SLUICE_OK);
    assert_int_equal(o.signals, 1);
    assert_int_equal(sluice_signals_receive(s, QUEUE, &token, 1, 0, &got, NULL), SLUICE_OK);
    assert_int_equal(got->len, 1);
    assert_int_equal(got->rows[0].number, 2);
    assert_string_equal(got->rows[0].payload, payload);
    sluice_signals_free(got);
    acked(s, token, 2);
    assert_int_equal(sluice_signal_wait(node, QUEUE, signal, NULL, 20000, &got, NULL), SLUICE_OK);
    assert_string_equal(got->rows[0].state, "acked");
    sluice_signals_free(got);
    sluice_batch_free(b);
    mailbox_leave(s->engine, QUEUE, "far");
    sluice_close(s);
    sluice_close(node);
    node_process_kill(&f.node);
}

static void a_killed_owner_loses_and_repeats_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct one_worker workers[WORKERS];
    begin(&f, "owner");
    start(&f, workers);
    while (atomic_load(&f.done) < MESSAGES / 4 && clock_boot_ms() < f.until)
        clock_sleep(10);
    node_process_kill(&f.node);
    clock_sleep(3000);
    assert_true(node_process_start(&f.node));
    end(&f, workers);
}

static void the_messages_of_a_killed_worker_are_delivered_again(void **state)
{
    (void)state;
    struct fixture f;
    struct one_worker workers[WORKERS];
    char line[16] = "", command[600];
    begin(&f, "worker");
    (void)snprintf(command, sizeof command, "exec /proc/%d/exe hold %s", (int)getpid(), f.store);
    FILE *holder = popen(command, "r");
    assert_non_null(holder);
    assert_non_null(fgets(line, sizeof line, holder)); // "PID": it has messages
    assert_int_equal(kill((pid_t)atoi(line), SIGKILL), 0);
    (void)pclose(holder);
    start(&f, workers);
    end(&f, workers);
}

static int hold(const char *store)
{
    struct sluice *s;
    struct sluice_batch *batch = NULL;
    struct sluice_receive o = {.worker = "holder", .max = 5, .wait_ms = 20000};
    struct mailbox_join join = {
        .worker = "holder", .instance = 77, .capacity = 5, .ttl_ms = 5000, .labels = ""};
    if (sluice_open(store, NULL, &s, NULL) || mailbox_join(s->engine, QUEUE, &join, NULL)) return 1;
    for (int tries = 0; tries < 5 && (!batch || batch->len == 0); tries++)
        if (sluice_receive(s, QUEUE, &o, &batch, NULL)) return 1;
    printf("%d\n", (int)getpid());
    (void)fflush(stdout);
    (void)pause();
    return 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_with_mailboxes_process_every_message_once),
        cmocka_unit_test(a_mailbox_carries_results_and_progress),
        cmocka_unit_test(a_worker_with_a_mailbox_gets_signals),
        cmocka_unit_test(a_killed_owner_loses_and_repeats_nothing),
        cmocka_unit_test(the_messages_of_a_killed_worker_are_delivered_again),
    };
    if (argc == 3) return hold(argv[2]);
    if (argc == 2) cmocka_set_test_filter(argv[1]);
    CHECK(getenv("SLUICE") && getenv("SLUICE_TEST_S3"));
    return cmocka_run_group_tests_name("exchange", tests, NULL, NULL);
}
