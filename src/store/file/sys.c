// SPDX-License-Identifier: Apache-2.0
// The table that calls the kernel.
#include "store/file/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int sys_open(int dir, const char *path, int flags, mode_t mode)
{
    return openat(dir, path, flags | O_CLOEXEC, mode);
}

static int sys_link(int dir, const char *from, const char *to)
{
    return linkat(dir, from, dir, to, 0);
}

static int sys_rename(int dir, const char *from, const char *to)
{
    return renameat(dir, from, dir, to);
}

static int sys_unlink(int dir, const char *path)
{
    return unlinkat(dir, path, 0);
}

static int sys_allocate(int fd, off_t at, off_t len)
{
    int failed = posix_fallocate(fd, at, len); // answers the error instead of setting it
    if (failed == 0) return 0;
    errno = failed;
    return -1;
}

static int sys_touch(int fd, int64_t modified_ms)
{
    struct timespec t = {.tv_sec = modified_ms / 1000, .tv_nsec = modified_ms % 1000 * 1000000};
    return futimens(fd, (struct timespec[2]){t, t});
}

const struct file_sys file_sys_linux = {
    .open = sys_open,
    .mkdir = mkdirat,
    .link = sys_link,
    .rename = sys_rename,
    .unlink = sys_unlink,
    .pread = pread,
    .pwrite = pwrite,
    .allocate = sys_allocate,
    .truncate = ftruncate,
    .touch = sys_touch,
    .fdatasync = fdatasync,
    .fsync = fsync,
    .fstatfs = fstatfs,
    .boot_ms = clock_boot_ms,
    .realtime_ms = clock_realtime_ms,
    .boot_id = clock_boot_id,
};
