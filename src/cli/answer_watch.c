// SPDX-License-Identifier: Apache-2.0
// Watches the calls of a command: a deadline, and a thread that sleeps until the deadline.
#include "cli/answer_watch.h"

#include "api/place.h"
#include "cli/table.h"
#include "os/clock.h"
#include "os/lock.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SILENCE_MS   2000
// The library's limits for a node: opening it, and a later call. Each includes the second that an
// answer may be late.
#define NODE_OPEN_MS 4000
#define NODE_CALL_MS 31000

struct answer_watch {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started;
    bool ends;
    int64_t due_ms;   // of clock_boot_ms; 0: no answer is expected
    int64_t limit_ms; // how long the library tries; 0: not known
    char store[400];
};

struct answer_watch *answer_watch_new(void)
{
    struct answer_watch *p = cli_alloc(sizeof *p);
    *p = (struct answer_watch){.started = false};
    (void)pthread_mutex_init(&p->lock, NULL);
    clock_cond_init(&p->changed);
    return p;
}

static void say_silent(const struct answer_watch *p)
{
    const char *endpoint = getenv("AWS_ENDPOINT_URL_S3");
    if (!endpoint || !*endpoint) endpoint = getenv("AWS_ENDPOINT_URL");
    bool bucket = place_is(p->store, PLACE_BUCKET) && endpoint && *endpoint;
    char limit[32] = "";
    if (p->limit_ms > 0)
        (void)snprintf(limit, sizeof limit, "%llds", (long long)(p->limit_ms + 999) / 1000);
    print_line(stderr, "sluice: no answer from %s%s%.200s for %ds; %s%s", p->store,
               bucket ? " at " : "", bucket ? endpoint : "", SILENCE_MS / 1000,
               *limit ? "trying for up to " : "still trying", limit);
}

static void *watch(void *ctx)
{
    struct answer_watch *p = ctx;
    LOCKED(&p->lock);
    while (!p->ends) {
        if (p->due_ms == 0) {
            (void)pthread_cond_wait(&p->changed, &p->lock);
        } else if (clock_boot_ms() >= p->due_ms) {
            p->due_ms = 0; // print once
            say_silent(p);
        } else {
            clock_wait(&p->changed, &p->lock, p->due_ms);
        }
    }
    return NULL;
}

// Blocks all signals in the thread, because the command handles them.
static bool start(struct answer_watch *p)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    p->started = pthread_create(&p->thread, NULL, watch, p) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return p->started;
}

static void set_due(struct answer_watch *p, int64_t due_ms, int64_t limit_ms)
{
    LOCKED(&p->lock);
    p->due_ms = due_ms;
    p->limit_ms = limit_ms;
    (void)pthread_cond_signal(&p->changed);
}

static void expect(const struct cli *cli, int64_t more_ms, int64_t limit_ms)
{
    struct answer_watch *p = cli->answer_watch;
    if (!p || cli->quiet || (cli->json && !isatty(STDERR_FILENO))) return;
    if (!p->started) (void)snprintf(p->store, sizeof p->store, "%.390s", cli->store);
    if (!p->started && !start(p)) return; // without a thread only the remark is missing
    set_due(p, clock_boot_ms() + SILENCE_MS + more_ms, limit_ms);
}

// Returns the limit for a store's answer. A command without a deadline may make any number of
// requests to a directory or bucket, so it has none.
static int64_t limit_of(const struct cli *cli, int64_t node_ms)
{
    return place_is(cli->store, PLACE_NODE) ? node_ms : cli->deadline_ms;
}

void answer_watch_start(const struct cli *cli, int64_t more_ms)
{
    expect(cli, more_ms, limit_of(cli, NODE_CALL_MS + more_ms));
}

void answer_watch_open(const struct cli *cli)
{
    expect(cli, 0, limit_of(cli, NODE_OPEN_MS));
}

void answer_watch_stop(const struct cli *cli)
{
    if (cli->answer_watch && cli->answer_watch->started) set_due(cli->answer_watch, 0, 0);
}

void answer_watch_free(struct answer_watch *p)
{
    if (!p) return;
    (void)pthread_mutex_lock(&p->lock);
    p->ends = true;
    (void)pthread_cond_signal(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
    if (p->started) (void)pthread_join(p->thread, NULL);
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}
