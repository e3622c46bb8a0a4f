// SPDX-License-Identifier: Apache-2.0
// Programs of two releases on one shard: the older one stops before the entry that raises the
// version of the rules, with a sentence, and leaves the store as it is.
#include "rig.h"

#include "journal/entry.h"

#define SENTENCE                                                                                   \
    "upgrade needed: its journal has version 2 of the rules, and this program knows only 1; use "  \
    "a "                                                                                           \
    "newer release"

// A program that folds its newest version and the one before it.
static struct rig program(struct store *s, uint16_t newest)
{
    struct shard_config c = rig_config();
    c.rules_newest = newest;
    c.rules_oldest = newest > 1 ? newest - 1 : newest;
    return rig_on(s, &c);
}

static uint64_t raise_to(struct rig *r, uint16_t to)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 64);
    struct request_id request = rig_request();
    raise_encode(&payload, &(struct op_raise){request, to});
    uint64_t ticket = 1000000 + to;
    struct op op = {.kind = OP_RAISE, .payload = buf_bytes(&payload)};
    shard_submit(r->shard, ticket, op, TIME_NEVER, rig_time(r));
    return ticket;
}

static void assert_stopped(struct rig *r, uint64_t at)
{
    const char *why = "";
    struct request request;
    assert_true(journal_halted(shard_journal(r->shard), &why));
    assert_string_equal(why, SENTENCE);
    assert_int_equal(journal_halt_err(shard_journal(r->shard)), ERR_UNAVAILABLE);
    assert_int_equal(rig_slot(r), at);
    assert_int_equal(machine_rules(shard_machine(r->shard)), 1);
    assert_false(rig_take(r, &request));
}

static void an_older_program_stops_before_the_raise_and_the_newer_goes_on(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig new = program(s, 2), old = program(s, 1);
    (void)rig_sent(&old, "a");
    (void)rig_sent(&new, "b");
    uint64_t before = rig_slot(&new);
    rig_does(&new, raise_to(&new, 2));
    uint64_t ticket = rig_send(&old, "c");
    rig_settle(&old);
    assert_int_equal(rig_answer(&old, ticket).err, ERR_UNAVAILABLE);
    assert_stopped(&old, before);
    ticket = rig_send(&old, "d");
    assert_int_equal(rig_answer(&old, ticket).err, ERR_UNAVAILABLE);
    assert_int_equal(rig_sent(&new, "e"), 3);
    rig_done(&old);
    rig_done(&new);
    store_free(s);
}

static void both_versions_are_folded_by_the_newer_program(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = program(s, 2);
    (void)rig_sent(&a, "before");
    rig_does(&a, raise_to(&a, 2));
    (void)rig_sent(&a, "after");
    struct rig b = program(s, 0); // the newest that there is
    assert_int_equal(rig_slot(&b), rig_slot(&a));
    assert_int_equal(machine_rules(shard_machine(b.shard)), 2);
    assert_true(journal_digest(shard_journal(a.shard)) == journal_digest(shard_journal(b.shard)));
    assert_int_equal(rig_claimed(&b, "w", 9).count, 2);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void an_append_that_lost_to_a_raise_was_not_applied(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig new = program(s, 2), old = program(s, 1);
    uint64_t ticket = rig_send(&old, "x");
    struct request append = rig_until_append(&old);
    rig_does(&new, raise_to(&new, 2));
    rig_serve(&old, &append, FATE_OK);
    rig_settle(&old);
    assert_int_equal(rig_answer(&old, ticket).err, ERR_UNAVAILABLE);
    assert_stopped(&old, 0);
    rig_look(&new);
    assert_int_equal(rig_slot(&new), 1);
    rig_done(&old);
    rig_done(&new);
    store_free(s);
}

static void a_receive_that_waits_ends_at_the_raise(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig new = program(s, 2), old = program(s, 1);
    uint64_t ticket = rig_receive(&old, "w", 1, 20000);
    rig_settle(&old);
    rig_no_answer(&old);
    rig_does(&new, raise_to(&new, 2));
    rig_look(&old);
    assert_int_equal(rig_answer(&old, ticket).err, ERR_UNAVAILABLE);
    assert_stopped(&old, 0);
    rig_done(&old);
    rig_done(&new);
    store_free(s);
}

static void an_older_program_stops_at_a_raised_snapshot(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config c = rig_config();
    c.journal.rules.snapshot_every = 4;
    struct rig new = rig_on(s, &c);
    rig_does(&new, raise_to(&new, 2));
    for (int i = 0; i < 9; i++)
        (void)rig_sent(&new, "x");
    rig_settle(&new);
    assert_true(journal_last_snapshot(shard_journal(new.shard)) > 0);
    struct rig again = rig_on(s, &c);
    assert_int_equal(machine_rules(shard_machine(again.shard)), 2);
    assert_int_equal(journal_last_snapshot(shard_journal(again.shard)), 8);
    struct rig old = program(s, 1);
    assert_stopped(&old, 0);
    rig_done(&old);
    rig_done(&again);
    rig_done(&new);
    store_free(s);
}

static void a_program_raises_to_no_version_that_it_cannot_fold(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig old = program(s, 1);
    uint64_t ticket = raise_to(&old, 2);
    rig_settle(&old);
    assert_int_equal(rig_answer(&old, ticket).err, ERR_INVALID);
    assert_int_equal(rig_slot(&old), 0);
    (void)rig_sent(&old, "it goes on");
    rig_done(&old);
    store_free(s);
}

static void a_version_that_is_too_old_is_named(void **state)
{
    (void)state;
    char text[160];
    journal_rules_sentence(1, 2, 3, text, sizeof text);
    assert_string_equal(text, "upgrade needed: its journal has version 1 of the rules, and this "
                              "program knows 2 and 3; raise it with an older release");
    journal_rules_sentence(4, 1, 3, text, sizeof text);
    assert_string_equal(text, "upgrade needed: its journal has version 4 of the rules, and this "
                              "program knows 1 to 3; use a newer release");
    struct store *s = store_mem_new();
    struct rig r = program(s, 2);
    (void)rig_sent(&r, "x");
    struct rig later = program(s, 3);
    assert_int_equal(journal_halt_err(shard_journal(later.shard)), ERR_UNAVAILABLE);
    assert_int_equal(rig_slot(&later), 0);
    rig_done(&later);
    rig_done(&r);
    store_free(s);
}

static size_t writers(struct rig *r, uint16_t newest)
{
    struct journal_writer w;
    size_t count = 0;
    for (size_t i = 0; journal_writer(shard_journal(r->shard), i, &w); i++)
        count += w.rules_newest == newest;
    return count;
}

static void the_journal_knows_the_versions_of_its_writers(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config c = rig_config();
    struct rig r = rig_start(s, &c);
    rig_create_again(&r, 1, "from a program without versions");
    rig_settle(&r);
    struct rig old = program(s, 1);
    (void)rig_sent(&old, "x");
    (void)rig_sent(&r, "y");
    assert_int_equal(writers(&r, 0), 1);
    assert_int_equal(writers(&r, 1), 1);
    assert_int_equal(writers(&r, RULES_KNOWN), 1);
    assert_int_equal(journal_owner_rules(shard_journal(r.shard)), 0);
    rig_does(&old, rig_own(&old, 1));
    rig_look(&r);
    assert_int_equal(journal_owner_rules(shard_journal(r.shard)), 1);
    rig_done(&old);
    rig_done(&r);
    store_free(s);
}

// An entry whose header does not say what its ops and its state need is a contradiction.
static void an_entry_with_a_false_version_is_corrupt(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct shard_config c = rig_config();
    struct rig r = rig_start(s, &c);
    CLEANUP(buf_done) struct buf bytes;
    buf_init(&bytes, 1 << 12);
    struct entry e = {
        .rules = 2, .slot = 1, .writer = {.hi = 99}, .sequence = 1, .time = rig_time(&r)};
    entry_encode(&e, &bytes);
    struct request put = {
        .kind = REQUEST_APPEND, .key = "q/test/0/log", .first = 1, .body = buf_bytes(&bytes)};
    assert_int_equal(perform(s, &put, &r.performance).err, ERR_OK);
    for (int i = 0; i < 3; i++) { // it is read again before the shard halts
        rig_settle(&r);
        rig_pass(&r, 500);
    }
    assert_int_equal(journal_halt_err(shard_journal(r.shard)), ERR_CORRUPT);
    rig_done(&r);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_older_program_stops_before_the_raise_and_the_newer_goes_on),
        cmocka_unit_test(both_versions_are_folded_by_the_newer_program),
        cmocka_unit_test(an_append_that_lost_to_a_raise_was_not_applied),
        cmocka_unit_test(a_receive_that_waits_ends_at_the_raise),
        cmocka_unit_test(an_older_program_stops_at_a_raised_snapshot),
        cmocka_unit_test(a_program_raises_to_no_version_that_it_cannot_fold),
        cmocka_unit_test(a_version_that_is_too_old_is_named),
        cmocka_unit_test(the_journal_knows_the_versions_of_its_writers),
        cmocka_unit_test(an_entry_with_a_false_version_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
