// SPDX-License-Identifier: Apache-2.0
// The reasons of failures are read from the entries of the fail ops, and one that cannot be had
// does not keep the others.
#include "rig.h"

#include <string.h>

#define FAILURES 3

static const char *const reasons[FAILURES] = {"no luck", "", "nor here"};

// One message per reason, each dead in place.
static void die(struct rig *r, struct reason_place places[FAILURES])
{
    struct failure_view v[FAILURES_KEPT + 1];
    for (size_t i = 0; i < FAILURES; i++) {
        uint64_t seq = rig_sent(r, "body");
        struct rig_answer held = rig_claimed(r, "one", 1);
        assert_int_equal(held.count, 1);
        rig_does(r, rig_word(r, OP_FAIL, &held, reasons[i]));
        assert_int_equal(machine_failures(shard_machine(r->shard), seq, r->now.lo, v), 1);
        places[i] = (struct reason_place){.slot = v[0].slot, .op = v[0].op};
    }
}

static struct shard_config dead_at_once(void)
{
    struct shard_config c = rig_config();
    c.birth.failure_mode = FAILURE_RETRY;
    c.birth.retries_max = 0;
    return c;
}

static void read_all(struct rig *r, const struct reason_place *places)
{
    struct shard_places wants = {.reasons = places, .reasons_len = FAILURES};
    shard_read(r->shard, 1, &wants, rig_time(r).lo + 60000, r->now);
}

static void reply_is(struct rig *r, size_t gone)
{
    struct shard_reply reply;
    assert_true(shard_next_reply(r->shard, &reply));
    assert_int_equal(reply.err, ERR_OK);
    assert_int_equal(reply.reasons_len, FAILURES);
    for (size_t i = 0; i < FAILURES; i++) {
        assert_int_equal(reply.reasons[i].kept, i != gone);
        assert_true(bytes_equal(reply.reasons[i].text, bytes_str(i == gone ? "" : reasons[i])));
    }
}

static void reasons_just_folded_are_not_read_again(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = dead_at_once();
    struct rig a = rig_on(s, &config);
    struct reason_place places[FAILURES];
    die(&a, places);
    read_all(&a, places);
    reply_is(&a, SIZE_MAX);
    assert_int_equal(a.body_reads, 0);
    rig_done(&a);
    store_free(s);
}

static void a_newcomer_reads_reasons_from_the_log(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = dead_at_once();
    struct rig a = rig_on(s, &config);
    struct reason_place places[FAILURES];
    die(&a, places);
    config.cache_bytes = 1; // one entry at a time
    struct rig b = rig_on(s, &config);
    read_all(&b, places);
    rig_settle(&b);
    reply_is(&b, SIZE_MAX);
    assert_true(b.body_reads >= FAILURES);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void a_reason_whose_slot_is_gone_does_not_keep_the_others(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = dead_at_once();
    struct rig a = rig_on(s, &config);
    struct reason_place places[FAILURES];
    die(&a, places);
    struct rig b = rig_on(s, &config);
    read_all(&b, places);
    struct request first = rig_until_body_read(&b);
    assert_int_equal(first.first, places[0].slot);
    rig_serve(&b, &first, FATE_NOT_FOUND);
    rig_settle(&b);
    for (int i = 0; i < RIG_LIMIT && shard_wake_at(b.shard) < TIME_NEVER; i++) {
        rig_pass(&b, 50);
        rig_settle(&b);
    }
    reply_is(&b, 0);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons_just_folded_are_not_read_again),
        cmocka_unit_test(a_newcomer_reads_reasons_from_the_log),
        cmocka_unit_test(a_reason_whose_slot_is_gone_does_not_keep_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
