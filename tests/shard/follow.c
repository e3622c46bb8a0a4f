// SPDX-License-Identifier: Apache-2.0
// Calls that wait for the events of a shard (shard/follow.c).
#include "rig.h"

#define WAIT_MS 1000
#define TICKET  77
#define MANY    8
#define SLOW_MS 7000 // of one request

struct stage {
    struct store *store;
    struct rig sender, reader;
};

static struct stage stage_new(void)
{
    struct stage s = {.store = store_mem_new()};
    struct shard_config config = rig_config();
    config.keeps_events = true;
    s.sender = rig_on(s.store, &config);
    s.reader = rig_on(s.store, &config);
    return s;
}

static void stage_done(struct stage *s)
{
    rig_done(&s->sender);
    rig_done(&s->reader);
    store_free(s->store);
}

static void follow(struct rig *r, int64_t wait_ms)
{
    shard_follow(r->shard, TICKET, rig_time(r).lo + wait_ms, rig_time(r));
}

static void a_follow_ends_with_the_next_event(void **state)
{
    (void)state;
    struct stage s = stage_new();
    follow(&s.reader, WAIT_MS);
    rig_settle(&s.reader);
    rig_no_answer(&s.reader);
    assert_true(shard_has_waiting(s.reader.shard)); // so that the journal is watched
    assert_int_equal(shard_waiting(s.reader.shard), 0);
    rig_sent(&s.sender, "first");
    rig_look(&s.reader);
    assert_int_equal(rig_answer(&s.reader, TICKET).err, ERR_OK);
    assert_int_equal(shard_events(s.reader.shard)->len, 1);
    stage_done(&s);
}

static void events_that_were_not_taken_end_it_at_once(void **state)
{
    (void)state;
    struct stage s = stage_new();
    rig_sent(&s.sender, "first");
    follow(&s.sender, WAIT_MS);
    assert_int_equal(rig_answer(&s.sender, TICKET).err, ERR_OK);
    shard_events_taken(s.sender.shard);
    follow(&s.sender, WAIT_MS);
    rig_settle(&s.sender);
    rig_no_answer(&s.sender);
    stage_done(&s);
}

// Without a wait, it reads up to the tail first.
static void a_follow_that_does_not_wait_finds_what_is_there(void **state)
{
    (void)state;
    struct stage s = stage_new();
    rig_sent(&s.sender, "first");
    follow(&s.reader, 0);
    rig_settle(&s.reader);
    assert_int_equal(rig_answer(&s.reader, TICKET).err, ERR_OK);
    shard_events_taken(s.reader.shard);
    follow(&s.reader, 0);
    rig_settle(&s.reader);
    assert_int_equal(rig_answer(&s.reader, TICKET).err, ERR_NOT_FOUND);
    stage_done(&s);
}

static void a_follow_ends_when_its_time_is_over(void **state)
{
    (void)state;
    struct stage s = stage_new();
    follow(&s.reader, WAIT_MS);
    rig_settle(&s.reader);
    rig_no_answer(&s.reader);
    assert_true(shard_wake_at(s.reader.shard) <= rig_time(&s.reader).lo + WAIT_MS);
    rig_pass(&s.reader, WAIT_MS);
    rig_settle(&s.reader);
    assert_int_equal(rig_answer(&s.reader, TICKET).err, ERR_NOT_FOUND);
    stage_done(&s);
}

static void a_cancelled_follow_has_no_answer(void **state)
{
    (void)state;
    struct stage s = stage_new();
    follow(&s.reader, WAIT_MS);
    rig_settle(&s.reader);
    assert_true(shard_cancel(s.reader.shard, TICKET, rig_time(&s.reader)));
    assert_false(shard_has_waiting(s.reader.shard));
    rig_sent(&s.sender, "first");
    rig_look(&s.reader);
    rig_no_answer(&s.reader);
    assert_false(shard_cancel(s.reader.shard, TICKET, rig_time(&s.reader)));
    stage_done(&s);
}

// The events that came before are taken first.
static void a_deleted_queue_ends_it(void **state)
{
    (void)state;
    struct stage s = stage_new();
    rig_does(&s.sender, rig_plain(&s.sender, OP_DELETE));
    follow(&s.reader, WAIT_MS);
    rig_settle(&s.reader);
    assert_int_equal(rig_answer(&s.reader, TICKET).err, ERR_OK);
    shard_events_taken(s.reader.shard);
    follow(&s.reader, WAIT_MS);
    rig_settle(&s.reader);
    assert_int_equal(rig_answer(&s.reader, TICKET).reason, REASON_DELETED);
    stage_done(&s);
}

// What could not be read is not taken for the end of the events.
static void a_store_that_fails_ends_it_with_the_error(void **state)
{
    (void)state;
    struct stage s = stage_new();
    struct request request;
    struct rig_answer answer;
    rig_sent(&s.sender, "first");
    follow(&s.reader, 0);
    for (int i = 0; !rig_answered(&s.reader, TICKET, &answer); i++) {
        assert_true(i < RIG_LIMIT);
        while (rig_take(&s.reader, &request))
            rig_serve(&s.reader, &request, FATE_UNAVAILABLE);
        rig_pass(&s.reader, WAIT_MS);
    }
    assert_int_equal(answer.err, ERR_UNAVAILABLE);
    stage_done(&s);
}

// The reader needs minutes for the whole journal, and more than one sync.
static void a_long_way_to_the_tail_is_no_error(void **state)
{
    (void)state;
    struct stage s = stage_new();
    struct shard_config slow = rig_config();
    struct request request;
    size_t seen = 0;
    slow.keeps_events = true;
    slow.journal.read_bytes_max = 1; // one entry at a time
    for (int i = 0; i < MANY; i++)
        rig_sent(&s.sender, "x");
    rig_done(&s.reader);
    s.reader = rig_start(s.store, &slow);
    for (int i = 0; seen < MANY; i++) {
        struct rig_answer answer;
        assert_true(i < RIG_LIMIT);
        follow(&s.reader, 0);
        while (!rig_answered(&s.reader, TICKET, &answer)) {
            assert_true(rig_take(&s.reader, &request));
            rig_serve(&s.reader, &request, FATE_OK);
            rig_pass(&s.reader, SLOW_MS);
        }
        assert_int_equal(answer.err, ERR_OK);
        seen += shard_events(s.reader.shard)->len;
        shard_events_taken(s.reader.shard);
    }
    assert_int_equal(seen, MANY);
    stage_done(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_follow_ends_with_the_next_event),
        cmocka_unit_test(events_that_were_not_taken_end_it_at_once),
        cmocka_unit_test(a_follow_that_does_not_wait_finds_what_is_there),
        cmocka_unit_test(a_follow_ends_when_its_time_is_over),
        cmocka_unit_test(a_cancelled_follow_has_no_answer),
        cmocka_unit_test(a_deleted_queue_ends_it),
        cmocka_unit_test(a_store_that_fails_ends_it_with_the_error),
        cmocka_unit_test(a_long_way_to_the_tail_is_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
