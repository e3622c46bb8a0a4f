// SPDX-License-Identifier: Apache-2.0
// A table of sockets over one epoll set. An event carries a row and the row's generation (`life`),
// so that a late event for a row that was reused is ignored.
#define _GNU_SOURCE // POLLRDHUP
#include "net/disconnect_watch.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/lock.h"
#include "os/thread.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define TICK_MS  1000
#define AT_ONCE  64
#define KEY_STOP UINT64_MAX

struct watch_row {
    void *what; // passed to `gone`; NULL: there is no watch
    int fd;
    bool gone;     // the client has disconnected, with or without a watch
    uint32_t life; // number of sockets that the row had
    uint32_t turn; // number of watches that the row had
    uint32_t next_free;
};

struct disconnect_watch {
    struct disconnect_watch_config config;
    pthread_mutex_t lock;
    struct watch_row *rows; // row 0 is never used: no key is 0
    uint32_t len;
    uint32_t cap;
    uint32_t free; // 0: none
    int epoll;
    int stop;
    struct thread thread;
};

static struct watch_row *row_of(struct disconnect_watch *h, uint64_t key)
{
    uint32_t at = (uint32_t)key;
    CHECK(at > 0 && at < h->len);
    return &h->rows[at];
}

// Returns what to pass to `gone` for an event, or NULL.
static void *note_gone(struct disconnect_watch *h, uint64_t slot)
{
    void *what = NULL;
    LOCKED(&h->lock);
    struct watch_row *row = row_of(h, slot);
    if (row->life == (uint32_t)(slot >> 32)) {
        row->gone = true;
        what = row->what;
        row->what = NULL;
    }
    return what;
}

static void *watch(void *arg)
{
    struct disconnect_watch *h = arg;
    struct epoll_event events[AT_ONCE];
    for (;;) {
        int count = epoll_wait(h->epoll, events, AT_ONCE, TICK_MS);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == KEY_STOP) return NULL;
            void *what = note_gone(h, events[i].data.u64);
            if (what) h->config.gone(h->config.ctx, what);
        }
        h->config.tick(h->config.ctx);
    }
}

struct disconnect_watch *disconnect_watch_new(const struct disconnect_watch_config *config)
{
    struct disconnect_watch *h = NEW(struct disconnect_watch);
    h->config = *config;
    h->len = 1;
    h->cap = 64;
    h->rows = memory_zeroed(h->cap, sizeof *h->rows);
    (void)pthread_mutex_init(&h->lock, NULL);
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->stop = eventfd(0, EFD_CLOEXEC);
    CHECK(h->epoll >= 0 && h->stop >= 0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = KEY_STOP};
    CHECK(epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->stop, &event) == 0);
    if (thread_start(&h->thread, watch, h) == ERR_OK) return h;
    disconnect_watch_free(h);
    return NULL;
}

void disconnect_watch_free(struct disconnect_watch *h)
{
    if (!h) return;
    CHECK(eventfd_write(h->stop, 1) == 0);
    thread_join(&h->thread);
    (void)close(h->stop);
    (void)close(h->epoll);
    (void)pthread_mutex_destroy(&h->lock);
    memory_free(h->rows);
    memory_free(h);
}

static uint32_t new_row(struct disconnect_watch *h)
{
    uint32_t at = h->free;
    if (at != 0) {
        h->free = h->rows[at].next_free;
        return at;
    }
    if (h->len == h->cap) {
        h->cap *= 2;
        h->rows = memory_resize(h->rows, h->cap * sizeof *h->rows);
    }
    h->rows[h->len] = (struct watch_row){0};
    return h->len++;
}

// Edge-triggered: the kernel reports once, and again after each EPOLL_CTL_MOD.
static struct epoll_event event_of(uint64_t slot)
{
    return (struct epoll_event){.events = EPOLLRDHUP | EPOLLET, .data.u64 = slot};
}

uint64_t disconnect_watch_add(struct disconnect_watch *h, int fd)
{
    LOCKED(&h->lock);
    uint32_t at = new_row(h);
    struct watch_row *row = &h->rows[at];
    uint64_t slot = (uint64_t)row->life << 32 | at;
    struct epoll_event event = event_of(slot);
    row->fd = fd;
    row->gone = false;
    // If the socket cannot be watched, the disconnect shows at the next write.
    (void)epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &event);
    return slot;
}

void disconnect_watch_remove(struct disconnect_watch *h, uint64_t slot)
{
    LOCKED(&h->lock);
    struct watch_row *row = row_of(h, slot);
    CHECK(row->life == (uint32_t)(slot >> 32));
    (void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, row->fd, NULL);
    row->what = NULL;
    row->life++;
    row->next_free = h->free;
    h->free = (uint32_t)slot;
}

uint64_t disconnect_watch_begin(struct disconnect_watch *h, uint64_t slot, void *what)
{
    LOCKED(&h->lock);
    struct watch_row *row = row_of(h, slot);
    CHECK(row->life == (uint32_t)(slot >> 32));
    CHECK(!row->what);
    row->what = what;
    row->turn++;
    uint64_t key = (uint64_t)row->turn << 32 | (uint32_t)slot;
    struct epoll_event event = event_of(slot);
    if (row->gone) (void)epoll_ctl(h->epoll, EPOLL_CTL_MOD, row->fd, &event);
    return key;
}

bool disconnect_watch_end(struct disconnect_watch *h, uint64_t key)
{
    LOCKED(&h->lock);
    struct watch_row *row = row_of(h, key);
    bool watched = row->what && row->turn == (uint32_t)(key >> 32);
    if (watched) row->what = NULL;
    return watched;
}

bool socket_is_gone(int fd)
{
    struct pollfd ask = {.fd = fd, .events = POLLRDHUP};
    return poll(&ask, 1, 0) > 0 && (ask.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}
