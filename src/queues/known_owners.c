// SPDX-License-Identifier: Apache-2.0
#include "queues/known_owners.h"

#include "base/memory.h"
#include "base/text.h"
#include "queues/owner.h"
#include "queues/queues.h"

#include <string.h>

// Returns the place of the URL in the map, which gets it if it is new. OWNER_MAP_NONE: the list is
// full.
static uint8_t place_of(struct owner_map *map, char (*texts)[JOURNAL_ADDRESS_MAX], const char *url)
{
    for (size_t i = 0; i < map->urls_len; i++)
        if (strcmp(texts[i], url) == 0) return (uint8_t)i;
    if (map->urls_len == OWNER_MAP_URLS_MAX) return OWNER_MAP_NONE;
    size_t i = map->urls_len++;
    (void)text_copy(texts[i], sizeof texts[i], url);
    map->urls[i] = bytes_str(texts[i]);
    return (uint8_t)i;
}

bool owner_map_known(struct engine *e, const char *queue, struct buf *out)
{
    CLEANUP(queue_let_go) struct open_queue *q = queue_if_known(e, queue);
    if (!q) return false;
    char url[JOURNAL_ADDRESS_MAX];
    char(*texts)[JOURNAL_ADDRESS_MAX] = memory_zeroed(OWNER_MAP_URLS_MAX, sizeof *texts);
    struct owner_map map = {.shards = q->row.birth.shards,
                            .ordered = q->row.birth.ordering_guarantee};
    for (uint32_t i = 0; i < map.shards; i++)
        map.owner[i] = owner_of_shard(q, i, url) ? place_of(&map, texts, url) : OWNER_MAP_NONE;
    if (map.urls_len > 0) owner_map_print(&map, out);
    memory_free(texts);
    return map.urls_len > 0 && out->len <= OWNER_MAP_TEXT_MAX;
}
