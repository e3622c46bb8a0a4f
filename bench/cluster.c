// SPDX-License-Identifier: Apache-2.0
// The load of tools/bench-cluster: clients send messages to one queue, then drain it. It prints a
// line of JSON with both rates.
//
//     bench-cluster random|map URLS MESSAGES CLIENTS BATCH [steps]
//
// The steps are: warm-up, sends, drain. With "steps", it prints a line after each of the first two,
// and waits for a line before it goes on.
// random: each call goes to a node that is drawn, which forwards what another node owns. map: the
// client has the whole list of nodes, and learns which node owns a shard.
#include "base/check.h"
#include "os/clock.h"

#include <pthread.h>
#include <sluice.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE       "wide"
#define NODES_MAX   8
#define CLIENTS_MAX 64
#define BATCH_MAX   100
#define WARM_UP     200 // messages

struct load {
    struct sluice *handles[NODES_MAX];
    unsigned handles_len;
    int messages, batch;
    _Atomic int left; // to send, then to acknowledge
    _Atomic unsigned failed;
};

struct client {
    struct load *load;
    unsigned seed;
    pthread_t thread;
};

static struct sluice *draw(struct client *c)
{
    return c->load->handles[(unsigned)rand_r(&c->seed) % c->load->handles_len];
}

// Each message has a group of its own, so a batch goes to several shards. A single message goes to
// one.
static void *send_all(void *arg)
{
    struct client *c = arg;
    struct load *l = c->load;
    struct sluice_send batch[BATCH_MAX];
    char groups[BATCH_MAX][16];
    static const char body[300] = {'x'};
    for (int from; (from = atomic_fetch_sub(&l->left, l->batch)) > 0;) {
        int len = from < l->batch ? from : l->batch;
        for (int i = 0; i < len; i++) {
            (void)snprintf(groups[i], sizeof groups[i], "%u", (unsigned)rand_r(&c->seed));
            batch[i] =
                (struct sluice_send){.body = body, .body_len = sizeof body, .group = groups[i]};
        }
        struct sluice_error error = {0};
        if (sluice_send(draw(c), QUEUE, batch, (size_t)len, NULL, NULL, &error)) {
            (void)fprintf(stderr, "send: %s\n", error.message);
            l->failed++;
        }
    }
    return NULL;
}

static void *drain_all(void *arg)
{
    struct client *c = arg;
    struct load *l = c->load;
    while (atomic_load(&l->left) > 0) {
        struct sluice_receive ask = {.max = (unsigned)l->batch, .wait_ms = 200};
        struct sluice_batch *batch = NULL;
        const char *tokens[BATCH_MAX];
        struct sluice_error error = {0};
        if (sluice_receive(draw(c), QUEUE, &ask, &batch, &error)) {
            (void)fprintf(stderr, "receive: %s\n", error.message);
            l->failed++;
            continue;
        }
        for (size_t i = 0; i < batch->len; i++)
            tokens[i] = batch->messages[i].token;
        if (batch->len > 0 && sluice_ack(draw(c), QUEUE, tokens, batch->len, NULL, &error)) {
            (void)fprintf(stderr, "ack: %s\n", error.message);
            l->failed++;
        }
        (void)atomic_fetch_sub(&l->left, (int)batch->len);
        sluice_batch_free(batch);
    }
    return NULL;
}

static double rate(struct load *l, int clients, void *(*work)(void *))
{
    struct client all[CLIENTS_MAX];
    int64_t began = clock_boot_ns();
    l->left = l->messages;
    for (int i = 0; i < clients; i++) {
        all[i] = (struct client){.load = l, .seed = (unsigned)i + 1};
        CHECK(pthread_create(&all[i].thread, NULL, work, &all[i]) == 0);
    }
    for (int i = 0; i < clients; i++)
        (void)pthread_join(all[i].thread, NULL);
    return l->messages * 1e9 / (double)(clock_boot_ns() - began);
}

static void open_one(struct load *l, const char *url)
{
    struct sluice_error error = {0};
    CHECK(l->handles_len < NODES_MAX);
    if (sluice_open(url, NULL, &l->handles[l->handles_len++], &error) == SLUICE_OK) return;
    (void)fprintf(stderr, "%s: %s\n", url, error.message);
    exit(1);
}

// "http://a:1,b:2" is one handle, or one for each node.
static void open_all(struct load *l, bool map, const char *urls)
{
    char list[1024], one[300], *rest = list;
    if (map) {
        open_one(l, urls);
        return;
    }
    (void)snprintf(list, sizeof list, "%s", strncmp(urls, "http://", 7) == 0 ? urls + 7 : urls);
    for (char *place; (place = strsep(&rest, ","));) {
        (void)snprintf(one, sizeof one, "http://%s", place);
        open_one(l, one);
    }
}

static void pause_for(bool steps)
{
    if (!steps) return;
    (void)printf("{}\n");
    (void)fflush(stdout);
    (void)getchar();
}

int main(int argc, char **argv)
{
    struct load l = {.messages = argc > 3 ? atoi(argv[3]) : 0};
    int clients = argc > 4 ? atoi(argv[4]) : 0;
    l.batch = argc > 5 ? atoi(argv[5]) : 0;
    if (l.messages < 1 || clients < 1 || clients > CLIENTS_MAX || l.batch < 1 ||
        l.batch > BATCH_MAX) {
        (void)fprintf(stderr, "bench-cluster random|map URLS MESSAGES CLIENTS BATCH\n");
        return 2;
    }
    open_all(&l, strcmp(argv[1], "map") == 0, argv[2]);
    bool steps = argc > 6 && strcmp(argv[6], "steps") == 0;
    int messages = l.messages;
    l.messages = WARM_UP; // the client learns the owners of the shards
    (void)rate(&l, clients, send_all);
    pause_for(steps);
    l.messages = messages;
    double sends = rate(&l, clients, send_all);
    pause_for(steps);
    l.messages += WARM_UP;
    double drains = rate(&l, clients, drain_all);
    (void)printf("{\"sends\": %.0f, \"drains\": %.0f, \"failed\": %u}\n", sends, drains, l.failed);
    for (unsigned i = 0; i < l.handles_len; i++)
        sluice_close(l.handles[i]);
    return 0;
}
