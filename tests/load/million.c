// SPDX-License-Identifier: Apache-2.0
// Requests of every kind, good and bad, over connections that are kept and some that are not: the
// node's memory is looked at on the way, and must not grow after the warm-up.
//
// A queue remembers the answers to request ids for ten minutes, up to a number of bytes. The full
// warm-up goes on until it has as many as it will ever have; after a shorter one each request still
// adds its answer, and that much is allowed.
//   million SLUICE [--warm N] [--requests N] [--clients N]
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
#define PARTS       10
#define WARM_FULL   1500000
#define GROWTH_KIB  (16 << 10) // no leak: what an allocator keeps of a snapshot
#define ANSWER_KIB  0.5        // of a remembered request, with all that finds it

struct million {
    struct load load;
    uint64_t warm;
    uint64_t requests; // after it
    uint32_t clients;
    _Atomic uint64_t made;
    _Atomic uint64_t target; // of the part that runs
    _Atomic uint64_t faults;
    char fault[500];
    uint64_t fresh_kib;           // before anything
    uint64_t resident[PARTS + 1]; // after the warm-up, and each part
};

struct client {
    struct million *m;
    pthread_t thread;
    struct sluice *node;
    uint64_t turns;
};

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

static void print_figures(const struct million *m, int64_t took_ms)
{
    printf("# %" PRIu64 " requests after %" PRIu64 " to warm up, by %" PRIu32
           " clients: %.0f a second, load %.2f\n",
           m->requests, m->warm, m->clients,
           (double)m->requests * 1000 / (double)(took_ms > 0 ? took_ms : 1), load_average());
    printf("# MiB resident: %.1f when started; %.1f before, %.1f after; on the way",
           (double)m->fresh_kib / 1024, (double)m->resident[0] / 1024,
           (double)m->resident[PARTS] / 1024);
    for (int part = 1; part < PARTS; part++)
        printf(" %.1f", (double)m->resident[part] / 1024);
    printf("\n");
}

static void run(struct million *m)
{
    struct load *l = &m->load;
    m->fresh_kib = node_process_resident_kib(&l->node);
    run_part(m, m->warm);
    m->resident[0] = node_process_resident_kib(&l->node);
    int64_t start = load_now_ms();
    for (uint64_t part = 1; part <= PARTS && atomic_load(&m->faults) == 0; part++) {
        run_part(m, m->warm + m->requests * part / PARTS);
        m->resident[part] = node_process_resident_kib(&l->node);
    }
    print_figures(m, load_now_ms() - start);
    load_case(l, "every call answers as it should", atomic_load(&m->faults) == 0, "%s", m->fault);
    double allowed = GROWTH_KIB;
    if (m->warm < WARM_FULL) allowed += ANSWER_KIB * (double)m->requests;
    double grown = (double)m->resident[PARTS] - (double)m->resident[0];
    load_case(l, "memory does not grow", m->resident[PARTS] > 0 && grown <= allowed,
              "%.0f KiB more, %.0f are allowed", grown, allowed);
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"warm", required_argument, NULL, 'w'},
                                          {"requests", required_argument, NULL, 'n'},
                                          {"clients", required_argument, NULL, 'c'},
                                          {0}};
    static struct million m = {.warm = WARM_FULL, .requests = 1000000, .clients = 16};
    for (int o; (o = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (o == 'n') m.requests = strtoull(optarg, NULL, 10);
        if (o == 'c') m.clients = (uint32_t)atoi(optarg);
        if (o == 'w') m.warm = strtoull(optarg, NULL, 10);
        if (o == '?') return 2;
    }
    if (optind + 1 != argc || m.requests < PARTS || m.warm < 1 || m.clients < 1 ||
        m.clients > CLIENTS_MAX)
        return 2;
    if (load_start(&m.load, argv[optind])) run(&m);
    return load_end(&m.load);
}
