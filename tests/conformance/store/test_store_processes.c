// SPDX-License-Identifier: Apache-2.0
// Many processes on one directory, or one prefix of a bucket: races, kill -9 in the middle of a
// write, readers beside writers.
#include "support.h"

#include "base/hash.h"
#include "base/rng.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define PROCESSES 8
#define LOG       "q/id/0/log"

// Shared by the parent and its children.
struct board {
    char dir[SCRATCH_MAX];
    char prefix[S3_PREFIX_LEN]; // instead, in a bucket
    _Atomic int ready;
    _Atomic int go;
    _Atomic uint64_t acked[PROCESSES]; // how many each child was told are done
    _Atomic uint64_t read;             // how far the reader came
    _Atomic uint64_t read_hash;
    _Atomic int stop;
    int pipe[2];
    uint64_t slot;
    uint64_t seed;
    _Atomic int wins;
    _Atomic int winner;
};

static struct file_options options = {.segment_bytes = 64 << 10, .step_bytes = 32 << 10};

static struct store *board_open(const struct board *b)
{
    if (redis_here()) return redis_open_at(b->prefix);
    return s3_here() ? s3_open_at(b->prefix) : file_open(b->dir, &options);
}

static int board_setup(void **state)
{
    struct board *b =
        mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    NEED(b != MAP_FAILED);
    scratch_make(b->dir);
    s3_prefix(b->prefix);
    *state = b;
    return 0;
}

static int board_teardown(void **state)
{
    struct board *b = *state;
    scratch_remove(b->dir);
    (void)munmap(b, sizeof *b);
    return 0;
}

// What a child is handed: the board and its own number.
struct seat {
    struct board *board;
    int id;
};

static void wait_for_go(struct board *b)
{
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    b->ready++;
    while (!b->go) {
        NEED(clock_boot_ms() < end);
        (void)sched_yield();
    }
}

static void start_all(struct board *b, int count)
{
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    while (b->ready < count) {
        NEED(clock_boot_ms() < end);
        (void)sched_yield();
    }
    b->go = 1;
}

static void race_child(void *arg)
{
    struct seat *me = arg;
    struct board *b = me->board;
    struct store *s = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    struct bytes body = body_make((uint64_t)me->id, 100);
    wait_for_go(b);
    enum err e =
        b->slot ? store_append(s, LOG, b->slot, body, &a) : store_put_new(s, "race/key", body, &a);
    if (e == ERR_OK) {
        b->wins++;
        b->winner = me->id;
    } else {
        ANSWERS(ERR_CONFLICT, &a, e);
        // A loser sees the winner at once.
        e = b->slot ? store_read_log(s, LOG, b->slot, 1, &a)
                    : store_get(s, "race/key", 0, SIZE_MAX, &a);
        ANSWERS(ERR_OK, &a, e);
    }
}

static void race(struct board *b, uint64_t slot)
{
    b->slot = slot;
    b->ready = b->go = b->wins = 0;
    pid_t pids[PROCESSES];
    struct seat seats[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        seats[i] = (struct seat){b, i};
        pids[i] = child_start(race_child, &seats[i]);
    }
    start_all(b, PROCESSES);
    for (int i = 0; i < PROCESSES; i++)
        child_ends_well(pids[i]);
    NEED(b->wins == 1);
}

static void of_eight_processes_that_create_a_key_one_wins(void **state)
{
    struct board *b = *state;
    struct store *s = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    static const char *const key = "race/key";
    for (int round = 0; round < 8; round++) {
        race(b, 0);
        ANSWERS(ERR_OK, &a, store_get(s, key, 0, SIZE_MAX, &a));
        NEED(body_is(buf_bytes(&a.body), (uint64_t)b->winner, 100));
        ANSWERS(ERR_OK, &a, store_delete(s, &key, 1, &a));
    }
    store_answer_done(&a);
    store_free(s);
}

static void of_eight_processes_that_append_a_slot_one_wins(void **state)
{
    struct board *b = *state;
    struct store *s = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    for (uint64_t slot = 1; slot <= 8; slot++) {
        race(b, slot); // the first round also races to make the log
        ANSWERS(ERR_OK, &a, store_read_log(s, LOG, slot, 1, &a));
        NEED(body_is(store_row_bytes(&a, 0), (uint64_t)b->winner, 100));
    }
    store_answer_done(&a);
    store_free(s);
}

// The body of the n-th append of a writer says so, and is as long as chance wants.
static size_t body_len(uint64_t writer, uint64_t n)
{
    return 16 + (size_t)(hash64_mix(writer, n) % 20000);
}

static struct bytes body_of(uint64_t writer, uint64_t n)
{
    size_t len = body_len(writer, n);
    struct bytes body = body_make(hash64_mix(writer, n), len);
    memcpy((void *)(uintptr_t)body.data, &writer, 8);
    memcpy((void *)(uintptr_t)(body.data + 8), &n, 8);
    return body;
}

// Checks that a slot holds an intact append, and answers whose.
static uint64_t body_check(struct bytes body, uint64_t *n)
{
    uint64_t writer;
    NEED(body.len >= 16);
    memcpy(&writer, body.data, 8);
    memcpy(n, body.data + 8, 8);
    struct bytes want = body_of(writer, *n);
    NEED(bytes_equal(body, want));
    bytes_free(want);
    return writer;
}

// The first free slot behind one that is taken, in steps that double and then halve. Where a slot
// is a request, a writer that tries one after another never catches up with those that append.
static uint64_t tail_after(struct store *s, uint64_t slot, struct store_answer *a)
{
    uint64_t step = 1;
    for (; store_wait(s, LOG, slot + step, 0, a) == ERR_OK; step *= 2)
        slot += step;
    for (; step > 1; step /= 2)
        if (store_wait(s, LOG, slot + step / 2, 0, a) == ERR_OK) slot += step / 2;
    return slot + 1;
}

// Appends for ever. What was acknowledged is counted on the board only after the answer.
static void append_for_ever(void *arg)
{
    struct seat *me = arg;
    struct store *s = board_open(me->board);
    struct store_answer a;
    store_answer_init(&a);
    uint64_t n = me->board->acked[me->id], slot = 1;
    for (;;) {
        struct bytes body = body_of((uint64_t)me->id, n);
        enum err e = store_append(s, LOG, slot, body, &a);
        bytes_free(body);
        if (e == ERR_UNAVAILABLE) continue; // a disk that takes its time: certainly not applied
        if (e == ERR_OK) me->board->acked[me->id] = ++n;
        if (e != ERR_OK && e != ERR_CONFLICT) ANSWERS(ERR_OK, &a, e);
        slot = e == ERR_CONFLICT ? tail_after(s, slot, &a) : slot + 1;
    }
}

// Follows the log from its start and leaves a running hash of what it saw.
static void read_for_ever(void *arg)
{
    struct board *b = arg;
    struct store *s = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    uint64_t next = 1, hash = 0;
    while (!b->stop) {
        enum err e = store_read_log(s, LOG, next, 50000, &a);
        if (e == ERR_NOT_FOUND) {
            e = store_wait(s, LOG, next, 20, &a);
            continue;
        }
        if (e == ERR_UNAVAILABLE) continue; // a new page is compared under the lock
        ANSWERS(ERR_OK, &a, e);
        for (size_t i = 0; i < a.rows_len; i++, next++)
            hash = hash64_of(store_row_bytes(&a, i), hash);
    }
    b->read_hash = hash;
    b->read = next - 1;
}

static void wait_until(struct board *b, int writer, uint64_t acked)
{
    int64_t end = clock_boot_ms() + DEADLINE_MS;
    while (b->acked[writer] < acked) {
        NEED(clock_boot_ms() < end);
        (void)sched_yield();
    }
}

// Reads the whole log: every acknowledged append is there once and in order, and the reader saw a
// prefix of it.
static void log_is_whole(struct board *b)
{
    struct store *s = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    uint64_t next = 1, hash = 0, count[PROCESSES] = {0};
    bool prefix = b->read == 0;
    while (store_read_log(s, LOG, next, 100000, &a) == ERR_OK) {
        for (size_t i = 0; i < a.rows_len; i++, next++) {
            uint64_t n;
            uint64_t writer = body_check(store_row_bytes(&a, i), &n);
            NEED(writer < PROCESSES);
            // An unacknowledged one may be there; its writer's successor then wrote the same number
            // again.
            NEED(n == count[writer] || n + 1 == count[writer]);
            if (n == count[writer]) count[writer]++;
            hash = hash64_of(store_row_bytes(&a, i), hash);
            if (next == b->read) prefix = hash == b->read_hash;
        }
    }
    NEED(prefix);
    for (int i = 0; i < PROCESSES; i++)
        NEED(count[i] >= b->acked[i]);
    struct bytes body = body_of(0, count[0]);
    enum err e = store_append(s, LOG, next, body, &a);
    if (e == ERR_CONFLICT) // the last victim's record was whole: it is kept, and we lost to it
        e = store_append(s, LOG, next + 1, body, &a);
    ANSWERS(ERR_OK, &a, e); // and it goes on
    bytes_free(body);
    store_answer_done(&a);
    store_free(s);
}

static void writers_killed_in_the_middle_lose_nothing_they_acknowledged(void **state)
{
    struct board *b = *state;
    enum { WRITERS = 3, KILLS = 25 };
    struct rng rng;
    rng_init(&rng, 7);
    pid_t pids[WRITERS], reader = child_start(read_for_ever, b);
    struct seat seats[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        seats[i] = (struct seat){b, i};
        pids[i] = child_start(append_for_ever, &seats[i]);
    }
    for (int k = 0; k < KILLS; k++) {
        int victim = (int)rng_below(&rng, WRITERS);
        wait_until(b, victim, b->acked[victim] + 1 + rng_below(&rng, 6));
        child_kill(pids[victim]);
        pids[victim] = child_start(append_for_ever, &seats[victim]);
    }
    for (int i = 0; i < WRITERS; i++)
        child_kill(pids[i]);
    b->stop = 1;
    child_ends_well(reader);
    NEED(b->read > 0);
    log_is_whole(b);
}

// Whether the slot holds the n-th append of this writer: it was in doubt, and had landed.
static bool slot_is_mine(struct store *s, uint64_t slot, const struct seat *me, uint64_t n)
{
    struct store_answer a;
    uint64_t found = 0;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_read_log(s, LOG, slot, 1, &a));
    bool mine = body_check(store_row_bytes(&a, 0), &found) == (uint64_t)me->id && found == n;
    store_answer_done(&a);
    return mine;
}

// As a journal does: what is in doubt goes to the same slot again until it is won or lost.
static void append_through_stops(void *arg)
{
    struct seat *me = arg;
    struct store *s = board_open(me->board);
    struct store_answer a;
    store_answer_init(&a);
    uint64_t slot = 1;
    bool doubt = false;
    for (uint64_t n = 0; !me->board->stop;) {
        struct bytes body = body_of((uint64_t)me->id, n);
        enum err e = store_append(s, LOG, slot, body, &a);
        bytes_free(body);
        if (e == ERR_UNAVAILABLE) continue;
        doubt = e == ERR_UNKNOWN || (doubt && e == ERR_CONFLICT);
        if (e == ERR_UNKNOWN) continue;
        if (e != ERR_CONFLICT) ANSWERS(ERR_OK, &a, e);
        bool won = e == ERR_OK || (doubt && slot_is_mine(s, slot, me, n));
        if (won) me->board->acked[me->id] = ++n;
        doubt = false;
        slot++;
        while (e == ERR_CONFLICT && store_wait(s, LOG, slot, 0, &a) == ERR_OK)
            slot++;
    }
    store_answer_done(&a);
    store_free(s);
}

static void writers_stopped_at_any_moment_lose_and_hold_up_nothing(void **state)
{
    struct board *b = *state;
    enum { WRITERS = 4, STOPS = 30 };
    if (s3_here() || redis_here()) return; // a server has no lock
    struct rng rng;
    rng_init(&rng, 11);
    options.patience_ms = 30;
    pid_t pids[WRITERS], reader = child_start(read_for_ever, b);
    struct seat seats[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        seats[i] = (struct seat){b, i};
        pids[i] = child_start(append_through_stops, &seats[i]);
    }
    for (int k = 0; k < STOPS; k++) {
        int victim = (int)rng_below(&rng, WRITERS), other = (victim + 1) % WRITERS;
        wait_until(b, victim, b->acked[victim] + 1 + rng_below(&rng, 6));
        NEED(kill(pids[victim], SIGSTOP) == 0);
        wait_until(b, other, b->acked[other] + 1);
        if (k % 2) { // two at once: perhaps one that was taking over
            NEED(kill(pids[other], SIGSTOP) == 0);
            int third = (victim + 2) % WRITERS;
            wait_until(b, third, b->acked[third] + 3);
            NEED(kill(pids[other], SIGCONT) == 0);
        }
        NEED(kill(pids[victim], SIGCONT) == 0);
    }
    b->stop = 1;
    for (int i = 0; i < WRITERS; i++)
        child_ends_well(pids[i]);
    child_ends_well(reader);
    options.patience_ms = 0;
    log_is_whole(b);
}

// Has a child that outlives it, with copies of all its descriptors and mappings.
static void append_with_a_child(void *arg)
{
    struct seat *me = arg;
    struct store *s = board_open(me->board);
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_NOT_FOUND, &a, store_wait(s, LOG, 1 << 20, 0, &a));
    if (fork() == 0) {
        char end;
        (void)close(me->board->pipe[1]);
        _exit(read(me->board->pipe[0], &end, 1) < 0); // until the test closes its side
    }
    uint64_t next = 1;
    for (;; next++) {
        enum err e = store_append(s, LOG, next, bytes_str("x"), &a);
        if (e == ERR_OK) me->board->acked[me->id]++;
        if (e != ERR_CONFLICT) ANSWERS(ERR_OK, &a, e);
    }
}

static void a_lock_dies_with_its_holder_even_if_a_child_of_it_lives(void **state)
{
    struct board *b = *state;
    NEED(pipe(b->pipe) == 0);
    struct seat seat = {b, 0};
    struct store *s = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    uint64_t next = 1;
    for (uint64_t k = 0; k < 10; k++) {
        pid_t pid = child_start(append_with_a_child, &seat);
        wait_until(b, 0, b->acked[0] + 2);
        child_kill(pid); // nearly always in its turn: it spends its life in fdatasync
        enum err e;
        while ((e = store_append(s, LOG, next, bytes_str("y"), &a)) == ERR_CONFLICT)
            next++;
        ANSWERS(ERR_OK, &a, e); // and not: waits for ever
    }
    (void)close(b->pipe[0]);
    (void)close(b->pipe[1]);
    store_answer_done(&a);
    store_free(s);
}

static void create_for_ever(void *arg)
{
    struct seat *me = arg;
    struct store *s = board_open(me->board);
    struct store_answer a;
    store_answer_init(&a);
    for (uint64_t n = me->board->acked[me->id];; n++) {
        char key[40];
        (void)snprintf(key, sizeof key, "objects/%d-%llu", me->id, (unsigned long long)n);
        struct bytes body = body_of((uint64_t)me->id, n);
        enum err e = store_put_new(s, key, body, &a);
        bytes_free(body);
        if (e != ERR_CONFLICT) ANSWERS(ERR_OK, &a, e); // a former life may have come so far
        me->board->acked[me->id] = n + 1;
    }
}

static void creators_killed_in_the_middle_leave_whole_objects_or_none(void **state)
{
    struct board *b = *state;
    struct seat seat = {b, 0};
    for (uint64_t k = 0; k < 15; k++) {
        pid_t pid = child_start(create_for_ever, &seat);
        wait_until(b, 0, b->acked[0] + 1 + k % 4);
        child_kill(pid);
    }
    struct store *s = board_open(b);
    struct store_answer list, a;
    store_answer_init(&list);
    store_answer_init(&a);
    char after[40] = "objects/";
    uint64_t found = 0;
    do { // a child that runs for long makes more than one page
        ANSWERS(ERR_OK, &list, store_list(s, "objects/", after, 1000, &list));
        for (size_t i = 0; i < list.rows_len; i++) {
            uint64_t n;
            ANSWERS(ERR_OK, &a, store_get(s, store_row_key(&list, i), 0, SIZE_MAX, &a));
            (void)body_check(buf_bytes(&a.body), &n);
            (void)snprintf(after, sizeof after, "%s", store_row_key(&list, i));
        }
        found += list.rows_len;
    } while (list.rows_len > 0);
    NEED(found >= b->acked[0] && found <= b->acked[0] + 1);
    store_answer_done(&list);
    store_answer_done(&a);
    store_free(s);
}

static void append_when_told(void *arg)
{
    struct board *b = arg;
    struct store *s = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_NOT_FOUND, &a,
            store_wait(s, LOG, 1, 0, &a)); // makes the log, so the append is quick
    wait_for_go(b);
    ANSWERS(ERR_OK, &a, store_append(s, LOG, 1, bytes_str("ping"), &a));
    ANSWERS(ERR_OK, &a, store_wait(s, LOG, 2, DEADLINE_MS, &a));
    ANSWERS(ERR_OK, &a, store_append(s, LOG, 3, bytes_str("ping"), &a));
}

static void a_waiter_is_woken_by_another_process(void **state)
{
    struct board *b = *state;
    struct store *s = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    pid_t pid = child_start(append_when_told, b);
    start_all(b, 1);
    ANSWERS(ERR_OK, &a, store_wait(s, LOG, 1, DEADLINE_MS, &a));
    ANSWERS(ERR_OK, &a, store_append(s, LOG, 2, bytes_str("pong"), &a));
    ANSWERS(ERR_OK, &a, store_wait(s, LOG, 3, DEADLINE_MS, &a));
    child_ends_well(pid);
    store_answer_done(&a);
    store_free(s);
}

static void a_drop_by_one_process_is_seen_by_another(void **state)
{
    struct board *b = *state;
    struct store *one = board_open(b), *other = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    struct bytes body = body_make(1, 8000);
    for (uint64_t slot = 1; slot <= 40; slot++)
        ANSWERS(ERR_OK, &a, store_append(one, LOG, slot, body, &a));
    bytes_free(body);
    ANSWERS(ERR_OK, &a, store_read_log(other, LOG, 1, 1, &a));
    ANSWERS(ERR_OK, &a, store_extents(one, LOG, 1, 2, &a));
    NEED(a.rows_len == 2);
    uint64_t last = a.rows[0].last;
    ANSWERS(ERR_OK, &a, store_drop(one, LOG, 1, last, &a));
    ANSWERS(ERR_NOT_FOUND, &a, store_read_log(other, LOG, 1, 1, &a));
    ANSWERS(ERR_OK, &a, store_read_log(other, LOG, last + 1, 1, &a));
    NEED(a.rows[0].first == last + 1);
    store_answer_done(&a);
    store_free(one);
    store_free(other);
}

static void open_own_in_child(void *arg)
{
    struct board *b = arg;
    struct store *s = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_append(s, LOG, 2, bytes_str("child"), &a));
    store_answer_done(&a);
    store_free(s);
}

static void a_child_with_a_handle_of_its_own_works_beside_its_parent(void **state)
{
    struct board *b = *state;
    struct store *s = board_open(b);
    struct store_answer a;
    store_answer_init(&a);
    ANSWERS(ERR_OK, &a, store_append(s, LOG, 1, bytes_str("parent"), &a));
    child_ends_well(child_start(open_own_in_child, b));
    ANSWERS(ERR_CONFLICT, &a, store_append(s, LOG, 2, bytes_str("parent"), &a));
    ANSWERS(ERR_OK, &a, store_append(s, LOG, 3, bytes_str("parent"), &a));
    size_t read = 0;
    for (; store_read_log(s, LOG, read + 1, 1000, &a) == ERR_OK; read += a.rows_len)
        NEED(a.rows[0].first == read + 1);
    NEED(read == 3);
    store_answer_done(&a);
    store_free(s);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, board_setup, board_teardown)
    const struct CMUnitTest tests[] = {
        TEST(of_eight_processes_that_create_a_key_one_wins),
        TEST(of_eight_processes_that_append_a_slot_one_wins),
        TEST(writers_killed_in_the_middle_lose_nothing_they_acknowledged),
        TEST(writers_stopped_at_any_moment_lose_and_hold_up_nothing),
        TEST(a_lock_dies_with_its_holder_even_if_a_child_of_it_lives),
        TEST(creators_killed_in_the_middle_leave_whole_objects_or_none),
        TEST(a_waiter_is_woken_by_another_process),
        TEST(a_drop_by_one_process_is_seen_by_another),
        TEST(a_child_with_a_handle_of_its_own_works_beside_its_parent),
    };
    return cmocka_run_group_tests_name("store between processes", tests, NULL, NULL);
}
