// SPDX-License-Identifier: Apache-2.0
// The table with the system calls of the kernel.
#include "store/file/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

// O_NOFOLLOW covers only the last part of a path. openat2 refuses links in all parts, with one
// error.
static int open_without_links(int dir, const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (unsigned)flags & ~(unsigned)O_NOFOLLOW,
                           .mode = flags & O_CREAT ? mode : 0u,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH};
    return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

// A kernel before 5.6 and some containers do not have openat2.
static int sys_open(int dir, const char *path, int flags, mode_t mode)
{
    flags |= O_CLOEXEC;
    if (flags & O_NOFOLLOW) {
        int fd = open_without_links(dir, path, flags, mode);
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;
    }
    return openat(dir, path, flags, mode);
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
    int failed = posix_fallocate(fd, at, len); // returns the error instead of setting errno
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
