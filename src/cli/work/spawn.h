// SPDX-License-Identifier: Apache-2.0
// Runs a job's program as a child process. It has its own process group and dies with the worker.
// It reads the body from its standard input. The last line of its standard error is kept.
#pragma once

#include "sluice.h"

#include <stdbool.h>
#include <sys/types.h>

// The parts that all jobs of a worker share.
struct spawn_spec {
    char *const *program; // argv; program[0] is searched in PATH
    const char *queue;
    const char *worker;
    const char *store; // for sluice commands that the program may call
    const char **keep; // environment variables that a job gets although they are secrets
    size_t keep_len;
    // The child writes to stdout_fd; otherwise the output is captured and printed above the live
    // table.
    bool stdout_is_ours;
    int stdout_fd;            // used with stdout_is_ours
    int signals_fd, reply_fd; // the numbers of the program's ends of its two pipes
};

// Chooses two numbers that no inherited descriptor has: 3 and 4, if possible, because some shells
// know only numbers of one digit. Call it before other descriptors are opened.
void spawn_choose_fds(struct spawn_spec *spec);

struct child {
    pid_t pid;
    int pid_fd;     // readable when the child has ended
    int err_fd;     // standard error of the child, non-blocking
    int out_fd;     // standard output of the child, or -1
    int signals_fd; // the write end of SLUICE_SIGNALS_FD, non-blocking; the caller may take it: -1
    int reply_fd;   // the read end of SLUICE_REPLY_FD, the same
};

// Starts the program. Returns 0 or the errno of the failure, including exec. On a failure nothing
// is left running or open.
int child_start(struct child *c, const struct spawn_spec *spec, const struct sluice_message *m);
// Sends a signal to the child's process group. The child must not be reaped yet.
void child_signal(const struct child *c, int number);
// Waits for the end of the child (at once if pid_fd is readable) and closes everything. Returns the
// status of waitpid.
int child_reap(struct child *c);

// Builds the environment of a job. Free it with spawn_env_free. Returns NULL if no memory is left.
char **spawn_env(const struct spawn_spec *spec, const struct sluice_message *m);
void spawn_env_free(char **env);
