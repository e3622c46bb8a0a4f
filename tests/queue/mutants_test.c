// SPDX-License-Identifier: Apache-2.0
// A test that cannot fail proves nothing: with one rule of the queue removed, the comparison with
// the model must find it. Each mutant runs in a child, since the machine's own checks may end it
// first.
#include "base/mutant.h"
#include "stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SEEDS   40
#define ENTRIES 150

enum mutant mutant_active = MUTANT_NONE;

static bool is_caught(enum mutant mutant)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stderr); // a broken assumption is expected here
        mutant_active = mutant;
        char trouble[STREAM_TROUBLE_MAX];
        for (uint64_t seed = 1; seed <= SEEDS; seed++)
            if (!stream_run(seed, ENTRIES, trouble)) _exit(1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void the_unchanged_machine_is_not_caught(void **state)
{
    (void)state;
    assert_false(is_caught(MUTANT_NONE));
}

#define MUTANT_TEST(test, mutant)                                                                  \
    static void test(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        assert_true(is_caught(mutant));                                                            \
    }

MUTANT_TEST(a_queue_that_ignores_tokens_is_caught, MUTANT_TOKEN_OFF)
MUTANT_TEST(a_queue_whose_locks_never_expire_is_caught, MUTANT_EXPIRY_OFF)
MUTANT_TEST(a_queue_that_counts_no_attempts_is_caught, MUTANT_ATTEMPTS_OFF)
MUTANT_TEST(a_strict_queue_that_overtakes_is_caught, MUTANT_ORDER_OFF)
MUTANT_TEST(a_queue_where_dead_letters_arrive_twice_is_caught, MUTANT_OUTBOX_MARK_OFF)
MUTANT_TEST(a_queue_that_takes_duplicates_is_caught, MUTANT_DEDUP_OFF)
MUTANT_TEST(a_queue_whose_claims_need_no_owner_is_caught, MUTANT_CONSUME_OFF)
MUTANT_TEST(a_queue_that_counts_only_events_that_are_kept_is_caught, MUTANT_EVENTS_UNHEARD)
MUTANT_TEST(a_queue_that_confuses_the_workers_of_finished_messages_is_caught,
            MUTANT_FINISHED_MERGED)
MUTANT_TEST(a_queue_that_keeps_ends_for_too_long_is_caught, MUTANT_RETENTION_OFF)
MUTANT_TEST(a_queue_that_takes_references_of_any_age_is_caught, MUTANT_BODY_STALE_OFF)
MUTANT_TEST(a_queue_where_letters_refer_to_old_copies_is_caught, MUTANT_LETTER_STALE_OFF)
MUTANT_TEST(a_queue_that_frees_bodies_on_their_way_is_caught, MUTANT_SWEEP_UNCOMMITTED)
MUTANT_TEST(a_queue_whose_cursor_goes_back_is_caught, MUTANT_CURSOR_FALLS)
MUTANT_TEST(a_queue_whose_floor_passes_the_cursor_is_caught, MUTANT_FLOOR_PAST_CURSOR)
MUTANT_TEST(a_workflow_that_begins_without_an_event_is_caught, MUTANT_WORKFLOW_UNANNOUNCED)
MUTANT_TEST(a_workflow_without_a_last_message_is_caught, MUTANT_WORKFLOW_LAST_OFF)
MUTANT_TEST(a_workflow_that_counts_the_dead_as_done_is_caught, MUTANT_WORKFLOW_FAILED_IS_DONE)
MUTANT_TEST(a_workflow_that_ends_too_early_is_caught, MUTANT_WORKFLOW_ENDS_EARLY)
MUTANT_TEST(a_queue_that_cancels_what_a_worker_holds_is_caught, MUTANT_CANCEL_LOCKED)
MUTANT_TEST(a_lock_out_of_turn_is_caught, MUTANT_LOCK_TURN_OFF)
MUTANT_TEST(a_queue_that_ignores_the_tokens_of_signals_is_caught, MUTANT_SIGNAL_TOKEN_OFF)
MUTANT_TEST(a_queue_whose_signals_overtake_is_caught, MUTANT_SIGNAL_ORDER_OFF)
MUTANT_TEST(a_queue_that_delivers_a_signal_after_its_ack_is_caught, MUTANT_SIGNAL_AGAIN)
MUTANT_TEST(a_queue_where_no_signal_is_missed_is_caught, MUTANT_SIGNAL_ONCE_STAYS)
MUTANT_TEST(an_interrupt_without_an_end_is_caught, MUTANT_INTERRUPT_ENDLESS)
MUTANT_TEST(a_queue_that_lets_go_of_pending_payloads_is_caught, MUTANT_SIGNAL_COLLECTED)
MUTANT_TEST(a_queue_that_confuses_results_is_caught, MUTANT_RESULT_OTHER)
MUTANT_TEST(two_processes_with_one_name_are_caught, MUTANT_WORKER_NAME_OFF)
MUTANT_TEST(a_paused_worker_that_gets_messages_is_caught, MUTANT_WORKER_MODE_OFF)
MUTANT_TEST(an_evicted_worker_that_keeps_its_locks_is_caught, MUTANT_EVICT_KEEPS_LOCKS)
MUTANT_TEST(an_evicted_worker_that_joins_again_is_caught, MUTANT_EVICT_REJOINS)
MUTANT_TEST(a_dispatch_that_prefers_a_worker_is_caught, MUTANT_FAIR_OFF)
MUTANT_TEST(a_ticket_for_a_worker_without_room_is_caught, MUTANT_ROOM_OFF)
MUTANT_TEST(a_dispatch_that_is_not_the_owners_is_caught, MUTANT_DISPATCH_ANY)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_unchanged_machine_is_not_caught),
        cmocka_unit_test(a_queue_that_ignores_tokens_is_caught),
        cmocka_unit_test(a_queue_whose_locks_never_expire_is_caught),
        cmocka_unit_test(a_queue_that_counts_no_attempts_is_caught),
        cmocka_unit_test(a_strict_queue_that_overtakes_is_caught),
        cmocka_unit_test(a_queue_where_dead_letters_arrive_twice_is_caught),
        cmocka_unit_test(a_queue_that_takes_duplicates_is_caught),
        cmocka_unit_test(a_queue_whose_claims_need_no_owner_is_caught),
        cmocka_unit_test(a_queue_that_counts_only_events_that_are_kept_is_caught),
        cmocka_unit_test(a_queue_that_confuses_the_workers_of_finished_messages_is_caught),
        cmocka_unit_test(a_queue_that_keeps_ends_for_too_long_is_caught),
        cmocka_unit_test(a_queue_that_takes_references_of_any_age_is_caught),
        cmocka_unit_test(a_queue_where_letters_refer_to_old_copies_is_caught),
        cmocka_unit_test(a_queue_that_frees_bodies_on_their_way_is_caught),
        cmocka_unit_test(a_queue_whose_cursor_goes_back_is_caught),
        cmocka_unit_test(a_queue_whose_floor_passes_the_cursor_is_caught),
        cmocka_unit_test(a_workflow_that_begins_without_an_event_is_caught),
        cmocka_unit_test(a_workflow_without_a_last_message_is_caught),
        cmocka_unit_test(a_workflow_that_counts_the_dead_as_done_is_caught),
        cmocka_unit_test(a_workflow_that_ends_too_early_is_caught),
        cmocka_unit_test(a_queue_that_cancels_what_a_worker_holds_is_caught),
        cmocka_unit_test(a_lock_out_of_turn_is_caught),
        cmocka_unit_test(a_queue_that_ignores_the_tokens_of_signals_is_caught),
        cmocka_unit_test(a_queue_whose_signals_overtake_is_caught),
        cmocka_unit_test(a_queue_that_delivers_a_signal_after_its_ack_is_caught),
        cmocka_unit_test(a_queue_where_no_signal_is_missed_is_caught),
        cmocka_unit_test(an_interrupt_without_an_end_is_caught),
        cmocka_unit_test(a_queue_that_lets_go_of_pending_payloads_is_caught),
        cmocka_unit_test(a_queue_that_confuses_results_is_caught),
        cmocka_unit_test(two_processes_with_one_name_are_caught),
        cmocka_unit_test(a_paused_worker_that_gets_messages_is_caught),
        cmocka_unit_test(an_evicted_worker_that_keeps_its_locks_is_caught),
        cmocka_unit_test(an_evicted_worker_that_joins_again_is_caught),
        cmocka_unit_test(a_dispatch_that_prefers_a_worker_is_caught),
        cmocka_unit_test(a_ticket_for_a_worker_without_room_is_caught),
        cmocka_unit_test(a_dispatch_that_is_not_the_owners_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
