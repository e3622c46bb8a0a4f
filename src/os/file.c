// SPDX-License-Identifier: Apache-2.0
// Loops around read and write that handle signals and short transfers.
#define _GNU_SOURCE // explicit_bzero
#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define READ_CHUNK ((size_t)64 << 10)

static int read_to_end(int fd, struct buf *to)
{
    uint8_t chunk[READ_CHUNK];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) return 0;
        buf_put(to, bytes_of(chunk, (size_t)n));
        explicit_bzero(chunk, (size_t)n); // it may be a secret
        if (to->bad) return EFBIG;
    }
}

int file_read(const char *path, struct buf *to)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    int failed = read_to_end(fd, to);
    (void)close(fd);
    return failed;
}

int file_write_fd(int fd, struct bytes body)
{
    while (body.len > 0) {
        ssize_t n = write(fd, body.data, body.len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        body.data += n;
        body.len -= (size_t)n;
    }
    return 0;
}

int file_write(const char *path, struct bytes body)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return errno;
    int failed = file_write_fd(fd, body);
    if (close(fd) != 0 && failed == 0) failed = errno;
    return failed;
}
