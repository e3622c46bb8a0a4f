// SPDX-License-Identifier: Apache-2.0
// The system calls on which the promises of the file store rest, as a table. Tests replace it with
// a table whose calls fail, whose clock is stepped, or whose disk is another. All functions return
// what the system calls of the same name return.
#pragma once

#include "os/clock.h"

#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>

struct file_sys {
    int (*open)(int dir, const char *path, int flags, mode_t mode);
    int (*mkdir)(int dir, const char *path, mode_t mode);
    int (*link)(int dir, const char *from, const char *to);
    int (*rename)(int dir, const char *from, const char *to);
    int (*unlink)(int dir, const char *path);
    ssize_t (*pread)(int fd, void *to, size_t len, off_t at);
    ssize_t (*pwrite)(int fd, const void *from, size_t len, off_t at);
    int (*allocate)(int fd, off_t at, off_t len); // zeros; later writes to them need no space
    int (*truncate)(int fd, off_t len);
    int (*touch)(int fd, int64_t modified_ms);
    int (*fdatasync)(int fd);
    int (*fsync)(int fd);
    int (*fstatfs)(int fd, struct statfs *to);
    int64_t (*boot_ms)(void);
    int64_t (*realtime_ms)(void);
    bool (*boot_id)(uint8_t id[BOOT_ID_LEN]);
};

extern const struct file_sys file_sys_linux;
