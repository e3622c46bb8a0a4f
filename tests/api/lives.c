// SPDX-License-Identifier: Apache-2.0
// The lives of a name, while two handles create and delete it. What the other one does happens
// before the first store call that a creation makes in its own thread, before the second, and so
// on, until there is no such call.
#include "../unit/unit.h"
#include "api/handle.h"
#include "queues/queues.h"
#include "store/backend.h"
#include "store/mem.h"
#include "store/meter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_MAX 200 // a creation that needs more goes round in circles

#define FINE(call)                                                                                 \
    do {                                                                                           \
        struct sluice_error error = {.message = ""};                                               \
        if (call) fail_msg("%s: %s", sluice_code_name(error.code), error.message);                 \
    } while (0)

struct rig;
typedef void meanwhile_fn(struct rig *r);

// In front of a store that the test owns.
struct busy {
    struct store store;
    struct rig *rig;
    meanwhile_fn *meanwhile;
    pthread_t thread;          // whose calls count
    _Atomic int calls_left;    // until it happens; under 0: it did, or does not
    _Atomic bool no_dead_list; // tombstones are refused
};

struct rig {
    struct sluice *mine;
    struct sluice *theirs; // as another process
    struct busy *store;    // of mine
};

static void call(struct store *s)
{
    struct busy *b = (struct busy *)s;
    if (!pthread_equal(b->thread, pthread_self())) return;
    if (atomic_fetch_sub(&b->calls_left, 1) == 0) b->meanwhile(b->rig);
}

static bool is_refused(const struct busy *b, const char *key)
{
    return atomic_load(&b->no_dead_list) && strncmp(key, "gone/", 5) == 0;
}

#define BUSY(name, kind, key_of, bytes_in, params, ...)                                            \
    static enum err busy_##name params                                                             \
    {                                                                                              \
        struct busy *b = (struct busy *)s;                                                         \
        if (METER_##kind != METER_WAIT) call(s);                                                   \
        if (METER_##kind == METER_PUT_NEW && is_refused(b, key_of))                                \
            return answer_refuse(a, ERR_UNAVAILABLE, "no tombstones today");                       \
        return store_##name(s->inner, __VA_ARGS__, a);                                             \
    }
STORE_WRITES(BUSY)
STORE_READS(BUSY)

static void busy_free(struct store *s)
{
    free(s);
}

static const struct store_ops busy_ops = {
#define BUSY_OP(name, ...) .name = busy_##name,
    STORE_WRITES(BUSY_OP) STORE_READS(BUSY_OP)
#undef BUSY_OP
        .free = busy_free,
};

static void rig_open(struct rig *r)
{
    struct store *inner = store_mem_new();
    struct busy *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->rig = r;
    b->thread = pthread_self();
    atomic_store(&b->calls_left, -1);
    store_init_around(&b->store, &busy_ops, inner);
    r->store = b;
    FINE(handle_open_take(inner, "mem:", NULL, &r->theirs, &error));
    FINE(handle_open_take(&b->store, "mem:", NULL, &r->mine, &error));
}

static void rig_close(struct rig *r)
{
    sluice_close(r->mine);
    sluice_close(r->theirs); // which owns what is behind
}

static void send_one(struct sluice *s, const char *queue)
{
    struct sluice_send m = {.body = "precious", .body_len = 8};
    FINE(sluice_send(s, queue, &m, 1, NULL, NULL, &error));
}

static void delete_it(struct rig *r)
{
    struct sluice_error error;
    enum sluice_code code = sluice_queue_delete(r->theirs, "tasks", &error);
    if (code && code != SLUICE_NOT_FOUND) fail_msg("%s", error.message);
}

static void replace_it(struct rig *r)
{
    delete_it(r);
    FINE(sluice_queue_create(r->theirs, "tasks", NULL, 0, &error));
    send_one(r->theirs, "tasks");
}

static void replace_it_by_another(struct rig *r)
{
    struct sluice_setting shards = {"shards", "3"};
    delete_it(r);
    FINE(sluice_queue_create(r->theirs, "tasks", &shards, 1, &error));
    send_one(r->theirs, "tasks");
}

static void cut_off_a_deletion(struct rig *r)
{
    atomic_store(&r->store->no_dead_list, true);
    assert_int_equal(sluice_queue_delete(r->mine, "tasks", NULL), SLUICE_UNAVAILABLE);
    atomic_store(&r->store->no_dead_list, false);
}

// False: the creation was done before.
static bool create_while(struct rig *r, meanwhile_fn *meanwhile, int calls, enum sluice_code *code)
{
    assert_true(calls < CALLS_MAX);
    r->store->meanwhile = meanwhile;
    atomic_store(&r->store->calls_left, calls);
    struct sluice_error error = {.message = ""};
    *code = sluice_queue_create(r->mine, "tasks", NULL, 0, &error);
    bool happened = atomic_exchange(&r->store->calls_left, -1) < 0;
    if (*code && *code != SLUICE_CONFLICT)
        fail_msg("before call %d: %s: %s", calls, sluice_code_name(*code), error.message);
    return happened;
}

static void assert_one_message(struct rig *r)
{
    struct sluice_batch *b;
    FINE(sluice_receive(r->theirs, "tasks", NULL, &b, &error));
    assert_int_equal(b->len, 1);
    sluice_batch_free(b);
}

static void finishing_a_deletion_does_not_delete_the_next_life(void **state)
{
    (void)state;
    bool happened = true;
    for (int calls = 0; happened; calls++) {
        struct rig r;
        enum sluice_code code;
        rig_open(&r);
        FINE(sluice_queue_create(r.mine, "tasks", NULL, 0, &error));
        cut_off_a_deletion(&r);
        happened = create_while(&r, replace_it, calls, &code);
        assert_int_equal(code, SLUICE_OK);
        if (happened) assert_one_message(&r);
        rig_close(&r);
    }
}

static void a_creation_that_meets_a_deletion_is_tried_again(void **state)
{
    (void)state;
    bool happened = true;
    for (int calls = 0; happened; calls++) {
        struct rig r;
        enum sluice_code code;
        rig_open(&r);
        FINE(sluice_queue_create(r.theirs, "tasks", NULL, 0, &error));
        happened = create_while(&r, delete_it, calls, &code);
        assert_int_equal(code, SLUICE_OK);
        rig_close(&r);
    }
}

// The one that is there is not the one that was asked for, or was made after it was.
static void a_creation_does_not_pass_another_queue_off_as_its_own(void **state)
{
    (void)state;
    bool happened = true;
    for (int calls = 0; happened; calls++) {
        struct rig r;
        enum sluice_code code;
        rig_open(&r);
        FINE(sluice_queue_create(r.mine, "tasks", NULL, 0, &error));
        cut_off_a_deletion(&r);
        happened = create_while(&r, replace_it_by_another, calls, &code);
        if (happened) assert_one_message(&r);
        if (happened) assert_int_equal(code, SLUICE_CONFLICT);
        rig_close(&r);
    }
}

// No other process may do that any more, and its name is of no use until it is done.
static void the_deletion_of_a_dead_letter_queue_is_finished_too(void **state)
{
    (void)state;
    struct rig r;
    rig_open(&r);
    struct sluice_setting settings[] = {{"failureStrategy.mode", "dead-letter"},
                                        {"failureStrategy.deadLetterQueue", "tasks"}};
    FINE(sluice_queue_create(r.mine, "tasks", NULL, 0, &error));
    cut_off_a_deletion(&r);
    enum sluice_code code = sluice_queue_create(r.theirs, "source", settings, 2, NULL);
    assert_int_equal(code, SLUICE_OK);
    FINE(sluice_queue_create(r.mine, "tasks", NULL, 0, &error));
    send_one(r.mine, "tasks");
    assert_one_message(&r);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finishing_a_deletion_does_not_delete_the_next_life),
        cmocka_unit_test(a_creation_that_meets_a_deletion_is_tried_again),
        cmocka_unit_test(a_creation_does_not_pass_another_queue_off_as_its_own),
        cmocka_unit_test(the_deletion_of_a_dead_letter_queue_is_finished_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
