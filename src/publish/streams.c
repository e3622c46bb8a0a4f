// SPDX-License-Identifier: Apache-2.0
// The streams of a queue: one for all its shards, or one for each.
#include "publish/inside.h"

#include <stdio.h>

bool publishes_by_shard(const struct published_shard *s)
{
    return bus_limits(s->all->bus).by_shard;
}

enum err stream_name(const struct published_shard *s, uint32_t shard, char out[SUBJECT_STREAM_MAX])
{
    struct bytes queue = bytes_str(s->queue->row.name);
    return publishes_by_shard(s) ? subject_shard_stream(queue, shard, out)
                                 : subject_stream(queue, out);
}

static enum err ensure(struct published_shard *s, uint32_t shard, struct bus_stream_state *state,
                       char why[static BUS_WHY_MAX])
{
    char subjects[4][SUBJECT_MAX], name[SUBJECT_STREAM_MAX];
    const char *list[4] = {subjects[0], subjects[1], subjects[2], subjects[3]};
    const struct envelope_window *w = &s->all->config.window;
    uint32_t versions[2] = {w->newest, w->also};
    bool by_shard = publishes_by_shard(s);
    struct bytes queue = bytes_str(s->queue->row.name);
    struct bus_stream stream = {.subjects = list, .limits = bus_limits(s->all->bus)};
    enum err e = stream_name(s, shard, name);
    for (size_t i = 0; !e && i < (w->also > 0 ? 2 : 1); i++) {
        struct subject_filter task = {.version = versions[i],
                                      .kind = SUBJECT_TASK,
                                      .every_shard = !by_shard,
                                      .shard = shard,
                                      .queue = queue};
        struct subject_filter flow = {
            .version = versions[i], .kind = SUBJECT_WORKFLOW, .queue = queue};
        e = subject_filter_print(&task, subjects[stream.subjects_len++]);
        if (!e && !by_shard) e = subject_filter_print(&flow, subjects[stream.subjects_len++]);
    }
    if (e) return e;
    engine_store_id(s->all->engine, stream.store);
    (void)snprintf(stream.name, sizeof stream.name, "%.*s", BUS_STREAM_MAX - 1, name);
    return bus_stream_ensure(s->all->bus, &stream, state, why);
}

// A consumer looks for the streams from shard 0 on, so that one is made last: it finds all or none.
enum err streams_ensure(struct published_shard *s, struct bus_stream_state *state,
                        char why[static BUS_WHY_MAX])
{
    uint32_t shards = s->queue->row.birth.shards;
    struct bus_stream_state other;
    if (!publishes_by_shard(s)) return ensure(s, s->shard, state, why);
    if (shards > SUBJECT_SHARD_STREAMS_MAX) {
        (void)snprintf(why, BUS_WHY_MAX,
                       "queue %.100s has %u shards: with streams=shard it has at most %d; use "
                       "streams=queue in the URL of the bus",
                       s->queue->row.name, shards, SUBJECT_SHARD_STREAMS_MAX);
        return ERR_LIMIT;
    }
    enum err e = ERR_OK;
    for (uint32_t i = shards; !e && i > 0; i--)
        e = ensure(s, i - 1, i - 1 == s->shard ? state : &other, why);
    return e;
}
