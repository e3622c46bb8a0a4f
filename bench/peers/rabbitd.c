// SPDX-License-Identifier: Apache-2.0
// Runs the RabbitMQ server and the name service that it needs as child processes that die with the
// benchmark. The start script is told that it runs under systemd. It then becomes the server
// instead of a shell that waits for it.
#define _GNU_SOURCE // execvpe
#include "rabbit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVER    "/usr/lib/rabbitmq/bin/rabbitmq-server"
#define READY_MS  60000
#define STEP_MS   50
#define PORTS     3
#define TEXT_LEN  400
#define VARIABLES 20

struct place {
    const char *dir;
    unsigned ports[PORTS]; // of the protocol, the nodes and the name service
    char texts[VARIABLES][TEXT_LEN];
    char *environment[VARIABLES + 1];
    size_t len;
};

// All ports stay bound until the last is chosen, because otherwise the system could return one
// twice.
static bool free_ports(unsigned ports[PORTS])
{
    int fds[PORTS];
    bool ok = true;
    for (int i = 0; i < PORTS; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET,
                                 .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
        socklen_t len = sizeof at;
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ok = ok && fds[i] >= 0 && bind(fds[i], (const struct sockaddr *)&at, sizeof at) == 0 &&
             getsockname(fds[i], (struct sockaddr *)&at, &len) == 0;
        ports[i] = ntohs(at.sin_port);
    }
    for (int i = 0; i < PORTS; i++)
        if (fds[i] >= 0) (void)close(fds[i]);
    return ok;
}

static bool write_file(const char *dir, const char *name, const char *text)
{
    char path[TEXT_LEN];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    if (!f) return false;
    bool ok = fputs(text, f) >= 0;
    return fclose(f) == 0 && ok;
}

static void set(struct place *p, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void set(struct place *p, const char *name, const char *format, ...)
{
    char value[TEXT_LEN / 2];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(value, sizeof value, format, list);
    va_end(list);
    (void)snprintf(p->texts[p->len], TEXT_LEN, "%s=%s", name, value);
    p->environment[p->len] = p->texts[p->len];
    p->environment[++p->len] = NULL;
}

// Uses nothing of the machine's own broker, and listens only on loopback.
static void set_all(struct place *p)
{
    set(p, "PATH", "%s", getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    set(p, "HOME", "%s", p->dir);
    set(p, "RABBITMQ_NODENAME", "peers@localhost");
    set(p, "RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1");
    set(p, "RABBITMQ_NODE_PORT", "%u", p->ports[0]);
    set(p, "RABBITMQ_DIST_PORT", "%u", p->ports[1]);
    set(p, "ERL_EPMD_PORT", "%u", p->ports[2]);
    set(p, "ERL_EPMD_ADDRESS", "127.0.0.1");
    set(p, "RABBITMQ_MNESIA_BASE", "%s/data", p->dir);
    set(p, "RABBITMQ_LOG_BASE", "%s/log", p->dir);
    set(p, "RABBITMQ_CONFIG_FILE", "%s/rabbitmq.conf", p->dir);
    set(p, "RABBITMQ_ENABLED_PLUGINS_FILE", "%s/plugins", p->dir);
    set(p, "RABBITMQ_CONF_ENV_FILE", "%s/none", p->dir);
    set(p, "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
        "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}");
    set(p, "RUNNING_UNDER_SYSTEMD", "1");
}

static pid_t spawn(const struct place *p, const char *const *words)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0) return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || chdir(p->dir) != 0) _exit(1);
    int out = open("out", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out >= 0) (void)dup2(out, STDOUT_FILENO);
    if (out >= 0) (void)dup2(out, STDERR_FILENO);
    (void)execvpe(words[0], (char *const *)(uintptr_t)words, p->environment);
    _exit(127);
}

static bool lets_in(const struct rabbitd *r)
{
    struct bench_settings s = {.place = r->port, .queue = "hello", .batch = 1, .size = 1};
    char nothing[BENCH_PROBLEM_MAX];
    void *handle = bench_rabbit.open(&s, nothing);
    if (handle) bench_rabbit.close(handle);
    return handle != NULL;
}

static bool await_ready(struct rabbitd *r)
{
    for (int ms = 0; r->pid > 0 && ms < READY_MS; ms += STEP_MS) {
        if (waitpid(r->pid, NULL, WNOHANG) == r->pid) {
            r->pid = 0;
            return false;
        }
        if (lets_in(r)) return true;
        (void)nanosleep(&(struct timespec){.tv_nsec = STEP_MS * 1000000L}, NULL);
    }
    return false;
}

bool rabbitd_start(struct rabbitd *r, const char *dir, char *problem)
{
    struct place p = {.dir = dir};
    char port[8];
    bool ok = free_ports(p.ports) && write_file(dir, "plugins", "[].\n") &&
              write_file(dir, "rabbitmq.conf", "log.file = false\nlog.console = false\n");
    set_all(&p);
    (void)snprintf(r->port, sizeof r->port, "%u", p.ports[0] & 0xffff);
    (void)snprintf(port, sizeof port, "%u", p.ports[2] & 0xffff);
    const char *names[] = {"epmd", "-port", port, "-address", "127.0.0.1", NULL};
    const char *server[] = {SERVER, NULL};
    if (ok) r->names = spawn(&p, names);
    if (ok) r->pid = spawn(&p, server);
    if (ok && await_ready(r)) return true;
    (void)snprintf(problem, BENCH_PROBLEM_MAX,
                   "rabbitmq does not start (make bench-peers installs it)");
    rabbitd_stop(r);
    return false;
}

static void end(pid_t *pid)
{
    if (*pid <= 0) return;
    (void)kill(*pid, SIGTERM);
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    *pid = 0;
}

void rabbitd_stop(struct rabbitd *r)
{
    end(&r->pid);
    end(&r->names);
}
