// SPDX-License-Identifier: Apache-2.0
// The step function by hand: one or two handles on a store in memory, each request performed when
// the test says so, with the outcome the test says.
#include "../unit/unit.h"
#include "base/memory.h"
#include "journal/journal.h"
#include "node/perform.h"
#include "register.h"
#include "store/mem.h"

#include <stdio.h>
#include <string.h>

#define LIMIT 200 // steps after which a dialogue that goes on is one that hangs

static const struct journal_rules rules = {.session_ttl_ms = 86400000,
                                           .sessions_max = 16,
                                           .digest_every = 4,
                                           .verify_ms = 60000,
                                           .retain_ms = 300000,
                                           .floor_every_ms = 0,
                                           .snapshot_every = 4};

struct rig {
    struct store *store;
    struct registers *registers;
    struct journal *journal;
    struct collector *collector;
    struct performance performance;
    struct interval now;
};

static uint64_t tickets; // also makes request ids, which are unique among all handles

static struct interval store_time(struct rig *r)
{
    struct request ask = {.kind = REQUEST_GET, .key = "clock"};
    r->now = perform(r->store, &ask, &r->performance).time;
    return r->now;
}

static struct rig rig_on(struct store *s)
{
    struct rig r = {.store = s, .registers = registers_new(600000)};
    struct journal_config c;
    journal_config_defaults(&c);
    (void)snprintf(c.prefix, sizeof c.prefix, "q/test/0");
    static uint64_t writers; // each handle is another writer
    c.writer = (struct hash128){++writers, 1};
    c.seed = writers;
    c.rules = rules;
    struct fold fold = registers_fold(r.registers);
    r.journal = journal_new(&c, &fold);
    r.collector = collector_new(r.journal);
    performance_init(&r.performance);
    journal_start(r.journal, store_time(&r));
    return r;
}

static void rig_done(struct rig *r)
{
    collector_free(r->collector);
    journal_free(r->journal);
    registers_free(r->registers);
    performance_done(&r->performance);
}

enum fate {
    FATE_OK,
    FATE_UNAVAILABLE,     // certainly not applied
    FATE_UNKNOWN,         // no answer, not applied
    FATE_UNKNOWN_APPLIED, // no answer, applied
    FATES
};

static bool take(struct rig *r, struct request *out)
{
    return journal_next_request(r->journal, out) || collector_next_request(r->collector, out);
}

static void respond(struct rig *r, const struct response *response)
{
    struct interval now = response->time.hi > r->now.hi ? response->time : r->now;
    r->now = now;
    journal_respond(r->journal, response, now);
    collector_respond(r->collector, response, now);
}

static void serve(struct rig *r, const struct request *request, enum fate fate)
{
    struct response response = {.id = request->id, .time = store_time(r)};
    if (fate == FATE_OK || fate == FATE_UNKNOWN_APPLIED)
        response = perform(r->store, request, &r->performance);
    if (fate == FATE_UNAVAILABLE) response.err = ERR_UNAVAILABLE;
    if (fate == FATE_UNKNOWN || fate == FATE_UNKNOWN_APPLIED) response.err = ERR_UNKNOWN;
    respond(r, &response);
}

// Lets the handle's time reach the moment it waits for.
static bool wait_for_retry(struct rig *r)
{
    int64_t at = journal_wake_at(r->journal);
    if (at == TIME_NEVER) return false;
    store_mem_step(r->store, at - r->now.lo > 0 ? at - r->now.lo : 0);
    journal_tick(r->journal, store_time(r));
    return true;
}

// Everything that is asked is performed, until nothing is asked any more.
static void settle(struct rig *r)
{
    struct request request;
    for (int i = 0; i < LIMIT; i++) {
        if (!take(r, &request)) return;
        serve(r, &request, FATE_OK);
    }
    fail_msg("the dialogue does not end");
}

// Performs requests until an append is asked for, and hands that one out unperformed.
static struct request until_append(struct rig *r)
{
    struct request request;
    for (int i = 0; i < LIMIT; i++) {
        if (!take(r, &request)) {
            assert_true(wait_for_retry(r));
            continue;
        }
        if (request.kind == REQUEST_APPEND) return request;
        serve(r, &request, FATE_OK);
    }
    fail_msg("no append was asked for");
    return request;
}

static uint64_t add_until(struct rig *r, uint8_t name, int64_t by, int64_t deadline)
{
    struct register_ask ask = {.verb = REGISTER_ADD, .name = {(char)name}, .a = by};
    uint64_t ticket = ++tickets;
    memcpy(ask.request, &ticket, sizeof ticket);
    ask.request[15] = name;
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 256);
    journal_submit(r->journal, ticket, register_op(&ask, &payload), deadline, store_time(r));
    return ticket;
}

static uint64_t add(struct rig *r, uint8_t name, int64_t by)
{
    return add_until(r, name, by, TIME_NEVER);
}

static enum err answer_to(struct rig *r, uint64_t ticket, int64_t *value)
{
    struct journal_reply reply;
    assert_true(journal_next_reply(r->journal, &reply));
    assert_int_equal(reply.ticket, ticket);
    struct reader body = reader_of(reply.body);
    if (value) *value = reply.body.len >= 8 ? read_i64(&body) : 0;
    return reply.err;
}

static void no_answer_yet(struct rig *r)
{
    struct journal_reply reply;
    assert_false(journal_next_reply(r->journal, &reply));
}

static void commit(struct rig *r, uint8_t name)
{
    uint64_t ticket = add(r, name, 1);
    settle(r);
    assert_int_equal(answer_to(r, ticket, NULL), ERR_OK);
}

static int64_t value_seen_by_a_newcomer(struct store *s, uint8_t name)
{
    struct rig r = rig_on(s);
    int64_t value = 0;
    settle(&r);
    uint64_t ticket = add(&r, name, 0);
    settle(&r);
    assert_int_equal(answer_to(&r, ticket, &value), ERR_OK);
    rig_done(&r);
    return value;
}

// ---- commit

static void op_on_an_empty_store_commits_in_slot_one(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    uint64_t ticket = add(&a, 'x', 5);
    settle(&a);
    int64_t value;
    assert_int_equal(answer_to(&a, ticket, &value), ERR_OK);
    assert_int_equal(value, 5);
    assert_int_equal(journal_slot(a.journal), 1);
    rig_done(&a);
    store_free(s);
}

static void ops_that_arrive_during_a_put_share_the_next_entry(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    uint64_t first = add(&a, 'x', 1);
    struct request put = until_append(&a);
    uint64_t second = add(&a, 'x', 1);
    uint64_t third = add(&a, 'x', 1);
    serve(&a, &put, FATE_OK);
    settle(&a);
    assert_int_equal(answer_to(&a, first, NULL), ERR_OK);
    assert_int_equal(answer_to(&a, second, NULL), ERR_OK);
    assert_int_equal(answer_to(&a, third, NULL), ERR_OK);
    assert_int_equal(journal_slot(a.journal), 2);
    rig_done(&a);
    store_free(s);
}

static void loser_of_a_race_commits_in_the_next_slot(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    struct rig b = rig_on(s);
    uint64_t ticket = add(&a, 'x', 1);
    struct request put = until_append(&a);
    commit(&b, 'x');
    serve(&a, &put, FATE_OK);
    settle(&a);
    int64_t value;
    assert_int_equal(answer_to(&a, ticket, &value), ERR_OK);
    assert_int_equal(value, 2);
    assert_int_equal(journal_slot(a.journal), 2);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// Every sequence of four outcomes of the append, then good ones: the op takes effect once, and is
// answered done.
static void whatever_happens_to_the_append_it_takes_effect_once(void **state)
{
    (void)state;
    for (int choice = 0; choice < FATES * FATES * FATES * FATES; choice++) {
        struct store *s = store_mem_new();
        struct rig a = rig_on(s);
        uint64_t ticket = add(&a, 'x', 1);
        int left = choice;
        for (int i = 0; i < LIMIT && journal_slot(a.journal) == 0; i++) {
            struct request r;
            if (!take(&a, &r)) {
                assert_true(wait_for_retry(&a));
                continue;
            }
            bool append = r.kind == REQUEST_APPEND;
            serve(&a, &r, append ? (enum fate)(left % FATES) : FATE_OK);
            if (append) left /= FATES;
        }
        int64_t value;
        assert_int_equal(answer_to(&a, ticket, &value), ERR_OK);
        assert_int_equal(value, 1);
        assert_int_equal(value_seen_by_a_newcomer(s, 'x'), 1);
        rig_done(&a);
        store_free(s);
    }
}

static void patience_that_ends_in_flight_answers_unknown_and_resolving_goes_on(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    settle(&a);
    uint64_t ticket = add_until(&a, 'x', 1, store_time(&a).hi + 1000);
    struct request put = until_append(&a);
    serve(&a, &put, FATE_UNKNOWN);
    store_mem_step(s, 2000);
    journal_tick(a.journal, store_time(&a));
    assert_int_equal(answer_to(&a, ticket, NULL), ERR_UNKNOWN);
    settle(&a);
    no_answer_yet(&a);
    assert_int_equal(value_seen_by_a_newcomer(s, 'x'), 1);
    rig_done(&a);
    store_free(s);
}

static void patience_that_ends_before_anything_was_sent_answers_unavailable(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    settle(&a);
    uint64_t ticket = add_until(&a, 'x', 1, store_time(&a).hi + 1000);
    struct request put = until_append(&a);
    serve(&a, &put, FATE_UNAVAILABLE);
    store_mem_step(s, 2000);
    journal_tick(a.journal, store_time(&a));
    assert_int_equal(answer_to(&a, ticket, NULL), ERR_UNAVAILABLE);
    settle(&a);
    assert_int_equal(journal_slot(a.journal), 0);
    rig_done(&a);
    store_free(s);
}

static void op_too_large_for_any_entry_is_refused(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    settle(&a);
    struct bytes body = bytes_of(memory_zeroed(1, JOURNAL_OP_MAX + 1), JOURNAL_OP_MAX + 1);
    struct op op = {.kind = OP_KIND_MACHINE, .payload = body};
    journal_submit(a.journal, 7, op, TIME_NEVER, a.now);
    assert_int_equal(answer_to(&a, 7, NULL), ERR_LIMIT);
    bytes_free(body);
    rig_done(&a);
    store_free(s);
}

static void sync_sees_what_others_committed_before_it(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    struct rig b = rig_on(s);
    settle(&a);
    for (int i = 0; i < 7; i++)
        commit(&b, 'x');
    journal_sync(a.journal, 99, TIME_NEVER, store_time(&a));
    settle(&a);
    assert_int_equal(answer_to(&a, 99, NULL), ERR_OK);
    assert_int_equal(journal_slot(a.journal), 7);
    assert_true(journal_digest(a.journal) == journal_digest(b.journal));
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

// ---- damage

static void overwrite(struct store *s, const char *key, struct bytes body)
{
    struct store_answer answer;
    store_answer_init(&answer);
    assert_int_equal(store_put(s, key, body, &answer), ERR_OK);
    store_answer_done(&answer);
}

#define LOG "q/test/0/log/0000000000000000000"

static void halts(struct store *s)
{
    struct rig b = rig_on(s);
    uint64_t ticket = add(&b, 'x', 1);
    settle(&b);
    const char *why = NULL;
    assert_true(journal_halted(b.journal, &why));
    assert_non_null(why);
    assert_int_equal(answer_to(&b, ticket, NULL), ERR_CORRUPT);
    ticket = add(&b, 'x', 1);
    assert_int_equal(answer_to(&b, ticket, NULL), ERR_CORRUPT);
    rig_done(&b);
}

static void damaged_slot_halts_and_commits_nothing(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    commit(&a, 'x');
    overwrite(s, LOG "1", bytes_str("not an entry"));
    halts(s);
    rig_done(&a);
    store_free(s);
}

static void replaced_slot_breaks_the_chain_and_halts(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct store *elsewhere = store_mem_new();
    struct rig a = rig_on(s);
    struct rig b = rig_on(elsewhere);
    commit(&a, 'x');
    commit(&a, 'x');
    commit(&b, 'y');
    struct store_answer answer;
    store_answer_init(&answer);
    assert_int_equal(store_get(elsewhere, LOG "1", 0, SIZE_MAX, &answer), ERR_OK);
    overwrite(s, LOG "1", buf_bytes(&answer.body));
    store_answer_done(&answer);
    halts(s);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
    store_free(elsewhere);
}

// ---- snapshots and collection

static void newcomer_starts_from_the_newest_snapshot(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    for (int i = 0; i < 9; i++)
        commit(&a, 'x');
    struct rig b = rig_on(s);
    struct request r;
    bool read_an_old_slot = false;
    for (int i = 0; i < LIMIT && take(&b, &r); i++) {
        if (r.kind == REQUEST_READ_LOG && r.first <= 8) read_an_old_slot = true;
        serve(&b, &r, FATE_OK);
    }
    assert_false(read_an_old_slot);
    assert_int_equal(journal_slot(b.journal), 9);
    assert_true(journal_digest(a.journal) == journal_digest(b.journal));
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void damaged_snapshot_is_replaced_by_the_one_before(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    for (int i = 0; i < 9; i++)
        commit(&a, 'x');
    overwrite(s, "q/test/0/snap/00000000000000000008", bytes_str("damaged"));
    assert_int_equal(value_seen_by_a_newcomer(s, 'x'), 9);
    rig_done(&a);
    store_free(s);
}

static void grow_and_collect(struct rig *r)
{
    for (int i = 0; i < 12; i++)
        commit(r, 'x');
    store_mem_step(r->store, rules.retain_ms + 1000);
    commit(r, 'x');
    collector_start(r->collector, store_time(r));
    settle(r);
    assert_int_equal(collector_dropped(r->collector), 8);
}

static void collection_drops_what_two_snapshots_cover(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    grow_and_collect(&a);
    struct store_answer answer;
    store_answer_init(&answer);
    assert_int_equal(store_read_log(s, "q/test/0/log", 8, 1000, &answer), ERR_NOT_FOUND);
    assert_int_equal(store_read_log(s, "q/test/0/log", 9, 1000, &answer), ERR_OK);
    store_answer_done(&answer);
    assert_int_equal(value_seen_by_a_newcomer(s, 'x'), 13);
    rig_done(&a);
    store_free(s);
}

// The trap of collection: the sleeper's put creates a slot that was dropped, and the store says
// "done".
static void sleeper_that_writes_a_dropped_slot_is_not_fooled(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig sleeper = rig_on(s);
    settle(&sleeper);
    uint64_t ticket = add(&sleeper, 'y', 1);
    struct request put = until_append(&sleeper);
    struct rig a = rig_on(s);
    grow_and_collect(&a);
    serve(&sleeper, &put, FATE_OK);
    no_answer_yet(&sleeper);
    settle(&sleeper);
    assert_int_equal(answer_to(&sleeper, ticket, NULL), ERR_OK);
    assert_int_equal(journal_slot(sleeper.journal), 14);
    assert_int_equal(value_seen_by_a_newcomer(s, 'y'), 1);
    rig_done(&sleeper);
    rig_done(&a);
    store_free(s);
}

// Its put landed, its answer was lost, and its slot was dropped while it slept: the session table
// knows.
static void commit_whose_slot_is_gone_is_found_by_its_session(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig sleeper = rig_on(s);
    settle(&sleeper);
    uint64_t ticket = add(&sleeper, 'y', 1);
    struct request put = until_append(&sleeper);
    serve(&sleeper, &put, FATE_UNKNOWN_APPLIED);
    struct rig a = rig_on(s);
    grow_and_collect(&a);
    journal_tick(sleeper.journal, store_time(&sleeper));
    settle(&sleeper);
    int64_t value;
    assert_int_equal(answer_to(&sleeper, ticket, &value), ERR_OK);
    assert_int_equal(value, 1);
    assert_int_equal(value_seen_by_a_newcomer(s, 'y'), 1);
    rig_done(&sleeper);
    rig_done(&a);
    store_free(s);
}

// ---- ownership

static enum err own(struct rig *r, uint64_t expected, uint64_t token)
{
    struct journal_owner owner = {
        .coord = "the coordinator", .token = token, .address = bytes_str("here:1")};
    uint64_t ticket = ++tickets;
    journal_own(r->journal, ticket, expected, &owner, TIME_NEVER, store_time(r));
    settle(r);
    return answer_to(r, ticket, NULL);
}

static void ownership_needs_the_current_epoch_and_a_higher_token(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    struct rig b = rig_on(s);
    assert_int_equal(own(&a, 0, 10), ERR_OK);
    assert_true(journal_is_owner(a.journal));
    assert_int_equal(own(&b, 0, 11), ERR_CONFLICT);
    assert_int_equal(own(&b, 1, 10), ERR_FENCED);
    assert_int_equal(own(&b, 1, 11), ERR_OK);
    assert_true(journal_is_owner(b.journal));
    assert_int_equal(journal_epoch(b.journal), 2);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void other_coordination_service_needs_the_operators_switch(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    assert_int_equal(own(&a, 0, 10), ERR_OK);
    struct journal_owner owner = {.coord = "another service", .token = 99};
    journal_own(a.journal, 1000, 1, &owner, TIME_NEVER, a.now);
    settle(&a);
    assert_int_equal(answer_to(&a, 1000, NULL), ERR_DENIED);
    journal_coord_switch(a.journal, 1001, owner.coord, TIME_NEVER, a.now);
    journal_own(a.journal, 1002, 1, &owner, TIME_NEVER, a.now);
    settle(&a);
    assert_int_equal(answer_to(&a, 1001, NULL), ERR_OK);
    assert_int_equal(answer_to(&a, 1002, NULL), ERR_OK);
    assert_int_equal(journal_epoch(a.journal), 2);
    rig_done(&a);
    store_free(s);
}

static void former_owner_is_fenced(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    struct rig b = rig_on(s);
    settle(&b);
    assert_int_equal(own(&a, 0, 10), ERR_OK);
    uint64_t ticket = add(&a, 'x', 1);
    struct request put = until_append(&a);
    assert_int_equal(own(&b, 0, 11), ERR_CONFLICT);
    assert_int_equal(own(&b, 1, 11), ERR_OK);
    serve(&a, &put, FATE_OK);
    settle(&a);
    assert_int_equal(answer_to(&a, ticket, NULL), ERR_FENCED);
    assert_false(journal_is_owner(a.journal));
    assert_int_equal(value_seen_by_a_newcomer(s, 'x'), 0);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

static void time_ahead_of_the_store_stands_still_and_raises_an_alarm(void **state)
{
    (void)state;
    struct store *s = store_mem_new();
    struct rig a = rig_on(s);
    commit(&a, 'x');
    int64_t before = journal_time(a.journal);
    store_mem_step(s, -3600000);
    struct rig b = rig_on(s);
    commit(&b, 'x');
    assert_true(journal_clock_alarm(b.journal));
    assert_int_equal(journal_time(b.journal), before);
    rig_done(&a);
    rig_done(&b);
    store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(op_on_an_empty_store_commits_in_slot_one),
        cmocka_unit_test(ops_that_arrive_during_a_put_share_the_next_entry),
        cmocka_unit_test(loser_of_a_race_commits_in_the_next_slot),
        cmocka_unit_test(whatever_happens_to_the_append_it_takes_effect_once),
        cmocka_unit_test(patience_that_ends_in_flight_answers_unknown_and_resolving_goes_on),
        cmocka_unit_test(patience_that_ends_before_anything_was_sent_answers_unavailable),
        cmocka_unit_test(op_too_large_for_any_entry_is_refused),
        cmocka_unit_test(sync_sees_what_others_committed_before_it),
        cmocka_unit_test(damaged_slot_halts_and_commits_nothing),
        cmocka_unit_test(replaced_slot_breaks_the_chain_and_halts),
        cmocka_unit_test(newcomer_starts_from_the_newest_snapshot),
        cmocka_unit_test(damaged_snapshot_is_replaced_by_the_one_before),
        cmocka_unit_test(collection_drops_what_two_snapshots_cover),
        cmocka_unit_test(sleeper_that_writes_a_dropped_slot_is_not_fooled),
        cmocka_unit_test(commit_whose_slot_is_gone_is_found_by_its_session),
        cmocka_unit_test(ownership_needs_the_current_epoch_and_a_higher_token),
        cmocka_unit_test(other_coordination_service_needs_the_operators_switch),
        cmocka_unit_test(former_owner_is_fenced),
        cmocka_unit_test(time_ahead_of_the_store_stands_still_and_raises_an_alarm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
