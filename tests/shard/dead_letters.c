// SPDX-License-Identifier: Apache-2.0
// Dead letters on their way out: in order, one at a time, again when it failed, until the source
// was told to forget them.
#include "rig.h"

#include <stdio.h>
#include <string.h>

static struct shard_config source_config(void)
{
    struct shard_config c = rig_config();
    c.birth.failure_mode = FAILURE_DEAD_LETTER;
    (void)snprintf(c.birth.dead_letter_queue, sizeof c.birth.dead_letter_queue, "tasks_dlq");
    c.moves_dead_letters = true;
    return c;
}

static void die(struct rig *r, const char *body, const char *why)
{
    rig_sent(r, body);
    struct rig_answer held = rig_claimed(r, "one", 1);
    assert_int_equal(held.count, 1);
    rig_does(r, rig_word(r, OP_FAIL, &held, why));
}

static struct machine_stats stats_of(struct rig *r)
{
    struct machine_stats stats;
    machine_stats(shard_machine(r->shard), r->now.lo, &stats);
    return stats;
}

static uint64_t outbound(struct rig *r)
{
    return stats_of(r).counts[STATE_OUTBOUND];
}

static uint64_t letter_is(struct rig *r, const char *body, const char *why)
{
    struct dead_letter letter;
    struct op_arrive arrive;
    assert_true(shard_next_dead_letter(r->shard, &letter));
    assert_string_equal(letter.to, "tasks_dlq");
    assert_int_equal(letter.op.kind, OP_ARRIVE);
    assert_int_equal(arrive_decode(letter.op.payload, &arrive), ERR_OK);
    assert_int_equal(arrive.number, letter.number);
    assert_true(bytes_equal(arrive.message.body, bytes_str(body)));
    assert_true(bytes_equal(arrive.reason, bytes_str(why)));
    assert_true(bytes_equal(arrive.origin, bytes_str("tasks")));
    return letter.number;
}

static void no_letter(struct rig *r)
{
    struct dead_letter letter;
    assert_false(shard_next_dead_letter(r->shard, &letter));
}

static void letters_go_in_order_one_at_a_time(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = source_config();
    struct rig a = rig_on(s, &config);
    no_letter(&a);
    die(&a, "first", "no luck");
    die(&a, "second", "nor here");
    uint64_t first = letter_is(&a, "first", "no luck");
    no_letter(&a); // not before the first has arrived
    assert_int_equal(outbound(&a), 2);
    shard_dead_letter_arrived(a.shard, first, rig_time(&a));
    rig_settle(&a);
    assert_int_equal(outbound(&a), 1);
    uint64_t second = letter_is(&a, "second", "nor here");
    assert_true(second > first);
    shard_dead_letter_arrived(a.shard, second, rig_time(&a));
    rig_settle(&a);
    no_letter(&a);
    assert_int_equal(outbound(&a), 0);
    rig_done(&a);
    store_free(s);
}

static void the_oldest_letter_on_its_way_has_a_time(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = source_config();
    struct rig a = rig_on(s, &config);
    assert_int_equal(stats_of(&a).outbound_since, 0);
    die(&a, "first", "no luck");
    int64_t died_at = stats_of(&a).outbound_since;
    assert_true(died_at > 0 && died_at <= a.now.hi);
    a.now.lo += 5000, a.now.hi += 5000;
    die(&a, "second", "nor here");
    assert_int_equal(stats_of(&a).outbound_since, died_at);
    shard_dead_letter_arrived(a.shard, letter_is(&a, "first", "no luck"), rig_time(&a));
    rig_settle(&a);
    assert_true(stats_of(&a).outbound_since >= died_at + 5000);
    shard_dead_letter_arrived(a.shard, letter_is(&a, "second", "nor here"), rig_time(&a));
    rig_settle(&a);
    assert_int_equal(stats_of(&a).outbound_since, 0);
    rig_done(&a);
    store_free(s);
}

static void letter_that_failed_is_offered_again(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = source_config();
    struct rig a = rig_on(s, &config);
    die(&a, "first", "no luck");
    die(&a, "second", "nor here");
    uint64_t number = letter_is(&a, "first", "no luck");
    shard_dead_letter_failed(a.shard, number, rig_time(&a));
    no_letter(&a); // after a pause
    int64_t wake = shard_wake_at(a.shard);
    assert_true(wake > a.now.lo && wake <= a.now.lo + 60000);
    rig_pass(&a, wake - a.now.lo);
    assert_int_equal(letter_is(&a, "first", "no luck"), number);
    assert_int_equal(outbound(&a), 2);
    rig_done(&a);
    store_free(s);
}

static void a_shard_that_does_not_move_dead_letters_offers_none(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = source_config();
    config.moves_dead_letters = false;
    struct rig a = rig_on(s, &config);
    die(&a, "first", "no luck");
    no_letter(&a);
    uint64_t ticket = rig_letters(&a);
    assert_int_equal(rig_answer(&a, ticket).err, ERR_NOT_FOUND);
    rig_done(&a);
    store_free(s);
}

// What a letter is made of lies in two entries, of which the cache holds one at a time.
static void newcomer_reads_what_its_letters_are_made_of(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = source_config();
    struct rig a = rig_on(s, &config);
    die(&a, "first", "no luck");
    die(&a, "second", "nor here");
    config.cache_bytes = 1;
    struct rig b = rig_on(s, &config);
    for (int i = 0; i < 2; i++) {
        uint64_t ticket = rig_letters(&b);
        rig_settle(&b);
        assert_int_equal(rig_answer(&b, ticket).err, ERR_OK);
        uint64_t number =
            i == 0 ? letter_is(&b, "first", "no luck") : letter_is(&b, "second", "nor here");
        shard_dead_letter_arrived(b.shard, number, rig_time(&b));
        rig_settle(&b);
    }
    assert_true(b.body_reads >= 4);
    uint64_t ticket = rig_letters(&b);
    assert_int_equal(rig_answer(&b, ticket).err, ERR_NOT_FOUND);
    assert_int_equal(outbound(&b), 0);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void letters_that_cannot_be_read_are_unavailable_in_the_end(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = source_config();
    struct rig a = rig_on(s, &config);
    die(&a, "first", "no luck");
    struct rig b = rig_start(s, &config);
    struct rig_answer answer;
    uint64_t ticket = rig_letters(&b);
    for (int i = 0; i < 5; i++) {
        struct request r;
        while (rig_take(&b, &r))
            rig_serve(&b, &r, rig_is_body_read(&b, &r) ? FATE_UNAVAILABLE : FATE_OK);
        rig_pass(&b, 10000);
        assert_false(rig_answered(&b, ticket, &answer));
    }
    rig_pass(&b, 11000);
    assert_int_equal(rig_answer(&b, ticket).err, ERR_UNAVAILABLE);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// A former owner gave the order to forget: it had no effect.
static void letter_that_was_not_forgotten_is_offered_again(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config config = source_config();
    struct rig a = rig_on(s, &config);
    struct rig b = rig_on(s, &config);
    rig_does(&a, rig_own(&a, 1));
    die(&a, "first", "no luck");
    rig_look(&b);
    uint64_t number = letter_is(&a, "first", "no luck");
    shard_dead_letter_arrived(a.shard, number, rig_time(&a));
    struct request put = rig_until_append(&a);
    rig_does(&b, rig_own(&b, 2));
    rig_serve(&a, &put, FATE_OK);
    rig_settle(&a);
    assert_int_equal(outbound(&a), 1);
    rig_pass(&a, 1000);
    assert_int_equal(letter_is(&a, "first", "no luck"), number);
    shard_dead_letter_arrived(a.shard, number, rig_time(&a));
    rig_settle(&a);
    assert_int_equal(outbound(&a), 0);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_go_in_order_one_at_a_time),
        cmocka_unit_test(the_oldest_letter_on_its_way_has_a_time),
        cmocka_unit_test(letter_that_failed_is_offered_again),
        cmocka_unit_test(a_shard_that_does_not_move_dead_letters_offers_none),
        cmocka_unit_test(newcomer_reads_what_its_letters_are_made_of),
        cmocka_unit_test(letters_that_cannot_be_read_are_unavailable_in_the_end),
        cmocka_unit_test(letter_that_was_not_forgotten_is_offered_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
