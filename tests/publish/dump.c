// SPDX-License-Identifier: Apache-2.0
// Prints the events of a queue's stream, as a consumer sees them, up to the stream's end:
//   bus-dump URL QUEUE      one line "event SHARD SEQUENCE ID KEY" or "gap SHARD FIRST LAST" for
//   each
//   bus-dump URL --cluster  "cluster PUBLISHER TYPE NODE STATUS QUEUE SHARD", "-" for what is empty
// After each stream: "messages M duplicates D of FIRST..LAST", as the bus numbers them. Exit status
// 1: the bus does not answer, or it delivers no message for SILENT_MS.
#include "bus/bus.h"
#include "events/consumer.h"
#include "os/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PATIENCE_MS 60000
#define SILENT_MS   20000 // for example, because the server of the subscription was killed

static const char *word(const char *text)
{
    return *text ? text : "-";
}

static void print_cluster(const struct envelope *e)
{
    printf("cluster %s %s %s %s %s %u\n", e->node_id, e->event_type, word(e->payload.node),
           word(e->payload.status), word(e->queue), e->shard);
}

static void print_all(struct consumer *c, int64_t now)
{
    struct consumer_result o;
    while (consumer_next(c, now, &o)) {
        if (o.kind == CONSUMER_EVENT && o.envelope->sequence == 0)
            print_cluster(o.envelope);
        else if (o.kind == CONSUMER_EVENT)
            printf("event %u %" PRIu64 " %s %s\n", o.envelope->shard, o.envelope->sequence,
                   o.envelope->event_id, o.envelope->ordering_key);
        if (o.kind == CONSUMER_GAP)
            printf("gap %u %" PRIu64 " %" PRIu64 "\n", o.shard, o.first, o.last);
        if (o.kind == CONSUMER_REFUSED) printf("refused %s\n", o.why);
    }
}

static enum err read_all(struct bus *b, const char *stream, struct consumer *c,
                         struct bus_stream_state *state, uint64_t *messages,
                         char why[static BUS_WHY_MAX])
{
    struct bus_subscription *sub = NULL;
    struct bus_message m;
    uint64_t number = 0;
    enum err e = bus_stream_state(b, stream, state, why);
    if (e == ERR_NOT_FOUND) return ERR_OK; // nothing was published yet
    if (e || state->messages == 0) return e;
    int64_t until = clock_boot_ms() + SILENT_MS;
    e = bus_subscribe(b, &(struct bus_start){.stream = stream, .sequence = 1}, &sub, why);
    while (!e && number < state->last) {
        e = bus_next(sub, 1000, &m, why);
        bool silent = e == ERR_NOT_FOUND || e == ERR_UNAVAILABLE || e == ERR_UNKNOWN;
        if (silent && clock_boot_ms() < until) {
            e = ERR_OK;
            continue;
        }
        if (e) break;
        until = clock_boot_ms() + SILENT_MS;
        number = m.sequence;
        (*messages)++;
        consumer_take(c, m.sequence, m.body, clock_boot_ms());
        print_all(c, clock_boot_ms());
    }
    bus_unsubscribe(sub);
    return e;
}

static enum err dump(struct bus *b, const char *stream, char why[static BUS_WHY_MAX])
{
    uint64_t messages = 0;
    struct bus_stream_state state = {0};
    struct schema_set *set = schema_set_new();
    struct consumer *c = consumer_new(&(struct consumer_config){.from_first = true}, set);
    enum err e = read_all(b, stream, c, &state, &messages, why);
    print_all(c, INT64_MAX / 2); // what is still held: its gap is final
    printf("messages %" PRIu64 " duplicates %" PRIu64 " of %" PRIu64 "..%" PRIu64 "\n", messages,
           consumer_counts(c).duplicates, state.first, state.last);
    consumer_free(c);
    schema_set_free(set);
    return e;
}

// The streams of the shards, if the queue has one for each.
static enum err dump_queue(struct bus *b, const char *queue, char why[static BUS_WHY_MAX])
{
    char stream[SUBJECT_STREAM_MAX];
    struct bus_stream_state state;
    if (subject_shard_stream(bytes_str(queue), 0, stream)) return ERR_INVALID;
    enum err e = bus_stream_state(b, stream, &state, why);
    for (uint32_t shard = 1; !e; shard++) {
        e = dump(b, stream, why);
        if (!e) e = subject_shard_stream(bytes_str(queue), shard, stream);
        if (!e && (e = bus_stream_state(b, stream, &state, why)) == ERR_NOT_FOUND) return ERR_OK;
    }
    if (e == ERR_NOT_FOUND) e = subject_stream(bytes_str(queue), stream);
    return e ? e : dump(b, stream, why);
}

int main(int argc, char **argv)
{
    char why[BUS_WHY_MAX] = "";
    struct bus *b = NULL;
    if (argc != 3) return 2;
    enum err e = bus_open(&(struct bus_config){.url = argv[1], .name = "dump"}, &b, why);
    if (!e) e = bus_wait(b, PATIENCE_MS, why);
    if (!e && strcmp(argv[2], "--cluster") == 0)
        e = dump(b, SUBJECT_CLUSTER_STREAM, why);
    else if (!e)
        e = dump_queue(b, argv[2], why);
    if (e) (void)fprintf(stderr, "bus-dump: %s: %s\n", err_name(e), why);
    bus_close(b);
    return e ? 1 : 0;
}
