// SPDX-License-Identifier: Apache-2.0
// The port is chosen below those the system hands out: a client that keeps calling while the node
// is away would sooner or later be given the node's own port, and be connected to itself.
#define _GNU_SOURCE // pipe2
#include "node_process.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PORT_FIRST 12000
#define PORTS      18000
#define ATTEMPTS   20
#define SETTINGS   8
#define START_MS   30000
#define STOP_MS    20000

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool is_free(unsigned port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;
    if (fd >= 0) (void)close(fd);
    return ok;
}

static void choose_address(struct node_process *n)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    uint64_t at = (uint64_t)t.tv_nsec / 1000 + (uint64_t)getpid();
    unsigned port = PORT_FIRST + (unsigned)(at * 7919 % PORTS);
    while (!is_free(port))
        port = PORT_FIRST + (port + 1 - PORT_FIRST) % PORTS;
    (void)snprintf(n->address, sizeof n->address, "127.0.0.1:%u", port);
}

static void be_node(const struct node_process *n, int out, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    (void)dup2(out, STDOUT_FILENO);
    const char *arguments[15 + 2 * SETTINGS] = {"sluice",
                                                "--store",
                                                n->store,
                                                "--json",
                                                "serve",
                                                "--listen",
                                                n->address,
                                                "--node",
                                                n->name ? n->name : "under-test",
                                                "--set",
                                                "log.level=error",
                                                "--coord",
                                                n->coord ? n->coord : "none"};
    size_t len = 13;
    for (size_t i = 0; n->settings && n->settings[i] && i < SETTINGS; i++) {
        arguments[len++] = "--set";
        arguments[len++] = n->settings[i];
    }
    (void)execv(n->program, (char *const *)(uintptr_t)arguments);
    _exit(127);
}

// The first line says that it listens. False: it ended, or the time is up.
static bool hear_line(int fd)
{
    int64_t end = now_ms() + START_MS;
    char byte = 0;
    while (byte != '\n') {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = end - now_ms();
        if (left <= 0 || poll(&p, 1, (int)left) < 0) return false;
        if (read(fd, &byte, 1) <= 0) return false;
    }
    return true;
}

static bool try_start(struct node_process *n)
{
    int ends[2];
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    n->pid = fork();
    if (n->pid == 0) be_node(n, ends[1], parent);
    (void)close(ends[1]);
    bool ok = n->pid > 0 && hear_line(ends[0]);
    (void)close(ends[0]); // it says no more than that line
    if (!ok && n->pid > 0) node_process_kill(n);
    return ok;
}

bool node_process_start(struct node_process *n)
{
    bool first = n->address[0] == '\0';
    for (int i = 0; i < ATTEMPTS; i++) {
        if (first) choose_address(n);
        if (first || !n->url[0]) // another thread may be reading it
            (void)snprintf(n->url, sizeof n->url, "%s://%s", n->tls ? "https" : "http", n->address);
        if (try_start(n)) return true;
        if (!first) (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    (void)snprintf(n->problem, sizeof n->problem, "%.100s serve does not start at %s", n->program,
                   n->address);
    return false;
}

void node_process_kill(struct node_process *n)
{
    if (n->pid <= 0) return;
    (void)kill(n->pid, SIGKILL);
    while (waitpid(n->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    n->pid = 0;
}

bool node_process_pause(const struct node_process *n)
{
    int status = 0;
    if (n->pid <= 0 || kill(n->pid, SIGSTOP) != 0) return false;
    return waitpid(n->pid, &status, WUNTRACED) == n->pid && WIFSTOPPED(status);
}

bool node_process_stop(struct node_process *n)
{
    int status = 1;
    if (n->pid <= 0) return false;
    (void)kill(n->pid, SIGTERM);
    for (int64_t end = now_ms() + STOP_MS; now_ms() < end;) {
        if (waitpid(n->pid, &status, WNOHANG) == n->pid) {
            n->pid = 0;
            return status == 0;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    node_process_kill(n);
    return false;
}

static bool read_proc(const struct node_process *n, const char *name, char *text, size_t len)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%ld/%s", (long)n->pid, name);
    FILE *f = n->pid > 0 ? fopen(path, "re") : NULL;
    if (!f) return false;
    size_t got = fread(text, 1, len - 1, f);
    text[got] = '\0';
    (void)fclose(f);
    return got > 0;
}

uint64_t node_process_resident_kib(const struct node_process *n)
{
    char text[4096];
    uint64_t kib = 0;
    if (!read_proc(n, "status", text, sizeof text)) return 0;
    const char *line = strstr(text, "VmRSS:");
    if (line) (void)sscanf(line, "VmRSS: %" SCNu64, &kib);
    return kib;
}

uint64_t node_process_cpu_ms(const struct node_process *n)
{
    char text[1024];
    uint64_t user = 0, system = 0;
    if (!read_proc(n, "stat", text, sizeof text)) return 0;
    const char *at = strrchr(text, ')'); // the name before it may have anything in it
    for (int i = 0; at && i < 12; i++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, " %" SCNu64 " %" SCNu64, &user, &system) != 2) return 0;
    return (user + system) * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
}
