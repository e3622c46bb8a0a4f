// SPDX-License-Identifier: Apache-2.0
// What answers take together: they are cut, or refused, before they are made; nothing is lost by
// that; and all of it comes back.
#include "rig.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define KIB     ((size_t)1 << 10)
#define MIB     ((size_t)1 << 20)
#define TAKEN   "sluice_http_answer_memory_bytes"
#define REFUSED "sluice_http_no_room_total"
#define CROWD   12
#define PEEKS   40
#define PEEK_MS 250 // half of what a receive waits
#define HELD    3   // of them, when each is 8 MiB: it takes thrice that while it is made
#define LARGE   (8 * MIB)
#define BUDGET  (64 * MIB)

// A sanitizer keeps what was freed, and shadows of it.
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define MEASURES_MEMORY false
#elif defined __has_feature
#define MEASURES_MEMORY (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define MEASURES_MEMORY true
#endif

static int64_t metric(struct rig *r, const char *name)
{
    struct reply reply;
    char line[100];
    ask(r, &(struct ask){.method = "GET", .path = "/metrics"}, &reply);
    assert_int_equal(reply.status, 200);
    (void)snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(reply.body, line);
    if (!at) fail_msg("there is no %s", name);
    int64_t value = (int64_t)strtod(at + strlen(line), NULL);
    reply_done(&reply);
    return value;
}

static bool nothing_taken(void *ctx)
{
    return metric(ctx, TAKEN) == 0;
}

static size_t resident(void)
{
    unsigned long all, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &all, &pages), 2);
    (void)fclose(f);
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void start(struct rig *r, size_t budget, int64_t idle_ms)
{
    rig_start_with(r, &(struct server_config){.answer_memory_max = budget, .idle_ms = idle_ms});
    assert_int_equal(call(r, "PATCH", "/v1/queues/tasks", "{\"maxMessageBytes\": 16777216}"), 200);
}

static void send_one(struct rig *r, const char *queue, size_t len)
{
    struct reply reply;
    char path[64], *body = malloc(len);
    assert_non_null(body);
    memset(body, 'x', len);
    (void)snprintf(path, sizeof path, "/v1/queues/%s/messages", queue);
    struct ask a = {
        .method = "POST", .path = path, .type = "text/plain", .body = body, .body_len = len};
    ask(r, &a, &reply);
    assert_int_equal(reply.status, 201);
    reply_done(&reply);
    free(body);
}

// Asks, and reads no more of the answer than its status.
static int dial_and_ask(struct rig *r, const struct ask *a, int *status)
{
    char line[13];
    int fd = dial(r), little = 4096;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little), 0);
    say_request(fd, a);
    assert_int_equal(recv(fd, line, sizeof line - 1, MSG_WAITALL), sizeof line - 1);
    line[sizeof line - 1] = '\0';
    *status = atoi(line + strlen("HTTP/1.1 "));
    return fd;
}

static const struct ask peek = {.method = "GET", .path = "/v1/queues/tasks/messages"};

static void hang_up(int *fds, int len)
{
    for (int i = 0; i < len; i++)
        (void)close(fds[i]);
}

// Takes all the memory for large answers, with peeks that the client does not read. Returns how
// many there were.
static int fill(struct rig *r, int *fds, int len)
{
    int held = 0;
    for (int i = 0; i < len; i++) {
        int status;
        fds[i] = dial_and_ask(r, &peek, &status);
        if (status != 200 && status != 503) fail_msg("%d", status);
        held += status == 200;
    }
    return held;
}

static void assert_no_room(const struct reply *reply, int status)
{
    if (reply->status != status) fail_msg("%d: %.200s", reply->status, reply->body);
    assert_string_equal(reply_header(reply, "Retry-After"), "1");
    assert_string_equal(reply_header(reply, "Content-Type"), "application/problem+json");
    assert_non_null(strstr(reply->body, "\"reason\":\"no-room\""));
}

static void unread_answers_take_no_more_than_they_may(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    int fds[CROWD];
#ifdef M_PERTURB
    (void)mallopt(M_PERTURB, 0); // else room that is never written to would be resident, too
#endif
    start(&r, BUDGET, 0);
    send_one(&r, "tasks", LARGE);
    assert_int_equal(call(&r, "PUT", "/v1/queues/little", "{}"), 201);
    send_one(&r, "little", 100);
    await(nothing_taken, &r, "nothing is taken");
    size_t before = resident();
    // A quarter of the room is for small ones.
    assert_int_equal(fill(&r, fds, CROWD), HELD);
    assert_in_range(metric(&r, TAKEN), HELD * LARGE, BUDGET);
    size_t more = resident() > before ? resident() - before : 0;
    print_message("# %d unread answers of %zu MiB: %zu KiB more\n", CROWD, LARGE / MIB, more / KIB);
    if (MEASURES_MEMORY && more > BUDGET + BUDGET / 2) fail_msg("%zu KiB more", more / KIB);
    int64_t refused = metric(&r, REFUSED);
    ask(&r, &peek, &reply);
    assert_no_room(&reply, 503);
    reply_done(&reply);
    assert_int_equal(metric(&r, REFUSED), refused + 1);
    assert_int_equal(get(&r, "/v1/queues/little/messages"), 200);
    assert_int_equal(got_len("messages"), 1);
    assert_int_equal(post(&r, "/v1/queues/little/receive", "{}"), 200);
    assert_int_equal(got_len("messages"), 1);
    hang_up(fds, CROWD);
    await(nothing_taken, &r, "all is given back");
    assert_int_equal(get(&r, peek.path), 200);
    rig_stop(&r);
}

static void an_answer_that_the_client_does_not_read_is_given_up(void **state)
{
    (void)state;
    struct rig r;
    int fd;
    start(&r, BUDGET, 1000);
    send_one(&r, "tasks", LARGE);
    assert_int_equal(fill(&r, &fd, 1), 1);
    (void)close(r.line); // which may have been idle for as long
    r.line = -1;
    await(nothing_taken, &r, "all is given back");
    hang_up(&fd, 1);
    rig_stop(&r);
}

static void one_that_is_larger_than_all_room_goes_alone(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    int status;
    start(&r, MIB, 0);
    send_one(&r, "tasks", LARGE);
    int fd = dial_and_ask(&r, &peek, &status);
    assert_int_equal(status, 200);
    ask(&r, &peek, &reply);
    assert_no_room(&reply, 503);
    reply_done(&reply);
    (void)close(fd);
    await(nothing_taken, &r, "all is given back");
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", "{}"), 200);
    assert_int_equal(got_len("messages"), 1);
    rig_stop(&r);
}

// Receives all of them, a few at a time.
static void receive_all(struct rig *r, int count, size_t at_once)
{
    int got = 0;
    while (got < count) {
        assert_int_equal(post(r, "/v1/queues/tasks/receive", "{\"max\": 100}"), 200);
        size_t left = (size_t)(count - got), len = got_len("messages");
        assert_int_equal(len, left < at_once ? left : at_once);
        for (size_t i = 0; i < len; i++) {
            char key[40], *end;
            (void)snprintf(key, sizeof key, "messages.%zu.attempt", i);
            assert_int_equal(got_number(key), 1); // what was given back was not tried
            (void)snprintf(key, sizeof key, "messages.%zu.id", i);
            const char *number = strrchr(got_text(key), '-');
            assert_non_null(number);
            assert_int_equal(strtol(number + 1, &end, 10), ++got); // and is in its old place
        }
    }
    assert_int_equal(get(r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("locked"), count);
    assert_int_equal(got_number("ready"), 0);
}

static void a_receive_brings_what_there_is_room_for(void **state)
{
    (void)state;
    struct rig r;
    start(&r, 24 * MIB, 0); // 2 MiB of messages in one answer
    for (int i = 0; i < 7; i++)
        send_one(&r, "tasks", 600 * KIB);
    receive_all(&r, 7, 3);
    rig_stop(&r);
}

static void so_it_is_with_many_small_ones(void **state)
{
    (void)state;
    struct rig r;
    start(&r, 24 * MIB, 0);
    for (int i = 0; i < 25; i++)
        send_one(&r, "tasks", 200 * KIB);
    receive_all(&r, 25, 10);
    rig_stop(&r);
}

static void send_many(struct rig *r, size_t count, size_t len)
{
    char *body = malloc(len + 1), *text = malloc(count * (len + 20) + 20);
    assert_true(body && text);
    memset(body, 'x', len);
    body[len] = '\0';
    size_t at = (size_t)sprintf(text, "{\"messages\": [");
    for (size_t i = 0; i < count; i++)
        at += (size_t)sprintf(text + at, "%s{\"body\": \"%s\"}", i ? "," : "", body);
    (void)strcpy(text + at, "]}");
    assert_int_equal(post(r, "/v1/queues/tasks/messages", text), 200);
    free(text);
    free(body);
}

// However many they are: one entry claims them, and one gives the rest back, before its locks end.
static void what_is_cut_off_goes_back_at_once(void **state)
{
    (void)state;
    struct rig r;
    start(&r, 4 * MIB, 0);
    for (int i = 0; i < 8; i++)
        send_many(&r, 500, 2 * KIB);
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    int64_t before = got_number("entries");
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", "{\"max\": 4000}"), 200);
    size_t len = got_len("messages");
    assert_in_range(len, 10, 1000);
    assert_int_equal(got_number("messages.0.attempt"), 1);
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_in_range(got_number("entries") - before, 1, 3);
    assert_int_equal(got_number("locked"), len);
    assert_int_equal(got_number("ready"), 4000 - len);
    assert_int_equal(got_number("dead"), 0);
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", "{\"max\": 4000}"), 200);
    assert_int_equal(got_number("messages.0.attempt"), 1);
    const char *number = strrchr(got_text("messages.0.id"), '-');
    assert_non_null(number);
    assert_int_equal(strtol(number + 1, NULL, 10), len + 1); // in its old place
    // By now it is known what they weigh, and hardly more are claimed than can be handed out.
    int64_t fence = got_number("messages.0.fence");
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", "{\"max\": 4000}"), 200);
    assert_in_range(got_number("messages.0.fence") - fence, len, 3 * len);
    assert_int_equal(post(&r, "/v1/queues/tasks/receive", "{\"max\": 10001}"), 400);
    rig_stop(&r);
}

static void a_peek_is_cut_and_goes_on(void **state)
{
    (void)state;
    struct rig r;
    char path[200] = "/v1/queues/tasks/messages?max=100";
    start(&r, 24 * MIB, 0);
    for (int i = 0; i < 7; i++)
        send_one(&r, "tasks", 600 * KIB);
    for (int seen = 0; seen < 7;) {
        char key[40];
        assert_int_equal(get(&r, path), 200);
        size_t len = got_len("messages");
        assert_int_equal(len, seen < 6 ? 3 : 1);
        seen += (int)len;
        (void)snprintf(key, sizeof key, "messages.%zu.id", len - 1);
        (void)snprintf(path, sizeof path, "/v1/queues/tasks/messages?max=100&after=%s",
                       got_text(key));
    }
    rig_stop(&r);
}

static void a_list_of_queues_comes_in_pieces(void **state)
{
    (void)state;
    struct rig r;
    rig_start(&r);
    for (char name[] = "a"; *name <= 'd'; ++*name)
        assert_int_equal(sluice_queue_create(r.store, name, NULL, 0, NULL), SLUICE_OK);
    assert_int_equal(get(&r, "/v1/queues?max=3"), 200);
    assert_int_equal(got_len("queues"), 3);
    assert_string_equal(got_text("queues.2.name"), "c");
    assert_true(json_as_bool(json_member(got(), "more")));
    assert_int_equal(get(&r, "/v1/queues?max=3&after=c"), 200);
    assert_int_equal(got_len("queues"), 2);
    assert_string_equal(got_text("queues.0.name"), "d");
    assert_string_equal(got_text("queues.1.name"), "tasks");
    assert_null(json_member(got(), "more"));
    assert_int_equal(get(&r, "/v1/queues?max=5"), 200);
    assert_null(json_member(got(), "more"));
    assert_int_equal(get(&r, "/v1/queues?max=10001"), 400);
    rig_stop(&r);
}

#define MANY 10002 // more than one answer has

static void a_handle_on_a_node_lists_all_of_them(void **state)
{
    (void)state;
    struct rig r;
    char url[64];
    struct sluice *s = NULL;
    struct sluice_names *names = NULL;
    if (strcmp(rig_store, "mem") != 0) return; // it is about HTTP, and a disk takes its time
    rig_start(&r);
    for (int i = 1; i < MANY; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "q%05d", i);
        assert_int_equal(sluice_queue_create(r.store, name, NULL, 0, NULL), SLUICE_OK);
    }
    (void)snprintf(url, sizeof url, "http://%s", server_address(r.server));
    assert_int_equal(sluice_open(url, NULL, &s, NULL), SLUICE_OK);
    assert_int_equal(sluice_queue_list(s, &names, NULL), SLUICE_OK);
    assert_int_equal(names->len, MANY);
    for (size_t i = 1; i < names->len; i++)
        assert_true(strcmp(names->names[i - 1], names->names[i]) < 0);
    sluice_names_free(names);
    sluice_close(s);
    rig_stop(&r);
}

static void a_message_that_finds_no_room_stays_in_its_place(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    int fds[HELD];
    struct ask receive = {.method = "POST", .path = "/v1/queues/tasks/receive", .body = "{}"};
    start(&r, BUDGET, 0);
    send_one(&r, "tasks", LARGE);
    assert_int_equal(fill(&r, fds, HELD), HELD);
    ask(&r, &receive, &reply);
    assert_no_room(&reply, 503);
    reply_done(&reply);
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("ready"), 1);
    hang_up(fds, HELD);
    await(nothing_taken, &r, "all is given back");
    assert_int_equal(post(&r, receive.path, receive.body), 200);
    assert_int_equal(got_number("messages.0.attempt"), 1);
    rig_stop(&r);
}

// A client that may ask again finds what it was granted.
static void with_a_request_id_the_lock_stays_for_the_next_try(void **state)
{
    (void)state;
    struct rig r;
    struct reply reply;
    int fds[HELD];
    struct ask receive = {.method = "POST",
                          .path = "/v1/queues/tasks/receive",
                          .headers = "Sluice-Request: 00112233445566778899aabbccddeeff\r\n",
                          .body = "{}"};
    start(&r, BUDGET, 0);
    send_one(&r, "tasks", LARGE);
    assert_int_equal(fill(&r, fds, HELD), HELD);
    ask(&r, &receive, &reply);
    assert_no_room(&reply, 504);
    reply_done(&reply);
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("locked"), 1);
    hang_up(fds, HELD);
    await(nothing_taken, &r, "all is given back");
    ask(&r, &receive, &reply);
    assert_int_equal(reply.status, 200);
    assert_non_null(strstr(reply.body, "\"attempt\":1"));
    reply_done(&reply);
    assert_int_equal(get(&r, "/v1/queues/tasks/stats"), 200);
    assert_int_equal(got_number("locked"), 1);
    rig_stop(&r);
}

// Peeks share their threads with all that blocks.
static void a_peek_does_not_wait_for_room(void **state)
{
    (void)state;
    struct rig r;
    int fds[CROWD];
    start(&r, BUDGET, 0);
    send_one(&r, "tasks", LARGE);
    assert_int_equal(fill(&r, fds, CROWD), HELD);
    int64_t began = now_ms();
    for (int i = 0; i < PEEKS; i++) {
        struct reply reply;
        ask(&r, &peek, &reply);
        assert_no_room(&reply, 503);
        reply_done(&reply);
    }
    assert_true(now_ms() - began < PEEKS * PEEK_MS);
    hang_up(fds, CROWD);
    rig_stop(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unread_answers_take_no_more_than_they_may),
        cmocka_unit_test(an_answer_that_the_client_does_not_read_is_given_up),
        cmocka_unit_test(one_that_is_larger_than_all_room_goes_alone),
        cmocka_unit_test(a_receive_brings_what_there_is_room_for),
        cmocka_unit_test(so_it_is_with_many_small_ones),
        cmocka_unit_test(what_is_cut_off_goes_back_at_once),
        cmocka_unit_test(a_peek_is_cut_and_goes_on),
        cmocka_unit_test(a_peek_does_not_wait_for_room),
        cmocka_unit_test(a_list_of_queues_comes_in_pieces),
        cmocka_unit_test(a_handle_on_a_node_lists_all_of_them),
        cmocka_unit_test(a_message_that_finds_no_room_stays_in_its_place),
        cmocka_unit_test(with_a_request_id_the_lock_stays_for_the_next_try),
    };
    if (argc > 1) rig_store = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
