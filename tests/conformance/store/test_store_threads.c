// SPDX-License-Identifier: Apache-2.0
// The contract under 16 threads, and after a fork.
#include "contract.h"

#include <pthread.h>
#include <string.h>

#define RACERS 16

struct racer {
    struct store *store;
    pthread_barrier_t *start;
    pthread_t thread;
    uint64_t id;
    uint64_t slot; // 0: race for a key
    uint64_t wins;
    enum err end;
};

static void *race_once(void *arg)
{
    struct racer *me = arg;
    struct store_answer a;
    store_answer_init(&a);
    struct bytes body = body_make(me->id, 100);
    (void)pthread_barrier_wait(me->start);
    me->end = me->slot ? store_append(me->store, LOG, me->slot, body, &a)
                       : store_put_new(me->store, "race/key", body, &a);
    bytes_free(body);
    store_answer_done(&a);
    return NULL;
}

static void race(struct world *w, struct racer racers[RACERS], uint64_t slot,
                 void *(*run)(void *arg))
{
    pthread_barrier_t start;
    NEED(pthread_barrier_init(&start, NULL, RACERS) == 0);
    for (size_t i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){.store = w->store, .start = &start, .id = i, .slot = slot};
        NEED(pthread_create(&racers[i].thread, NULL, run, &racers[i]) == 0);
    }
    for (size_t i = 0; i < RACERS; i++)
        (void)pthread_join(racers[i].thread, NULL);
    (void)pthread_barrier_destroy(&start);
}

static const struct racer *only_winner(const struct racer racers[RACERS])
{
    const struct racer *winner = NULL;
    for (size_t i = 0; i < RACERS; i++) {
        NEED(racers[i].end == ERR_OK || racers[i].end == ERR_CONFLICT);
        if (racers[i].end != ERR_OK) continue;
        NEED(winner == NULL);
        winner = &racers[i];
    }
    NEED(winner != NULL);
    return winner;
}

static void of_sixteen_threads_that_create_a_key_one_wins(void **state)
{
    struct world *w = *state;
    static const char *const key = "race/key";
    for (int round = 0; round < 20; round++) {
        struct racer racers[RACERS];
        race(w, racers, 0, race_once);
        const struct racer *winner = only_winner(racers);
        ANSWERS(ERR_OK, &w->a, store_get(w->store, key, 0, SIZE_MAX, &w->a));
        NEED(body_is(buf_bytes(&w->a.body), winner->id, 100));
        ANSWERS(ERR_OK, &w->a, store_delete(w->store, &key, 1, &w->a));
    }
}

static void of_sixteen_threads_that_append_a_slot_one_wins(void **state)
{
    struct world *w = *state;
    for (uint64_t slot = 1; slot <= 20; slot++) {
        struct racer racers[RACERS];
        race(w, racers, slot, race_once);
        const struct racer *winner = only_winner(racers);
        ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, slot, 1, &w->a));
        NEED(body_is(store_row_bytes(&w->a, 0), winner->id, 100));
    }
}

#define WINS_EACH 20

// Appends until it has won often enough, each time at the slot after the one it lost or won.
static void *race_on(void *arg)
{
    struct racer *me = arg;
    struct store_answer a;
    store_answer_init(&a);
    (void)pthread_barrier_wait(me->start);
    while (me->wins < WINS_EACH && me->end == ERR_OK) {
        uint8_t body[2] = {(uint8_t)me->id, (uint8_t)me->wins};
        enum err e = store_append(me->store, LOG, me->slot, bytes_of(body, 2), &a);
        if (e == ERR_OK)
            me->wins++;
        else if (e != ERR_CONFLICT)
            me->end = e;
        me->slot++;
    }
    store_answer_done(&a);
    return NULL;
}

static void what_many_threads_append_is_all_there_once(void **state)
{
    struct world *w = *state;
    struct racer racers[RACERS];
    race(w, racers, 1, race_on);
    uint8_t next[RACERS] = {0};
    for (uint64_t slot = 1; slot <= (uint64_t)RACERS * WINS_EACH; slot++) {
        ANSWERS(ERR_OK, &w->a, store_read_log(w->store, LOG, slot, 1, &w->a));
        struct bytes body = store_row_bytes(&w->a, 0);
        NEED(body.len == 2 && body.data[0] < RACERS);
        NEED(body.data[1] == next[body.data[0]]++); // in the order each wrote them
    }
    ANSWERS(ERR_NOT_FOUND, &w->a,
            store_read_log(w->store, LOG, (uint64_t)RACERS * WINS_EACH + 1, 1, &w->a));
}

static void use_in_child(void *arg)
{
    struct world *w = arg;
    const char *key = "key";
    ANSWERS(ERR_INVALID, &w->a, store_put_new(w->store, "k", bytes_str("x"), &w->a));
    NEED(strstr(w->a.why, "fork") != NULL);
    ANSWERS(ERR_INVALID, &w->a, store_put(w->store, "k", bytes_str("x"), &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_get(w->store, "k", 0, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_list(w->store, "", NULL, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_delete(w->store, &key, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_append(w->store, LOG, 2, bytes_str("x"), &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_read_log(w->store, LOG, 1, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_extents(w->store, LOG, 1, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_drop(w->store, LOG, 1, 1, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_seal(w->store, LOG, &w->a));
    ANSWERS(ERR_INVALID, &w->a, store_wait(w->store, LOG, 1, 1, &w->a));
    store_free(w->store); // must not take anything from the parent
}

static void a_handle_carried_through_fork_is_refused(void **state)
{
    struct world *w = *state;
    append_slots(w, 1, 1);
    child_ends_well(child_start(use_in_child, w));
    append_slots(w, 2, 3);
    NEED(read_on(w, 1, 1000) == 4);
    lists(w, "k", NULL, 9, false, "");
}

int main(void)
{
    static const struct contract_test tests[] = {
        CONTRACT_TEST(of_sixteen_threads_that_create_a_key_one_wins),
        CONTRACT_TEST(of_sixteen_threads_that_append_a_slot_one_wins),
        CONTRACT_TEST(what_many_threads_append_is_all_there_once),
        CONTRACT_TEST(a_handle_carried_through_fork_is_refused),
    };
    return contract_run("store threads", tests, sizeof tests / sizeof *tests);
}
