// SPDX-License-Identifier: Apache-2.0
// What every unit test includes: cmocka with the headers it wants first, and a way to see CHECK
// fire.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

// Does the call end its process by abort, as a failed CHECK does? It runs in a child whose words
// are not shown.
static inline bool aborts(void (*call)(void))
{
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        if (nowhere >= 0) (void)dup2(nowhere, STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        call();
        _exit(0);
    }
    int status = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
