// SPDX-License-Identifier: Apache-2.0
// The callers of a connection share its reading. The first that waits polls the socket and hands
// out every answer that arrives. When it has its own, the next caller takes over. So a lone caller
// needs no other thread, and many callers need one read for many answers.
#include "store/redis/connection.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/lock.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define READ_LEN ((size_t)64 << 10)
#define OUT_MAX  ((size_t)1 << 30) // bytes of all requests that are not sent yet
#define OUT_KEPT ((size_t)1 << 20) // a larger buffer is released when it is empty

struct request {
    struct request *next;
    uint64_t begin; // the stream offsets of its bytes
    size_t count;
    size_t got;
    struct resp **replies;
    enum redis_end end;
    bool done;
    pthread_cond_t wake;
};

struct redis_connection {
    pthread_mutex_t lock; // guards everything
    struct stream *stream;
    struct resp_reader *reader;
    int wake_fd;    // wakes the reading caller: there is more to write, or the connection is bad
    struct buf out; // bytes that are not written yet, from out_at on
    size_t out_at;
    uint64_t appended;            // stream offset of the end of out
    uint64_t tried;               // stream offset up to which bytes may have left
    struct request *first, *last; // not answered yet
    bool reading;
    bool bad;
    char why[STORE_WHY_MAX];
    uint8_t in[READ_LEN];
};

struct redis_connection *redis_connection_take(struct stream *s)
{
    struct redis_connection *c = NEW(struct redis_connection);
    (void)pthread_mutex_init(&c->lock, NULL);
    c->stream = s;
    c->reader = resp_reader_new();
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    buf_init(&c->out, OUT_MAX);
    if (c->wake_fd < 0) c->bad = true;
    return c;
}

void redis_connection_free(struct redis_connection *c, bool ours)
{
    if (!c) return;
    CHECK(!ours || !c->first);
    if (ours)
        stream_free(c->stream);
    else
        stream_abandon(c->stream);
    if (c->wake_fd >= 0) (void)close(c->wake_fd);
    resp_reader_free(c->reader);
    buf_done(&c->out);
    (void)pthread_mutex_destroy(&c->lock);
    memory_free(c);
}

static void wake_reader(struct redis_connection *c)
{
    uint64_t one = 1;
    if (c->wake_fd >= 0) (void)!write(c->wake_fd, &one, sizeof one);
}

static void finish(struct request *r, enum redis_end end)
{
    r->end = end;
    r->done = true;
    (void)pthread_cond_signal(&r->wake);
}

static void go_bad(struct redis_connection *c, const char *why)
{
    if (c->bad) return;
    c->bad = true;
    (void)text_copy(c->why, sizeof c->why, why);
    for (struct request *r = c->first, *next; r; r = next) {
        next = r->next;
        finish(r, r->begin >= c->tried ? REDIS_NOT_SENT : REDIS_LOST);
    }
    c->first = c->last = NULL;
    wake_reader(c);
}

// Writes what the socket takes now.
static void flush(struct redis_connection *c)
{
    while (!c->bad && c->out_at < c->out.len) {
        size_t left = c->out.len - c->out_at;
        ssize_t n = stream_write(c->stream, c->out.data + c->out_at, left);
        if (!stream_is_exact(c->stream)) c->tried = c->appended;
        if (n < 0) go_bad(c, "the server closed the connection");
        if (n <= 0) return;
        c->out_at += (size_t)n;
        uint64_t written = c->appended - (c->out.len - c->out_at);
        if (written > c->tried) c->tried = written;
    }
    if (c->out_at < c->out.len) return;
    c->out_at = 0;
    size_t cap = c->out.cap;
    buf_clear(&c->out);
    if (cap <= OUT_KEPT) return;
    buf_done(&c->out);
    buf_init(&c->out, OUT_MAX);
}

static void hand_out(struct redis_connection *c, struct resp *reply)
{
    struct request *r = c->first;
    if (!r) {
        resp_free(reply);
        go_bad(c, "the server answered more than was asked");
        return;
    }
    r->replies[r->got++] = reply;
    if (r->got < r->count) return;
    c->first = r->next;
    if (!c->first) c->last = NULL;
    finish(r, REDIS_ANSWERED);
}

// Reads what has arrived, and hands out whole replies.
static void take_in(struct redis_connection *c)
{
    while (!c->bad) {
        ssize_t n = stream_read(c->stream, c->in, sizeof c->in);
        if (n == 0) return;
        if (n < 0) {
            go_bad(c, "the server closed the connection");
            return;
        }
        resp_reader_feed(c->reader, bytes_of(c->in, (size_t)n));
        struct resp *reply;
        enum resp_step step;
        while ((step = resp_reader_next(c->reader, &reply)) == RESP_ONE)
            hand_out(c, reply);
        if (step == RESP_BAD) go_bad(c, "the answer is not the protocol of Redis");
        // The rest of an answer that no request waits for would become part of the next one.
        if (!c->bad && !c->first && !resp_reader_is_empty(c->reader))
            go_bad(c, "the server answered more than was asked");
        // A short read emptied a plain socket. TLS can have more.
        if ((size_t)n < sizeof c->in && stream_is_exact(c->stream)) return;
    }
}

// Polls without the lock.
static void poll_once(struct redis_connection *c, int64_t until)
{
    struct pollfd on[2] = {
        {.fd = stream_fd(c->stream), .events = stream_events(c->stream, c->out_at < c->out.len)},
        {.fd = c->wake_fd, .events = POLLIN}};
    (void)pthread_mutex_unlock(&c->lock);
    int64_t left = until - clock_boot_ms();
    int ready = left > 0 ? poll(on, 2, left > INT32_MAX ? INT32_MAX : (int)left) : 0;
    (void)pthread_mutex_lock(&c->lock);
    if (ready <= 0) return;
    uint64_t drained;
    if (on[1].revents) (void)!read(c->wake_fd, &drained, sizeof drained);
    if (on[0].revents) take_in(c);
    flush(c);
}

static void wait_for(struct redis_connection *c, struct request *r, int64_t until)
{
    while (!r->done) {
        if (clock_boot_ms() >= until) {
            go_bad(c, "the server did not answer in time");
        } else if (c->reading) {
            clock_wait(&r->wake, &c->lock, until);
        } else {
            c->reading = true;
            while (!r->done && clock_boot_ms() < until)
                poll_once(c, until);
            c->reading = false;
        }
    }
    // The next caller that waits reads on.
    if (!c->reading && c->first) (void)pthread_cond_signal(&c->first->wake);
}

static void enqueue(struct redis_connection *c, struct request *r, struct bytes commands)
{
    // An idle connection that the server has closed must not swallow the request.
    if (!c->first && !c->reading) take_in(c);
    if (c->bad) return;
    r->begin = c->appended;
    if (c->out_at > c->out.len / 2) {
        memmove(c->out.data, c->out.data + c->out_at, c->out.len - c->out_at);
        c->out.len -= c->out_at;
        c->out_at = 0;
    }
    buf_put(&c->out, commands);
    if (c->out.bad) {
        go_bad(c, "too many bytes wait to be sent");
        return;
    }
    c->appended += commands.len;
    if (c->last)
        c->last->next = r;
    else
        c->first = r;
    c->last = r;
    flush(c);
    if (c->out_at < c->out.len && c->reading) wake_reader(c);
}

enum redis_end redis_connection_ask(struct redis_connection *c, struct bytes commands, size_t count,
                                    int64_t until, struct resp **replies)
{
    CHECK(count > 0 && count <= REDIS_REPLIES_MAX);
    struct request r = {.count = count, .replies = replies};
    memset(replies, 0, count * sizeof *replies);
    clock_cond_init(&r.wake);
    (void)pthread_mutex_lock(&c->lock);
    r.end = REDIS_NOT_SENT;
    enqueue(c, &r, commands);
    if (c->bad)
        r.done = true;
    else
        wait_for(c, &r, until);
    (void)pthread_mutex_unlock(&c->lock);
    (void)pthread_cond_destroy(&r.wake);
    for (size_t i = 0; r.end != REDIS_ANSWERED && i < count; i++) {
        resp_free(replies[i]);
        replies[i] = NULL;
    }
    return r.end;
}

bool redis_connection_is_good(struct redis_connection *c)
{
    LOCKED(&c->lock);
    return !c->bad;
}

void redis_connection_break(struct redis_connection *c, const char *why)
{
    LOCKED(&c->lock);
    go_bad(c, why);
}

void redis_connection_why(struct redis_connection *c, char why[static STORE_WHY_MAX])
{
    LOCKED(&c->lock);
    memcpy(why, c->why, STORE_WHY_MAX);
}
