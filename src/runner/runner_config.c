// SPDX-License-Identifier: Apache-2.0
// Builds the configuration of a shard from that of its runner and from the properties of the store.
#include "os/entropy.h"
#include "runner/runner_answer.h"

#include <stdio.h>
#include <string.h>

#define HIGH_LATENCY_SNAPSHOT_EVERY 128
// Bytes of entries before the next snapshot, as a multiple of its length.
#define SNAPSHOT_RATIO              2

static void shard_config_of(const struct runner_config *config, struct shard_config *out)
{
    *out = (struct shard_config){.birth = config->birth,
                                 .from_oldest = config->from_oldest,
                                 .keeps_events = config->keeps_events,
                                 .keeps_time = config->keeps_time,
                                 .moves_dead_letters = config->moves_dead_letters,
                                 .totals = config->totals};
    journal_config_defaults(&out->journal);
    out->journal.id = config->id;
    entropy_fill(&out->journal.writer, sizeof out->journal.writer);
    out->journal.seed = entropy_u64();
    out->journal.snapshot_ratio = SNAPSHOT_RATIO;
    if (config->no_courtesy) out->journal.courtesy_ms = 0;
    if (config->rules.retain_ms != 0) out->journal.rules = config->rules;
    memcpy(out->queue, config->queue, sizeof out->queue);
    char *at = out->journal.prefix;
    at += snprintf(at, 3, "q/");
    for (size_t i = 0; i < sizeof config->id.queue; i++)
        at += snprintf(at, 3, "%02x", config->id.queue[i]);
    (void)snprintf(at, 16, "/%u", config->id.shard);
}

// The shards of a queue share the store's budget of puts.
static int64_t puts_share(const struct store *s, const struct runner_config *config)
{
    int64_t all = store_puts_per_second(s);
    int64_t shards = config->birth.shards > 0 ? config->birth.shards : 1;
    return (all + shards - 1) / shards;
}

void runner_shard_config(const struct store *s, const struct runner_config *config,
                         struct shard_config *out)
{
    shard_config_of(config, out);
    out->journal.puts_per_second = puts_share(s, config);
    out->journal.high_latency = store_is_high_latency(s);
    // On such a store each slot of a replay is a request, and a snapshot costs as much as a dozen
    // of them.
    bool usual = config->rules.retain_ms == 0;
    if (out->journal.high_latency && usual)
        out->journal.rules.snapshot_every = HIGH_LATENCY_SNAPSHOT_EVERY;
}
