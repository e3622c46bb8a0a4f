// SPDX-License-Identifier: Apache-2.0
// Runs a node from start to stop: signals, the service manager, reloads, and an orderly shutdown.
// The first INT or TERM stops it within the deadline, the second at once. That is safe, because
// everything durable is in the store.
#include "cli/serve.h"

#include "os/clock.h"
#include "server/log.h"
#include "server/notify.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define CHECK_MS 1000  // interval of the check whether the store is usable
#define ALIVE_MS 10000 // a server that did not serve its connections for this long hangs

static void signals_of(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGINT);
    (void)sigaddset(set, SIGTERM);
    (void)sigaddset(set, SIGHUP);
}

bool serve_take_signals(struct serve_process *s)
{
    sigset_t set;
    signals_of(&set);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL) != 0) return false;
    s->signals = signalfd(-1, &set, SFD_CLOEXEC);
    return s->signals >= 0;
}

// Returns 0 if no signal arrives in time.
static int next_signal(int signals, int64_t wait_ms)
{
    struct pollfd on = {.fd = signals, .events = POLLIN};
    struct signalfd_siginfo info;
    if (poll(&on, 1, (int)wait_ms) <= 0) return 0;
    return read(signals, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

static void warn_fixed(struct serve_process *s, const struct conf *now)
{
    enum conf_key key = conf_differs(s->conf, now);
    if (key == CONF_KEYS) return;
    LOG(server_log(s->server), LOG_WARNING, "restart-needed", LOG_TEXT("key", conf_name(key)),
        LOG_TEXT("source", conf_source(now, key)));
}

static void reload(struct serve_process *s)
{
    struct sluice_error error = {.code = SLUICE_OK};
    (void)notify_reloading();
    struct conf *now = serve_settings(s->cli, s->args, &error);
    if (now) {
        struct server_config config;
        conf_server(now, &config);
        (void)server_reload(s->server, &config, &error);
    }
    if (error.code) {
        LOG(server_log(s->server), LOG_ERROR, "reload-failed", LOG_TEXT("error", error.message));
        conf_free(now);
    } else {
        warn_fixed(s, now);
        LOG(server_log(s->server), LOG_INFO, "reloaded",
            LOG_NUMBER("tokens", (int64_t)conf_tokens_len(now)));
        conf_free(s->now);
        s->now = now;
    }
    (void)notify_say("READY=1");
}

// Runs until the process ends, also after `serve` is gone.
static void *end_at_once(void *arg)
{
    int signals = (int)(intptr_t)arg, number;
    do
        number = next_signal(signals, -1);
    while (number != SIGINT && number != SIGTERM);
    _exit(128 + number);
}

// It takes no other signals: a SIGHUP of this time is for serve_loop.
static void *watch_start(void *arg)
{
    const struct serve_process *s = arg;
    struct pollfd on[] = {{.fd = s->ends, .events = POLLIN}, {.fd = s->started, .events = POLLIN}};
    for (;;) {
        int ready = poll(on, 2, -1);
        if (ready > 0 && on[1].revents) return NULL; // serve_loop reads the next signal
        int number = ready > 0 ? next_signal(s->ends, 0) : 0;
        if (number != 0) _exit(128 + number);
    }
}

void serve_watch_start(struct serve_process *s)
{
    sigset_t ends;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    s->ends = signalfd(-1, &ends, SFD_CLOEXEC);
    s->started = eventfd(0, EFD_CLOEXEC);
    s->watched =
        s->ends >= 0 && s->started >= 0 && pthread_create(&s->watch, NULL, watch_start, s) == 0;
}

void serve_watch_end(struct serve_process *s)
{
    if (s->watched && eventfd_write(s->started, 1) == 0) (void)pthread_join(s->watch, NULL);
    if (s->started >= 0) (void)close(s->started);
    if (s->ends >= 0) (void)close(s->ends);
}

// `why` is the signal, for the log.
static int stop(struct serve_process *s, const char *why)
{
    const struct conf *c = s->now ? s->now : s->conf;
    int64_t deadline_ms = conf_number(c, CONF_SHUTDOWN_DEADLINE);
    pthread_t second;
    (void)notify_say("STOPPING=1");
    LOG(server_log(s->server), LOG_INFO, "stopping", LOG_TEXT("signal", why),
        LOG_NUMBER("deadlineMs", deadline_ms));
    if (pthread_create(&second, NULL, end_at_once, (void *)(intptr_t)s->signals) == 0)
        (void)pthread_detach(second);
    int64_t drain_ms = conf_number(c, CONF_SHUTDOWN_DRAIN);
    if (drain_ms > 0) {
        server_drain(s->server);
        clock_sleep(drain_ms);
    }
    if (server_stop(s->server, deadline_ms)) return 0;
    // A call that waits for the store still uses the handle, so the process ends here. Everything
    // durable is in the store.
    (void)cli_fail_as(s->cli, SLUICE_UNAVAILABLE, "",
                      "some requests did not finish within %lld ms and were cut off",
                      (long long)deadline_ms);
    _exit(sluice_code_exit(SLUICE_UNAVAILABLE));
}

// A failed handle stays unusable. After a failed fdatasync, a new process can open the store again.
// So this one ends, and its supervisor starts another. A store that was emptied or replaced is
// different: a new process would continue in an empty store and report ready. So the node keeps
// running and refuses all calls until an operator decides.
static bool is_beyond_help(struct serve_process *s)
{
    struct sluice_error error;
    if (s->store_lost || !server_store_is_dead(s->server, &error)) return false;
    s->store_lost = error.code == SLUICE_CORRUPT;
    LOG(server_log(s->server), LOG_ERROR, s->store_lost ? "store-lost" : "store-dead",
        LOG_TEXT("error", error.message));
    if (s->store_lost) return false;
    (void)cli_fail(s->cli, &error);
    return true;
}

int serve_loop(struct serve_process *s)
{
    int64_t watchdog_ms = notify_watchdog_ms();
    int64_t wait_ms = watchdog_ms > 0 ? watchdog_ms / 3 + 1 : CHECK_MS;
    if (wait_ms > CHECK_MS) wait_ms = CHECK_MS;
    (void)notify_say("READY=1");
    for (;;) {
        server_tell_concerns(s->server);
        int number = next_signal(s->signals, wait_ms);
        if (number == SIGINT || number == SIGTERM)
            return stop(s, number == SIGINT ? "INT" : "TERM");
        if (number == SIGHUP) reload(s);
        if (is_beyond_help(s)) {
            (void)stop(s, "none");
            return sluice_code_exit(SLUICE_UNAVAILABLE);
        }
        if (watchdog_ms > 0 && clock_boot_ms() - server_alive_ms(s->server) < ALIVE_MS)
            (void)notify_say("WATCHDOG=1");
    }
}
