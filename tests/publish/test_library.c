// SPDX-License-Identifier: Apache-2.0
// A handle that publishes to a real bus, on a store whose clock the test moves. Runs under
// tests/servers/with-nats. BUS_DUMP names the program that prints a stream as a consumer sees it.
#include "../unit/unit.h"
#include "api/handle.h"
#include "base/memory.h"
#include "events/schema.h"
#include "os/clock.h"
#include "publish/publish.h"
#include "queues/owner.h"
#include "queues/queues.h"
#include "server/inside.h"
#include "store/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE_MS 60000
#define HOUR_MS     3600000
#define SNAPSHOT    1024 // entries between two snapshots

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.code = SLUICE_OK};                                           \
        if (call) fail_msg("%s: %s", #call, error.message);                                        \
    } while (0)

struct rig {
    struct store *clock;
    struct sluice *s;
    struct publish_engine *p;
    const char *queue;
    struct envelope_window window;
    struct schema_set *schemas; // NULL: those of the program
    char notes[1024];           // what publishing said of gaps
    int alarms, unfit;
    pthread_mutex_t lock;
};

static void note(void *ctx, enum publishing_note what, const char *queue, uint32_t shard,
                 const char *why)
{
    struct rig *r = ctx;
    (void)shard;
    (void)pthread_mutex_lock(&r->lock);
    r->alarms += what == PUBLISHING_OVERDUE;
    r->unfit += what == PUBLISHING_SCHEMA;
    if (what == PUBLISHING_GAP) (void)snprintf(r->notes, sizeof r->notes, "%s: %s", queue, why);
    (void)pthread_mutex_unlock(&r->lock);
}

static void control(const char *words)
{
    char line[256];
    (void)snprintf(line, sizeof line, "%s %s", getenv("SLUICE_TEST_NATS_CONTROL"), words);
    if (system(line) != 0) fail_msg("%s", line);
}

static void publish(struct rig *r, bool shadow)
{
    FINE(publishing_start(r->s->engine,
                          &(struct publishing_config){.bus = getenv("SLUICE_TEST_NATS"),
                                                      .node = "one",
                                                      .shadow = shadow,
                                                      .window = r->window,
                                                      .schemas = r->schemas,
                                                      .note = note,
                                                      .ctx = r},
                          &r->p, &error));
}

static void begin(struct rig *r, const char *queue, const struct sluice_setting *settings,
                  size_t len)
{
    *r = (struct rig){.clock = store_mem_new()};
    (void)pthread_mutex_init(&r->lock, NULL);
    FINE(handle_open_take(r->clock, "mem:", NULL, &r->s, &error));
    FINE(owner_become(r->s->engine, "http://127.0.0.1:1", "one", &error));
    r->queue = queue;
    FINE(sluice_queue_create(r->s, queue, settings, len, &error));
}

static void end(struct rig *r)
{
    publishing_stop(r->p);
    sluice_close(r->s);
    (void)pthread_mutex_destroy(&r->lock);
}

static void send(struct rig *r, int count)
{
    struct sluice_send m = {.body = "x", .body_len = 1};
    for (int i = 0; i < count; i++) {
        enum sluice_code code;
        do // a step of the clock leaves the answer of a send unknown
            code = sluice_send(r->s, r->queue, &m, 1, NULL, NULL, NULL);
        while (code == SLUICE_UNKNOWN);
        assert_int_equal(code, SLUICE_OK);
    }
}

static struct publishing_status status(struct rig *r)
{
    struct publishing_status now;
    publishing_status(r->p, &now);
    return now;
}

static void await_published(struct rig *r, uint64_t count)
{
    int64_t give_up = clock_boot_ms() + PATIENCE_MS;
    while (status(r).published < count) {
        if (clock_boot_ms() > give_up)
            fail_msg("%llu of %llu events are published: %s",
                     (unsigned long long)status(r).published, (unsigned long long)count,
                     status(r).why);
        clock_sleep(5);
    }
}

// Until the publisher has seen the end of the connection, it reads a window of events ahead. They
// wait in memory, so the journal may forget them without a gap.
static void kill_bus(struct rig *r)
{
    uint64_t before = status(r).retries;
    int64_t give_up = clock_boot_ms() + PATIENCE_MS;
    control("kill 0");
    while (status(r).retries == before && clock_boot_ms() < give_up)
        clock_sleep(5);
    assert_true(status(r).retries > before);
}

// The sequence of the oldest event that the journal has.
static uint64_t oldest(struct rig *r)
{
    struct sluice_events *events;
    struct sluice_event e;
    FINE(sluice_events_open(r->s, r->queue, 0, &events, &error));
    FINE(sluice_events_next(events, 0, &e, &error));
    uint64_t sequence = e.sequence;
    sluice_events_close(events);
    return sequence;
}

struct seen {
    unsigned long long events, first, last; // of the gap
    unsigned long long newest, refused, messages;
    int gaps;
};

// Reads the stream as a consumer. Its events and its gap must follow each other without a hole.
static struct seen dump(const struct rig *r)
{
    char line[512];
    struct seen seen = {0};
    (void)snprintf(line, sizeof line, "%s '%s' %s", getenv("BUS_DUMP"), getenv("SLUICE_TEST_NATS"),
                   r->queue);
    FILE *from = popen(line, "r");
    assert_non_null(from);
    while (fgets(line, sizeof line, from)) {
        unsigned long long first, last;
        if (sscanf(line, "event 0 %llu", &first) == 1) {
            assert_int_equal(first, seen.newest + 1);
            seen.newest = first;
            seen.events++;
        } else if (sscanf(line, "gap 0 %llu %llu", &first, &last) == 2) {
            assert_int_equal(first, seen.newest + 1);
            seen.newest = seen.last = last;
            seen.first = first;
            seen.gaps++;
        } else if (strncmp(line, "refused", 7) == 0) {
            assert_non_null(strstr(line, "schema_version 2"));
            seen.refused++;
        } else {
            (void)sscanf(line, "messages %llu", &seen.messages);
        }
    }
    assert_int_equal(pclose(from), 0);
    return seen;
}

// The schema asks for an attempt, which an event of a send does not have.
static void events_that_their_schema_refuses_are_counted_and_published(void **state)
{
    (void)state;
    struct rig r;
    static const struct schema_text strict = {
        1, "message-enqueued",
        "{\"type\":\"object\",\"properties\":{\"attempt\":{\"type\":\"integer\"}},"
        "\"required\":[\"attempt\"]}"};
    CLEANUP(buf_done) struct buf text;
    struct server *server = NEW(struct server);
    buf_init(&text, 1 << 20);
    begin(&r, "unfit", NULL, 0);
    r.schemas = schema_set_of(&strict, 1);
    publish(&r, false);
    server->publishing = r.p;
    metrics_bus(server, &text);
    buf_put_u8(&text, 0);
    assert_non_null(strstr((char *)text.data, "\nsluice_bus_schema_total 0\n"));
    send(&r, 3);
    await_published(&r, 3);
    buf_clear(&text);
    metrics_bus(server, &text);
    buf_put_u8(&text, 0);
    assert_non_null(strstr((char *)text.data, "\nsluice_bus_schema_total 3\n"));
    assert_int_equal(dump(&r).events, 3);
    end(&r);
    assert_int_equal(r.unfit, 1); // the log has one line
    schema_set_free(r.schemas);
    memory_free(server);
}

static bool bus_has(const struct rig *r, const struct sluice_event *e)
{
    char line[512], want[512];
    bool has = false;
    (void)snprintf(line, sizeof line, "%s '%s' %s", getenv("BUS_DUMP"), getenv("SLUICE_TEST_NATS"),
                   r->queue);
    (void)snprintf(want, sizeof want, "event %u %llu %s %s\n", e->shard,
                   (unsigned long long)e->sequence, e->id, e->ordering_key);
    FILE *from = popen(line, "r");
    assert_non_null(from);
    while (fgets(line, sizeof line, from))
        has = has || strcmp(line, want) == 0;
    assert_int_equal(pclose(from), 0);
    return has;
}

static void the_bus_has_the_ordering_keys_of_the_library(void **state)
{
    (void)state;
    struct rig r;
    struct sluice_events *events;
    struct sluice_event e;
    const struct sluice_setting strict = {"orderingGuarantee", "true"};
    const struct sluice_send sent[2] = {{.body = "x", .body_len = 1, .group = "g"},
                                        {.body = "x", .body_len = 1}};
    begin(&r, "ordered.keys", &strict, 1);
    publish(&r, false);
    FINE(sluice_send(r.s, r.queue, sent, 2, NULL, NULL, &error));
    await_published(&r, 2);
    FINE(sluice_events_open(r.s, r.queue, 0, &events, &error));
    for (int i = 0; i < 2; i++) {
        FINE(sluice_events_next(events, 0, &e, &error));
        assert_int_equal(strncmp(e.ordering_key, "group:ordered=2Ekeys:", 21), 0);
        if (!bus_has(&r, &e)) fail_msg("%s is not on the bus", e.ordering_key);
    }
    sluice_events_close(events);
    end(&r);
}

// The bus is away for longer than publishKeep: the floor rises past events that no stream has.
static void skipped_events_are_named_by_a_gap(void **state)
{
    (void)state;
    struct rig r;
    const struct sluice_setting skip[] = {{"publish", "skip"}, {"publishKeep", "1s"}};
    begin(&r, "skipped", skip, 2);
    publish(&r, false);
    send(&r, 10);
    await_published(&r, 10);
    int64_t give_up = clock_boot_ms() + PATIENCE_MS;
    kill_bus(&r);
    while (oldest(&r) == 1 && clock_boot_ms() < give_up) {
        send(&r, SNAPSHOT);
        store_mem_step(r.clock, 2 * HOUR_MS);
    }
    uint64_t kept = oldest(&r);
    assert_true(kept > 11);
    control("start 0");
    int64_t until = clock_boot_ms() + PATIENCE_MS;
    while ((status(&r).dropped == 0 || status(&r).lag_events > 0) && clock_boot_ms() < until)
        clock_sleep(5);
    struct publishing_status now = status(&r);
    assert_int_equal(now.lag_events, 0);
    struct seen seen = dump(&r);
    assert_int_equal(seen.gaps, 1);
    // The floor may have risen further until the publisher was back.
    assert_true(seen.first > 10 && seen.last + 1 >= kept && seen.last < oldest(&r));
    assert_int_equal(now.dropped, seen.last - seen.first + 1);
    assert_int_equal(seen.events + now.dropped, seen.newest);
    (void)pthread_mutex_lock(&r.lock);
    assert_non_null(strstr(r.notes, "skipped: events "));
    (void)pthread_mutex_unlock(&r.lock);
    print_message("# %llu events, %llu to %llu skipped\n", seen.events, seen.first, seen.last);
    end(&r);
}

// The bus is away for longer than publishKeep: the entries stay, and an alarm tells.
static void held_events_are_kept_and_raise_an_alarm(void **state)
{
    (void)state;
    struct rig r;
    const struct sluice_setting hold[] = {{"publishKeep", "1h"}};
    begin(&r, "held", hold, 1);
    publish(&r, false);
    send(&r, 10);
    await_published(&r, 10);
    assert_false(status(&r).overdue);
    control("kill 0");
    send(&r, SNAPSHOT);
    store_mem_step(r.clock, 2 * HOUR_MS);
    int64_t give_up = clock_boot_ms() + PATIENCE_MS;
    while (!(status(&r).overdue && status(&r).degraded) && clock_boot_ms() < give_up) {
        send(&r, 1);
        clock_sleep(20);
    }
    struct publishing_status now = status(&r);
    assert_true(now.overdue && now.degraded && now.dropped == 0);
    (void)pthread_mutex_lock(&r.lock);
    assert_int_equal(r.alarms, 1);
    (void)pthread_mutex_unlock(&r.lock);
    assert_true(oldest(&r) <= 11);
    control("start 0");
    int64_t until = clock_boot_ms() + PATIENCE_MS;
    while ((status(&r).lag_events > 0 || status(&r).degraded) && clock_boot_ms() < until)
        clock_sleep(5);
    now = status(&r); // the alarm ends with the next cursor, after PUBLISHER_SETTLE_MS
    assert_true(!now.degraded && now.dropped == 0 && now.lag_events == 0);
    assert_int_equal(dump(&r).gaps, 0);
    end(&r);
}

static void see_published(void *ctx, const struct machine *m, int64_t now)
{
    uint64_t slot, sequence;
    (void)now;
    *(bool *)ctx = machine_published(m, &slot, &sequence);
}

// Whether the journal waits for the bus.
static bool waits(struct rig *r)
{
    bool published = false;
    struct open_queue *q = queue_if_known(r->s->engine, r->queue);
    assert_non_null(q);
    runner_inspect(runner_if_open(q, 0), see_published, &published);
    queue_let_go(&q);
    return published;
}

static void in_shadow_no_journal_waits_for_the_bus(void **state)
{
    (void)state;
    struct rig r;
    const struct sluice_setting hold[] = {{"publishKeep", "2d"}};
    begin(&r, "shadowed", hold, 1);
    publish(&r, true);
    send(&r, 10);
    await_published(&r, 10);
    publishing_stop(r.p);
    assert_false(waits(&r));
    publish(&r, false);
    int64_t give_up = clock_boot_ms() + PATIENCE_MS;
    for (int i = 1; !waits(&r) && clock_boot_ms() < give_up; i++) {
        send(&r, 1);
        clock_sleep(20);
    }
    assert_true(waits(&r));
    struct seen seen = dump(&r);
    assert_int_equal(seen.gaps, 0);
    end(&r);
}

// A consumer of version 1 reads on while both versions are published, and drops nothing.
static void both_versions_are_published_until_the_window_closes(void **state)
{
    (void)state;
    struct rig r;
    const struct sluice_setting hold[] = {{"publishKeep", "2d"}};
    begin(&r, "versions", hold, 1);
    r.window = (struct envelope_window){
        .newest = ENVELOPE_VERSION + 1, .also = ENVELOPE_VERSION, .until = INT64_MAX};
    publish(&r, false);
    send(&r, 300);
    await_published(&r, 300);
    control("restart 0"); // what was in flight is sent again, in both versions
    send(&r, 10);
    await_published(&r, 310);
    struct seen both = dump(&r);
    assert_int_equal(both.events, 310);
    assert_int_equal(both.gaps, 0);
    assert_int_equal(both.refused, 310);
    assert_int_equal(both.messages, 620);
    publishing_stop(r.p);
    r.window.until = 1; // long ago
    publish(&r, false);
    send(&r, 5);
    await_published(&r, 5);
    struct seen one = dump(&r);
    assert_true(one.refused >= 315);
    assert_int_equal(one.events, 310);
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_that_their_schema_refuses_are_counted_and_published),
        cmocka_unit_test(the_bus_has_the_ordering_keys_of_the_library),
        cmocka_unit_test(skipped_events_are_named_by_a_gap),
        cmocka_unit_test(held_events_are_kept_and_raise_an_alarm),
        cmocka_unit_test(in_shadow_no_journal_waits_for_the_bus),
        cmocka_unit_test(both_versions_are_published_until_the_window_closes),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
