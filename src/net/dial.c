// SPDX-License-Identifier: Apache-2.0
#include "net/dial.h"

#include "os/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

bool dial_poll(int fd, short events, int64_t until)
{
    for (;;) {
        int64_t left = until - clock_boot_ms();
        struct pollfd one = {.fd = fd, .events = events};
        int ready = poll(&one, 1, left > 0 ? (int)left : 0);
        if (ready >= 0) return ready > 0;
        if (errno != EINTR) return false;
    }
}

int dial_begin(const struct sockaddr *to, socklen_t len, int *number)
{
    int on = 1, fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *number = fd < 0 ? errno : 0;
    if (fd < 0) return -1;
    if (to->sa_family != AF_UNIX) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    // A Unix socket whose queue is full answers EAGAIN and never becomes writable.
    if (connect(fd, to, len) == 0 || errno == EINPROGRESS) return fd;
    *number = errno;
    (void)close(fd);
    return -1;
}

int dial_result(int fd)
{
    int number = 0;
    socklen_t len = sizeof number;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &len) == 0 ? number : errno;
}

static int dial(const struct sockaddr *to, socklen_t len, int64_t until, int *number)
{
    int fd = dial_begin(to, len, number);
    if (fd < 0) return -1;
    *number = dial_poll(fd, POLLOUT, until) ? dial_result(fd) : ETIMEDOUT;
    if (*number == 0) return fd;
    (void)close(fd);
    return -1;
}

int dial_host(const char *host, const char *port, int64_t until, int *number)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *all = NULL;
    int fd = -1;
    *number = DIAL_NO_NAME;
    if (getaddrinfo(host, port, &hints, &all) != 0) return -1;
    for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next)
        fd = dial(a->ai_addr, a->ai_addrlen, until, number);
    freeaddrinfo(all);
    return fd;
}

int dial_path(const char *path, int64_t until, int *number)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    *number = ENAMETOOLONG;
    if (len >= sizeof to.sun_path) return -1;
    memcpy(to.sun_path, path, len + 1);
    return dial((const struct sockaddr *)&to, sizeof to, until, number);
}

const char *dial_words(int number, char *words, size_t len)
{
    if (number == 0) return "nothing answers";
    if (number == DIAL_NO_NAME) return "the name is not known";
    if (strerror_r(number, words, len) != 0) return "the system does not say why";
    if (words[0] >= 'A' && words[0] <= 'Z') words[0] = (char)(words[0] - 'A' + 'a');
    return words;
}
