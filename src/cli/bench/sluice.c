// SPDX-License-Identifier: Apache-2.0
// A process has one handle, which its clients share like the threads of a program.
#include "cli/bench/sluice.h"

#include "api/place.h"

#include <sluice.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct handle {
    struct sluice *store;
    const struct bench_settings *settings;
};

struct link {
    struct handle *handle;
    char worker[48];
    struct sluice_send *sends;
    struct sluice_batch *batch; // of the last receive
    const char **bodies;
    const char **tokens;
    size_t unacked; // joined: how many tokens to ack with the next receive
    struct sluice_outcome *acked;
};

static bool good(enum sluice_code code, const struct sluice_error *error, char *problem)
{
    if (code == SLUICE_OK) return true;
    (void)snprintf(problem, BENCH_PROBLEM_MAX, "%s: %s", sluice_code_name(code), error->message);
    return false;
}

static void *sluice_target_open(const struct bench_settings *s, char *problem)
{
    struct sluice_error error;
    struct handle *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    h->settings = s;
    if (good(sluice_open(s->place, NULL, &h->store, &error), &error, problem) &&
        good(sluice_queue_create(h->store, s->queue, s->queue_settings, s->queue_settings_len,
                                 &error),
             &error, problem))
        return h;
    sluice_close(h->store);
    free(h);
    return NULL;
}

static void sluice_target_close(void *handle)
{
    struct handle *h = handle;
    sluice_close(h->store);
    free(h);
}

static void sluice_unlink(void *link)
{
    struct link *l = link;
    sluice_batch_free(l->batch);
    free(l->sends);
    free(l->bodies);
    free(l->tokens);
    free(l->acked);
    free(l);
}

static void *sluice_link(void *handle, uint32_t client, char *problem)
{
    struct handle *h = handle;
    struct link *l = calloc(1, sizeof *l);
    if (!l) return NULL;
    l->handle = h;
    (void)snprintf(l->worker, sizeof l->worker, "bench-%ld-%" PRIu32, (long)getpid(), client);
    l->sends = calloc(h->settings->batch, sizeof *l->sends);
    l->bodies = calloc(h->settings->batch, sizeof *l->bodies);
    l->tokens = calloc(h->settings->batch, sizeof *l->tokens);
    l->acked = calloc(h->settings->batch, sizeof *l->acked);
    if (l->sends && l->bodies && l->tokens && l->acked) return l;
    (void)snprintf(problem, BENCH_PROBLEM_MAX, "no memory");
    sluice_unlink(l);
    return NULL;
}

static bool sluice_target_send(void *link, const char *bodies, size_t count, char *problem)
{
    struct link *l = link;
    size_t size = l->handle->settings->size;
    for (size_t i = 0; i < count; i++)
        l->sends[i] = (struct sluice_send){.body = bodies + i * size, .body_len = size};
    struct sluice_error error;
    return good(sluice_send(l->handle->store, l->handle->settings->queue, l->sends, count, NULL,
                            NULL, &error),
                &error, problem);
}

static bool receive_batch(struct link *l, const struct sluice_receive *r, struct bench_batch *got,
                          char *problem)
{
    struct sluice_error error;
    struct sluice_batch *before = l->batch; // r->acks points into this batch
    l->batch = NULL;
    enum sluice_code code =
        sluice_receive(l->handle->store, l->handle->settings->queue, r, &l->batch, &error);
    sluice_batch_free(before);
    if (!good(code, &error, problem)) return false;
    for (size_t i = 0; i < l->batch->len; i++) {
        l->bodies[i] = l->batch->messages[i].body;
        l->tokens[i] = l->batch->messages[i].token;
    }
    *got = (struct bench_batch){.bodies = l->bodies, .len = l->batch->len};
    return true;
}

static bool sluice_target_receive(void *link, uint32_t max, int64_t wait_ms,
                                  struct bench_batch *got, char *problem)
{
    struct link *l = link;
    struct sluice_receive r = {.worker = l->worker, .max = max, .wait_ms = wait_ms};
    return receive_batch(l, &r, got, problem);
}

static bool sluice_target_ack(void *link, char *problem)
{
    struct link *l = link;
    struct sluice_error error;
    return good(sluice_ack(l->handle->store, l->handle->settings->queue, l->tokens, l->batch->len,
                           NULL, &error),
                &error, problem);
}

static bool joined_receive(void *link, uint32_t max, int64_t wait_ms, struct bench_batch *got,
                           char *problem)
{
    struct link *l = link;
    struct sluice_receive r = {.worker = l->worker,
                               .max = max,
                               .wait_ms = wait_ms,
                               .acks = l->tokens,
                               .acks_len = l->unacked,
                               .acked = l->acked};
    if (!receive_batch(l, &r, got, problem)) return false;
    l->unacked = 0;
    for (size_t i = 0; i < r.acks_len; i++) {
        if (l->acked[i].code == SLUICE_OK) continue;
        (void)snprintf(problem, BENCH_PROBLEM_MAX, "an ack was refused: %s", l->acked[i].reason);
        return false;
    }
    return true;
}

static bool joined_ack(void *link, char *problem)
{
    struct link *l = link;
    (void)problem;
    l->unacked = l->batch->len;
    return true;
}

static void joined_unlink(void *link)
{
    struct link *l = link;
    char problem[BENCH_PROBLEM_MAX];
    if (l->unacked > 0) (void)sluice_target_ack(l, problem);
    sluice_unlink(l);
}

static struct bench_requests sluice_target_requests(void *handle)
{
    struct handle *h = handle;
    struct sluice_requests made;
    sluice_requests(h->store, &made);
    return (struct bench_requests){.all = made.writes + made.reads + made.deletes,
                                   .puts = made.writes,
                                   .shared = place_is(h->settings->place, PLACE_NODE)};
}

const struct bench_target bench_sluice = {
    .name = "sluice",
    .open = sluice_target_open,
    .close = sluice_target_close,
    .link = sluice_link,
    .unlink = sluice_unlink,
    .send = sluice_target_send,
    .receive = sluice_target_receive,
    .ack = sluice_target_ack,
    .requests = sluice_target_requests,
};

const struct bench_target bench_sluice_joined = {
    .name = "sluice",
    .open = sluice_target_open,
    .close = sluice_target_close,
    .link = sluice_link,
    .unlink = joined_unlink,
    .send = sluice_target_send,
    .receive = joined_receive,
    .ack = joined_ack,
    .requests = sluice_target_requests,
};
