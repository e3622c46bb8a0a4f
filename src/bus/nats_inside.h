// SPDX-License-Identifier: Apache-2.0
// Private to nats.c (the connection and publishing) and nats_stream.c (streams and reading).
#pragma once

#include "base/rng.h"
#include "bus/bus.h"
#include "bus/url.h"
#include "os/thread.h"

#include <pthread.h>

#define BUS_INBOX_MAX        128
// As the server knows them. A subject can be longer than BUS_SUBJECT_MAX (events/subject.h).
#define BUS_SUBJECT_WIRE_MAX 4096
#define BUS_STREAM_WIRE_MAX  1024

// One connection. It is closed when the last user drops it.
struct nats_link {
    struct bus *bus;
    struct __natsConnection *nc;
    struct __jsCtx *js;
    struct __natsSubscription *acks;
    struct __natsSubscription *listening; // NULL: the bus does not listen
    uint32_t users;
};

struct bus_sender {
    struct bus *bus;
    uint64_t number;
    bus_ack_fn *acked;
    void *ctx;
    uint32_t calls; // callbacks that run
    struct bus_sender *next;
};

struct bus {
    struct bus_url url;
    char name[128];
    char inbox[BUS_INBOX_MAX]; // the subjects of its acknowledgements begin with it
    void (*changed)(void *ctx, bool up);
    char listen[BUS_SUBJECT_MAX]; // "": it does not
    void (*on_message)(void *ctx, const struct bus_message *m);
    void *ctx;
    struct thread thread;
    struct rng rng;         // of the thread
    pthread_mutex_t lock;   // guards everything below
    pthread_cond_t moved;   // the link, stopping, or a count changed
    struct nats_link *link; // NULL: no connection
    struct bus_sender *senders;
    uint64_t numbers;
    uint64_t connections;
    uint64_t open; // connections and subscriptions of libnats that can still call back
    bool stopping;
    bool denied; // the last attempt ended with the server's refusal
    char why[BUS_WHY_MAX];
};

// The action that follows from an error of libnats: natsStatus and jsErrCode, 0 if there is none.
enum err nats_err(int status, int code);
// The reason of the calling thread's last error.
void nats_reason(int status, char why[static BUS_WHY_MAX]);
// The connection, with a hold. NULL: there is none.
struct nats_link *nats_link_take(struct bus *b);
void nats_link_drop(struct nats_link *l); // NULL is allowed
// Ends and frees a subscription of the connection, which is closed if it does not answer.
void nats_link_end(struct nats_link *l, struct __natsSubscription *sub);
