// SPDX-License-Identifier: Apache-2.0
// A list of connections. A slow one is shut down, not closed: its descriptor is its owner's.
#include "net/lines.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

void lines_init(struct lines *l)
{
    l->first = NULL;
    (void)pthread_mutex_init(&l->lock, NULL);
}

void lines_done(struct lines *l)
{
    CHECK(!l->first);
    (void)pthread_mutex_destroy(&l->lock);
}

static void read_peer(struct line *line)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    if (getpeername(line->fd, (struct sockaddr *)&address, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&address, len, line->peer, sizeof line->peer, NULL, 0,
                          NI_NUMERICHOST);
}

struct line *line_new(struct lines *l, int fd, int64_t within_ms)
{
    struct line *line = NEW(struct line);
    int on = 1;
    line->fd = fd;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); // an answer is not to wait
    read_peer(line);
    line_expect(line, within_ms);
    (void)pthread_mutex_lock(&l->lock);
    line->next = l->first;
    if (line->next) line->next->before = line;
    l->first = line;
    (void)pthread_mutex_unlock(&l->lock);
    return line;
}

void line_free(struct lines *l, struct line *line)
{
    (void)pthread_mutex_lock(&l->lock);
    if (line->before) line->before->next = line->next;
    if (line->next) line->next->before = line->before;
    if (l->first == line) l->first = line->next;
    (void)pthread_mutex_unlock(&l->lock);
    memory_free(line);
}

void line_expect(struct line *line, int64_t within_ms)
{
    atomic_store(&line->deadline, within_ms > 0 ? clock_boot_ms() + within_ms : 0);
}

void lines_cut_late(struct lines *l)
{
    int64_t now = clock_boot_ms();
    (void)pthread_mutex_lock(&l->lock);
    for (struct line *line = l->first; line; line = line->next) {
        int64_t deadline = atomic_load(&line->deadline);
        if (deadline != 0 && deadline < now) (void)shutdown(line->fd, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&l->lock);
}
