// SPDX-License-Identifier: Apache-2.0
// What is left of a queue that was deleted: hardly anything, on every store; and of one that was
// not, everything.
#include "api/handle.h"
#include "bodies_rig.h"

#include "ops/finish_shard.h"
#include "ops/upkeep.h"
#include "os/clock.h"
#include "store/mem.h"
#include "store/meter.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LEFT_MAX  (64 * KIB) // of a shard
#define ROUND_MAX 1000       // shards

static const char *backend;

// A second instead of an hour.
static const struct journal_rules quick = {.session_ttl_ms = 86400000,
                                           .sessions_max = 4096,
                                           .digest_every = 256,
                                           .verify_ms = 300,
                                           .retain_ms = 400,
                                           .floor_lag_ms = 400,
                                           .snapshot_every = 1024,
                                           .sweep_every_ms = 3600000,
                                           .orphan_ms = 400};

static int set_up(void **state)
{
    struct rig *r = test_calloc(1, sizeof *r);
    rig_open(r, backend);
    r->s->engine->rules = quick;
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    rig_close(*state);
    test_free(*state);
    return 0;
}

static void make(struct rig *r, const char *queue, const char *shards)
{
    const struct sluice_setting settings[] = {{"shards", shards}, {"maxMessageBytes", "1MiB"}};
    FINE(sluice_queue_create(r->s, queue, settings, 2, &error));
}

static void drop(struct rig *r, const char *queue)
{
    FINE(sluice_queue_delete(r->s, queue, &error));
}

static void send_megabytes(struct rig *r, const char *queue, size_t megabytes)
{
    for (size_t i = 0; i < 5 * megabytes; i++)
        send_body(r, queue, i, MIB / 5);
}

static uint64_t disk_bytes;

static int add_file(const char *path, const struct stat *st, int kind)
{
    (void)path, (void)kind;
    disk_bytes += (uint64_t)st->st_blocks * 512;
    return 0;
}

static uint64_t listed_bytes(struct rig *r, const char *prefix)
{
    struct store_answer a;
    store_answer_init(&a);
    uint64_t sum = 0;
    char after[RIG_KEY_MAX] = "";
    do {
        ANSWERS(ERR_OK, &a,
                store_list(r->s->engine->store, prefix, after[0] ? after : NULL, 1000, &a));
        for (size_t i = 0; i < a.rows_len; i++) {
            sum += a.rows[i].size;
            (void)snprintf(after, sizeof after, "%s", store_row_key(&a, i));
        }
    } while (a.more && a.rows_len > 0);
    store_answer_done(&a);
    return sum;
}

// A list of a store in Redis does not show the slots.
static uint64_t log_bytes(struct rig *r, const char *folder)
{
    struct store_answer a;
    store_answer_init(&a);
    uint64_t sum = 0, from = 1;
    char log[RIG_KEY_MAX + 8];
    (void)snprintf(log, sizeof log, "%s0/log", folder);
    do {
        ANSWERS(ERR_OK, &a, store_extents(r->s->engine->store, log, from, 1000, &a));
        for (size_t i = 0; i < a.rows_len; i++)
            sum += a.rows[i].size;
        if (a.rows_len > 0) from = a.rows[a.rows_len - 1].last + 1;
    } while (a.more && a.rows_len > 0);
    store_answer_done(&a);
    return sum;
}

// Under a folder of the store: blocks of the disk, or bytes of the objects.
static uint64_t bytes_under(struct rig *r, const char *folder)
{
    if (redis_here()) return listed_bytes(r, folder) + log_bytes(r, folder);
    if (r->dir[0] == 0) return listed_bytes(r, folder);
    char path[SCRATCH_MAX + RIG_KEY_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", r->dir, folder);
    disk_bytes = 0;
    assert_int_equal(ftw(path, add_file, 8), 0);
    return disk_bytes;
}

static void folder_of(struct rig *r, const char *queue, char out[RIG_KEY_MAX])
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    FINE(queue_get(r->s->engine, queue, &q, &error));
    char *at = out + snprintf(out, RIG_KEY_MAX, "q/");
    for (size_t i = 0; i < sizeof q->row.id.bytes; i++)
        at += snprintf(at, 3, "%02x", q->row.id.bytes[i]);
    (void)snprintf(at, 2, "/");
}

static void nap(void)
{
    (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
}

// Rounds until so many were finished.
static void sweep(struct rig *r, size_t queues)
{
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    for (size_t finished = 0; finished < queues; nap()) {
        struct deleted_queues_walk walk = {.left = 0};
        struct deleted_queues_counts counts;
        assert_int_equal(deleted_queues_round(r->s->engine, ROUND_MAX, &walk, &counts), ERR_OK);
        finished += counts.finished;
        assert_true(clock_boot_ms() < until);
    }
}

static struct deleted_queues_counts round_once(struct rig *r)
{
    struct deleted_queues_walk walk = {.left = 0};
    struct deleted_queues_counts counts;
    assert_int_equal(deleted_queues_round(r->s->engine, ROUND_MAX, &walk, &counts), ERR_OK);
    return counts;
}

static void of_twelve_megabytes_hardly_anything_stays(void **state)
{
    struct rig *r = *state;
    char folder[RIG_KEY_MAX];
    make(r, "big", "1");
    send_megabytes(r, "big", 12);
    send_body(r, "big", 7, BIG);
    folder_of(r, "big", folder);
    assert_true(bytes_under(r, folder) > 12 * MIB);
    drop(r, "big");
    sweep(r, 1);
    assert_true(bytes_under(r, folder) < LEFT_MAX);
}

static void every_shard_is_swept(void **state)
{
    struct rig *r = *state;
    char folder[RIG_KEY_MAX];
    make(r, "wide", "4");
    send_megabytes(r, "wide", 3);
    folder_of(r, "wide", folder);
    drop(r, "wide");
    sweep(r, 1);
    assert_true(bytes_under(r, folder) < 4 * LEFT_MAX);
}

static size_t objects_under(struct rig *r, const char *folder)
{
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_list(r->s->engine->store, folder, NULL, 1000, &a));
    size_t len = a.rows_len;
    store_answer_done(&a);
    return len;
}

static bool no(void *ctx)
{
    (void)ctx;
    return false;
}

static bool finish_one(struct rig *r, const struct catalog_row *row, uint32_t shard)
{
    struct runner_config config = {.id = {.shard = shard}, .birth = row->birth, .rules = quick};
    bool finished = false;
    memcpy(config.id.queue, row->id.bytes, sizeof config.id.queue);
    memcpy(config.queue, row->name, sizeof config.queue);
    assert_int_equal(finish_shard(r->s->engine->store, &config, no, NULL, &finished), ERR_OK);
    return finished;
}

// Others of its queue may take longer, and each visit comes by it.
static void a_shard_that_is_finished_stays_so(void **state)
{
    struct rig *r = *state;
    char folder[RIG_KEY_MAX];
    struct catalog_row row;
    struct store_answer a;
    store_answer_init(&a);
    make(r, "halves", "2");
    send_megabytes(r, "halves", 1);
    folder_of(r, "halves", folder);
    drop(r, "halves");
    ANSWERS(ERR_OK, &a, catalog_life(r->s->engine->store, "halves", 1, &row, &a));
    store_answer_done(&a);
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    for (; !finish_one(r, &row, 0); nap())
        assert_true(clock_boot_ms() < until);
    size_t before = objects_under(r, folder);
    for (int64_t grown = clock_boot_ms() + 3 * quick.floor_lag_ms; clock_boot_ms() < grown; nap())
        assert_true(finish_one(r, &row, 0));
    // One that is not finished gets a floor in each of the three times. The handle that deleted the
    // queue may write its snapshot only now.
    assert_in_range(objects_under(r, folder), before, before + 1);
    sweep(r, 1);
    assert_true(bytes_under(r, folder) < 2 * LEFT_MAX);
}

// A handle writes the snapshot of a deletion in the background. If the clock is moved before that,
// the snapshot is too young for a floor, and the queue is finished an hour later.
static void await_snapshot(struct rig *r, const char *folder)
{
    char prefix[RIG_KEY_MAX];
    (void)snprintf(prefix, sizeof prefix, "%.*s0/snap/", (int)sizeof prefix - 16, folder);
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    for (; objects_under(r, prefix) == 0; nap())
        assert_true(clock_boot_ms() < until);
}

// By the rules as they are: when a process comes by, the answers are too old to be repeated.
static void of_a_thousand_answers_none_stays(void **state)
{
    (void)state;
    struct rig own = {0};
    struct sluice_send m = {.body = "x", .body_len = 1};
    char folder[RIG_KEY_MAX];
    if (strcmp(backend, "mem") != 0) return; // its clock can be moved
    struct store *store = store_mem_new();
    FINE(handle_open_take(store, "mem:", NULL, &own.s, &error));
    make(&own, "busy", "1");
    for (int i = 0; i < 1000; i++)
        FINE(sluice_send(own.s, "busy", &m, 1, NULL, NULL, &error));
    folder_of(&own, "busy", folder);
    drop(&own, "busy");
    await_snapshot(&own, folder);
    store_mem_step(store, 2 * 3600 * 1000);
    assert_int_equal(round_once(&own).finished, 1);
    assert_int_equal(objects_under(&own, folder), 3);  // a floor, a slot, a snapshot
    assert_true(listed_bytes(&own, folder) < 2 * KIB); // a thousand answers have 10 KiB and more
    sluice_close(own.s);
}

static void a_name_that_lives_again_keeps_what_is_its_own(void **state)
{
    struct rig *r = *state;
    char first[RIG_KEY_MAX], second[RIG_KEY_MAX];
    make(r, "phoenix", "1");
    send_megabytes(r, "phoenix", 1);
    folder_of(r, "phoenix", first);
    drop(r, "phoenix");
    make(r, "phoenix", "1");
    for (uint64_t i = 0; i < 10; i++)
        send_body(r, "phoenix", i, 100 * KIB);
    folder_of(r, "phoenix", second);
    assert_string_not_equal(first, second);
    sweep(r, 1);
    assert_true(bytes_under(r, first) < LEFT_MAX);
    struct sluice_batch *b = receive(r, "phoenix", 10, 0);
    assert_int_equal(b->len, 10);
    for (uint64_t i = 0; i < 10; i++)
        assert_body(&b->messages[i], i, 100 * KIB);
    sluice_batch_free(b);
    drop(r, "phoenix"); // and its second life ends like the first
    sweep(r, 1);
    assert_true(bytes_under(r, second) < LEFT_MAX);
    assert_int_equal(round_once(r).found, 0);
}

static void what_is_swept_is_not_asked_about_again(void **state)
{
    struct rig *r = *state;
    make(r, "once", "1");
    send_body(r, "once", 1, KIB);
    drop(r, "once");
    sweep(r, 1);
    struct meter_snapshot before, after;
    store_meter_read(r->s->engine->store, &before);
    struct deleted_queues_counts counts = round_once(r);
    store_meter_read(r->s->engine->store, &after);
    assert_int_equal(counts.found, 0);
    for (int kind = 0; kind < METER_KINDS; kind++)
        assert_int_equal(after.kind[kind].requests - before.kind[kind].requests,
                         kind == METER_LIST ? 2 : 0);
}

static void one_that_is_just_gone_is_left_alone(void **state)
{
    struct rig *r = *state;
    r->s->engine->rules.floor_lag_ms = r->s->engine->rules.retain_ms = 3600000;
    make(r, "fresh", "1");
    send_body(r, "fresh", 1, KIB);
    drop(r, "fresh");
    assert_int_equal(round_once(r).found, 0);
}

// A tombstone that should not be there: the journal has the last word.
static void a_queue_that_was_not_deleted_loses_nothing(void **state)
{
    struct rig *r = *state;
    make(r, "alive", "1");
    for (uint64_t i = 0; i < 5; i++)
        send_body(r, "alive", i, 10 * KIB);
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a,
            store_put_new(r->s->engine->store, "gone/alive/00000001", bytes_str("gone"), &a));
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    struct deleted_queues_counts counts = {0};
    for (; counts.visited == 0 && clock_boot_ms() < until; nap())
        counts = round_once(r);
    assert_int_equal(counts.visited, 1);
    assert_int_equal(counts.finished, 0);
    const char *keys[] = {"gone/alive/00000001"};
    ANSWERS(ERR_OK, &a, store_delete(r->s->engine->store, keys, 1, &a));
    store_answer_done(&a);
    struct sluice_batch *b = receive(r, "alive", 5, 0);
    assert_int_equal(b->len, 5);
    assert_body(&b->messages[4], 4, 10 * KIB);
    sluice_batch_free(b);
}

static void a_deletion_that_is_refused_takes_nothing(void **state)
{
    struct rig *r = *state;
    create(r, "source", "dead-letter"); // to dlq
    send_body(r, "dlq", 1, KIB);
    assert_int_equal(sluice_queue_delete(r->s, "dlq", NULL), SLUICE_CONFLICT);
    drop(r, "source");
    sweep(r, 1);
    assert_int_equal(round_once(r).found, 0);
    struct sluice_batch *b = receive(r, "dlq", 1, 0);
    assert_int_equal(b->len, 1);
    assert_body(&b->messages[0], 1, KIB);
    sluice_batch_free(b);
}

static bool exists(struct rig *r, const char *key)
{
    struct store_answer a;
    store_answer_init(&a);
    enum err err = store_get(r->s->engine->store, key, 0, SIZE_MAX, &a);
    store_answer_done(&a);
    return err == ERR_OK;
}

static void leave_mail(struct rig *r, const char *folder, const char *what, char key[RIG_KEY_MAX])
{
    struct store_answer a;
    store_answer_init(&a);
    (void)snprintf(key, RIG_KEY_MAX, "%.*s0/box/%s", (int)RIG_KEY_MAX - 48, folder, what);
    ANSWERS(ERR_OK, &a, store_put_new(r->s->engine->store, key, bytes_str("mail"), &a));
    store_answer_done(&a);
}

// Workers that reach only the store leave objects there. A store with a low latency has none.
static void mail_of_a_deleted_queue_is_deleted_and_that_of_others_stays(void **state)
{
    struct rig *r = *state;
    char gone[RIG_KEY_MAX], lives[RIG_KEY_MAX], keys[3][RIG_KEY_MAX], other[RIG_KEY_MAX];
    if (!store_is_high_latency(r->s->engine->store)) return;
    make(r, "gone", "1");
    make(r, "lives", "1");
    send_body(r, "gone", 1, KIB);
    send_body(r, "lives", 1, KIB);
    folder_of(r, "gone", gone);
    folder_of(r, "lives", lives);
    leave_mail(r, gone, "mark", keys[0]);
    leave_mail(r, gone, "out/worker-1/00000000000000000001", keys[1]);
    leave_mail(r, gone, "in/worker-1/00000000000000000001", keys[2]);
    leave_mail(r, lives, "mark", other);
    drop(r, "gone");
    sweep(r, 1);
    for (size_t i = 0; i < 3; i++)
        assert_false(exists(r, keys[i]));
    assert_true(exists(r, other));
}

// It knew the queue before, and looks again only now.
static void a_handle_that_slept_through_a_deletion_answers_not_found(void **state)
{
    struct rig *r = *state;
    struct sluice *sleeper;
    struct sluice_send m = {.body = "late", .body_len = 4};
    if (r->dir[0] == 0) return; // only a directory is opened twice here
    FINE(sluice_open(r->dir, NULL, &sleeper, &error));
    sleeper->engine->rules = quick;
    make(r, "dream", "1");
    FINE(sluice_send(sleeper, "dream", &m, 1, NULL, NULL, &error));
    send_megabytes(r, "dream", 1);
    drop(r, "dream");
    sweep(r, 1);
    assert_int_equal(sluice_send(sleeper, "dream", &m, 1, NULL, NULL, NULL), SLUICE_NOT_FOUND);
    make(r, "dream", "1");
    FINE(sluice_send(sleeper, "dream", &m, 1, NULL, NULL, &error));
    sluice_close(sleeper);
}

static void a_handle_that_lives_long_enough_does_it_by_itself(void **state)
{
    struct rig *r = *state;
    make(r, "slow", "1");
    send_body(r, "slow", 1, KIB);
    drop(r, "slow");
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    for (; !exists(r, "swept/slow/00000001") && clock_boot_ms() < until; nap())
        deleted_queues_again(upkeep_deleted_queues(r->s->engine)); // rather than in an hour
    assert_true(exists(r, "swept/slow/00000001"));
}

static void die(struct rig *r, size_t queues)
{
    for (size_t i = 0; i < queues; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "q%zu", i / 3); // lives of a few names
        make(r, name, "1");
        send_body(r, name, 1, KIB);
        drop(r, name);
    }
    // Until all of them have been gone for a while.
    int64_t until = clock_boot_ms() + DEADLINE_MS;
    size_t found = 0;
    for (; found < queues && clock_boot_ms() < until; nap()) {
        struct deleted_queues_walk walk = {.left = 0};
        struct deleted_queues_counts counts;
        assert_int_equal(deleted_queues_round(r->s->engine, 0, &walk, &counts), ERR_OK);
        found = counts.found;
    }
    assert_int_equal(found, queues);
}

static void a_walk_meets_each_of_them_once(void **state)
{
    struct rig *r = *state;
    struct deleted_queues_walk walk = {.left = 0};
    size_t visited = 0, rounds = 0;
    die(r, 7);
    do {
        struct deleted_queues_counts counts;
        assert_int_equal(deleted_queues_round(r->s->engine, 2, &walk, &counts), ERR_OK);
        visited += counts.visited;
        rounds++;
    } while (walk.left > 0);
    assert_int_equal(visited, 7);
    assert_int_equal(rounds, 4);
}

static uint64_t requests_of(struct rig *r)
{
    struct meter_snapshot m;
    uint64_t sum = 0;
    store_meter_read(r->s->engine->store, &m);
    for (int kind = 0; kind < METER_KINDS; kind++)
        sum += m.kind[kind].requests;
    return sum;
}

static void a_visit_costs_few_requests(void **state)
{
    struct rig *r = *state;
    struct deleted_queues_counts counts = {0};
    uint64_t before = 0;
    die(r, 1);
    for (int64_t until = clock_boot_ms() + DEADLINE_MS; counts.finished == 0; nap()) {
        before = requests_of(r);
        counts = round_once(r);
        assert_true(clock_boot_ms() < until);
    }
    assert_true(requests_of(r) - before <= 32); // the lists and the mark included
}

static void closing_does_not_wait_for_a_round(void **state)
{
    struct rig *r = *state;
    die(r, 20);
    deleted_queues_again(upkeep_deleted_queues(r->s->engine)); // and the tear-down closes it
}

static void give_birth(struct rig *r, const char *name, bool dies)
{
    struct catalog_row row = {0};
    struct store_answer a;
    store_answer_init(&a);
    config_defaults(&row.birth);
    (void)snprintf(row.name, sizeof row.name, "%s", name);
    ANSWERS(ERR_OK, &a, catalog_create(r->s->engine->store, &row, &a));
    ANSWERS(ERR_OK, &a, catalog_find(r->s->engine->store, name, &row, &a));
    if (dies) ANSWERS(ERR_OK, &a, catalog_mark_deleted(r->s->engine->store, &row, &a));
    store_answer_done(&a);
}

static void a_list_of_a_thousand_names_costs_a_few_requests(void **state)
{
    struct rig *r = *state;
    if (strcmp(backend, "mem") != 0) return;
    for (int i = 0; i < 1000; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%03d", i);
        give_birth(r, name, i % 100 != 0);
    }
    uint64_t before = requests_of(r);
    struct sluice_names *names;
    FINE(sluice_queue_list(r->s, &names, &error));
    assert_int_equal(names->len, 10);
    sluice_names_free(names);
    assert_true(requests_of(r) - before <= 4);
}

static void a_name_of_many_lives_is_found_in_few_requests(void **state)
{
    struct rig *r = *state;
    if (strcmp(backend, "mem") != 0) return;
    for (uint32_t lives = 1; lives <= 200; lives++) {
        give_birth(r, "cat", true);
        struct catalog_row row;
        struct store_answer a;
        store_answer_init(&a);
        ANSWERS(ERR_NOT_FOUND, &a, catalog_find(r->s->engine->store, "cat", &row, &a));
        assert_int_equal(row.life, lives);
        store_answer_done(&a);
    }
    uint64_t before = requests_of(r);
    struct sluice_queue_info *info;
    assert_int_equal(sluice_queue_show(r->s, "cat", &info, NULL), SLUICE_NOT_FOUND);
    assert_true(requests_of(r) - before <= 20);
}

int main(int argc, char **argv)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(of_twelve_megabytes_hardly_anything_stays),
        CASE(every_shard_is_swept),
        CASE(a_shard_that_is_finished_stays_so),
        CASE(of_a_thousand_answers_none_stays),
        CASE(a_name_that_lives_again_keeps_what_is_its_own),
        CASE(what_is_swept_is_not_asked_about_again),
        CASE(one_that_is_just_gone_is_left_alone),
        CASE(a_queue_that_was_not_deleted_loses_nothing),
        CASE(a_deletion_that_is_refused_takes_nothing),
        CASE(mail_of_a_deleted_queue_is_deleted_and_that_of_others_stays),
        CASE(a_handle_that_slept_through_a_deletion_answers_not_found),
        CASE(a_handle_that_lives_long_enough_does_it_by_itself),
        CASE(a_walk_meets_each_of_them_once),
        CASE(a_visit_costs_few_requests),
        CASE(closing_does_not_wait_for_a_round),
        CASE(a_list_of_a_thousand_names_costs_a_few_requests),
        CASE(a_name_of_many_lives_is_found_in_few_requests),
    };
    backend = argc > 1 ? argv[1] : "mem";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
