// SPDX-License-Identifier: Apache-2.0
// Loaded into a Redis server (LD_PRELOAD). It notes how much of an append-only file was synced, so
// that a test can cut the file there, as a loss of power does. A test can also fill the disk and
// step the clock, by files in the directory that SLUICE_PRELOAD_DIR names:
//
//   <file>.synced   written here: the length at the last sync and the number of syncs, 8 bytes each
//   full            there: writes to an append-only file fail with ENOSPC
//   clock           8 bytes: milliseconds that the clock is ahead
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

// The server must find these names before those of the C library.
#define SHOWN __attribute__((visibility("default")))
SHOWN int fsync(int fd);
SHOWN int fdatasync(int fd);
SHOWN ssize_t write(int fd, const void *from, size_t len);
SHOWN int gettimeofday(struct timeval *restrict now, void *restrict zone);

static bool is_log(int fd, char path[static PATH_MAX])
{
    char link[40];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, PATH_MAX - 1);
    if (len <= 0) return false;
    path[len] = 0;
    return strstr(path, ".incr.aof") != NULL;
}

static void note_length(const char *path, int64_t len)
{
    static _Atomic int64_t syncs;
    int64_t note[2] = {len, ++syncs};
    char name[PATH_MAX + 10];
    (void)snprintf(name, sizeof name, "%s.synced", path);
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) abort(); // the test would say that more was lost than was
    if (pwrite(fd, note, sizeof note, 0) != sizeof note) abort();
    (void)close(fd);
}

// The length before the sync counts: what is written meanwhile may not be in it.
static int sync_with(const char *name, int fd)
{
    char path[PATH_MAX];
    struct stat before;
    int (*real)(int) = (int (*)(int))(uintptr_t)dlsym(RTLD_NEXT, name);
    bool log = is_log(fd, path) && fstat(fd, &before) == 0;
    int done = real(fd);
    if (log && done == 0) note_length(path, before.st_size);
    return done;
}

int fsync(int fd)
{
    return sync_with("fsync", fd);
}

int fdatasync(int fd)
{
    return sync_with("fdatasync", fd);
}

ssize_t write(int fd, const void *from, size_t len)
{
    static ssize_t (*real)(int, const void *, size_t);
    char path[PATH_MAX], full[PATH_MAX];
    const char *dir = getenv("SLUICE_PRELOAD_DIR");
    if (!real) real = (ssize_t(*)(int, const void *, size_t))(uintptr_t)dlsym(RTLD_NEXT, "write");
    if (dir) (void)snprintf(full, sizeof full, "%s/full", dir);
    if (dir && access(full, F_OK) == 0 && is_log(fd, path)) {
        errno = ENOSPC;
        return -1;
    }
    return real(fd, from, len);
}

static const int64_t *clock_ahead(void)
{
    static const int64_t *ahead;
    static const int64_t none;
    if (ahead) return ahead;
    char name[PATH_MAX];
    const char *dir = getenv("SLUICE_PRELOAD_DIR");
    ahead = &none;
    if (!dir) return ahead;
    (void)snprintf(name, sizeof name, "%s/clock", dir);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ahead;
    void *at = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (at != MAP_FAILED) ahead = at;
    return ahead;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    static int (*real)(struct timeval *, void *);
    if (!real)
        real = (int (*)(struct timeval *, void *))(uintptr_t)dlsym(RTLD_NEXT, "gettimeofday");
    int done = real(now, zone);
    int64_t ahead_ms = *(const volatile int64_t *)clock_ahead();
    now->tv_sec += ahead_ms / 1000;
    return done;
}
