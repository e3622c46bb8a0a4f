// SPDX-License-Identifier: Apache-2.0
// Requests of every kind, good and bad, over connections that are kept and some that are not: the
// node's memory is looked at on the way, and must not grow once it has seen each kind often enough.
//   million SLUICE [--requests N] [--clients N] [--growth MIB]
#include "load.h"

#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENTS_MAX 256
#define BODY_BYTES  300
#define PARTS       10 // the first is the warm-up

struct million {
    struct load load;
    uint64_t requests;
    uint32_t clients;
    uint64_t growth_kib; // what may be added after the warm-up
    _Atomic uint64_t made;
    _Atomic uint64_t target; // of the part that runs
    _Atomic uint64_t faults;
    char fault[500];
    uint64_t resident[PARTS + 1];
};

struct client {
    struct million *m;
    pthread_t thread;
    struct sluice *node;
    uint64_t turns;
};

// ---- one client

static bool expect(struct client *c, const char *what, enum sluice_code code,
                   enum sluice_code wanted, const struct sluice_error *error)
{
    struct million *m = c->m;
    atomic_fetch_add(&m->made, 1);
    if (code == wanted) return true;
    if (atomic_fetch_add(&m->faults, 1) == 0)
        (void)snprintf(m->fault, sizeof m->fault, "%s answers %s: %s", what, sluice_code_name(code),
                       error->message);
    return false;
}

static bool ack(struct client *c, const struct sluice_batch *b, enum sluice_code wanted)
{
    struct sluice_error e;
    const char *token = b->messages[0].token;
    return expect(c, "ack", sluice_ack(c->node, LOAD_QUEUE, &token, 1, NULL, &e), wanted, &e);
}

// Another client may have taken what this one sent: then there is one more to be had later.
static bool cycle(struct client *c)
{
    char body[BODY_BYTES] = {(char)c->turns};
    struct sluice_error e = {.message = ""};
    struct sluice_send send = {.body = body, .body_len = sizeof body};
    struct sluice_receive r = {.worker = "million", .wait_ms = 20};
    struct sluice_batch *b = NULL;
    bool ok = expect(c, "send", sluice_send(c->node, LOAD_QUEUE, &send, 1, NULL, NULL, &e),
                     SLUICE_OK, &e) &&
              expect(c, "receive", sluice_receive(c->node, LOAD_QUEUE, &r, &b, &e), SLUICE_OK, &e);
    if (ok && b->len > 0) {
        ok = ack(c, b, SLUICE_OK);
        if (ok && c->turns % 16 == 0) ok = ack(c, b, SLUICE_CONFLICT); // it is finished
    }
    sluice_batch_free(b);
    return ok;
}

static bool look(struct client *c)
{
    struct sluice_error e = {.message = ""};
    struct sluice_stats stats;
    struct sluice_names *names = NULL;
    struct sluice_queue_info *info = NULL;
    struct sluice_batch *b = NULL;
    bool ok =
        expect(c, "stats", sluice_stats(c->node, LOAD_QUEUE, &stats, &e), SLUICE_OK, &e) &&
        expect(c, "list", sluice_queue_list(c->node, &names, &e), SLUICE_OK, &e) &&
        expect(c, "show", sluice_queue_show(c->node, LOAD_QUEUE, &info, &e), SLUICE_OK, &e) &&
        expect(c, "peek", sluice_peek(c->node, LOAD_QUEUE, NULL, &b, &e), SLUICE_OK, &e) &&
        expect(c, "stats", sluice_stats(c->node, "nowhere", &stats, &e), SLUICE_NOT_FOUND, &e);
    sluice_names_free(names);
    sluice_queue_info_free(info);
    sluice_batch_free(b);
    return ok;
}

static bool reconnect(struct client *c)
{
    struct sluice_error e = {.message = ""};
    sluice_close(c->node);
    c->node = NULL;
    return expect(c, "open", sluice_open(c->m->load.node.url, NULL, &c->node, &e), SLUICE_OK, &e);
}

static void *client_main(void *ctx)
{
    struct client *c = ctx;
    struct million *m = c->m;
    bool ok = reconnect(c);
    for (; ok && atomic_load(&m->faults) == 0 && atomic_load(&m->made) < atomic_load(&m->target);
         c->turns++) {
        ok = cycle(c);
        if (ok && c->turns % 10 == 0) ok = look(c);
        if (ok && c->turns % 100 == 0) ok = reconnect(c);
    }
    sluice_close(c->node);
    return NULL;
}

// ---- the one who watches

static void run_part(struct million *m, uint64_t target)
{
    static struct client clients[CLIENTS_MAX];
    uint32_t len = 0;
    atomic_store(&m->target, target);
    for (; len < m->clients; len++) {
        clients[len] = (struct client){.m = m};
        if (pthread_create(&clients[len].thread, NULL, client_main, &clients[len]) != 0) break;
    }
    for (uint32_t i = 0; i < len; i++)
        (void)pthread_join(clients[i].thread, NULL);
}

static void run(struct million *m)
{
    struct load *l = &m->load;
    int64_t start = load_now_ms();
    m->resident[0] = node_process_resident_kib(&l->node);
    for (uint64_t part = 1; part <= PARTS && atomic_load(&m->faults) == 0; part++) {
        run_part(m, m->requests * part / PARTS);
        m->resident[part] = node_process_resident_kib(&l->node);
    }
    int64_t took = load_now_ms() - start;
    load_case(l, "every call answers as it should", atomic_load(&m->faults) == 0, "%s", m->fault);
    printf("# %" PRIu64 " requests by %" PRIu32
           " clients, %.0f a second, load %.2f\n# MiB resident "
           "at the start, then after each tenth:",
           atomic_load(&m->made), m->clients,
           (double)atomic_load(&m->made) * 1000 / (double)(took > 0 ? took : 1), load_average());
    for (int part = 0; part <= PARTS; part++)
        printf(" %.1f", (double)m->resident[part] / 1024);
    printf("\n");
    load_case(l, "memory does not grow after the warm-up",
              m->resident[PARTS] > 0 && m->resident[PARTS] <= m->resident[1] + m->growth_kib,
              "%" PRIu64 " KiB after the first tenth, %" PRIu64 " KiB at the end", m->resident[1],
              m->resident[PARTS]);
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"requests", required_argument, NULL, 'n'},
                                          {"clients", required_argument, NULL, 'c'},
                                          {"growth", required_argument, NULL, 'g'},
                                          {0}};
    static struct million m = {.requests = 1000000, .clients = 16, .growth_kib = 8 << 10};
    for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (o == 'n') m.requests = strtoull(optarg, NULL, 10);
        if (o == 'c') m.clients = (uint32_t)atoi(optarg);
        if (o == 'g') m.growth_kib = strtoull(optarg, NULL, 10) << 10;
        if (o == '?') return 2;
    }
    if (optind + 1 != argc || m.requests < PARTS || m.clients < 1 || m.clients > CLIENTS_MAX)
        return 2;
    if (load_start(&m.load, argv[optind])) run(&m);
    return load_end(&m.load);
}
