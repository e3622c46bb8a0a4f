// SPDX-License-Identifier: Apache-2.0
// Frees the answers that have no builder of their own.
#include "base/memory.h"
#include "sluice.h"
#include "sluice_cluster.h"

void sluice_queue_info_free(struct sluice_queue_info *info)
{
    if (!info) return;
    for (size_t i = 0; i < info->settings_len; i++)
        memory_free((void *)(uintptr_t)info->settings[i].value);
    memory_free(info->settings);
    memory_free(info->name);
    memory_free(info);
}

void sluice_names_free(struct sluice_names *names)
{
    if (!names) return;
    for (size_t i = 0; i < names->len; i++)
        memory_free(names->names[i]);
    memory_free(names->names);
    memory_free(names);
}

void sluice_cluster_free(struct sluice_cluster *c)
{
    if (!c) return;
    memory_free(c->members);
    memory_free(c->shards);
    memory_free(c);
}
