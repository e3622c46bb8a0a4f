// SPDX-License-Identifier: Apache-2.0
// A writer that is stopped (SIGSTOP) before any one of its system calls: another writer goes on
// after its patience, nothing that was acknowledged is lost or doubled, and the writer that resumes
// tells the truth.
#include "support.h"

#include "base/rng.h"
#include "os/entropy.h"
#include "store/file/page.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define LOG         "q/log"
#define SLOTS_MAX   200
#define PATIENCE_MS 40 // of the test run
#define MORE        3  // appended by the other writer while the first one is stopped
#define CALLS_MAX   400

// What the stopped writer tells.
struct board {
    char dir[SCRATCH_MAX];
    uint64_t before; // slots that were there
    char why[STORE_WHY_MAX];
    _Atomic int said;
    _Atomic int said_later;
    _Atomic uint64_t said_slot;
};

static long calls_left = -1; // until the stop; -1: none comes
static bool from_fence;      // they count from the fence of a takeover on

static void count(void)
{
    if (calls_left > 0 && !from_fence && --calls_left == 0) (void)raise(SIGSTOP);
}

#define COUNTED(type, name, declared, given)                                                       \
    static type stop_##name declared                                                               \
    {                                                                                              \
        count();                                                                                   \
        return file_sys_linux.name given;                                                          \
    }

COUNTED(int, open, (int dir, const char *path, int flags, mode_t mode), (dir, path, flags, mode))
COUNTED(int, mkdir, (int dir, const char *path, mode_t mode), (dir, path, mode))
COUNTED(int, link, (int dir, const char *from, const char *to), (dir, from, to))
COUNTED(int, rename, (int dir, const char *from, const char *to), (dir, from, to))
COUNTED(int, unlink, (int dir, const char *path), (dir, path))
COUNTED(ssize_t, pread, (int fd, void *to, size_t len, off_t at), (fd, to, len, at))

#define FENCE_AT 8 // in the page

static ssize_t stop_pwrite(int fd, const void *from, size_t len, off_t at)
{
    if (at == FENCE_AT) from_fence = false;
    count();
    return file_sys_linux.pwrite(fd, from, len, at);
}

COUNTED(int, allocate, (int fd, off_t at, off_t len), (fd, at, len))
COUNTED(int, truncate, (int fd, off_t len), (fd, len))
COUNTED(int, touch, (int fd, int64_t modified_ms), (fd, modified_ms))

static bool sync_fails; // the next one

static int stop_sync(int fd)
{
    count();
    if (!sync_fails) return file_sys_linux.fdatasync(fd);
    sync_fails = false;
    errno = EIO;
    return -1;
}

static struct file_sys stopping(void)
{
    struct file_sys sys = file_sys_linux;
    sys.open = stop_open;
    sys.mkdir = stop_mkdir;
    sys.link = stop_link;
    sys.rename = stop_rename;
    sys.unlink = stop_unlink;
    sys.pread = stop_pread;
    sys.pwrite = stop_pwrite;
    sys.allocate = stop_allocate;
    sys.truncate = stop_truncate;
    sys.touch = stop_touch;
    sys.fdatasync = sys.fsync = stop_sync;
    return sys;
}

static struct file_sys sys;
static int64_t patience_ms = PATIENCE_MS;

static struct store *open_store(const struct board *b)
{
    struct file_options options = {
        .sys = &sys, .segment_bytes = 2000, .step_bytes = 1000, .patience_ms = patience_ms};
    return file_open(b->dir, &options);
}

#define OWN 1000 // seeds of the bodies by which the stopped writer's appends are known

static enum err append(struct store *s, uint64_t slot, uint64_t seed, struct store_answer *a)
{
    struct bytes body = body_make(seed, 120);
    enum err e = store_append(s, LOG, slot, body, a);
    bytes_free(body);
    return e;
}

// As a journal does: a slot that is lost is tried one further, one in doubt is tried again.
static enum err append_next(struct store *s, uint64_t *slot, uint64_t seed, struct store_answer *a)
{
    enum err e = ERR_CONFLICT;
    for (; e == ERR_CONFLICT && *slot < SLOTS_MAX; (*slot)++)
        e = append(s, *slot, seed, a);
    (*slot)--;
    return e;
}

static void act_append(struct board *b, struct store *s, struct store_answer *a)
{
    uint64_t slot = b->before + 1;
    b->said = append_next(s, &slot, OWN, a);
    b->said_slot = slot;
}

static void act_part(struct board *b, struct store *s, struct store_answer *a)
{
    b->said = store_seal(s, LOG, a);
}

// All but the current segment.
static void act_drop(struct board *b, struct store *s, struct store_answer *a)
{
    b->said = store_drop(s, LOG, 1, b->before, a);
}

static void prepare(struct board *b, struct store *s, struct store_answer *a)
{
    for (uint64_t slot = 1; slot <= b->before; slot++)
        ANSWERS(ERR_OK, a, append(s, slot, slot, a));
}

static void prepare_parted(struct board *b, struct store *s, struct store_answer *a)
{
    prepare(b, s, a);
    ANSWERS(ERR_OK, a, store_seal(s, LOG, a));
}

// Leaves the page as a writer does whose sync failed.
static void prepare_poisoned(struct board *b, struct store *s, struct store_answer *a)
{
    prepare(b, s, a);
    sync_fails = true;
    ANSWERS(ERR_UNKNOWN, a, append(s, b->before + 1, OWN + 1, a));
}

// Leaves a page that says busy, and half of a record.
static void prepare_busy(struct board *b, struct store *s, struct store_answer *a)
{
    prepare(b, s, a);
    char path[SCRATCH_MAX + 64];
    struct disk d = {.sys = &file_sys_linux, .root = -1};
    struct log_look look;
    scratch_path(path, sizeof path, b->dir, LOG "/@lock");
    struct log_page *p = log_page_new(&d, open(path, O_RDWR), 0);
    NEED(p && log_page_look(p, &look) == LOG_PAGE_GOOD);
    look.state.busy_end = look.state.tail.offset + 152;
    NEED(log_page_write(p, &look.state, &look.sequence) == 0);
    char name[64];
    (void)snprintf(name, sizeof name, LOG "/@%020llu.1",
                   (unsigned long long)look.state.tail.segment);
    scratch_path(path, sizeof path, b->dir, name);
    int fd = open(path, O_WRONLY);
    NEED(fd >= 0 && pwrite(fd, "half of it", 10, (off_t)look.state.tail.offset) == 10);
    (void)close(fd);
    log_page_drop(p);
}

// Another process has the lock and does nothing: the deed begins with a takeover.
static pid_t idle_holder;

static void prepare_held(struct board *b, struct store *s, struct store_answer *a)
{
    char path[SCRATCH_MAX + 64], byte;
    int ready[2];
    prepare(b, s, a);
    scratch_path(path, sizeof path, b->dir, LOG "/@lock");
    NEED(pipe(ready) == 0);
    idle_holder = fork();
    if (idle_holder == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        int fd = open(path, O_RDWR);
        if (fd < 0 || flock(fd, LOCK_EX) != 0 || write(ready[1], "x", 1) != 1) _exit(1);
        for (;;)
            (void)pause();
    }
    NEED(idle_holder > 0 && read(ready[0], &byte, 1) == 1);
    NEED(close(ready[0]) == 0 && close(ready[1]) == 0);
    from_fence = true;
}

struct deed {
    const char *name;
    void (*prepare)(struct board *b, struct store *s, struct store_answer *a);
    void (*act)(struct board *b, struct store *s, struct store_answer *a);
    uint64_t before;
    bool drops;
};

static const struct deed deeds[] = {
    {"first append", prepare, act_append, 0, false},
    {"append", prepare, act_append, 5, false},
    {"append that begins a segment", prepare, act_append, 13, false},
    {"append after a dead writer", prepare_busy, act_append, 5, false},
    {"append after a failed sync", prepare_poisoned, act_append, 5, false},
    {"append with a takeover", prepare_held, act_append, 5, false},
    {"part", prepare, act_part, 5, false},
    {"drop", prepare_parted, act_drop, 30, true},
};

struct stop {
    struct board *board;
    const struct deed *deed;
    long call;
    bool open; // the stop may also come while the store's log is opened
};

// The child: prepares, does its deed and is stopped in it, tells what it heard, appends once more.
static void be_stopped(void *arg)
{
    struct stop *stop = arg;
    struct board *b = stop->board;
    struct store_answer a;
    store_answer_init(&a);
    struct store *s = open_store(b);
    stop->deed->prepare(b, s, &a);
    bool dead = store_is_dead(s, a.why);
    if (stop->open || dead) {
        store_free(s);
        s = open_store(b);
    }
    calls_left = stop->call;
    stop->deed->act(b, s, &a);
    (void)snprintf(b->why, sizeof b->why, "%s", a.why);
    calls_left = -1;
    if (idle_holder > 0) child_kill(idle_holder);
    uint64_t slot = b->before + 1;
    b->said_later = append_next(s, &slot, OWN + 2, &a);
    store_answer_done(&a);
    store_free(s);
}

struct found {
    int own, own_async, other, in_doubt;
    uint64_t own_slot;
};

static void look(const struct stop *stop, struct store *s, struct found *f)
{
    struct store_answer a;
    store_answer_init(&a);
    *f = (struct found){0};
    uint64_t first = stop->deed->drops ? stop->board->before + 1 : 1;
    for (uint64_t slot = first;; slot++) {
        enum err e = store_read_log(s, LOG, slot, 1, &a);
        if (e == ERR_NOT_FOUND) break;
        ANSWERS(ERR_OK, &a, e);
        struct bytes body = store_row_bytes(&a, 0);
        bool own = body_is(body, OWN, 120);
        f->own += own;
        f->own_async += body_is(body, OWN + 2, 120);
        f->in_doubt += body_is(body, OWN + 1, 120);
        for (uint64_t i = 0; i < MORE; i++)
            f->other += body_is(body, 2 * OWN + i, 120);
        if (own) f->own_slot = slot;
        if (slot <= stop->board->before) NEED(body_is(body, slot, 120));
    }
    store_answer_done(&a);
}

static char context[256]; // of a failure

#define TRUE_OF(fact)                                                                              \
    do {                                                                                           \
        if (!(fact)) (void)fprintf(stderr, "# %s\n", context);                                     \
        NEED(fact);                                                                                \
    } while (0)

static void truth(const struct stop *stop, struct store *s)
{
    struct board *b = stop->board;
    struct found f;
    look(stop, s, &f);
    TRUE_OF(f.other == MORE);
    TRUE_OF(f.own <= 1 && f.own_async <= 1);
    if (stop->deed->act == act_append) {
        if (b->said == ERR_OK) TRUE_OF(f.own == 1 && f.own_slot == b->said_slot);
        if (b->said == ERR_UNAVAILABLE) TRUE_OF(f.own == 0);
        TRUE_OF(b->said == ERR_OK || b->said == ERR_UNKNOWN || b->said == ERR_UNAVAILABLE);
    }
    ANSWERS(ERR_OK, &(struct store_answer){0}, (enum err)b->said_later);
    TRUE_OF(f.own_async == 1);
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static struct {
    int64_t ms[2 * CALLS_MAX];
    size_t len;
} stalls;

static void others_go_on(struct stop *stop)
{
    struct store_answer a;
    store_answer_init(&a);
    struct store *s = open_store(stop->board);
    int64_t began = clock_boot_ms();
    uint64_t slot = stop->board->before + 1;
    for (uint64_t i = 0; i < MORE; i++) {
        enum err e = ERR_UNAVAILABLE;
        while (e == ERR_UNAVAILABLE) // on a slow machine the patience of one call is not enough
            e = append_next(s, &slot, 2 * OWN + i, &a);
        ANSWERS(ERR_OK, &a, e);
        if (i == 0 && stalls.len < sizeof stalls.ms / sizeof *stalls.ms)
            stalls.ms[stalls.len++] = clock_boot_ms() - began;
    }
    store_answer_done(&a);
    store_free(s);
}

// False: the deed makes fewer calls.
static bool stopped_at(struct stop *stop)
{
    struct board *b = stop->board;
    int status = 0;
    b->before = stop->deed->before;
    scratch_make_quick(b->dir);
    pid_t pid = child_start(be_stopped, stop);
    NEED(waitpid(pid, &status, WUNTRACED) == pid);
    bool stopped = WIFSTOPPED(status);
    if (stopped) {
        others_go_on(stop);
        NEED(kill(pid, SIGCONT) == 0);
        child_ends_well(pid);
        (void)snprintf(context, sizeof context, "%s, stopped at call %ld: said %s (%.150s)",
                       stop->deed->name, stop->call, err_name((enum err)b->said), b->why);
        struct store *s = open_store(b);
        truth(stop, s);
        store_free(s);
        sys = sys_faulty; // after a reboot the segments alone decide
        sys_reboot();
        s = open_store(b);
        truth(stop, s);
        store_free(s);
        sys_reset();
        sys = stopping();
    } else {
        NEED(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    scratch_remove(b->dir);
    return stopped;
}

static struct board *board_make(void)
{
    struct board *b =
        mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    NEED(b != MAP_FAILED);
    sys = stopping();
    return b;
}

static void tell_stalls(size_t stops)
{
    qsort(stalls.ms, stalls.len, sizeof *stalls.ms, by_size);
    (void)printf(
        "# %zu stops, patience %lld ms: the other writer stalled p50 %lld ms, max %lld ms\n", stops,
        (long long)patience_ms, (long long)stalls.ms[stalls.len / 2],
        (long long)stalls.ms[stalls.len - 1]);
}

static void a_writer_stopped_before_any_call_holds_up_no_other(void **state)
{
    (void)state;
    struct board *b = board_make();
    size_t count_stops = 0;
    for (size_t i = 0; i < sizeof deeds / sizeof *deeds; i++) {
        for (int opened = 0; opened < 2; opened++) {
            struct stop stop = {.board = b, .deed = &deeds[i], .call = 1, .open = opened};
            for (; stopped_at(&stop); stop.call++)
                NEED(stop.call < CALLS_MAX);
            count_stops += (size_t)stop.call - 1;
        }
    }
    NEED(count_stops > 100);
    tell_stalls(count_stops);
    (void)munmap(b, sizeof *b);
}

// In an append of a handle that has the log open; most of its calls are made under the lock.
static void stop_by_chance(long stops)
{
    struct board *b = board_make();
    struct rng rng;
    uint64_t seed = entropy_u64();
    rng_init(&rng, seed);
    (void)printf("# seed %llu\n", (unsigned long long)seed);
    patience_ms = LOCK_PATIENCE_MS;
    for (long done = 0; done < stops;) {
        struct stop stop = {.board = b,
                            .deed = &deeds[1 + rng_below(&rng, 2)],
                            .call = 1 + (long)rng_below(&rng, 20)};
        done += stopped_at(&stop);
    }
    tell_stalls((size_t)stops);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        stop_by_chance(strtol(argv[1], NULL, 10));
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_writer_stopped_before_any_call_holds_up_no_other),
    };
    return cmocka_run_group_tests_name("file store and stopped writers", tests, NULL, NULL);
}
