// SPDX-License-Identifier: Apache-2.0
// The nodes that own the shards of a queue, as an answer of a node tells a client:
//
//     Sluice-Owners: 01-1 unordered http://a:7333 http://b:7333
//
// The first word has one character per shard. It is the place of the owner's URL in the list that
// ends the line (0-9, a-z, A-Z), or "-" if the node does not know the owner. The second word is
// "ordered" if shard 0 has all messages without a group, else "unordered".
//
// A client asks for the line with a header of the same name. Its value is the hash of the line that
// the client has, or "?". An answer has the header if the node's line is another one.
#pragma once

#include "base/bytes.h"
#include "queue/codec/settings.h"

#include <stdbool.h>
#include <stdint.h>

#define OWNER_MAP_HEADER   "Sluice-Owners"
#define OWNER_MAP_URLS_MAX 62
#define OWNER_MAP_NONE     UINT8_MAX
#define OWNER_MAP_TEXT_MAX ((size_t)16 << 10) // a longer line is not sent
#define OWNER_MAP_HASH_MAX 17

struct owner_map {
    uint32_t shards;
    bool ordered;
    uint8_t owner[CONFIG_SHARDS_MAX]; // an index of urls, or OWNER_MAP_NONE
    size_t urls_len;
    struct bytes urls[OWNER_MAP_URLS_MAX]; // borrowed
};

// Writes the line without its name. The map has at least one shard.
void owner_map_print(const struct owner_map *map, struct buf *out);
// Returns false if owner_map_print did not make the text. The URLs are views of the text.
bool owner_map_parse(struct bytes text, struct owner_map *out);
// The value of a client's request header.
void owner_map_hash(struct bytes text, char out[OWNER_MAP_HASH_MAX]);
// Returns true if the URL has http or https, a host, perhaps a port, and nothing else. A path or a
// user would let a journal direct callers to another service of that host.
bool owner_url_is_good(const char *url);
