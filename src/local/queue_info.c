// SPDX-License-Identifier: Apache-2.0
// Lists the queues and shows their settings.
#include "base/memory.h"
#include "local/look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_STEP 256

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
};

// The first shard has the settings that count.
static enum sluice_code show_shard(struct look *l, struct open_queue *q, uint32_t shard,
                                   struct shard_runner *d, bool *enough, struct sluice_error *error)
{
    (void)shard;
    (void)enough;
    (void)error;
    struct sluice_queue_info *info = NEW(struct sluice_queue_info);
    info->name = memory_text(q->row.name);
    for (int i = 0; i < 16; i++)
        (void)snprintf(info->id + (size_t)i * 2, 3, "%02x", q->row.id.bytes[i]);
    runner_inspect(d, read_info, info);
    ((struct show_look *)l)->info = info;
    return SLUICE_OK;
}

enum sluice_code direct_queue_show(struct sluice *s, const char *queue,
                                   struct sluice_queue_info **out, struct sluice_error *error)
{
    struct show_look l = {.look = {.first_only = true, .shard = show_shard}};
    enum sluice_code code = look_at_queue(s, queue, &l.look, error);
    if (!code) *out = l.info;
    return code;
}

void sluice_queue_info_free(struct sluice_queue_info *info)
{
    if (!info) return;
    for (size_t i = 0; i < info->settings_len; i++)
        memory_free((void *)(uintptr_t)info->settings[i].value);
    memory_free(info->settings);
    memory_free(info->name);
    memory_free(info);
}

static void add_name(void *ctx, const char *name)
{
    struct sluice_names *list = ctx;
    if (list->len % NAMES_STEP == 0)
        list->names = memory_resize(list->names, (list->len + NAMES_STEP) * sizeof *list->names);
    list->names[list->len++] = memory_text(name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// Closes the open queues that other processes have deleted. Perhaps no later call would notice.
static void forget_deleted(struct sluice *s, const struct sluice_names *alive)
{
    struct open_queue **open;
    size_t len = queues_hold(s, &open);
    for (size_t i = 0; i < len; i++) {
        CLEANUP(queue_let_go) struct open_queue *now = NULL;
        const char *name = open[i]->row.name;
        bool there = alive->len > 0 &&
                     bsearch(&name, alive->names, alive->len, sizeof *alive->names, by_name);
        if (!there) (void)queue_get_fresh(s, name, &now, NULL); // makes a deleted one stale
    }
    queues_let_go(open, len);
}

enum sluice_code direct_queue_list(struct sluice *s, struct sluice_names **out,
                                   struct sluice_error *error)
{
    struct sluice_names *list = NEW(struct sluice_names);
    struct store_answer answer;
    store_answer_init(&answer);
    enum err err = catalog_names(s->store, add_name, list, &answer);
    enum sluice_code code = err ? refuse_store(s, error, err, "the catalog", &answer) : SLUICE_OK;
    store_answer_done(&answer);
    if (code) {
        sluice_names_free(list);
        return code;
    }
    forget_deleted(s, list);
    *out = list;
    return SLUICE_OK;
}

void sluice_names_free(struct sluice_names *names)
{
    if (!names) return;
    for (size_t i = 0; i < names->len; i++)
        memory_free(names->names[i]);
    memory_free(names->names);
    memory_free(names);
}
