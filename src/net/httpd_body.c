// SPDX-License-Identifier: Apache-2.0
// Bodies as they arrive. Each is counted by the memory it takes, not by its announced length.
#include "base/check.h"
#include "base/memory.h"
#include "net/httpd_inside.h"
#include "os/lock.h"

#include <string.h>

#define SMALL ((size_t)64 << 10)
#define FIRST ((size_t)1 << 10) // allocated at the first byte, even if the head announces more

// The last quarter is reserved for small bodies, so that acks proceed while large messages wait.
static size_t share(const struct httpd *h, size_t len)
{
    size_t all = h->config.body_memory_max;
    return len <= SMALL ? all : all - all / 4;
}

// A client with several requests leaves memory to others: it has at most half of the share of large
// bodies. Its own acks proceed while its large messages wait, too.
static size_t client_share(const struct httpd *h, size_t len)
{
    size_t large = share(h, SIZE_MAX);
    return len <= SMALL ? large : large / 2;
}

static bool reserve_of_all(struct httpd *h, size_t more, size_t most)
{
    size_t now = atomic_load(&h->bodies);
    do {
        if (more > most || now > most - more) return false;
    } while (!atomic_compare_exchange_weak(&h->bodies, &now, now + more));
    return true;
}

// A request that is its client's only one may take more: a body and its JSON do not fit into half.
static bool client_may(const struct httpd_request *r, size_t held, size_t more)
{
    size_t own = r->body.cap + r->reserved;
    return held <= own || held + more <= client_share(r->server, own + more);
}

static _Atomic size_t *of_client(struct httpd_request *r)
{
    return &r->server->by_client[r->client_row];
}

static bool reserve(struct httpd_request *r, size_t more, size_t most)
{
    size_t held = atomic_fetch_add(of_client(r), more);
    bool fits = client_may(r, held, more) && reserve_of_all(r->server, more, most);
    if (!fits) atomic_fetch_sub(of_client(r), more);
    return fits;
}

bool body_fits(struct httpd_request *r, uint64_t len)
{
    size_t most = share(r->server, (size_t)len), now = atomic_load(&r->server->bodies);
    return len <= most && now <= most - (size_t)len &&
           (len == 0 || client_may(r, atomic_load(of_client(r)), (size_t)len));
}

void httpd_set_client(struct httpd_request *r, uint64_t client)
{
    CHECK(r->body.cap == 0 && r->reserved == 0); // what it has is counted for another client
    r->client_row = (uint32_t)(client % HTTPD_CLIENTS);
}

// Doubles the capacity, up to the announced length or the limit.
static size_t next_cap(const struct httpd_request *r, size_t need)
{
    const struct body *b = &r->body;
    size_t most = r->head.has_length ? (size_t)r->head.length : b->max;
    size_t cap = b->cap > 0 ? b->cap * 2 : FIRST;
    if (cap > most) cap = most;
    return cap < need ? need : cap;
}

static bool grow(struct httpd_request *r, size_t need)
{
    struct body *b = &r->body;
    if (need <= b->cap) return true;
    size_t cap = next_cap(r, need);
    if (!reserve(r, cap - b->cap, share(r->server, cap))) return false;
    b->data = memory_resize(b->data, cap);
    b->cap = cap;
    return true;
}

static void lose(struct httpd_request *r, enum httpd_lost how)
{
    r->lost = how;
    body_give_back(r);
    body_done(r);
}

void body_add(struct httpd_request *r, const void *data, size_t len)
{
    struct body *b = &r->body;
    bool refused = r->state == ANSWERED; // by its head; no other thread has the request yet
    if (!refused && r->lost == HTTPD_WHOLE) {
        if (len > b->max - b->len)
            lose(r, HTTPD_TOO_LARGE);
        else if (!grow(r, b->len + len))
            lose(r, HTTPD_NO_ROOM);
    }
    if (refused || r->lost != HTTPD_WHOLE) {
        b->discarded += len;
        return;
    }
    CHECK(b->len + len <= b->cap);
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

bool body_flows(const struct httpd_request *r)
{
    return r->body.discarded <= r->body.discarded_max;
}

void body_give_back(struct httpd_request *r)
{
    size_t len = r->body.cap + r->reserved;
    atomic_fetch_sub(&r->server->bodies, len);
    atomic_fetch_sub(of_client(r), len);
    r->body.cap = r->reserved = 0;
}

// The server may be freed when a late owner calls this. In that case the server has answered in the
// owner's place, or the connection has ended.
enum httpd_lost httpd_reserve(struct httpd_request *r, size_t more)
{
    enum httpd_lost lost = HTTPD_NO_ROOM;
    LOCKED(&r->lock);
    if (!r->abandoned && r->line) {
        struct httpd *h = r->server;
        size_t whole = r->body.cap + r->reserved + more, most = share(h, whole);
        if (whole > most)
            lost = HTTPD_TOO_LARGE;
        else if (reserve(r, more, most))
            lost = HTTPD_WHOLE;
        if (lost == HTTPD_WHOLE) r->reserved += more;
    }
    return lost;
}

void httpd_forget_body(struct httpd_request *r)
{
    LOCKED(&r->lock);
    if (r->line) body_give_back(r); // else it was given back, and the server may be freed
    body_done(r);
}

void body_done(struct httpd_request *r)
{
    memory_free(r->body.data);
    r->body.data = NULL;
    r->body.len = 0;
}

size_t httpd_body_memory(const struct httpd *h)
{
    return atomic_load(&h->bodies);
}
