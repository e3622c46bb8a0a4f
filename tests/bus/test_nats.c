// SPDX-License-Identifier: Apache-2.0
// The bus on real NATS servers: streams, acknowledgements, duplicates, fences, restarts, reading.
// With an argument: only whether these credentials, or this TLS, connect.
#include "bus/bus.h"
#include "os/clock.h"

#include "../unit/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 60000
#define MANY        2000
#define ENDS        500

static void control(const char *words)
{
    char line[600];
    (void)snprintf(line, sizeof line, "%s %s", getenv("SLUICE_TEST_NATS_CONTROL"), words);
    assert_int_equal(system(line), 0); // NOLINT: a test
}

static const char *server_url(void)
{
    const char *url = getenv("SLUICE_TEST_NATS");
    if (!url) fail_msg("run by tests/servers/with-nats");
    return url;
}

static struct bus *open_url(const char *url)
{
    struct bus *b = NULL;
    char why[BUS_WHY_MAX] = "";
    enum err e = bus_open(&(struct bus_config){.url = url, .name = "test"}, &b, why);
    if (e) fail_msg("%s", why);
    return b;
}

static struct bus *opened(void)
{
    char why[BUS_WHY_MAX] = "";
    struct bus *b = open_url(server_url());
    if (bus_wait(b, PATIENCE_MS, why)) fail_msg("%s", why);
    return b;
}

static struct bus_stream stream_of(const char *name, const char *const subjects[1])
{
    struct bus_stream s = {.subjects = subjects,
                           .subjects_len = 1,
                           .limits = {.replicas = 1, .max_age_ms = 3600000, .dedup_ms = 120000}};
    (void)snprintf(s.name, sizeof s.name, "%s", name);
    return s;
}

static struct bus_stream_state ensured(struct bus *b, const struct bus_stream *s)
{
    struct bus_stream_state state = {0};
    char why[BUS_WHY_MAX] = "";
    int64_t until = clock_boot_ms() + PATIENCE_MS;
    enum err e;
    while ((e = bus_stream_ensure(b, s, &state, why)) != ERR_OK && clock_boot_ms() < until &&
           (e == ERR_UNAVAILABLE || e == ERR_UNKNOWN))
        clock_sleep(20);
    if (e) fail_msg("%s: %s", err_name(e), why);
    return state;
}

// What became of each tag.
struct acks {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    size_t count;
    struct bus_ack rows[MANY + 1];
};

static void on_ack(void *ctx, const struct bus_ack *ack)
{
    struct acks *a = ctx;
    (void)pthread_mutex_lock(&a->lock);
    assert_true(ack->tag <= MANY);
    a->rows[ack->tag] = *ack;
    a->count++;
    (void)pthread_cond_broadcast(&a->moved);
    (void)pthread_mutex_unlock(&a->lock);
}

static void acks_init(struct acks *a)
{
    *a = (struct acks){.count = 0};
    (void)pthread_mutex_init(&a->lock, NULL);
    clock_cond_init(&a->moved);
}

static bool acks_wait(struct acks *a, size_t count, int64_t wait_ms)
{
    int64_t until = clock_boot_ms() + wait_ms;
    (void)pthread_mutex_lock(&a->lock);
    while (a->count < count && clock_boot_ms() < until)
        clock_wait(&a->moved, &a->lock, until);
    bool all = a->count >= count;
    (void)pthread_mutex_unlock(&a->lock);
    return all;
}

static enum err publish(struct bus_sender *s, const char *subject, uint64_t tag, const char *id,
                        uint64_t last_of_stream)
{
    struct bus_header header = {"ce-id", id};
    return bus_publish(s, &(struct bus_publish){.subject = subject,
                                                .id = id,
                                                .headers = &header,
                                                .headers_len = 1,
                                                .body = bytes_str(id),
                                                .last_of_stream = last_of_stream,
                                                .last_of_subject = BUS_NO_FENCE,
                                                .tag = tag});
}

static const struct bus_ack *published(struct bus_sender *s, struct acks *a, const char *subject,
                                       const char *id, uint64_t last_of_stream)
{
    size_t count = a->count;
    assert_int_equal(publish(s, subject, 1, id, last_of_stream), ERR_OK);
    assert_true(acks_wait(a, count + 1, PATIENCE_MS));
    return &a->rows[1];
}

static void a_stream_is_created_once_and_compared(void **state)
{
    static const char *const subjects[] = {"create.>"}, *const overlap[] = {"create.x"};
    struct bus *b = opened();
    struct bus_stream s = stream_of("CREATE", subjects), other = s, third;
    char why[BUS_WHY_MAX] = "";
    (void)state;
    struct bus_stream_state first = ensured(b, &s), again = ensured(b, &s);
    assert_true(first.last == 0 && first.first == 1 && first.created_at > 0);
    assert_true(again.created_at == first.created_at);
    other.limits.dedup_ms = 60000;
    assert_int_equal(bus_stream_ensure(b, &other, NULL, why), ERR_CONFLICT);
    assert_non_null(strstr(why, "stream CREATE of the bus has dedupWindow 2m, not 1m"));
    third = stream_of("OVERLAP", overlap);
    assert_int_equal(bus_stream_ensure(b, &third, NULL, why), ERR_CONFLICT);
    assert_non_null(strstr(why, "another stream of the bus has its subjects"));
    third.limits.replicas = 3;
    (void)snprintf(third.name, sizeof third.name, "THREE");
    third.subjects = (const char *const[]){"three.>"};
    assert_int_equal(bus_stream_ensure(b, &third, NULL, why), ERR_CONFLICT);
    assert_non_null(strstr(why, "replicas"));
    struct bus_stream_state none;
    assert_int_equal(bus_stream_state(b, "NOWHERE", &none, why), ERR_NOT_FOUND);
    bus_close(b);
}

static void ids_are_stored_once_and_a_fence_holds(void **state)
{
    static const char *const subjects[] = {"fence.>"};
    struct bus *b = opened();
    struct bus_stream s = stream_of("FENCE", subjects);
    struct bus_sender *sender = NULL;
    struct acks acks;
    (void)state;
    acks_init(&acks);
    (void)ensured(b, &s);
    assert_int_equal(bus_sender_new(b, on_ack, &acks, &sender), ERR_OK);
    const struct bus_ack *ack = published(sender, &acks, "fence.a", "one", BUS_NO_FENCE);
    assert_true(ack->err == ERR_OK && ack->sequence == 1 && !ack->duplicate);
    ack = published(sender, &acks, "fence.a", "one", BUS_NO_FENCE);
    assert_true(ack->err == ERR_OK && ack->sequence == 1 && ack->duplicate);
    ack = published(sender, &acks, "fence.b", "two", 1);
    assert_true(ack->err == ERR_OK && ack->sequence == 2);
    ack = published(sender, &acks, "fence.b", "three", 1); // a newer message is there
    assert_int_equal(ack->err, ERR_CONFLICT);
    ack = published(sender, &acks, "fence.b", "one", 1); // found before the fence
    assert_true(ack->err == ERR_OK && ack->duplicate);
    ack = published(sender, &acks, "unheard.subject", "four", BUS_NO_FENCE);
    assert_int_equal(ack->err, ERR_UNAVAILABLE);
    struct bus_message last = {0};
    char why[BUS_WHY_MAX];
    assert_int_equal(bus_stream_last(b, "FENCE", "fence.*", &last, why), ERR_OK);
    assert_true(last.sequence == 2 && bytes_equal(last.body, bytes_str("two")));
    assert_string_equal(last.id, "two");
    assert_string_equal(last.subject, "fence.b");
    assert_string_equal(bus_message_header(&last, "ce-id"), "two");
    bus_message_done(&last);
    assert_int_equal(bus_stream_last(b, "FENCE", "fence.a", &last, why), ERR_OK);
    assert_true(last.sequence == 1);
    bus_message_done(&last);
    assert_int_equal(bus_stream_last(b, "FENCE", "fence.none", &last, why), ERR_NOT_FOUND);
    bus_sender_free(sender);
    bus_close(b);
}

// The subscription of the reader meets a kill, too.
static void a_killed_server_loses_no_message_and_the_reader_goes_on(void **state)
{
    static const char *const subjects[] = {"kill.>"};
    struct bus *b = opened();
    struct bus_stream s = stream_of("KILL", subjects);
    struct bus_sender *sender = NULL;
    struct bus_subscription *sub = NULL;
    struct acks acks;
    char why[BUS_WHY_MAX] = "", id[32];
    uint64_t tag = 0, read = 0;
    (void)state;
    acks_init(&acks);
    (void)ensured(b, &s);
    assert_int_equal(bus_sender_new(b, on_ack, &acks, &sender), ERR_OK);
    assert_int_equal(
        bus_subscribe(b, &(struct bus_start){.stream = "KILL", .sequence = 1}, &sub, why), ERR_OK);
    int64_t until = clock_boot_ms() + 2 * PATIENCE_MS;
    while (read < MANY && clock_boot_ms() < until) {
        if (tag < MANY) {
            (void)snprintf(id, sizeof id, "m%llu", (unsigned long long)tag + 1);
            uint64_t connection = bus_connections(b);
            size_t count = acks.count;
            bool sent = publish(sender, "kill.x", tag + 1, id, BUS_NO_FENCE) == ERR_OK;
            while (sent && !acks_wait(&acks, count + 1, 50) && bus_connections(b) == connection &&
                   bus_is_up(b))
                ;
            if (acks.count == count)
                clock_sleep(5); // unknown: the same id again
            else if (++tag == MANY / 3 || tag == MANY / 2)
                control("restart 0");
        }
        struct bus_message m;
        enum err e = bus_next(sub, tag == MANY ? 100 : 0, &m, why);
        assert_true(e == ERR_OK || e == ERR_NOT_FOUND || e == ERR_UNAVAILABLE || e == ERR_UNKNOWN);
        if (e) continue;
        (void)snprintf(id, sizeof id, "m%llu", (unsigned long long)++read);
        assert_string_equal(m.id, id);
        assert_true(m.sequence == read && bytes_equal(m.body, bytes_str(id)));
    }
    assert_true(read == MANY);
    bus_unsubscribe(sub);
    bus_sender_free(sender);
    bus_close(b);
}

static void a_reader_begins_at_a_position_and_filters(void **state)
{
    static const char *const subjects[] = {"read.>"};
    struct bus *b = opened();
    struct bus_stream s = stream_of("READ", subjects);
    struct bus_sender *sender = NULL;
    struct bus_subscription *sub = NULL;
    struct acks acks;
    struct bus_message m;
    char why[BUS_WHY_MAX] = "";
    (void)state;
    acks_init(&acks);
    (void)ensured(b, &s);
    assert_int_equal(bus_sender_new(b, on_ack, &acks, &sender), ERR_OK);
    for (int i = 1; i <= 6; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "r%d", i);
        (void)published(sender, &acks, i % 2 == 0 ? "read.even" : "read.odd", id, BUS_NO_FENCE);
    }
    struct bus_start from = {.stream = "READ", .filter = "read.even", .sequence = 3};
    assert_int_equal(bus_subscribe(b, &from, &sub, why), ERR_OK);
    assert_int_equal(bus_next(sub, PATIENCE_MS, &m, why), ERR_OK);
    assert_true(m.sequence == 4 && m.at > 0);
    assert_int_equal(bus_next(sub, PATIENCE_MS, &m, why), ERR_OK);
    assert_true(m.sequence == 6);
    assert_int_equal(bus_next(sub, 0, &m, why), ERR_NOT_FOUND);
    bus_unsubscribe(sub);
    from = (struct bus_start){.stream = "READ"};
    assert_int_equal(bus_subscribe(b, &from, &sub, why), ERR_OK);
    (void)published(sender, &acks, "read.odd", "r7", BUS_NO_FENCE);
    assert_int_equal(bus_next(sub, PATIENCE_MS, &m, why), ERR_OK);
    assert_true(m.sequence == 7);
    bus_unsubscribe(sub);
    from.sequence = 9;
    assert_int_equal(bus_subscribe(b, &from, &sub, why), ERR_FENCED);
    assert_non_null(strstr(why, "ends at 7; the position is 9"));
    from.stream = "NOWHERE";
    assert_int_equal(bus_subscribe(b, &from, &sub, why), ERR_NOT_FOUND);
    bus_sender_free(sender);
    bus_close(b);
}

// Messages are on their way while the subscription ends.
static void a_reader_may_end_in_the_middle(void **state)
{
    static const char *const subjects[] = {"flow.>"};
    static struct acks acks;
    struct bus *b = opened();
    struct bus_stream s = stream_of("FLOW", subjects);
    struct bus_sender *sender = NULL;
    struct bus_message m;
    char why[BUS_WHY_MAX] = "", id[16];
    (void)state;
    acks_init(&acks);
    (void)ensured(b, &s);
    assert_int_equal(bus_sender_new(b, on_ack, &acks, &sender), ERR_OK);
    for (uint64_t i = 1; i <= MANY; i++) {
        (void)snprintf(id, sizeof id, "f%u", (unsigned)i);
        assert_int_equal(publish(sender, "flow.x", i, id, BUS_NO_FENCE), ERR_OK);
    }
    assert_true(acks_wait(&acks, MANY, PATIENCE_MS));
    for (int i = 0; i < ENDS; i++) {
        struct bus_start from = {.stream = "FLOW", .sequence = 1};
        struct bus_subscription *sub = NULL;
        assert_int_equal(bus_subscribe(b, &from, &sub, why), ERR_OK);
        assert_int_equal(bus_next(sub, PATIENCE_MS, &m, why), ERR_OK);
        assert_int_equal(m.sequence, 1);
        bus_unsubscribe(sub);
    }
    bus_sender_free(sender);
    bus_close(b);
}

// The files of the server go back to an earlier moment. Then other messages take the numbers.
static void a_reader_of_a_stream_that_lost_its_tail_is_told(void **state)
{
    static const char *const subjects[] = {"tail.>"};
    struct bus *b = opened();
    struct bus_stream s = stream_of("TAIL", subjects);
    struct bus_sender *sender = NULL;
    struct bus_subscription *sub = NULL;
    struct acks acks;
    struct bus_message m;
    char why[BUS_WHY_MAX] = "";
    (void)state;
    acks_init(&acks);
    (void)ensured(b, &s);
    assert_int_equal(bus_sender_new(b, on_ack, &acks, &sender), ERR_OK);
    (void)published(sender, &acks, "tail.x", "t1", BUS_NO_FENCE);
    control("save 0");
    (void)published(sender, &acks, "tail.x", "t2", BUS_NO_FENCE);
    assert_int_equal(
        bus_subscribe(b, &(struct bus_start){.stream = "TAIL", .sequence = 1}, &sub, why), ERR_OK);
    for (uint64_t i = 1; i <= 2; i++) {
        assert_int_equal(bus_next(sub, PATIENCE_MS, &m, why), ERR_OK);
        assert_true(m.sequence == i);
    }
    uint64_t connection = bus_connections(b);
    control("lose 0");
    int64_t until = clock_boot_ms() + PATIENCE_MS;
    while (bus_connections(b) == connection && clock_boot_ms() < until)
        clock_sleep(5);
    (void)ensured(b, &s);
    for (int i = 3; i <= 5; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "t%d", i);
        (void)published(sender, &acks, "tail.x", id, BUS_NO_FENCE);
    }
    enum err e;
    while ((e = bus_next(sub, 50, &m, why)) != ERR_FENCED && clock_boot_ms() < until)
        assert_int_not_equal(e, ERR_OK);
    assert_int_equal(e, ERR_FENCED);
    assert_non_null(strstr(why, "lost its newest messages"));
    bus_unsubscribe(sub);
    bus_sender_free(sender);
    bus_close(b);
}

static _Atomic int ups, downs;

static void on_changed(void *ctx, bool up)
{
    (void)ctx;
    atomic_fetch_add(up ? &ups : &downs, 1);
}

static void a_stopped_server_is_noticed_and_found_again(void **state)
{
    struct bus *b = NULL;
    char why[BUS_WHY_MAX] = "";
    struct bus_config config = {.url = server_url(), .name = "test", .changed = on_changed};
    (void)state;
    assert_int_equal(bus_open(&config, &b, why), ERR_OK);
    assert_int_equal(bus_wait(b, PATIENCE_MS, why), ERR_OK);
    assert_true(bus_connections(b) == 1);
    control("kill 0");
    int64_t until = clock_boot_ms() + PATIENCE_MS;
    while (bus_is_up(b) && clock_boot_ms() < until)
        clock_sleep(5);
    assert_int_equal(bus_wait(b, 0, why), ERR_UNAVAILABLE);
    assert_true(why[0] != 0 && !bus_is_up(b));
    control("start 0");
    assert_int_equal(bus_wait(b, PATIENCE_MS, why), ERR_OK);
    assert_true(bus_connections(b) == 2);
    bus_close(b);
    assert_true(atomic_load(&ups) == 2 && atomic_load(&downs) == 2);
}

// argv: "credentials" (right ones are in the environment) or "tls".
static void right_credentials_connect_and_others_do_not(void **state)
{
    char why[BUS_WHY_MAX] = "";
    struct bus *b = opened();
    (void)state;
    bus_close(b);
    const char *const names[] = {"SLUICE_NATS_USER", "SLUICE_NATS_PASSWORD", "SLUICE_NATS_TOKEN",
                                 "SLUICE_NATS_NKEY_FILE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(unsetenv(names[i]), 0);
    assert_int_equal(setenv("SLUICE_NATS_TOKEN", "wrong-token", 1), 0);
    b = open_url(server_url());
    int64_t until = clock_boot_ms() + PATIENCE_MS;
    enum err e;
    while ((e = bus_wait(b, 10, why)) != ERR_DENIED && clock_boot_ms() < until)
        assert_int_not_equal(e, ERR_OK);
    assert_int_equal(e, ERR_DENIED);
    assert_null(strstr(why, "wrong-token"));
    bus_close(b);
}

static void a_certificate_of_another_name_or_authority_is_refused(void **state)
{
    char why[BUS_WHY_MAX] = "", url[128];
    struct bus *b = opened();
    (void)state;
    bus_close(b);
    (void)snprintf(url, sizeof url, "tls://localhost%s", strrchr(server_url(), ':'));
    b = open_url(url); // the certificate is for 127.0.0.1
    assert_int_equal(bus_wait(b, 1000, why), ERR_UNAVAILABLE);
    assert_true(bus_connections(b) == 0);
    print_message("# %s\n", why);
    bus_close(b);
    assert_int_equal(unsetenv("SLUICE_NATS_CA_FILE"), 0);
    b = open_url(server_url());
    assert_int_equal(bus_wait(b, 1000, why), ERR_UNAVAILABLE);
    assert_true(bus_connections(b) == 0);
    bus_close(b);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_is_created_once_and_compared),
        cmocka_unit_test(ids_are_stored_once_and_a_fence_holds),
        cmocka_unit_test(a_killed_server_loses_no_message_and_the_reader_goes_on),
        cmocka_unit_test(a_reader_begins_at_a_position_and_filters),
        cmocka_unit_test(a_reader_may_end_in_the_middle),
        cmocka_unit_test(a_reader_of_a_stream_that_lost_its_tail_is_told),
        cmocka_unit_test(a_stopped_server_is_noticed_and_found_again),
    };
    const struct CMUnitTest credentials[] = {
        cmocka_unit_test(right_credentials_connect_and_others_do_not)};
    const struct CMUnitTest tls[] = {
        cmocka_unit_test(a_certificate_of_another_name_or_authority_is_refused)};
    if (argc > 1 && strcmp(argv[1], "credentials") == 0)
        return cmocka_run_group_tests(credentials, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "tls") == 0) return cmocka_run_group_tests(tls, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
