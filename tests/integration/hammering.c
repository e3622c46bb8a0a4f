// SPDX-License-Identifier: Apache-2.0
// A child notes in memory shared with the parent what it is about to send and what it was answered.
// The parent's mapping outlives any child, so what a killed one had heard is known exactly: the ops
// sent and not answered at that moment are the only ones in doubt.
#include "hammering.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "ledger.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "store/file/file.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// How one thread fares with one counter. Its own thread writes it; the parent reads it, and closes
// the account of a dead one.
struct account {
    _Atomic uint64_t sent;
    _Atomic uint64_t acknowledged;
    _Atomic uint64_t refused; // certainly not applied
    _Atomic uint64_t unknown;
};

enum counter_kind { COUNTER_OWN, COUNTER_COMMON, COUNTER_KINDS };

struct shared {
    _Atomic bool stop;
    _Atomic uint64_t collected;
    _Atomic uint64_t went_back;
    struct account accounts[HAMMER_PROCESSES_MAX][HAMMER_THREADS_MAX][COUNTER_KINDS];
};

// Small, so that within seconds there are snapshots, floors that rise and segments to drop. What is
// sent again after an unknown answer is sent within the memory of request ids, and with seconds to
// spare: a machine that is that slow is left in doubt.
#define MEMORY_MS         10000
#define AGAIN_MS          3000
#define PATIENCE_MS       1500
#define CHECK_PATIENCE_MS 30000
#define SEGMENT_BYTES     ((uint64_t)256 << 10)
#define STEP_BYTES        ((uint64_t)64 << 10)
#define COLLECT_MS        300

static const struct journal_rules hammer_rules = {
    .session_ttl_ms = 60000,
    .sessions_max = 4096,
    .digest_every = 16,
    .verify_ms = 400,
    .retain_ms = 900,
    .floor_every_ms = 300,
    .snapshot_every = 64,
};

struct handle {
    struct store *store;
    struct ledger *ledger;
};

static bool handle_open(struct handle *h, const char *dir, int64_t patience_ms)
{
    char why[STORE_WHY_MAX] = "";
    *h = (struct handle){0};
    struct file_options files = {.segment_bytes = SEGMENT_BYTES, .step_bytes = STEP_BYTES};
    enum err err = store_file_open(dir, &files, &h->store, why, sizeof why);
    if (err) {
        (void)fprintf(stderr, "cannot open %s: %s\n", dir, why);
        return false;
    }
    struct ledger_options options = {
        .rules = hammer_rules, .memory_ms = MEMORY_MS, .patience_ms = patience_ms};
    err = ledger_open(h->store, "hammer", &options, &h->ledger);
    if (!err) return true;
    (void)fprintf(stderr, "cannot open the ledger in %s: %s\n", dir, err_text(err));
    store_free(h->store);
    return false;
}

static void handle_close(struct handle *h)
{
    ledger_close(h->ledger);
    store_free(h->store);
}

static void counter_name(char name[16], int process)
{
    if (process < 0) {
        (void)snprintf(name, 16, "common");
    } else {
        (void)snprintf(name, 16, "process-%d", process % HAMMER_PROCESSES_MAX);
    }
}

struct thread {
    pthread_t id;
    struct shared *shared;
    struct ledger *ledger;
    int process;
    int number;
    uint64_t request[2];
    int64_t seen[COUNTER_KINDS]; // the last value that each counter answered
};

static void count(_Atomic uint64_t *what, uint64_t by)
{
    (void)atomic_fetch_add(what, by);
}

// One op: noted, sent, sent again when the answer is unknown, noted.
static bool strike(struct thread *t, enum counter_kind kind)
{
    struct account *a = &t->shared->accounts[t->process][t->number][kind];
    char name[16];
    counter_name(name, kind == COUNTER_OWN ? t->process : -1);
    const uint8_t *request = (const uint8_t *)t->request;
    t->request[1]++;
    count(&a->sent, 1);
    int64_t value = 0;
    int64_t again_until = clock_boot_ms() + AGAIN_MS;
    enum err err = ledger_add(t->ledger, name, 1, request, &value);
    bool in_doubt = err == ERR_UNKNOWN;
    if (in_doubt && clock_boot_ms() < again_until)
        err = ledger_add(t->ledger, name, 1, request, &value);
    switch (err) {
    case ERR_OK:
        count(&a->acknowledged, 1);
        if (value <= t->seen[kind]) count(&t->shared->went_back, 1);
        t->seen[kind] = value;
        return true;
    case ERR_UNKNOWN:
        count(&a->unknown, 1);
        return true;
    case ERR_UNAVAILABLE:
    case ERR_LIMIT:
        count(in_doubt ? &a->unknown : &a->refused, 1); // this one did nothing, the first one?
        return true;
    default:
        (void)fprintf(stderr, "process %d: %s: %s\n", t->process, name, err_text(err));
        return false;
    }
}

static void *hammer_thread(void *arg)
{
    struct thread *t = arg;
    int64_t collect_at = clock_boot_ms() + COLLECT_MS;
    while (!atomic_load(&t->shared->stop)) {
        if (!strike(t, COUNTER_OWN) || !strike(t, COUNTER_COMMON)) return t;
        if (t->number != 0 || clock_boot_ms() < collect_at) continue;
        ledger_collect(t->ledger);
        collect_at = clock_boot_ms() + COLLECT_MS;
    }
    return NULL;
}

static int child(const struct hammer_options *o, struct shared *shared, int process)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct handle h;
    if (!handle_open(&h, o->dir, PATIENCE_MS)) return 1;
    struct thread threads[HAMMER_THREADS_MAX];
    int failed = 0;
    for (int i = 0; i < o->threads; i++) {
        threads[i] = (struct thread){.shared = shared,
                                     .ledger = h.ledger,
                                     .process = process,
                                     .number = i,
                                     .request = {entropy_u64(), 0}};
        CHECK(pthread_create(&threads[i].id, NULL, hammer_thread, &threads[i]) == 0);
    }
    for (int i = 0; i < o->threads; i++) {
        void *result;
        (void)pthread_join(threads[i].id, &result);
        if (result) failed = 1;
    }
    count(&shared->collected, ledger_dropped(h.ledger));
    handle_close(&h);
    return failed;
}

struct parent {
    const struct hammer_options *options;
    struct shared *shared;
    struct rng rng;
    pid_t children[HAMMER_PROCESSES_MAX];
    uint64_t killed;
    bool failed;
};

static void start(struct parent *p, int i)
{
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) _exit(child(p->options, p->shared, i));
    if (pid < 0) {
        (void)fprintf(stderr, "cannot fork: %s\n", strerror(errno));
        p->failed = true;
    }
    p->children[i] = pid;
}

static void close_account(struct account *a)
{
    uint64_t answered = a->acknowledged + a->refused + a->unknown;
    a->unknown += a->sent - answered;
}

static void reap(struct parent *p, int i)
{
    int status = 0;
    if (p->children[i] <= 0) return;
    while (waitpid(p->children[i], &status, 0) < 0 && errno == EINTR)
        ;
    p->children[i] = 0;
    bool as_wished = WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0;
    if (!as_wished) {
        (void)fprintf(stderr, "process %d ended by itself, status 0x%x\n", i, (unsigned)status);
        p->failed = true;
    }
    for (int t = 0; t < p->options->threads; t++)
        for (int k = 0; k < COUNTER_KINDS; k++)
            close_account(&p->shared->accounts[i][t][k]);
}

static void kill_one(struct parent *p)
{
    int i = (int)rng_below(&p->rng, (uint64_t)p->options->processes);
    if (p->children[i] <= 0) return;
    (void)kill(p->children[i], SIGKILL);
    reap(p, i);
    p->killed++;
    start(p, i);
}

struct total {
    uint64_t acknowledged;
    uint64_t unknown;
};

// Over all threads: of one process's own counter, or of the common one (process < 0).
static struct total sum(const struct parent *p, int process)
{
    struct total all = {0};
    enum counter_kind kind = process < 0 ? COUNTER_COMMON : COUNTER_OWN;
    for (int i = 0; i < p->options->processes; i++) {
        for (int t = 0; t < p->options->threads && (process < 0 || process == i); t++) {
            struct account *a = &p->shared->accounts[i][t][kind];
            all.acknowledged += a->acknowledged;
            all.unknown += a->unknown;
        }
    }
    return all;
}

static void show(const struct parent *p, int64_t elapsed_ms)
{
    if (!p->options->shows || !isatty(STDERR_FILENO)) return;
    uint64_t committed = sum(p, -1).acknowledged;
    for (int i = 0; i < p->options->processes; i++)
        committed += sum(p, i).acknowledged;
    (void)fprintf(stderr, "\r%4lld s  %llu committed  %llu killed ", (long long)elapsed_ms / 1000,
                  (unsigned long long)committed, (unsigned long long)p->killed);
    if (elapsed_ms >= p->options->run_ms) (void)fprintf(stderr, "\n");
}

static void supervise(struct parent *p)
{
    const struct hammer_options *o = p->options;
    int64_t begun = clock_boot_ms();
    int64_t kill_at = begun + 400;
    int64_t show_at = begun + 1000;
    for (int64_t now = begun; now < begun + o->run_ms && !p->failed; now = clock_boot_ms()) {
        if (o->kills && now >= kill_at) {
            kill_one(p);
            kill_at = now + rng_range(&p->rng, 100, 500);
        }
        if (now >= show_at) {
            show(p, now - begun);
            show_at += 1000;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 10 * 1000000}, NULL);
    }
    show(p, o->run_ms);
}

static void weigh(struct hammer_counts *to, const struct total *a, int64_t value)
{
    uint64_t least = a->acknowledged;
    uint64_t most = least + a->unknown;
    uint64_t is = (uint64_t)value;
    to->acknowledged += least;
    to->unknown += a->unknown;
    if (is < least) to->lost += least - is;
    if (is > most) to->doubled += is - most;
    if (is > least && is <= most) to->unknown_landed += is - least;
}

static bool read_counters(const struct parent *p, struct ledger *l, struct hammer_counts *to)
{
    for (int i = -1; i < p->options->processes; i++) {
        char name[16];
        int64_t value = 0;
        counter_name(name, i);
        enum err err = ledger_read(l, name, &value);
        if (err && err != ERR_NOT_FOUND) {
            (void)fprintf(stderr, "cannot read %s: %s\n", name, err_text(err));
            return false;
        }
        struct total total = sum(p, i);
        weigh(to, &total, value);
    }
    return true;
}

// Two handles that know nothing read all of it: one from the newest snapshot on while the other
// has just read; both must come to the same state.
static bool decide(const struct parent *p, struct hammer_counts *to)
{
    struct handle first, second;
    if (!handle_open(&first, p->options->dir, CHECK_PATIENCE_MS)) return false;
    bool ok = ledger_sync(first.ledger) == ERR_OK;
    if (!ok) (void)fprintf(stderr, "cannot read the journal to its end\n");
    to->entries = ledger_slot(first.ledger);
    ok = ok && read_counters(p, first.ledger, to);
    if (ok && handle_open(&second, p->options->dir, CHECK_PATIENCE_MS)) {
        ok = ledger_sync(first.ledger) == ERR_OK && ledger_sync(second.ledger) == ERR_OK;
        to->digests_equal = ledger_slot(first.ledger) == ledger_slot(second.ledger) &&
                            ledger_digest(first.ledger) == ledger_digest(second.ledger);
        handle_close(&second);
    } else {
        ok = false;
    }
    handle_close(&first);
    return ok;
}

bool hammer_run(const struct hammer_options *o, struct hammer_counts *to)
{
    CHECK(o->processes > 0 && o->processes <= HAMMER_PROCESSES_MAX);
    CHECK(o->threads > 0 && o->threads <= HAMMER_THREADS_MAX);
    *to = (struct hammer_counts){0};
    struct parent p = {.options = o};
    rng_init(&p.rng, o->seed);
    p.shared =
        mmap(NULL, sizeof *p.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p.shared != MAP_FAILED);
    int64_t begun = clock_boot_ms();
    for (int i = 0; i < o->processes; i++)
        start(&p, i);
    supervise(&p);
    to->took_ms = clock_boot_ms() - begun;
    atomic_store(&p.shared->stop, true);
    for (int i = 0; i < o->processes; i++)
        reap(&p, i);
    to->killed = p.killed;
    to->collected = p.shared->collected;
    to->went_back = p.shared->went_back;
    bool ok = !p.failed && decide(&p, to);
    (void)munmap(p.shared, sizeof *p.shared);
    return ok;
}

bool hammer_sound(const struct hammer_counts *t)
{
    return t->lost == 0 && t->doubled == 0 && t->went_back == 0 && t->digests_equal &&
           t->acknowledged > 0;
}
