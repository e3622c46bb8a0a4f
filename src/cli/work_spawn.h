// SPDX-License-Identifier: Apache-2.0
// A job's program as a child process: in its own process group, dead when the worker dies, the body
// on its standard input, its last words kept.
#pragma once

#include "sluice.h"

#include <stdbool.h>
#include <sys/types.h>

// What is the same for every job of a worker.
struct spawn_spec {
    char *const *program; // argv; program[0] is looked for in PATH
    const char *queue;
    const char *worker;
    const char *store; // for commands of ours that the program may call
    const char **keep; // variables that a job gets although they are secrets
    size_t keep_len;
    bool stdout_is_ours; // else it is caught, to be printed around the live table
    int stdout_fd;       // where it goes when it is ours
};

struct child {
    pid_t pid;
    int pid_fd; // readable when it ended
    int err_fd; // its standard error, non-blocking
    int out_fd; // its standard output, or -1
};

// Starts the program. 0, or the errno of what failed, exec included; then nothing is left behind.
int child_start(struct child *c, const struct spawn_spec *spec, const struct sluice_message *m);
// To its whole group. The child must not have been reaped.
void child_signal(const struct child *c, int number);
// Waits for its end (at once when pid_fd is readable), closes everything; the status as of waitpid.
int child_reap(struct child *c);

// The environment of a job, to be freed with spawn_env_free. NULL: out of memory.
char **spawn_env(const struct spawn_spec *spec, const struct sluice_message *m);
void spawn_env_free(char **env);
