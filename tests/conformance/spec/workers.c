// SPDX-License-Identifier: Apache-2.0
// The features of registered workers, one test each, with the library's public calls and the real
// time. The first argument names the store, the second how the workers reach it:
//   direct   they open the store. For features of the owner a node runs beside them.
//   node     they know only the URL of a node.
// A store in memory has one process, so there it is always a node.
#include "fixture.h"

#define TTL_MS   5000
#define ROWS_MAX 32

static const struct sluice_setting by_tickets = {"dispatch", "tickets"};

static void join(struct sluice *s, const char *worker, uint32_t capacity, const char *labels)
{
    struct sluice_join join = {
        .worker = worker, .capacity = capacity, .labels = labels, .ttl_ms = TTL_MS * 12};
    FINE(sluice_worker_join(s, QUEUE, &join, &error));
}

static void send(struct fixture *p, const char *body, const char *group, const char *needs,
                 struct sluice_sent *sent)
{
    struct sluice_send one = {
        .body = body, .body_len = strlen(body), .group = group, .needs = needs};
    FINE(sluice_send(p->theirs, QUEUE, &one, 1, NULL, sent, &error));
}

static bool find(struct fixture *p, const char *worker, struct sluice_worker *out)
{
    static struct sluice_worker rows[ROWS_MAX];
    size_t len = 0;
    FINE(sluice_workers(p->theirs, QUEUE, rows, ROWS_MAX, &len, &error));
    for (size_t i = 0; i < len; i++)
        if (strcmp(rows[i].name, worker) == 0) {
            *out = rows[i];
            return true;
        }
    return false;
}

static uint32_t open_of(struct fixture *p, const char *worker)
{
    struct sluice_worker w;
    return find(p, worker, &w) ? w.open : 0;
}

static bool is_registered(struct fixture *p, const char *worker)
{
    struct sluice_worker w;
    return find(p, worker, &w) && w.capacity > 0;
}

static struct sluice_batch *receive(struct sluice *s, const char *worker, uint32_t max,
                                    int64_t wait_ms)
{
    struct sluice_batch *b = NULL;
    struct sluice_receive o = {.worker = worker, .max = max, .wait_ms = wait_ms};
    FINE(sluice_receive(s, QUEUE, &o, &b, &error));
    return b;
}

static void is_body(const struct sluice_message *m, const char *body)
{
    assert_string_equal((const char *)m->body, body);
}

static void registry(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct sluice_worker w;
    join(p->mine, "one", 4, "kind=gpu,host=a");
    assert_true(find(p, "one", &w));
    assert_int_equal(w.capacity, 4);
    assert_string_equal(w.labels, "host=a,kind=gpu");
    assert_string_equal(w.mode, "running");
    FINE(sluice_worker_leave(p->mine, QUEUE, "one", &error));
    assert_false(is_registered(p, "one"));
    fixture_close(p);
}

static void expiry(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct sluice_join once = {.worker = "one", .capacity = 1, .ttl_ms = TTL_MS};
    FINE(sluice_worker_join(p->mine, QUEUE, &once, &error));
    assert_true(is_registered(p, "one"));
    UNTIL(!is_registered(p, "one"));
    fixture_close(p);
}

static void heartbeats(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct sluice_join once = {.worker = "one", .capacity = 1, .ttl_ms = TTL_MS};
    FINE(sluice_worker_join(p->mine, QUEUE, &once, &error));
    sluice_batch_free(receive(p->mine, "one", 1, TTL_MS + TTL_MS / 2));
    assert_true(is_registered(p, "one"));
    fixture_close(p);
}

static void name_of_one_process(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct sluice_join other = {.worker = "one", .capacity = 1, .ttl_ms = TTL_MS};
    join(p->mine, "one", 1, NULL);
    join(p->mine, "one", 2, NULL);
    REFUSED(SLUICE_CONFLICT, "worker-name-taken",
            sluice_worker_join(p->theirs, QUEUE, &other, &error));
    FINE(sluice_worker_leave(p->mine, QUEUE, "one", &error));
    FINE(sluice_worker_join(p->theirs, QUEUE, &other, &error));
    fixture_close(p);
}

// Without an owner no process grants tickets, and claims go on.
static void no_owner_no_tickets(void **state)
{
    (void)state;
    if (fixture_through_node()) {
        print_message("# skipped: the node is the owner\n");
        return;
    }
    struct fixture *p = fixture_open(false, &by_tickets, 1);
    join(p->mine, "one", 1, NULL);
    send(p, "a", NULL, NULL, NULL);
    assert_int_equal(open_of(p, "one"), 0);
    struct sluice_batch *b = receive(p->mine, "one", 1, PATIENCE_MS);
    assert_int_equal(b->len, 1);
    assert_int_equal(b->messages[0].order, 0);
    sluice_batch_free(b);
    fixture_close(p);
}

static void dispatch_in_turn(void **state)
{
    (void)state;
    static const char *const names[] = {"d", "a", "c", "b"};
    struct fixture *p = fixture_open(true, &by_tickets, 1);
    for (size_t i = 0; i < 4; i++)
        join(p->mine, names[i], 2, NULL);
    for (size_t i = 0; i < 8; i++)
        send(p, "x", NULL, NULL, NULL);
    for (size_t i = 0; i < 4; i++)
        UNTIL(open_of(p, names[i]) == 2);
    fixture_close(p);
}

static void tickets_in_order(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(true, &by_tickets, 1);
    static const char *const bodies[] = {"1", "2", "3"};
    struct sluice_batch *b = NULL;
    join(p->mine, "one", 3, NULL);
    // A busy machine may take longer than a ticket lasts. Then the owner grants again.
    for (size_t i = 0; i < 3; i++)
        send(p, bodies[i], NULL, NULL, NULL);
    UNTIL(open_of(p, "one") == 3 && (b = receive(p->mine, "one", 3, 0)) && b->len == 3 &&
          b->messages[0].order > 0);
    for (size_t i = 0; i < 3; i++) {
        is_body(&b->messages[i], bodies[i]);
        if (i > 0) assert_true(b->messages[i].order == b->messages[i - 1].order + 1);
    }
    sluice_batch_free(b);
    fixture_close(p);
}

static void tickets_first(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(true, &by_tickets, 1);
    join(p->mine, "one", 1, NULL);
    send(p, "by ticket", NULL, NULL, NULL);
    UNTIL(open_of(p, "one") == 1);
    send(p, "claimed", NULL, NULL, NULL);
    struct sluice_batch *b = receive(p->mine, "one", 2, PATIENCE_MS);
    assert_int_equal(b->len, 2);
    is_body(&b->messages[0], "by ticket");
    is_body(&b->messages[1], "claimed");
    assert_int_equal(b->messages[1].order, 0);
    sluice_batch_free(b);
    fixture_close(p);
}

static void tickets_of_one_that_left(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(true, &by_tickets, 1);
    join(p->mine, "one", 1, NULL);
    send(p, "a", NULL, NULL, NULL);
    UNTIL(open_of(p, "one") == 1);
    FINE(sluice_worker_leave(p->mine, QUEUE, "one", &error));
    struct sluice_batch *b = receive(p->theirs, "two", 1, PATIENCE_MS);
    assert_int_equal(b->len, 1);
    assert_int_equal(b->messages[0].attempt, 1);
    sluice_batch_free(b);
    fixture_close(p);
}

// Its heartbeats are good, but it takes nothing.
static void tickets_of_a_stalled_worker(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(true, &by_tickets, 1);
    join(p->mine, "one", 2, NULL);
    send(p, "a", NULL, NULL, NULL);
    UNTIL(open_of(p, "one") == 1);
    struct sluice_batch *b = receive(p->theirs, "two", 1, PATIENCE_MS);
    assert_int_equal(b->len, 1);
    assert_int_equal(b->messages[0].attempt, 1);
    sluice_batch_free(b);
    fixture_close(p);
}

static void labels(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct sluice_sent sent;
    join(p->mine, "plain", 1, NULL);
    join(p->mine, "fast", 1, "host=a,kind=gpu");
    send(p, "video", NULL, "kind=gpu", &sent);
    struct sluice_batch *b = receive(p->mine, "plain", 1, 0);
    assert_int_equal(b->len, 0);
    sluice_batch_free(b);
    b = receive(p->mine, "fast", 1, PATIENCE_MS);
    assert_int_equal(b->len, 1);
    sluice_batch_free(b);
    fixture_close(p);
}

static void pause_and_drain(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct sluice_batch *b, *none = NULL;
    struct sluice_receive ask = {.worker = "one", .max = 1};
    join(p->mine, "one", 1, NULL);
    send(p, "a", NULL, NULL, NULL);
    send(p, "b", NULL, NULL, NULL);
    FINE(sluice_worker_pause(p->theirs, QUEUE, "one", &error));
    REFUSED(SLUICE_UNAVAILABLE, "worker-paused",
            sluice_receive(p->mine, QUEUE, &ask, &none, &error));
    FINE(sluice_worker_resume(p->theirs, QUEUE, "one", &error));
    b = receive(p->mine, "one", 1, PATIENCE_MS);
    assert_int_equal(b->len, 1);
    FINE(sluice_worker_drain(p->theirs, QUEUE, "one", &error));
    REFUSED(SLUICE_UNAVAILABLE, "worker-draining",
            sluice_receive(p->mine, QUEUE, &ask, &none, &error));
    const char *token = b->messages[0].token;
    FINE(sluice_ack(p->mine, QUEUE, &token, 1, NULL, &error));
    sluice_batch_free(b);
    fixture_close(p);
}

static void eviction(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct sluice_batch *b, *none = NULL;
    struct sluice_receive ask = {.worker = "one", .max = 1};
    join(p->mine, "one", 1, NULL);
    send(p, "a", NULL, NULL, NULL);
    b = receive(p->mine, "one", 1, PATIENCE_MS);
    assert_int_equal(b->len, 1);
    FINE(sluice_worker_evict(p->theirs, QUEUE, "one", &error));
    const char *token = b->messages[0].token;
    assert_int_not_equal(sluice_ack(p->mine, QUEUE, &token, 1, NULL, NULL), SLUICE_OK);
    REFUSED(SLUICE_FENCED, "worker-evicted", sluice_receive(p->mine, QUEUE, &ask, &none, &error));
    sluice_batch_free(b);
    b = receive(p->theirs, "two", 1, PATIENCE_MS);
    assert_int_equal(b->len, 1);
    assert_int_equal(b->messages[0].attempt, 1);
    sluice_batch_free(b);
    fixture_close(p);
}

// Three messages of each of two groups. The first of each group shows its worker.
static void affinity(void **state)
{
    (void)state;
    static const struct sluice_setting settings[] = {{"orderingGuarantee", "true"},
                                                     {"dispatch", "affinity"}};
    struct fixture *p = fixture_open(true, settings, 2);
    static const char *const workers[] = {"one", "two"};
    const char *holder[2] = {NULL, NULL}; // by group
    for (size_t w = 0; w < 2; w++)
        join(p->mine, workers[w], 1, NULL);
    for (size_t i = 0; i < 6; i++)
        send(p, i % 2 ? "1" : "0", i % 2 ? "odd" : "even", NULL, NULL);
    int64_t end = clock_boot_ms() + PATIENCE_MS;
    for (size_t done = 0; done < 6;) {
        if (clock_boot_ms() > end) fail_msg("%zu of 6 messages", done);
        for (size_t w = 0; w < 2; w++) {
            struct sluice_batch *b = receive(p->mine, workers[w], 1, 100);
            for (size_t i = 0; i < b->len; i++) {
                const char *token = b->messages[i].token;
                size_t group = ((const char *)b->messages[i].body)[0] == '1';
                if (!holder[group]) holder[group] = workers[w];
                assert_string_equal(holder[group], workers[w]);
                FINE(sluice_ack(p->mine, QUEUE, &token, 1, NULL, &error));
                done++;
            }
            sluice_batch_free(b);
        }
    }
    fixture_close(p);
}

static void is_rejected(struct fixture *p, const char *token, const char *reason)
{
    struct sluice_outcome out = {.reason = ""};
    assert_int_not_equal(sluice_renew(p->mine, QUEUE, &token, 1, 0, &out, NULL), SLUICE_OK);
    assert_string_equal(out.reason, reason);
}

static void renewals(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    join(p->mine, "one", 1, NULL);
    send(p, "a", NULL, NULL, NULL);
    struct sluice_batch *b = receive(p->mine, "one", 1, PATIENCE_MS);
    assert_int_equal(b->len, 1);
    const char *token = b->messages[0].token;
    FINE(sluice_renew(p->mine, QUEUE, &token, 1, 0, NULL, &error));
    FINE(sluice_release(p->mine, QUEUE, &token, 1, 0, NULL, &error));
    is_rejected(p, token, "lock-released");
    struct sluice_batch *again = receive(p->mine, "one", 1, PATIENCE_MS);
    assert_int_equal(again->len, 1);
    is_rejected(p, token, "token-mismatch");
    token = again->messages[0].token;
    FINE(sluice_ack(p->mine, QUEUE, &token, 1, NULL, &error));
    is_rejected(p, token, "terminal");
    sluice_batch_free(b);
    sluice_batch_free(again);
    fixture_close(p);
}

static void status(void **state)
{
    (void)state;
    struct fixture *p = fixture_open(false, NULL, 0);
    struct sluice_batch *shown = NULL;
    join(p->mine, "one", 1, NULL);
    send(p, "a", NULL, NULL, NULL);
    struct sluice_batch *b = receive(p->mine, "one", 1, PATIENCE_MS);
    assert_int_equal(b->len, 1);
    const char *token = b->messages[0].token;
    FINE(sluice_ack(p->mine, QUEUE, &token, 1, NULL, &error));
    FINE(sluice_show(p->theirs, QUEUE, b->messages[0].id, &shown, &error));
    assert_string_equal(shown->messages[0].state, "processed");
    assert_string_equal(shown->messages[0].worker, "one");
    assert_int_equal(shown->messages[0].attempts, 1);
    struct sluice_worker w;
    assert_true(find(p, "one", &w));
    assert_int_equal(w.done, 1);
    sluice_batch_free(shown);
    sluice_batch_free(b);
    fixture_close(p);
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    fixture_choose(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        TITLED("A registered worker is shown with what it said", registry),
        TITLED("A row without a sign of life expires", expiry),
        TITLED("A receive that waits is a heartbeat", heartbeats),
        TITLED("A name belongs to one process while its row lives", name_of_one_process),
        TITLED("Without an owner there are no tickets", no_owner_no_tickets),
        TITLED("The dispatch loop grants in turn, whatever the names", dispatch_in_turn),
        TITLED("Tickets of the loop come in order, with their order index", tickets_in_order),
        TITLED("Tickets first, then direct claims", tickets_first),
        TITLED("Tickets of a worker that left return", tickets_of_one_that_left),
        TITLED("Tickets that are not taken return", tickets_of_a_stalled_worker),
        TITLED("A message goes to a worker that has its labels", labels),
        TITLED("A paused worker gets nothing, a drained one finishes", pause_and_drain),
        TITLED("Eviction ends locks and keeps the process out", eviction),
        TITLED("A group stays with its worker", affinity),
        TITLED("Renewals of a registered worker are validated", renewals),
        TITLED("What a worker finished says so", status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
