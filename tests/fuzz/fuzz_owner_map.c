// SPDX-License-Identifier: Apache-2.0
// Any bytes as the header that tells a client the owners of a queue's shards.
#include "base/check.h"
#include "fuzz.h"
#include "protocol/owner_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes input = bytes_of(data, size);
    struct owner_map map;
    struct buf text;
    if (!owner_map_parse(input, &map)) return 0;
    CHECK(map.shards > 0 && map.shards <= CONFIG_SHARDS_MAX);
    for (uint32_t i = 0; i < map.shards; i++)
        CHECK(map.owner[i] == OWNER_MAP_NONE || map.owner[i] < map.urls_len);
    buf_init(&text, SIZE_MAX);
    owner_map_print(&map, &text);
    CHECK(bytes_equal(buf_bytes(&text), input));
    buf_done(&text);
    return 0;
}
