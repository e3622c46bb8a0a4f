// SPDX-License-Identifier: Apache-2.0
// Publishes events as a node does, for tests of consumers: put-events QUEUE SHARD FIRST LAST
// [AGAIN]
//
// SLUICE_TEST_NATS is the bus. The events have the sequences FIRST to LAST. A text AGAIN makes the
// message ids others, so that the stream stores events that it has already. With "gap" in place of
// AGAIN, one gap event tells the range. With "major", the envelopes are of a later version.
#include "base/text.h"
#include "bus/bus.h"
#include "events/envelope.h"
#include "events/schema.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIFE        "00112233445566778899aabbccddeeff"
#define WAIT_MS     30000
#define ACK_SECONDS 5
#define ATTEMPTS    12

struct putting {
    struct bus *bus;
    struct bus_sender *sender;
    const char *queue;
    uint32_t shard;
    const char *again; // "": the usual message ids
    pthread_mutex_t lock;
    pthread_cond_t acked;
    uint64_t acks;
    char why[BUS_WHY_MAX];
};

struct headers {
    struct bus_header rows[BUS_HEADERS_MAX];
    size_t len;
};

static int fail(const char *what, const char *why)
{
    (void)fprintf(stderr, "put-events: %s: %s\n", what, why);
    return 1;
}

static void see_ack(void *ctx, const struct bus_ack *ack)
{
    struct putting *p = ctx;
    (void)pthread_mutex_lock(&p->lock);
    p->acks++;
    if (ack->err) (void)snprintf(p->why, sizeof p->why, "%s", ack->why ? ack->why : "refused");
    (void)pthread_cond_signal(&p->acked);
    (void)pthread_mutex_unlock(&p->lock);
}

static void add_header(void *ctx, const char *name, const char *value)
{
    struct headers *h = ctx;
    if (h->len < BUS_HEADERS_MAX)
        h->rows[h->len++] = (struct bus_header){strdup(name), strdup(value)};
}

static void free_headers(struct headers *h)
{
    for (size_t i = 0; i < h->len; i++) {
        free((char *)h->rows[i].name);
        free((char *)h->rows[i].value);
    }
}

static enum err put(struct putting *p, const struct envelope *e)
{
    char subject[SUBJECT_MAX], id[ENVELOPE_ID_MAX], unique[ENVELOPE_ID_MAX + 64];
    CLEANUP(buf_done) struct buf body;
    CLEANUP(free_headers) struct headers headers = {.len = 0};
    struct subject s = envelope_subject(e);
    struct envelope printed = *e;
    if (strcmp(p->again, "major") == 0) printed.schema_version = ENVELOPE_VERSION + 1;
    buf_init(&body, ENVELOPE_MAX);
    envelope_print(&printed, &body);
    envelope_headers(e, add_header, &headers);
    envelope_message_id(e, id);
    (void)snprintf(unique, sizeof unique, "%s%s", id, p->again);
    enum err err = subject_print(&s, subject);
    struct bus_publish message = {.subject = subject,
                                  .id = unique,
                                  .headers = headers.rows,
                                  .headers_len = headers.len,
                                  .body = buf_bytes(&body),
                                  .last_of_stream = BUS_NO_FENCE,
                                  .last_of_subject = BUS_NO_FENCE};
    return err ? err : bus_publish(p->sender, &message);
}

static enum err put_event(struct putting *p, uint64_t sequence)
{
    char id[ENVELOPE_ID_MAX], task[32], key[48];
    struct envelope_place place = {.queue = p->queue, .node = "n1"};
    (void)snprintf(id, sizeof id, LIFE "-%u-%llu-0-message-outcome-0", p->shard,
                   (unsigned long long)sequence);
    (void)snprintf(task, sizeof task, "00112233-%u-%llu", p->shard,
                   (unsigned long long)(sequence % 5));
    (void)snprintf(key, sizeof key, "task:%s", task);
    struct sluice_event e = {.id = id,
                             .type = sequence % 3 ? "message-outcome" : "message-enqueued",
                             .message = task,
                             .status = sequence % 3 ? "processed" : "",
                             .reason = "",
                             .worker = "host/1",
                             .attempt = 1,
                             .time = 1896350400000 + (int64_t)sequence,
                             .shard = p->shard,
                             .sequence = sequence,
                             .workflow = "w 1",
                             .ordering_key = key,
                             .from = {.queue = ""}};
    struct envelope made = envelope_of(&e, &place);
    return put(p, &made);
}

static enum err put_gap(struct putting *p, uint64_t first, uint64_t last)
{
    char id[ENVELOPE_ID_MAX];
    struct envelope_room room;
    struct envelope_place place = {.queue = p->queue, .node = "n1"};
    struct envelope made =
        envelope_gap(LIFE, &place, p->shard, first, last, 1896350400000, &room, id);
    return put(p, &made);
}

static enum err ensure_stream(struct putting *p, char why[BUS_WHY_MAX])
{
    char subjects[2][SUBJECT_MAX];
    char token[SUBJECT_TOKEN_MAX + 1];
    struct bus_stream_state state;
    const char *list[2] = {subjects[0], subjects[1]};
    struct bus_stream stream = {.subjects = list, .subjects_len = 2, .limits = bus_limits(p->bus)};
    *token_put(token, bytes_str(p->queue)) = '\0';
    (void)snprintf(subjects[0], SUBJECT_MAX, "sluice.v1.task.%s.>", token);
    (void)snprintf(subjects[1], SUBJECT_MAX, "sluice.v1.workflow.%s.>", token);
    (void)snprintf(stream.name, sizeof stream.name, "SLUICE_%.200s", token);
    return bus_stream_ensure(p->bus, &stream, &state, why);
}

// Waits for the answers. False: one is missing or refuses, so everything is to be sent again.
static bool all_acked(struct putting *p, uint64_t wanted)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ACK_SECONDS;
    int late = 0;
    (void)pthread_mutex_lock(&p->lock);
    while (p->acks < wanted && !late)
        late = pthread_cond_timedwait(&p->acked, &p->lock, &until);
    bool good = p->acks >= wanted && !p->why[0];
    (void)pthread_mutex_unlock(&p->lock);
    return good;
}

// Sends everything once. A stream drops what it has by its message id.
static bool put_all(struct putting *p, uint64_t first, uint64_t last)
{
    bool gap = strcmp(p->again, "gap") == 0;
    char why[BUS_WHY_MAX] = "";
    p->acks = 0;
    p->why[0] = '\0';
    if (ensure_stream(p, why) || bus_sender_new(p->bus, see_ack, p, &p->sender)) {
        (void)fail("stream", why);
        return false;
    }
    enum err err = gap ? put_gap(p, first, last) : ERR_OK;
    for (uint64_t s = first; !err && !gap && s <= last; s++)
        err = put_event(p, s);
    bool good = !err && all_acked(p, gap ? 1 : last - first + 1);
    bus_sender_free(p->sender);
    return good;
}

int main(int argc, char **argv)
{
    struct putting p = {.lock = PTHREAD_MUTEX_INITIALIZER, .acked = PTHREAD_COND_INITIALIZER};
    char why[BUS_WHY_MAX] = "";
    const char *url = getenv("SLUICE_TEST_NATS");
    if (argc < 5 || !url) return fail("usage", "QUEUE SHARD FIRST LAST [AGAIN]");
    p.queue = argv[1];
    p.shard = (uint32_t)strtoul(argv[2], NULL, 10);
    p.again = argc > 5 ? argv[5] : "";
    struct bus_config config = {.url = url, .name = "put-events"};
    if (bus_open(&config, &p.bus, why) || bus_wait(p.bus, WAIT_MS, why)) return fail("bus", why);
    uint64_t first = strtoull(argv[3], NULL, 10), last = strtoull(argv[4], NULL, 10);
    bool good = false;
    for (int attempt = 0; !good && attempt < ATTEMPTS; attempt++)
        good = put_all(&p, first, last);
    bus_close(p.bus);
    return good ? 0 : fail("publish", "no attempt was acknowledged");
}
