// SPDX-License-Identifier: Apache-2.0
// The program's output is a secret, and its error output may quote one. The output is wiped, the
// error output is discarded.
#define _GNU_SOURCE // pipe2, strerrordesc_np
#include "store/s3/auth/process.h"

#include "os/clock.h"
#include "store/s3/auth/keys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESS_MS 60000
#define OUTPUT_MAX ((size_t)64 << 10)

extern char **environ;

// Copies one word to *to without its quotes and returns the end of the word. NULL: a quote is not
// closed.
static const char *split_word(const char *at, char **to)
{
    char quote = 0;
    for (; *at && (quote || !strchr(" \t", *at)); at++) {
        if (quote ? *at == quote : *at == '"' || *at == '\'') {
            quote = quote ? 0 : *at;
        } else if (*at == '\\' && quote != '\'' && at[1] &&
                   (!quote || at[1] == '"' || at[1] == '\\')) {
            *(*to)++ = *++at;
        } else {
            *(*to)++ = *at;
        }
    }
    *(*to)++ = 0;
    return quote ? NULL : at;
}

bool process_split(const char *command, struct process_arguments *out)
{
    *out = (struct process_arguments){0};
    if (strlen(command) >= sizeof out->text) return false;
    char *to = out->text;
    for (const char *at = command + strspn(command, " \t"); *at; at += strspn(at, " \t")) {
        if (out->len == PROCESS_WORDS_MAX) return false;
        out->argv[out->len++] = to;
        at = split_word(at, &to);
        if (!at) return false;
    }
    return out->len > 0;
}

// Starts the program in its own process group, so that it can be ended together with its children.
// Its signals have default actions, even if this process has changed its own.
static int launch(const struct process_arguments *words, int output, pid_t *child)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawnattr_init(&how);
    int failed = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
    if (!failed)
        failed = posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    (void)posix_spawnattr_setsigmask(&how, &none);
    (void)posix_spawnattr_setsigdefault(&how, &all);
    (void)posix_spawnattr_setpgroup(&how, 0);
    (void)posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                             POSIX_SPAWN_SETPGROUP);
    if (!failed) failed = posix_spawnp(child, words->argv[0], &files, &how, words->argv, environ);
    (void)posix_spawnattr_destroy(&how);
    (void)posix_spawn_file_actions_destroy(&files);
    return failed;
}

// Reads everything until the program closes its output. Returns errno values, also ETIMEDOUT and
// EFBIG.
static int listen_to(int fd, struct buf *to)
{
    int64_t until = clock_boot_ms() + PROCESS_MS;
    for (;;) {
        int64_t left = until - clock_boot_ms();
        struct pollfd one = {.fd = fd, .events = POLLIN};
        int ready = left > 0 ? poll(&one, 1, (int)left) : 0;
        if (ready < 0 && errno == EINTR) continue;
        if (ready < 0) return errno;
        if (ready == 0) return ETIMEDOUT;
        if (to->len == to->limit) return EFBIG;
        ssize_t n = read(fd, to->data + to->len, to->limit - to->len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) return 0;
        to->len += (size_t)n;
    }
}

// Returns the wait status. If this process ignores SIGCHLD, the kernel keeps no status, and the
// result is 0.
static int reap(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return 0;
    return status;
}

static enum err run(const struct process_arguments *words, struct buf *output, char *why,
                    size_t why_len)
{
    int ends[2];
    pid_t child = 0;
    int failed = pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
    if (!failed) {
        failed = launch(words, ends[1], &child);
        (void)close(ends[1]);
        if (failed) (void)close(ends[0]);
    }
    if (failed) {
        (void)snprintf(why, why_len, "credential_process cannot be started: %s",
                       strerrordesc_np(failed));
        return ERR_UNAVAILABLE;
    }
    failed = listen_to(ends[0], output);
    (void)close(ends[0]);
    if (failed) (void)kill(-child, SIGKILL);
    int status = reap(child);
    if (failed)
        (void)snprintf(why, why_len, "credential_process: %s", strerrordesc_np(failed));
    else if (WIFSIGNALED(status))
        (void)snprintf(why, why_len, "credential_process was ended by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) != 0)
        (void)snprintf(why, why_len, "credential_process exits with status %d",
                       WEXITSTATUS(status));
    return failed || status ? ERR_UNAVAILABLE : ERR_OK;
}

enum err s3_process_fetch(const char *command, struct s3_source_answer *out, char *why,
                          size_t why_len)
{
    struct process_arguments words;
    if (!process_split(command, &words)) {
        (void)snprintf(why, why_len,
                       "credential_process is not a command of at most %d words, or "
                       "a quote in it is not closed",
                       PROCESS_WORDS_MAX);
        return ERR_INVALID;
    }
    CLEANUP(secret_done) struct buf output;
    secret_init(&output, OUTPUT_MAX);
    enum err err = run(&words, &output, why, why_len);
    if (err) return err;
    char inner[160] = "";
    err = s3_keys_read(buf_bytes(&output), true, out, inner, sizeof inner);
    if (err) (void)snprintf(why, why_len, "credential_process: %s", inner);
    return err;
}
