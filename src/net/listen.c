// SPDX-License-Identifier: Apache-2.0
// Addresses to listen at, and sockets that listen there.
#include "net/listen.h"

#include "base/authority.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

static struct addrinfo *address_of(const char *host, uint16_t port)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[8];
    (void)snprintf(service, sizeof service, "%u", port);
    return getaddrinfo(host, service, &hints, &found) == 0 ? found : NULL;
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at;
    socklen_t len = sizeof at;
    if (getsockname(fd, &at.any, &len) != 0) return 0;
    return ntohs(at.any.sa_family == AF_INET6 ? at.six.sin6_port : at.four.sin_port);
}

// Says what to do where the system's text does not.
static const char *reason_of(int why)
{
    if (why == EADDRINUSE)
        return "another process uses this port; stop it, or set listen to another port";
    if (why == EADDRNOTAVAIL) return "this machine does not have that address; change listen";
    return strerror(why);
}

static void say_why(char *why, size_t why_len, const char *host, uint16_t port)
{
    (void)snprintf(why, why_len, "cannot listen at %s, port %u: %s", host, port, reason_of(errno));
}

int listen_bind(const char *host, uint16_t port, uint16_t *bound, char *why, size_t why_len)
{
    struct addrinfo *at = address_of(host, port);
    if (!at) {
        (void)snprintf(why, why_len, "%s is not an address to listen at", host);
        return -1;
    }
    int on = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // A restarted node must not wait until the kernel forgets its earlier connections.
    bool done = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                bind(fd, at->ai_addr, at->ai_addrlen) == 0;
    freeaddrinfo(at);
    if (done) {
        *bound = port_of(fd);
        return fd;
    }
    say_why(why, why_len, host, port);
    if (fd >= 0) (void)close(fd);
    return -1;
}

bool listen_begin(int fd, const char *host, char *why, size_t why_len)
{
    if (listen(fd, BACKLOG) == 0) return true;
    say_why(why, why_len, host, port_of(fd));
    return false;
}

bool listen_is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

bool listen_parse(const char *text, char host[LISTEN_HOST_MAX], uint16_t *port)
{
    struct authority named;
    if (!authority_split(bytes_str(text), &named) || named.port.len == 0 ||
        !text_copy_len(host, LISTEN_HOST_MAX, (const char *)named.host.data, named.host.len))
        return false;
    if (named.host.len == 0) (void)text_copy(host, LISTEN_HOST_MAX, "0.0.0.0");
    struct addrinfo *at = address_of(host, 0);
    if (at) freeaddrinfo(at);
    *port = named.number;
    return at != NULL;
}
