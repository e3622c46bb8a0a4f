// SPDX-License-Identifier: Apache-2.0
// The auditor's books, fed with histories that the engine never writes: a check that cannot fail
// proves nothing.
#include "cli/audit.h"
#include "unit.h"

#include <string.h>

struct history {
    struct audit audit;
    uint64_t position;
};

static void happens(struct history *h, const char *type, const char *worker, int64_t time,
                    int64_t until)
{
    const char *status = "";
    if (strncmp(type, "outcome:", 8) == 0) {
        status = type + 8;
        type = "message-outcome";
    }
    struct sluice_event e = {.id = "",
                             .type = type,
                             .message = "3f9a01cc-0-1",
                             .status = status,
                             .reason = "",
                             .worker = worker,
                             .time = time,
                             .until = until,
                             .position = ++h->position};
    audit_event(&h->audit, &e);
}

static void expect(struct history *h, uint64_t two, uint64_t twice, uint64_t stray, uint64_t late)
{
    assert_int_equal(h->audit.found[FINDING_TWO], two);
    assert_int_equal(h->audit.found[FINDING_TWICE], twice);
    assert_int_equal(h->audit.found[FINDING_STRAY], stray);
    assert_int_equal(h->audit.found[FINDING_LATE], late);
    assert_int_equal(audit_wrong(&h->audit), two + twice + stray > 0);
    audit_done(&h->audit);
}

static void an_honest_life_has_no_findings(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-enqueued", "", 0, 0);
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "lock-renewed", "a", 30, 60);
    happens(&h, "lock-expired", "a", 60, 0);
    happens(&h, "message-claimed", "b", 61, 90);
    happens(&h, "outcome:retrying", "b", 70, 80);
    happens(&h, "message-claimed", "a", 80, 110);
    happens(&h, "message-released", "a", 85, 0);
    happens(&h, "message-claimed", "b", 86, 120);
    happens(&h, "outcome:processed", "b", 90, 0);
    assert_int_equal(h.audit.claims, 4);
    assert_int_equal(h.audit.processed, 1);
    assert_int_equal(h.audit.messages, 1);
    expect(&h, 0, 0, 0, 0);
}

static void a_claim_of_a_held_message_is_a_second_holder(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "message-claimed", "b", 20, 50);
    happens(&h, "message-claimed", "c", 30, 60); // the same message: counted once
    assert_int_equal(h.audit.examples_len, 1);
    assert_int_equal(h.audit.examples[0].position, 2);
    expect(&h, 1, 0, 0, 0);
}

static void a_claim_before_the_promised_deadline_is_a_second_holder(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "lock-renewed", "a", 20, 80);
    happens(&h, "lock-expired", "a", 40, 0); // as if the renewal had been lost
    happens(&h, "message-claimed", "b", 41, 90);
    expect(&h, 1, 0, 0, 0);
}

static void a_message_given_back_early_has_one_holder(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "message-released", "a", 20, 0);
    happens(&h, "message-claimed", "b", 21, 60);
    expect(&h, 0, 0, 0, 0);
}

static void a_second_ack_is_found(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "outcome:processed", "a", 20, 0);
    happens(&h, "outcome:processed", "b", 21, 0);
    expect(&h, 0, 1, 0, 0);
}

static void a_second_life_after_the_end_is_found(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "outcome:processed", "a", 20, 0);
    happens(&h, "message-claimed", "b", 50, 90);
    happens(&h, "outcome:processed", "b", 60, 0);
    expect(&h, 0, 1, 1, 0);
}

static void an_ack_without_a_lock_is_found(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "lock-expired", "a", 40, 0);
    happens(&h, "outcome:processed", "a", 41, 0);
    expect(&h, 0, 0, 1, 0);
}

static void a_history_that_begins_in_the_middle_is_no_finding(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "outcome:processed", "a", 20, 0);
    expect(&h, 0, 0, 0, 0);
}

static void a_late_renewal_is_counted_and_no_fault(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "lock-expired", "a", 40, 0);
    happens(&h, "lock-renewal-rejected", "a", 50, 0);
    happens(&h, "lock-renewal-rejected", "a", 51, 0);
    expect(&h, 0, 0, 0, 1);
}

static void a_late_ack_is_counted_and_no_fault(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "lock-expired", "a", 40, 0);
    happens(&h, "outcome-rejected", "a", 50, 0);
    expect(&h, 0, 0, 0, 1);
}

static void a_ticket_is_a_lock_that_its_worker_takes_up(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "tickets-published", "a", 10, 20);
    happens(&h, "message-claimed", "a", 12, 40);
    happens(&h, "outcome:processed", "a", 20, 0);
    expect(&h, 0, 0, 0, 0);
    happens(&h, "tickets-published", "a", 10, 20);
    happens(&h, "message-claimed", "b", 12, 40);
    expect(&h, 1, 0, 0, 0);
}

static void a_cancelled_message_has_ended(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-enqueued", "", 0, 0);
    happens(&h, "outcome:cancelled", "", 5, 0);
    assert_int_equal(h.audit.cancelled, 1);
    expect(&h, 0, 0, 0, 0);
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "outcome:cancelled", "a", 15, 0);
    happens(&h, "signal-ended", "a", 15, 0);
    happens(&h, "message-claimed", "b", 20, 60);
    expect(&h, 0, 0, 1, 0);
}

// The grace of an interrupt ends the lock before the deadline that its holder was promised.
static void an_interrupted_message_that_is_retried_has_one_holder(void **state)
{
    (void)state;
    struct history h = {0};
    happens(&h, "message-claimed", "a", 10, 40);
    happens(&h, "signal-sent", "", 11, 40);
    happens(&h, "lock-expired", "a", 20, 0);
    happens(&h, "outcome:retrying", "a", 20, 0);
    happens(&h, "message-claimed", "b", 21, 60);
    expect(&h, 0, 0, 0, 0);
}

static void many_messages_keep_their_rows_apart(void **state)
{
    (void)state;
    struct audit a = {0};
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 5000; i++) {
            char id[32];
            (void)snprintf(id, sizeof id, "3f9a01cc-0-%d", i);
            struct sluice_event e = {.type = "message-claimed",
                                     .message = id,
                                     .status = "",
                                     .reason = "",
                                     .worker = "a",
                                     .until = 40};
            if (round == 0 || i % 100 == 0) audit_event(&a, &e);
        }
    }
    assert_int_equal(a.messages, 5000);
    assert_int_equal(a.found[FINDING_TWO], 50);
    assert_int_equal(a.examples_len, AUDIT_EXAMPLES_MAX);
    audit_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_honest_life_has_no_findings),
        cmocka_unit_test(a_claim_of_a_held_message_is_a_second_holder),
        cmocka_unit_test(a_claim_before_the_promised_deadline_is_a_second_holder),
        cmocka_unit_test(a_message_given_back_early_has_one_holder),
        cmocka_unit_test(a_second_ack_is_found),
        cmocka_unit_test(a_second_life_after_the_end_is_found),
        cmocka_unit_test(an_ack_without_a_lock_is_found),
        cmocka_unit_test(a_history_that_begins_in_the_middle_is_no_finding),
        cmocka_unit_test(a_late_renewal_is_counted_and_no_fault),
        cmocka_unit_test(a_late_ack_is_counted_and_no_fault),
        cmocka_unit_test(a_ticket_is_a_lock_that_its_worker_takes_up),
        cmocka_unit_test(a_cancelled_message_has_ended),
        cmocka_unit_test(an_interrupted_message_that_is_retried_has_one_holder),
        cmocka_unit_test(many_messages_keep_their_rows_apart),
    };
    return cmocka_run_group_tests_name("cli-audit", tests, NULL, NULL);
}
