// SPDX-License-Identifier: Apache-2.0
// An efficient client: it publishes a batch, then waits for its confirms. Messages are pushed with
// a prefetch of two batches, and one ack covers a batch. Sending and receiving have separate
// connections, so that deliveries do not delay confirms.
#include "rabbit.h"

#include <amqp.h>
#include <amqp_tcp_socket.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNEL   1
#define FRAME_MAX 131072
#define PATIENCE  60 // seconds to wait for an answer

struct link {
    const struct bench_settings *settings;
    amqp_connection_state_t out;
    amqp_connection_state_t in; // NULL until the first receive
    uint64_t published;         // the tag of the last message
    bool *confirmed;            // of the current batch, by index
    char *bodies;               // of the last receive, concatenated
    const char **views;
    size_t got;
    uint64_t last_tag;
};

static bool refuse(char *problem, const char *what, const char *why)
{
    (void)snprintf(problem, BENCH_PROBLEM_MAX, "rabbitmq: %s: %s", what, why);
    return false;
}

static bool status_ok(int status, const char *what, char *problem)
{
    return status == AMQP_STATUS_OK || refuse(problem, what, amqp_error_string2(status));
}

static bool reply_ok(amqp_rpc_reply_t reply, const char *what, char *problem)
{
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return true;
    bool ours = reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION;
    return refuse(problem, what, ours ? amqp_error_string2(reply.library_error) : "refused");
}

static void hang_up(amqp_connection_state_t c)
{
    if (!c) return;
    (void)amqp_connection_close(c, AMQP_REPLY_SUCCESS);
    (void)amqp_destroy_connection(c);
}

static bool log_in(amqp_connection_state_t c, const char *port, char *problem)
{
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    if (!socket) return refuse(problem, "socket", "no memory");
    if (!status_ok(amqp_socket_open(socket, "127.0.0.1", atoi(port)), "connect", problem))
        return false;
    amqp_rpc_reply_t in =
        amqp_login(c, "/", 0, FRAME_MAX, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest");
    if (!reply_ok(in, "login", problem)) return false;
    (void)amqp_channel_open(c, CHANNEL);
    return reply_ok(amqp_get_rpc_reply(c), "channel", problem);
}

static amqp_connection_state_t dial(const char *port, char *problem)
{
    amqp_connection_state_t c = amqp_new_connection();
    if (!c) return NULL;
    if (log_in(c, port, problem)) return c;
    (void)amqp_destroy_connection(c);
    return NULL;
}

static bool declare(amqp_connection_state_t c, const char *queue, char *problem)
{
    amqp_table_entry_t quorum = {
        .key = amqp_cstring_bytes("x-queue-type"),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes("quorum")}};
    amqp_table_t arguments = {.num_entries = 1, .entries = &quorum};
    (void)amqp_queue_declare(c, CHANNEL, amqp_cstring_bytes(queue), 0, 1, 0, 0, arguments);
    return reply_ok(amqp_get_rpc_reply(c), "queue", problem);
}

static void *rabbit_open(const struct bench_settings *s, char *problem)
{
    amqp_connection_state_t c = dial(s->place, problem);
    bool ok = c && declare(c, s->queue, problem);
    hang_up(c);
    struct bench_settings *copy = ok ? malloc(sizeof *copy) : NULL;
    if (copy) *copy = *s;
    return copy;
}

static void rabbit_close(void *handle)
{
    free(handle);
}

static void rabbit_unlink(void *link)
{
    struct link *l = link;
    hang_up(l->out);
    hang_up(l->in);
    free(l->confirmed);
    free(l->bodies);
    free(l->views);
    free(l);
}

static void *rabbit_link(void *handle, uint32_t client, char *problem)
{
    (void)client;
    const struct bench_settings *s = handle;
    struct link *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->settings = s;
    l->bodies = malloc(s->batch * s->size);
    l->views = calloc(s->batch, sizeof *l->views);
    l->confirmed = calloc(s->batch, sizeof *l->confirmed);
    l->out = dial(s->place, problem);
    if (l->out) (void)amqp_confirm_select(l->out, CHANNEL);
    if (l->bodies && l->views && l->confirmed && l->out &&
        reply_ok(amqp_get_rpc_reply(l->out), "confirms", problem))
        return l;
    rabbit_unlink(l);
    return NULL;
}

// Marks the messages that an ack confirms. `first` is the first tag of the batch. Returns how many
// are new.
static size_t mark(struct link *l, const amqp_basic_ack_t *ack, uint64_t first, size_t count)
{
    size_t added = 0;
    for (size_t i = 0; i < count; i++) {
        bool meant =
            ack->multiple ? first + i <= ack->delivery_tag : first + i == ack->delivery_tag;
        added += meant && !l->confirmed[i];
        l->confirmed[i] = l->confirmed[i] || meant;
    }
    return added;
}

static bool await_confirms(struct link *l, size_t count, char *problem)
{
    memset(l->confirmed, 0, count * sizeof *l->confirmed);
    for (size_t done = 0; done < count;) {
        amqp_frame_t frame;
        struct timeval patience = {.tv_sec = PATIENCE};
        int status = amqp_simple_wait_frame_noblock(l->out, &frame, &patience);
        if (!status_ok(status, "confirm", problem)) return false;
        if (frame.frame_type != AMQP_FRAME_METHOD ||
            frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
            return refuse(problem, "confirm", "something else came");
        done += mark(l, frame.payload.method.decoded, l->published - count + 1, count);
    }
    amqp_maybe_release_buffers(l->out);
    return true;
}

static bool rabbit_send(void *link, const char *bodies, size_t count, char *problem)
{
    struct link *l = link;
    size_t size = l->settings->size;
    amqp_basic_properties_t durable = {._flags = AMQP_BASIC_DELIVERY_MODE_FLAG, .delivery_mode = 2};
    amqp_bytes_t queue = amqp_cstring_bytes(l->settings->queue);
    for (size_t i = 0; i < count; i++) {
        amqp_bytes_t body = {.len = size, .bytes = (void *)(uintptr_t)(bodies + i * size)};
        int status =
            amqp_basic_publish(l->out, CHANNEL, amqp_empty_bytes, queue, 0, 0, &durable, body);
        if (!status_ok(status, "publish", problem)) return false;
        l->published++;
    }
    return await_confirms(l, count, problem);
}

static bool subscribe(struct link *l, uint32_t max, char *problem)
{
    uint16_t ahead = (uint16_t)(max > 1 ? max * 2 : 1);
    l->in = dial(l->settings->place, problem);
    if (!l->in) return false;
    (void)amqp_basic_qos(l->in, CHANNEL, 0, ahead, 0);
    if (!reply_ok(amqp_get_rpc_reply(l->in), "prefetch", problem)) return false;
    (void)amqp_basic_consume(l->in, CHANNEL, amqp_cstring_bytes(l->settings->queue),
                             amqp_empty_bytes, 0, 0, 0, amqp_empty_table);
    return reply_ok(amqp_get_rpc_reply(l->in), "consume", problem);
}

// Reads the next pushed message. *none becomes true if none arrives in time.
static bool take(struct link *l, int64_t wait_ms, bool *none, char *problem)
{
    struct timeval wait = {.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000};
    amqp_envelope_t envelope;
    amqp_rpc_reply_t reply = amqp_consume_message(l->in, &envelope, &wait, 0);
    *none = reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION &&
            reply.library_error == AMQP_STATUS_TIMEOUT;
    if (*none) return true;
    if (!reply_ok(reply, "delivery", problem)) return false;
    bool ok = envelope.message.body.len == l->settings->size;
    if (ok) {
        char *body = l->bodies + l->got * l->settings->size;
        memcpy(body, envelope.message.body.bytes, l->settings->size);
        l->views[l->got++] = body;
        l->last_tag = envelope.delivery_tag;
    }
    amqp_destroy_envelope(&envelope);
    return ok || refuse(problem, "delivery", "a body of another size");
}

static bool rabbit_receive(void *link, uint32_t max, int64_t wait_ms, struct bench_batch *got,
                           char *problem)
{
    struct link *l = link;
    bool none = false;
    l->got = 0;
    if (!l->in && !subscribe(l, max, problem)) return false;
    amqp_maybe_release_buffers(l->in);
    while (!none && l->got < max)
        if (!take(l, l->got == 0 ? wait_ms : 0, &none, problem)) return false;
    *got = (struct bench_batch){.bodies = l->views, .len = l->got};
    return true;
}

static bool rabbit_ack(void *link, char *problem)
{
    struct link *l = link;
    return status_ok(amqp_basic_ack(l->in, CHANNEL, l->last_tag, 1), "ack", problem);
}

const struct bench_target bench_rabbit = {
    .name = "rabbitmq",
    .open = rabbit_open,
    .close = rabbit_close,
    .link = rabbit_link,
    .unlink = rabbit_unlink,
    .send = rabbit_send,
    .receive = rabbit_receive,
    .ack = rabbit_ack,
};
