// SPDX-License-Identifier: Apache-2.0
// One datagram to the socket that NOTIFY_SOCKET names.
#include "server/notify.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

bool notify_say(const char *state)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    if (!path || (path[0] != '/' && path[0] != '@')) return false;
    size_t len = strlen(path);
    if (len >= sizeof to.sun_path) return false;
    memcpy(to.sun_path, path, len);
    if (path[0] == '@') to.sun_path[0] = '\0'; // an abstract socket
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return false;
    socklen_t to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to, to_len);
    (void)close(fd);
    return sent == (ssize_t)strlen(state);
}

bool notify_reloading(void)
{
    char text[64];
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
                   (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    return notify_say(text);
}

int64_t notify_watchdog_ms(void)
{
    const char *usec = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!usec || (pid && strtoll(pid, NULL, 10) != (long long)getpid())) return 0;
    int64_t ms = strtoll(usec, NULL, 10) / 1000;
    return ms > 0 ? ms : 0;
}
