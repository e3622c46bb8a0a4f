// SPDX-License-Identifier: Apache-2.0
// fork and exec in a program with threads. Everything is prepared before the fork. Until exec the
// child makes only calls that are safe there (signal-safety(7)). Every descriptor is opened
// close-on-exec, so children of other threads inherit nothing.
#define _GNU_SOURCE // execvpe, memfd_create, pipe2
#include "cli/work/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// The state that parent and child share at the fork.
struct launch {
    int body;                 // the child's standard input
    int err[2];               // pipes; [0] is the parent's end
    int out[2];               // -1 if the output is not captured
    int report[2];            // carries the errno of a failed exec; a successful exec closes it
    int signals[2], reply[2]; // pipes; the child reads signals[0] and writes reply[1]
    char **env;
    const struct spawn_spec *spec;
    pid_t parent;
};

static void close_one(int *fd)
{
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

static void launch_done(struct launch *l)
{
    int *all[] = {&l->body,       &l->err[0],    &l->err[1],    &l->out[0],
                  &l->out[1],     &l->report[0], &l->report[1], &l->signals[0],
                  &l->signals[1], &l->reply[0],  &l->reply[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        close_one(all[i]);
    spawn_env_free(l->env);
}

// Puts the body into a file in memory. The program may read it at any time and repeatedly. A
// program that never reads it causes no broken pipe.
static int body_file(const struct sluice_message *m)
{
    int fd = memfd_create("sluice-body", MFD_CLOEXEC);
    if (fd < 0) return -1;
    const char *at = m->body;
    size_t left = m->body_len;
    while (left > 0) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        at += n;
        left -= (size_t)n;
    }
    if (left == 0 && lseek(fd, 0, SEEK_SET) == 0) return fd;
    int why = errno;
    (void)close(fd);
    errno = why;
    return -1;
}

static bool launch_prepare(struct launch *l, const struct spawn_spec *spec,
                           const struct sluice_message *m)
{
    *l = (struct launch){.body = -1,
                         .err = {-1, -1},
                         .out = {-1, -1},
                         .report = {-1, -1},
                         .signals = {-1, -1},
                         .reply = {-1, -1},
                         .spec = spec,
                         .parent = getpid()};
    l->env = spawn_env(spec, m);
    if (!l->env) {
        errno = ENOMEM;
        return false;
    }
    l->body = body_file(m);
    if (l->body < 0 || pipe2(l->err, O_CLOEXEC) != 0 || pipe2(l->report, O_CLOEXEC) != 0)
        return false;
    if (!spec->stdout_is_ours && pipe2(l->out, O_CLOEXEC) != 0) return false;
    // Only the parent's ends are non-blocking; the program gets normal, blocking pipes.
    if (fcntl(l->err[0], F_SETFL, O_NONBLOCK) != 0) return false;
    if (pipe2(l->signals, O_CLOEXEC) != 0 || pipe2(l->reply, O_CLOEXEC) != 0 ||
        fcntl(l->signals[1], F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(l->reply[0], F_SETFL, O_NONBLOCK) != 0)
        return false;
    return l->out[0] < 0 || fcntl(l->out[0], F_SETFL, O_NONBLOCK) == 0;
}

static void reset_signals(void)
{
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP) (void)signal(number, SIG_DFL);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

// Runs in the child. Gives the pipes of signals their numbers. The descriptors that are still
// needed move out of the way first. Returns 0 or an errno.
static int number_pipes(const struct launch *l, int *report)
{
    const struct spawn_spec *spec = l->spec;
    int above = (spec->signals_fd > spec->reply_fd ? spec->signals_fd : spec->reply_fd) + 1;
    int signals = fcntl(l->signals[0], F_DUPFD_CLOEXEC, above);
    int reply = fcntl(l->reply[1], F_DUPFD_CLOEXEC, above);
    int moved = fcntl(*report, F_DUPFD_CLOEXEC, above);
    if (moved >= 0) *report = moved;
    if (signals < 0 || reply < 0 || moved < 0) return errno;
    return dup2(signals, spec->signals_fd) < 0 || dup2(reply, spec->reply_fd) < 0 ? errno : 0;
}

// Runs in the child. The parent may have died before prctl, so the child checks it.
static _Noreturn void become(const struct launch *l)
{
    int why = 0, report = l->report[1];
    (void)setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) why = errno;
    if (getppid() != l->parent) _exit(1);
    int out = l->spec->stdout_is_ours ? l->spec->stdout_fd : l->out[1];
    if (why == 0 && (dup2(l->body, STDIN_FILENO) < 0 || dup2(l->err[1], STDERR_FILENO) < 0 ||
                     (out != STDOUT_FILENO && dup2(out, STDOUT_FILENO) < 0)))
        why = errno;
    if (why == 0) why = number_pipes(l, &report);
    if (why == 0) {
        reset_signals();
        (void)execvpe(l->spec->program[0], l->spec->program, l->env);
        why = errno;
    }
    ssize_t n = write(report, &why, sizeof why);
    _exit(n == (ssize_t)sizeof why ? 126 : 127);
}

static int read_report(struct launch *l)
{
    close_one(&l->report[1]);
    int why = 0;
    ssize_t n;
    do
        n = read(l->report[0], &why, sizeof why);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof why ? why : 0;
}

static void wait_for(pid_t pid, int *status)
{
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        continue;
}

int child_start(struct child *c, const struct spawn_spec *spec, const struct sluice_message *m)
{
    struct launch l;
    if (!launch_prepare(&l, spec, m)) {
        int why = errno;
        launch_done(&l);
        return why;
    }
    pid_t pid = fork();
    if (pid == 0) become(&l);
    int why = pid < 0 ? errno : 0;
    int status = 0;
    if (pid > 0) {
        (void)setpgid(pid, pid); // parent and child both call it; the first call counts
        why = read_report(&l);
        c->pid_fd = why == 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
        if (why == 0 && c->pid_fd < 0) {
            why = errno;
            (void)kill(-pid, SIGKILL);
        }
        if (why != 0) wait_for(pid, &status);
    }
    if (why == 0) {
        c->pid = pid;
        c->err_fd = l.err[0];
        c->out_fd = l.out[0];
        c->signals_fd = l.signals[1];
        c->reply_fd = l.reply[0];
        l.err[0] = l.out[0] = l.signals[1] = l.reply[0] = -1;
    }
    launch_done(&l);
    return why;
}

void child_signal(const struct child *c, int number)
{
    (void)kill(-c->pid, number);
}

int child_reap(struct child *c)
{
    int status = 0;
    wait_for(c->pid, &status);
    close_one(&c->pid_fd);
    close_one(&c->err_fd);
    close_one(&c->out_fd);
    close_one(&c->signals_fd);
    close_one(&c->reply_fd);
    return status;
}

void spawn_choose_fds(struct spawn_spec *spec)
{
    int found[2] = {0, 0};
    for (int fd = STDERR_FILENO + 1, len = 0; len < 2; fd++)
        if (fcntl(fd, F_GETFD) < 0) found[len++] = fd;
    spec->signals_fd = found[0];
    spec->reply_fd = found[1];
}
