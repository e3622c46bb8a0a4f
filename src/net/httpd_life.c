// SPDX-License-Identifier: Apache-2.0
// Starts the HTTP server, admits its connections, and stops it.
#include "base/memory.h"
#include "net/disconnect_watch.h"
#include "net/httpd_inside.h"
#include "net/listen.h"
#include "os/clock.h"
#include "os/thread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ABANDON_MS 1000 // for sending the answers that the server makes itself

static bool take_connection(void *ctx, int fd, const struct sockaddr *from, socklen_t from_len)
{
    struct httpd *h = ctx;
    if (!connections_admit(&h->lines, from)) {
        (void)close(fd);
        return false;
    }
    httpd_loops_take(&h->loops, fd, from, from_len);
    return true;
}

static void refused_connection(void *ctx, const struct sockaddr *from)
{
    struct httpd *h = ctx;
    connections_unadmit(&h->lines, from);
    acceptor_ended(&h->acceptor);
}

static void make_room(void *ctx)
{
    struct httpd *h = ctx;
    connections_make_space(&h->lines);
}

// The library's timeout counts from the last byte: one byte a minute would hold a connection.
static void cut_slow(void *ctx)
{
    struct httpd *h = ctx;
    connections_cut_late(&h->lines);
    atomic_store(&h->looked_ms, clock_boot_ms());
}

static void httpd_free(struct httpd *h)
{
    disconnect_watch_free(h->disconnects);
    connections_done(&h->lines);
    (void)pthread_cond_destroy(&h->fewer);
    (void)pthread_mutex_destroy(&h->lock);
    memory_free(h);
}

static enum err start_loops(struct httpd *h)
{
    struct httpd_loops_config config = {.threads = h->config.threads,
                                        .ctx = h,
                                        .daemon = &httpd_daemon,
                                        .refused = refused_connection};
    return httpd_loops_start(&h->loops, &config);
}

enum err httpd_start(const struct httpd_config *config, struct httpd **out, char *why,
                     size_t why_len)
{
    struct httpd *h = NEW(struct httpd);
    h->config = *config;
    httpd_set_defaults(&h->config);
    h->listener = listen_bind(config->host, config->port, &h->port, why, why_len);
    if (h->listener < 0) {
        memory_free(h);
        return ERR_UNAVAILABLE;
    }
    (void)pthread_mutex_init(&h->lock, NULL);
    connections_init(&h->lines,
                     &(struct connections_config){.connections_max = h->config.connections_max,
                                                  .per_address_max = h->config.per_address_max});
    clock_cond_init(&h->fewer);
    struct disconnect_watch_config watching = {
        .gone = request_client_gone, .tick = cut_slow, .ctx = h};
    h->looked_ms = clock_boot_ms();
    h->disconnects = disconnect_watch_new(&watching);
    enum err err = h->disconnects ? start_loops(h) : ERR_LIMIT;
    if (err) {
        (void)snprintf(why, why_len, err == ERR_LIMIT ? "%s" : "the HTTP library did not start: %s",
                       err == ERR_LIMIT ? THREAD_REFUSED : strerror(errno));
        (void)close(h->listener);
        httpd_free(h);
        return ERR_UNAVAILABLE;
    }
    *out = h;
    return ERR_OK;
}

enum err httpd_listen(struct httpd *h, char *why, size_t why_len)
{
    struct acceptor_config accepting = {.listener = h->listener,
                                        .connections_max = h->config.connections_max,
                                        .take = take_connection,
                                        .make_room = make_room,
                                        .ctx = h};
    if (!listen_begin(h->listener, h->config.host, why, why_len)) return ERR_UNAVAILABLE;
    h->accepts = acceptor_init(&h->acceptor, &accepting) == ERR_OK;
    if (h->accepts) return ERR_OK;
    h->listener = -1; // the acceptor has closed it
    (void)snprintf(why, why_len, "%s", THREAD_REFUSED);
    return ERR_UNAVAILABLE;
}

int64_t httpd_looked_ms(const struct httpd *h)
{
    return atomic_load(&h->looked_ms);
}

uint16_t httpd_port(const struct httpd *h)
{
    return h->port;
}

// If the handler is still running, the server answers when it returns.
static void abandon(struct httpd_request *r)
{
    (void)pthread_mutex_lock(&r->lock);
    struct httpd_stream *s = r->stream;
    if (s) atomic_fetch_add(&s->held, 1);
    request_abandon(r);
    (void)pthread_mutex_unlock(&r->lock);
    if (!s) return;
    feed_lost(&s->feed);
    stream_drop(s);
}

void httpd_close(struct httpd *h)
{
    if (atomic_exchange(&h->stopping, true)) return;
    if (h->accepts)
        acceptor_close(&h->acceptor);
    else if (h->listener >= 0)
        (void)close(h->listener);
}

bool httpd_stop(struct httpd *h, int64_t drain_ms)
{
    if (!h) return true;
    httpd_close(h);
    (void)pthread_mutex_lock(&h->lock);
    requests_wait(h, drain_ms);
    bool drained = h->requests_len == 0;
    h->stopped = true;
    LIST_EACH(r, &h->requests, struct httpd_request, link)
        abandon(r);
    if (!drained) requests_wait(h, ABANDON_MS);
    (void)pthread_mutex_unlock(&h->lock);
    httpd_loops_stop(&h->loops);
    if (h->accepts) acceptor_done(&h->acceptor);
    httpd_free(h);
    return drained;
}
