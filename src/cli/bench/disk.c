// SPDX-License-Identifier: Apache-2.0
// Measures the machine: the cost of a durable write next to the store, and the load.
#define _GNU_SOURCE // mkostemp
#include "cli/bench/load.h"
#include "os/clock.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS     400
#define FILE_BYTES ((size_t)4 << 20)

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Writes the whole file first, because the journal's segments are allocated and written, too.
static int scratch_file(const char *dir)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/bench-bare-XXXXXX", dir) >= (int)sizeof path) return -1;
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) return -1;
    (void)unlink(path);
    char *zeros = calloc(1, FILE_BYTES);
    bool ok = zeros && pwrite(fd, zeros, FILE_BYTES, 0) == (ssize_t)FILE_BYTES && fsync(fd) == 0;
    free(zeros);
    if (ok) return fd;
    (void)close(fd);
    return -1;
}

double bench_disk_us(const char *dir, size_t size)
{
    int fd = scratch_file(dir);
    if (fd < 0) return 0;
    int64_t samples[ROUNDS];
    char *record = malloc(size);
    bool ok = record != NULL;
    if (ok) memset(record, 'x', size);
    size_t len = 0;
    for (off_t at = 0; ok && len < ROUNDS; at += (off_t)size) {
        if ((size_t)at + size > FILE_BYTES) at = 0;
        int64_t start = clock_boot_ns();
        ok = pwrite(fd, record, size, at) == (ssize_t)size && fdatasync(fd) == 0;
        samples[len++] = clock_boot_ns() - start;
    }
    free(record);
    (void)close(fd);
    qsort(samples, len, sizeof *samples, by_size);
    return ok ? (double)samples[len / 2] / 1000 : 0;
}

double bench_load_average(void)
{
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

bool bench_dir_is_durable(const char *dir)
{
    struct statfs s;
    return statfs(dir, &s) == 0 && s.f_type != TMPFS_MAGIC && s.f_type != RAMFS_MAGIC;
}
