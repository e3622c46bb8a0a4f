// SPDX-License-Identifier: Apache-2.0
// The lives of a name, while two handles create and delete it. What the other one does happens
// before the first store call that a creation makes in its own thread, before the second, and so
// on, until there is no such call.
#include "../unit/unit.h"
#include "api/handle.h"
#include "queues/queues.h"
#include "store/backend.h"
#include "store/mem.h"

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
    struct store_ops ops;
    struct store *inner;
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

#define PASS_ON(verb, parameters, ...)                                                             \
    static enum err busy_##verb parameters                                                         \
    {                                                                                              \
        call(s);                                                                                   \
        return store_##verb(((struct busy *)s)->inner, __VA_ARGS__);                               \
    }

PASS_ON(put, (struct store * s, const char *key, struct bytes body, struct store_answer *a), key,
        body, a)
PASS_ON(get, (struct store * s, const char *key, size_t from, size_t len, struct store_answer *a),
        key, from, len, a)
PASS_ON(list,
        (struct store * s, const char *prefix, const char *after, size_t limit,
         struct store_answer *a),
        prefix, after, limit, a)
PASS_ON(delete, (struct store * s, const char *const *keys, size_t count, struct store_answer *a),
        keys, count, a)
PASS_ON(append,
        (struct store * s, const char *log, uint64_t slot, struct bytes body,
         struct store_answer *a),
        log, slot, body, a)
PASS_ON(read_log,
        (struct store * s, const char *log, uint64_t slot, size_t bytes, struct store_answer *a),
        log, slot, bytes, a)
PASS_ON(extents,
        (struct store * s, const char *log, uint64_t from, size_t limit, struct store_answer *a),
        log, from, limit, a)
PASS_ON(drop,
        (struct store * s, const char *log, uint64_t first, uint64_t last, struct store_answer *a),
        log, first, last, a)

static enum err busy_wait(struct store *s, const char *log, uint64_t slot, int64_t ms,
                          struct store_answer *a)
{
    return store_wait(((struct busy *)s)->inner, log, slot, ms, a);
}

static enum err busy_put_new(struct store *s, const char *key, struct bytes body,
                             struct store_answer *a)
{
    struct busy *b = (struct busy *)s;
    call(s);
    if (atomic_load(&b->no_dead_list) && strncmp(key, "gone/", 5) == 0)
        return answer_refuse(a, ERR_UNAVAILABLE, "no tombstones today");
    return store_put_new(b->inner, key, body, a);
}

static void busy_free(struct store *s)
{
    free(s);
}

static void rig_open(struct rig *r)
{
    struct store *inner = store_mem_new();
    struct busy *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->inner = inner;
    b->rig = r;
    b->thread = pthread_self();
    b->ops = (struct store_ops){.put_new = busy_put_new,
                                .put = busy_put,
                                .get = busy_get,
                                .list = busy_list,
                                .delete = busy_delete,
                                .append = busy_append,
                                .read_log = busy_read_log,
                                .extents = busy_extents,
                                .drop = busy_drop,
                                .wait = busy_wait,
                                .free = busy_free};
    atomic_store(&b->calls_left, -1);
    store_init(&b->store, &b->ops);
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
