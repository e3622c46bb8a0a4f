// SPDX-License-Identifier: Apache-2.0
// work: runs a program for each message. The main thread handles signals and draws. The slots do
// the rest.
#define _GNU_SOURCE // asprintf, sigabbrev_np
#include "api/place.h"
#include "base/duration.h"
#include "cli/answer_watch.h"
#include "cli/cli.h"
#include "cli/work/pool.h"
#include "cli/work/ui.h"
#include "os/clock.h"
#include "json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define GRACE_DEFAULT_MS 25000
#define KILL_DEFAULT_MS  5000
#define UNREAD_MS        30000
#define DAY_MS           ((int64_t)24 * 3600 * 1000)
#define SETTLE_MS        10000 // time to settle messages after every program has ended

enum {
    AT_JOBS,
    AT_WORKER,
    AT_VISIBILITY,
    AT_GRACE,
    AT_KILL_AFTER,
    AT_ONCE,
    AT_DRAIN,
    AT_KEEP,
    AT_STEER_SIGNAL,
    AT_UNREAD,
    AT_REGISTER,
    AT_NO_REGISTER,
    AT_CAPACITY,
    AT_LABELS,
    AT_TTL
};

static const struct cli_option options[] = {
    [AT_JOBS] = OPTION(COUNT, "concurrency", "N", "number of programs that run at once (1)",
                       .letter = 'c', .min = 1, .max = WORK_JOBS_MAX),
    [AT_WORKER] = OPTION(TEXT, "worker", "ID", "the worker's name (host-process)"),
    [AT_VISIBILITY] = OPTION(DURATION, "visibility", "D",
                             "lock time; after it the messages of a dead worker return\n"
                             "(default: the queue's)",
                             .min = 1),
    [AT_GRACE] = OPTION(DURATION, "grace", "D",
                        "after SIGTERM, time for running jobs to finish (25s)", .max = DAY_MS),
    [AT_KILL_AFTER] =
        OPTION(DURATION, "kill-after", "D",
               "time between TERM and KILL when a program is stopped (5s)", .max = DAY_MS),
    [AT_ONCE] = FLAG_OPTION("once", 0,
                            "process one message, then exit; status 1 if it was not\n"
                            "processed"),
    [AT_DRAIN] = FLAG_OPTION("drain", 0,
                             "exit when no message is ready (does not wait for retries),\n"
                             "the queue is paused, or a job exits with 75"),
    [AT_KEEP] = OPTION(TEXTS, "keep-env", "NAME",
                       "keep this variable in the programs' environment; may be\n"
                       "repeated. Other secrets are removed"),
    [AT_STEER_SIGNAL] = OPTION(TEXT, "steer-signal", "NAME",
                               "also send this unix signal, such as USR1, to the program for\n"
                               "each steer and ask"),
    [AT_UNREAD] = OPTION(DURATION, "unread-after", "D",
                         "time for a program to read a steer or ask, before it is\n"
                         "declined as not-listening (30s)",
                         .min = 1, .max = DAY_MS),
    [AT_REGISTER] = FLAG_OPTION("register", 0,
                                "register the worker, or end; by default it registers if it\n"
                                "works through a node and the queue allows it"),
    [AT_NO_REGISTER] = FLAG_OPTION("no-register", 0, "do not register the worker"),
    [AT_CAPACITY] =
        OPTION(COUNT, "capacity", "N", "most messages that tickets give it at a time (that of -c)",
               .min = 1, .max = 10000),
    [AT_LABELS] = OPTION(TEXT, "labels", "LIST",
                         "labels of the worker, for messages that require some:\n"
                         "host=a7,kind=gpu"),
    [AT_TTL] =
        OPTION(DURATION, "ttl", "D", "how long it stays registered without a sign of life (60s)",
               .min = 5000, .max = DAY_MS),
};

// If descriptor 0, 1 or 2 is closed, another file could get its number. Opens /dev/null in its
// place.
static void open_standard_ones(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO) (void)close(fd);
}

static int block_signals(sigset_t *asking)
{
    sigset_t all;
    (void)sigemptyset(asking);
    (void)sigaddset(asking, SIGTERM);
    (void)sigaddset(asking, SIGINT);
    (void)sigaddset(asking, SIGHUP);
    all = *asking;
    (void)sigaddset(&all, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    return signalfd(-1, asking, SFD_CLOEXEC | SFD_NONBLOCK);
}

// Checks that the program exists and is executable. Returns 0 or an errno.
static int find_program(const char *program)
{
    if (strchr(program, '/')) return access(program, X_OK) == 0 ? 0 : errno;
    const char *path = getenv("PATH");
    int why = ENOENT;
    for (const char *at = path ? path : "/bin:/usr/bin"; at; at = strchr(at, ':')) {
        if (*at == ':') at++;
        int len = (int)strcspn(at, ":");
        char *file = NULL;
        if (asprintf(&file, "%.*s/%s", len > 0 ? len : 1, len > 0 ? at : ".", program) < 0)
            return ENOMEM;
        int got = access(file, X_OK) == 0 ? 0 : errno;
        free(file);
        if (got == 0) return 0;
        if (got == EACCES) why = EACCES;
    }
    return why;
}

static int64_t or_default(const struct cli_value *v, int64_t otherwise)
{
    return v->given ? v->number : otherwise;
}

// "USR1" or "SIGUSR1". 0: no signal has this name, or a program cannot handle it.
static int signal_number(const char *name)
{
    if (strncmp(name, "SIG", 3) == 0) name += 3;
    for (int number = 1; number < NSIG; number++) {
        const char *known = sigabbrev_np(number);
        if (known && strcmp(known, name) == 0)
            return number == SIGKILL || number == SIGSTOP ? 0 : number;
    }
    return 0;
}

static int read_options(const struct cli *cli, const struct arguments *args, struct work_options *o)
{
    bool dashes = args->words_before_dashes < args->words_len;
    if (args->words_len < 2 || (dashes && args->words_before_dashes != 1))
        return cli_usage(cli, "PROGRAM",
                         "name one queue, then the program to run: sluice work "
                         "QUEUE -- PROGRAM ARGS...");
    const struct cli_value *v = args->options;
    *o = (struct work_options){.queue = args->words[0],
                               .jobs = (uint32_t)or_default(&v[AT_JOBS], 1),
                               .visibility_ms = or_default(&v[AT_VISIBILITY], 0),
                               .kill_after_ms = or_default(&v[AT_KILL_AFTER], KILL_DEFAULT_MS),
                               .unread_ms = or_default(&v[AT_UNREAD], UNREAD_MS),
                               .once = v[AT_ONCE].given,
                               .drain = v[AT_DRAIN].given};
    o->registers =
        v[AT_REGISTER].given || v[AT_CAPACITY].given || v[AT_LABELS].given || v[AT_TTL].given;
    if (o->registers && v[AT_NO_REGISTER].given)
        return cli_usage(cli, "--no-register",
                         "--no-register excludes --register, --capacity, --labels and --ttl");
    if (o->once && o->drain)
        return cli_usage(cli, "--once", "--once and --drain exclude each other");
    if (o->once) o->jobs = 1;
    if (v[AT_WORKER].given) {
        const char *name = v[AT_WORKER].texts[0];
        if (!*name || strlen(name) > WORK_WORKER_MAX)
            return cli_usage(cli, "--worker", "--worker must have 1 to %d bytes", WORK_WORKER_MAX);
        if (!text_is_plain(name))
            return cli_usage(cli, "--worker",
                             "--worker must be UTF-8 text without control characters");
        (void)snprintf(o->worker, sizeof o->worker, "%s", name);
    } else {
        char host[64] = "host";
        (void)gethostname(host, sizeof host - 1);
        (void)snprintf(o->worker, sizeof o->worker, "%s-%ld", host, (long)getpid());
    }
    if (v[AT_STEER_SIGNAL].given) {
        o->steer_signal = signal_number(v[AT_STEER_SIGNAL].texts[0]);
        if (o->steer_signal == 0)
            return cli_usage(cli, "--steer-signal",
                             "--steer-signal \"%.60s\" is not a signal that a program can handle, "
                             "such as USR1, USR2, HUP or WINCH",
                             v[AT_STEER_SIGNAL].texts[0]);
    }
    const char *program = args->words[1];
    int why = find_program(program);
    if (why != 0) return cli_usage(cli, "PROGRAM", "cannot run \"%s\": %s", program, strerror(why));
    return 0;
}

// Returns how long a lock lasts. A receive must not wait longer.
static int64_t lease_of(const struct work_options *o, const struct sluice_queue_info *info)
{
    int64_t ms = 0;
    if (o->visibility_ms > 0) return o->visibility_ms;
    for (size_t i = 0; i < info->settings_len; i++)
        if (strcmp(info->settings[i].key, "visibilityTimeout") == 0)
            (void)duration_read(info->settings[i].value, &ms);
    return ms;
}

// Builds argv for exec.
static char **program_of(const struct arguments *args)
{
    size_t len = args->words_len - 1;
    char **argv = cli_alloc((len + 1) * sizeof *argv);
    for (size_t i = 0; i < len; i++)
        argv[i] = (char *)(uintptr_t)args->words[i + 1];
    argv[len] = NULL;
    return argv;
}

struct work_watch {
    struct worker_pool *pool;
    struct ui *ui;
    int signal_fd;
    int signals; // number of signals received
    int last;    // the last signal
    int64_t grace_ms;
    int64_t grace_end_ms;  // 0: no grace period is running
    int64_t settle_end_ms; // deadline for settling; 0: not started
};

// Programs get their grace period, then time to end, then time to settle. A store that does not
// answer is not awaited forever: the locks expire by themselves.
static void on_time(struct work_watch *w)
{
    int64_t now = clock_boot_ms();
    if (w->grace_end_ms > 0 && now >= w->grace_end_ms) {
        pool_order(w->pool, WORK_RETURN);
        w->grace_end_ms = 0;
        w->settle_end_ms = now + w->pool->options.kill_after_ms + SETTLE_MS;
    }
    if (w->settle_end_ms > 0 && now >= w->settle_end_ms) {
        pool_order(w->pool, WORK_AT_ONCE);
        w->settle_end_ms = 0;
    }
}

static void on_signal(struct work_watch *w)
{
    struct signalfd_siginfo info;
    while (read(w->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        w->last = (int)info.ssi_signo;
        if (++w->signals > 1) {
            pool_order(w->pool, WORK_AT_ONCE);
            continue;
        }
        (void)pthread_mutex_lock(&w->pool->lock);
        uint32_t busy = w->pool->busy;
        (void)pthread_mutex_unlock(&w->pool->lock);
        w->grace_end_ms = clock_boot_ms() + w->grace_ms;
        pool_order(w->pool, w->grace_ms > 0 ? WORK_NO_MORE : WORK_RETURN);
        if (busy > 0) // prints only after the order is given
            work_ui_say(w->ui,
                        "receiving no more; %u to finish (a second signal stops them at once)",
                        (unsigned)busy);
    }
}

static int next_timeout(const struct work_watch *w)
{
    int period = work_ui_period_ms(w->ui);
    int64_t end = w->grace_end_ms > 0 ? w->grace_end_ms : w->settle_end_ms;
    if (end == 0) return period;
    int64_t left = end - clock_boot_ms();
    if (left < 0) left = 0;
    return period >= 0 && period < left ? period : (int)(left < 1000 ? left : 1000);
}

static void run_until_done(struct work_watch *w)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = w->pool->done_fd, .events = POLLIN},
                               {.fd = w->signal_fd, .events = POLLIN}};
        (void)poll(fds, 2, next_timeout(w));
        if (fds[1].revents) on_signal(w);
        if (fds[0].revents) return;
        on_time(w);
        work_ui_draw(w->ui);
    }
}

static int status_of(const struct cli *cli, const struct worker_pool *p, const struct work_watch *w)
{
    if (p->failure != SLUICE_OK) return cli_fail_as(cli, p->failure, "", "%s", p->problem);
    if (w->signals > 1) return 128 + w->last;
    if (p->options.once && p->ended[END_PROCESSED] == 0 && w->signals == 0) return 1;
    return 0;
}

// Without this remark a worker of a paused queue looks idle, and --drain ends without a reason.
static void say_paused(struct ui *ui, const struct work_options *o)
{
    work_ui_say(ui,
                "queue %s is paused and delivers nothing; resume it with: sluice queue resume %s",
                o->queue, o->queue);
}

static int work(const struct cli *cli, struct work_options *o, int64_t grace_ms, int signal_fd)
{
    struct ui ui;
    struct worker_pool pool;
    answer_watch_stop(cli); // from here on the worker reports missing answers itself
    work_ui_init(&ui, cli, o);
    work_ui_begin(&ui, &pool);
    int why = pool_start(&pool, o);
    if (why != 0)
        return cli_fail_as(cli, SLUICE_LIMIT, "-c", "cannot start the worker's threads: %s",
                           strerror(why));
    struct work_watch w = {.pool = &pool, .ui = &ui, .signal_fd = signal_fd, .grace_ms = grace_ms};
    if (o->paused && !o->drain) say_paused(&ui, o);
    work_ui_watch(&ui);
    run_until_done(&w);
    if (atomic_load(&pool.found_paused)) say_paused(&ui, o);
    if (atomic_load(&pool.drained))
        work_ui_say(&ui, "an operator drains worker %s: it has finished what it had, and ends",
                    o->worker);
    work_ui_rest(&ui);
    pool_join(&pool);
    work_ui_end(&ui);
    return cli_end(cli, status_of(cli, &pool, &w));
}

// By default only a worker of a node registers, and only if nothing is against it: the token may
// not allow it, or another process may have the name. Returns the exit status of a worker that was
// asked to register and cannot.
static int join(const struct cli *cli, const struct arguments *args, struct work_options *o)
{
    const struct cli_value *v = args->options;
    bool wanted = o->registers || place_is(cli->store, PLACE_NODE);
    if (v[AT_NO_REGISTER].given || !wanted) return 0;
    struct sluice_error error = {0};
    struct sluice_join in = {.worker = o->worker,
                             .capacity = (uint32_t)or_default(&v[AT_CAPACITY], o->jobs),
                             .labels = option_text(&v[AT_LABELS]),
                             .ttl_ms = or_default(&v[AT_TTL], 0)};
    o->registered = sluice_worker_join(o->store, o->queue, &in, &error) == SLUICE_OK;
    return o->registered || !o->registers ? 0 : cli_fail_queue(cli, o->store, o->queue, &error);
}

static int run_work(const struct cli *cli, const struct arguments *args)
{
    struct work_options o;
    int status = read_options(cli, args, &o);
    if (status != 0) return status;
    open_standard_ones();
    spawn_choose_fds(&o.spec);
    // A program of the same user cannot read our secrets from /proc. exec resets this for the
    // program.
    (void)prctl(PR_SET_DUMPABLE, 0);
    // Signals are blocked before the library starts its threads, so that they inherit the mask.
    sigset_t asking;
    int signal_fd = block_signals(&asking);
    if (signal_fd < 0) return cli_fail_as(cli, SLUICE_LIMIT, "", "signalfd: %s", strerror(errno));
    o.store = cli_open(cli, &status);
    if (!o.store) return status;
    struct sluice_error error;
    struct sluice_queue_info *info = NULL;
    if (sluice_queue_show(o.store, o.queue, &info, &error) != SLUICE_OK) {
        status = cli_fail_queue(cli, o.store, o.queue, &error);
    } else {
        char **program = program_of(args);
        o.lease_ms = lease_of(&o, info);
        o.paused = info->paused;
        o.polls = !place_is(cli->store, PLACE_BUCKET); // a bucket charges for each look
        o.spec.program = program;
        o.spec.queue = o.queue;
        o.spec.worker = o.worker;
        o.spec.store = cli->store;
        o.spec.keep = args->options[AT_KEEP].texts;
        o.spec.keep_len = args->options[AT_KEEP].texts_len;
        status = join(cli, args, &o);
        if (status == 0)
            status =
                work(cli, &o, or_default(&args->options[AT_GRACE], GRACE_DEFAULT_MS), signal_fd);
        if (o.registered) (void)sluice_worker_leave(o.store, o.queue, o.worker, NULL);
        free(program);
    }
    sluice_queue_info_free(info);
    sluice_close(o.store);
    (void)close(signal_fd);
    return status;
}

const struct command command_work = {
    .name = "work",
    .words = "QUEUE [--] PROGRAM [ARG]...",
    .summary = "Runs a program for each message",
    .details = "The program gets the body on standard input and SLUICE_ID, SLUICE_ATTEMPT,\n"
               "SLUICE_FENCE, SLUICE_QUEUE, SLUICE_WORKER, SLUICE_STORE, SLUICE_GROUP and\n"
               "SLUICE_HEADER_<NAME> in its environment. For a dead letter it also gets its\n"
               "origin: SLUICE_DEAD_QUEUE, _ID, _REASON, _RETRIES and _AT. SLUICE_TOKEN and the\n"
               "AWS keys are removed unless --keep-env names them. Exit status 0 acknowledges\n"
               "the message, and 75 releases it. Any other status, or a signal, fails it with\n"
               "the last line of standard error as the reason.\n"
               "\n"
               "The lock is renewed as long as the program runs. If the lock is lost\n"
               "nevertheless, the program is stopped: TERM, then KILL. After SIGTERM or SIGINT\n"
               "the worker receives no more messages, waits for running programs (--grace),\n"
               "then stops them and releases their messages. A second signal stops at once. The\n"
               "worker waits some seconds for a store that does not answer. If a worker is\n"
               "killed, its messages return when their locks expire.\n"
               "\n"
               "A worker that works through a node registers with its capacity and labels, so\n"
               "that operators can see it, pause it, drain it or evict it (\"sluice workers\").\n"
               "A drained worker finishes its jobs and ends.\n"
               "\n"
               "Signals (\"sluice signal\") come as JSON lines on the descriptor in\n"
               "SLUICE_SIGNALS_FD. A JSON line on SLUICE_REPLY_FD answers one, or has the\n"
               "progress or the result of the job. A program that does not read a signal in\n"
               "time declines it as not-listening. An interrupt is TERM to the program's\n"
               "process group, and KILL at the end of the grace. The message is then\n"
               "cancelled, unless the program ends with 0. docs/signals.md has examples.\n"
               "\n"
               "On a terminal a table shows the running jobs and the ready messages. Otherwise\n"
               "each job is a line on standard error, or with --json an object on standard\n"
               "output. The programs' standard output then goes to standard error.",
    OPTIONS(options),
    .run = run_work,
};
