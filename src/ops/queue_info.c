// SPDX-License-Identifier: Apache-2.0
// Lists the queues and shows their settings.
#include "base/memory.h"
#include "ops/look.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_info(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    struct sluice_queue_info *info = ctx;
    struct config_pair pair;
    info->paused = machine_paused(m);
    while (config_print(machine_config(m), info->settings_len, &pair))
        info->settings_len++;
    info->settings = memory_zeroed(info->settings_len, sizeof *info->settings);
    for (size_t i = 0; i < info->settings_len; i++) {
        (void)config_print(machine_config(m), i, &pair);
        info->settings[i] = (struct sluice_setting){pair.key, memory_text(pair.value)};
    }
}

struct show_look {
    struct look look; // first
    struct sluice_queue_info *info;
    struct sluice_queue_info **out;
};

// The first shard has the settings that count.
static enum sluice_code show_shard(struct look *l, struct sluice_error *error)
{
    (void)error;
    const struct open_queue *q = l->queue;
    struct sluice_queue_info *info = NEW(struct sluice_queue_info);
    info->name = memory_text(q->row.name);
    info->created = q->row.created_ms;
    for (int i = 0; i < 16; i++)
        (void)snprintf(info->id + (size_t)i * 2, 3, "%02x", q->row.id.bytes[i]);
    runner_inspect(l->runner, read_info, info);
    ((struct show_look *)l)->info = info;
    return SLUICE_OK;
}

static void end(struct look *l, struct local_call *c)
{
    const struct show_look *show = (const struct show_look *)l;
    if (!call_code(c)) *show->out = show->info;
}

enum sluice_code start_queue_show(const struct request_origin *as, const char *queue,
                                  struct sluice_queue_info **out, struct sluice_error *error)
{
    struct show_look *l = NEW(struct show_look);
    l->look = (struct look){.first_only = true, .shard = show_shard, .end = end, .owned = true};
    l->out = out;
    return look_at_queue(as, queue, &l->look, error);
}

enum sluice_code ops_queue_list(struct engine *e, struct sluice_names **out,
                                struct sluice_error *error)
{
    return queues_list(e, out, error);
}
