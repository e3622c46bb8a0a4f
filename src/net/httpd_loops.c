// SPDX-License-Identifier: Apache-2.0
// A loop waits for its daemon's sockets, for the next timeout of a connection, and for its eventfd.
// The eventfd says that a connection came or that one is to be resumed.
#include "net/httpd_loops.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/thread.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

// A connection that the loop has not passed to its daemon yet.
struct arrival {
    struct arrival *next;
    int fd;
    socklen_t from_len;
    struct sockaddr_storage from;
};

struct httpd_loop {
    struct httpd_loops_config config;
    void *daemon;
    struct thread thread;
    int sockets; // the epoll set of the daemon
    int wake;
    int both; // an epoll set of the two: the kernel knows them, and is not told at each wait
    atomic_bool woken; // `wake` was written, and the loop has not seen it yet
    atomic_bool ends;
    bool begun;           // the daemon serves the connection that is being added
    pthread_mutex_t lock; // guards `arrivals`
    struct arrival *arrivals;
};

void httpd_loop_wake(struct httpd_loop *loop)
{
    if (!atomic_exchange(&loop->woken, true)) (void)eventfd_write(loop->wake, 1);
}

static struct arrival *arrivals_of(struct httpd_loop *loop)
{
    (void)pthread_mutex_lock(&loop->lock);
    struct arrival *newest = loop->arrivals, *oldest = NULL;
    loop->arrivals = NULL;
    (void)pthread_mutex_unlock(&loop->lock);
    while (newest) {
        struct arrival *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

static void add_arrivals(struct httpd_loop *loop)
{
    for (struct arrival *a = arrivals_of(loop), *next; a; a = next) {
        const struct sockaddr *from = (const struct sockaddr *)&a->from;
        next = a->next;
        loop->begun = false;
        if (!loop->config.daemon->add(loop->daemon, a->fd, from, a->from_len) && !loop->begun)
            loop->config.refused(loop->config.ctx, from);
        memory_free(a);
    }
}

static void refuse_arrivals(struct httpd_loop *loop)
{
    for (struct arrival *a = arrivals_of(loop), *next; a; a = next) {
        next = a->next;
        (void)close(a->fd);
        loop->config.refused(loop->config.ctx, (const struct sockaddr *)&a->from);
        memory_free(a);
    }
}

// The flag is cleared before the work is looked for: what comes later writes the eventfd again.
static void see_wake(struct httpd_loop *loop)
{
    eventfd_t count;
    (void)eventfd_read(loop->wake, &count);
    atomic_store(&loop->woken, false);
    add_arrivals(loop);
}

// Waits until there is something to do. Returns whether it is for this loop, not for its daemon. A
// daemon with work of its own looks at its sockets anyway, so the kernel is not asked for them.
static bool loop_wait(struct httpd_loop *loop)
{
    int timeout_ms = loop->config.daemon->timeout(loop->daemon);
    if (timeout_ms == 0) return atomic_load(&loop->woken);
    struct epoll_event ready[2];
    int count = epoll_wait(loop->both, ready, 2, timeout_ms);
    for (int i = 0; i < count; i++)
        if (ready[i].data.fd == loop->wake) return true;
    return false;
}

static void *loop_run(void *arg)
{
    struct httpd_loop *loop = arg;
    while (!atomic_load(&loop->ends)) {
        if (loop_wait(loop)) see_wake(loop);
        loop->config.daemon->run(loop->daemon);
    }
    return NULL;
}

static void watch(struct httpd_loop *loop, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    int failed = epoll_ctl(loop->both, EPOLL_CTL_ADD, fd, &event);
    CHECK(!failed);
}

static enum err loop_start(struct httpd_loop *loop)
{
    loop->daemon = loop->config.daemon->start(loop->config.ctx, loop, &loop->sockets);
    if (!loop->daemon) return ERR_UNAVAILABLE;
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->both = epoll_create1(EPOLL_CLOEXEC);
    CHECK(loop->wake >= 0 && loop->both >= 0);
    watch(loop, loop->wake);
    watch(loop, loop->sockets);
    (void)pthread_mutex_init(&loop->lock, NULL);
    return thread_start(&loop->thread, loop_run, loop);
}

static void loop_stop(struct httpd_loop *loop)
{
    if (!loop->daemon) return;
    atomic_store(&loop->ends, true);
    httpd_loop_wake(loop);
    thread_join(&loop->thread);
    refuse_arrivals(loop);
    loop->config.daemon->run(loop->daemon); // what was resumed last
    loop->config.daemon->stop(loop->daemon);
    (void)close(loop->both);
    (void)close(loop->wake);
    (void)pthread_mutex_destroy(&loop->lock);
}

enum err httpd_loops_start(struct httpd_loops *l, const struct httpd_loops_config *config)
{
    CHECK(config->threads > 0);
    l->each = memory_zeroed(config->threads, sizeof *l->each);
    l->len = config->threads;
    enum err err = ERR_OK;
    for (unsigned i = 0; i < l->len; i++)
        l->each[i].config = *config;
    for (unsigned i = 0; i < l->len && !err; i++)
        err = loop_start(&l->each[i]);
    if (err) httpd_loops_stop(l);
    return err;
}

void httpd_loops_stop(struct httpd_loops *l)
{
    for (unsigned i = 0; i < l->len; i++)
        loop_stop(&l->each[i]);
    memory_free(l->each);
    *l = (struct httpd_loops){0};
}

void httpd_loops_take(struct httpd_loops *l, int fd, const struct sockaddr *from,
                      socklen_t from_len)
{
    CHECK(fd >= 0 && from_len <= sizeof(struct sockaddr_storage));
    struct httpd_loop *loop = &l->each[(unsigned)fd % l->len];
    struct arrival *a = NEW(struct arrival);
    a->fd = fd;
    a->from_len = from_len;
    memcpy(&a->from, from, from_len);
    (void)pthread_mutex_lock(&loop->lock);
    a->next = loop->arrivals;
    loop->arrivals = a;
    (void)pthread_mutex_unlock(&loop->lock);
    httpd_loop_wake(loop);
}

void httpd_loop_began(struct httpd_loop *loop)
{
    loop->begun = true;
}

void *httpd_loop_ctx(const struct httpd_loop *loop)
{
    return loop->config.ctx;
}
