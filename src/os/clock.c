// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's clocks. CLOCK_BOOTTIME and CLOCK_REALTIME need no system call.
#include "os/clock.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t clock_read_ns(clockid_t which)
{
    struct timespec t;
    CHECK(clock_gettime(which, &t) == 0);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_boot_ns(void)
{
    return clock_read_ns(CLOCK_BOOTTIME);
}

int64_t clock_boot_ms(void)
{
    return clock_boot_ns() / 1000000;
}

int64_t clock_realtime_ms(void)
{
    return clock_read_ns(CLOCK_REALTIME) / 1000000;
}

struct timespec clock_after(int64_t ms)
{
    int64_t at = clock_read_ns(CLOCK_MONOTONIC) + ms * 1000000;
    return (struct timespec){.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
}

void clock_sleep(int64_t ms)
{
    if (ms <= 0) return;
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

void clock_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    CHECK(pthread_condattr_init(&attr) == 0);
    CHECK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_cond_init(c, &attr) == 0);
    (void)pthread_condattr_destroy(&attr);
}

bool clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, int64_t until_ms)
{
    int64_t ms = until_ms - clock_boot_ms();
    if (ms <= 0) return false;
    struct timespec until = clock_after(ms);
    (void)pthread_cond_timedwait(c, lock, &until);
    return true;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
}

bool clock_boot_id(uint8_t id[BOOT_ID_LEN])
{
    char text[64];
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t len = read(fd, text, sizeof text);
    (void)close(fd);
    size_t digits = 0;
    memset(id, 0, BOOT_ID_LEN);
    for (ssize_t i = 0; i < len; i++) {
        int v = hex_value(text[i]);
        if (v < 0) continue; // the dashes of the UUID
        if (digits == 2 * (size_t)BOOT_ID_LEN) return false;
        id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | v);
        digits++;
    }
    return digits == 2 * (size_t)BOOT_ID_LEN;
}
