// SPDX-License-Identifier: Apache-2.0
// Runs the beanstalkd server as a child process that dies with the benchmark.
#include "beanstalk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READY_MS 5000

static bool free_port(char out[8])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    bool ok = bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 &&
              getsockname(fd, (struct sockaddr *)&at, &len) == 0;
    (void)close(fd);
    (void)snprintf(out, 8, "%u", (unsigned)ntohs(at.sin_port));
    return ok;
}

static bool answers(const char *port)
{
    struct bench_settings s = {.place = port, .batch = 1, .size = BENCH_SIZE_MIN};
    char nothing[BENCH_PROBLEM_MAX];
    void *link = bench_beanstalk.link(&s, 0, nothing);
    if (link) bench_beanstalk.unlink(link);
    return link != NULL;
}

bool beanstalkd_start(struct beanstalkd *b, const char *dir, char *problem)
{
    pid_t parent = getpid();
    if (!free_port(b->port)) {
        (void)snprintf(problem, BENCH_PROBLEM_MAX, "no free port: %s", strerror(errno));
        return false;
    }
    b->pid = fork();
    if (b->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        (void)execlp("beanstalkd", "beanstalkd", "-b", dir, "-f", "0", "-l", "127.0.0.1", "-p",
                     b->port, (char *)NULL);
        _exit(127);
    }
    for (int ms = 0; b->pid > 0 && ms < READY_MS; ms++) {
        int status;
        if (waitpid(b->pid, &status, WNOHANG) == b->pid) {
            b->pid = -1;
            break;
        }
        if (answers(b->port)) return true;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    (void)snprintf(problem, BENCH_PROBLEM_MAX,
                   "beanstalkd does not start (make bench-peers "
                   "installs it)");
    beanstalkd_stop(b);
    return false;
}

void beanstalkd_stop(struct beanstalkd *b)
{
    if (b->pid <= 0) return;
    (void)kill(b->pid, SIGTERM);
    while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    b->pid = -1;
}
