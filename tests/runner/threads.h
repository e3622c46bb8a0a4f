// SPDX-License-Identifier: Apache-2.0
// The threads of this process, as the kernel counts them. One that was joined, or that its pool
// has released, is counted for a moment longer, until it has really ended.
#pragma once

#include "../unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>

static inline size_t threads_here(void)
{
    char line[128];
    unsigned long threads = 0;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "Threads: %lu", &threads) == 1) break;
    (void)fclose(f);
    return threads;
}

static inline void *threads_tell_number(void *number)
{
    *(long *)number = syscall(SYS_gettid);
    return NULL;
}

// How many there are when nothing has been started: not one always, for with the first thread of a
// process come those that sanitizers keep.
static inline size_t threads_at_first(void)
{
    pthread_t thread;
    long number = 0;
    char path[64];
    assert_int_equal(pthread_create(&thread, NULL, threads_tell_number, &number), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)snprintf(path, sizeof path, "/proc/self/task/%ld", number);
    while (access(path, F_OK) == 0)
        (void)sched_yield();
    return threads_here();
}
