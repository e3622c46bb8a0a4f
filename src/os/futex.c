// SPDX-License-Identifier: Apache-2.0
// The shared (not private) futex calls. The kernel identifies the word by the page of the file, so
// it works across processes.
#include "os/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void futex_wait(_Atomic uint32_t *word, uint32_t seen, int64_t wait_ms)
{
    futex_wait_ns(word, seen, wait_ms * 1000000);
}

void futex_wait_ns(_Atomic uint32_t *word, uint32_t seen, int64_t wait_ns)
{
    struct timespec t = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, &t, NULL, 0);
}

void futex_wake_all(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
