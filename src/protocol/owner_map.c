// SPDX-License-Identifier: Apache-2.0
// Prints and reads the line that tells clients the owners of a queue's shards.
#include "protocol/owner_map.h"

#include "base/authority.h"
#include "base/check.h"
#include "base/digits.h"
#include "base/hash.h"

#include <string.h>

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
#define ORDERED   "ordered"
#define UNORDERED "unordered"

void owner_map_print(const struct owner_map *map, struct buf *out)
{
    CHECK(map->shards > 0 && map->shards <= CONFIG_SHARDS_MAX);
    CHECK(map->urls_len <= OWNER_MAP_URLS_MAX);
    for (uint32_t i = 0; i < map->shards; i++) {
        CHECK(map->owner[i] == OWNER_MAP_NONE || map->owner[i] < map->urls_len);
        buf_put_u8(out, (uint8_t)(map->owner[i] == OWNER_MAP_NONE ? '-' : digits[map->owner[i]]));
    }
    buf_put(out, bytes_str(map->ordered ? " " ORDERED : " " UNORDERED));
    for (size_t i = 0; i < map->urls_len; i++) {
        buf_put_u8(out, ' ');
        buf_put(out, map->urls[i]);
    }
}

// Takes the text up to the next space. Returns false at the end of the text.
static bool take_word(struct bytes *text, struct bytes *word)
{
    if (text->len == 0) return false;
    const uint8_t *space = memchr(text->data, ' ', text->len);
    size_t len = space ? (size_t)(space - text->data) : text->len;
    *word = bytes_of(text->data, len);
    size_t used = len + (space != NULL);
    *text = bytes_of(text->data + used, text->len - used);
    return len > 0;
}

static bool read_owners(struct bytes word, struct owner_map *out)
{
    if (word.len > CONFIG_SHARDS_MAX) return false;
    out->shards = (uint32_t)word.len;
    for (uint32_t i = 0; i < out->shards; i++) {
        const char *digit = word.data[i] ? strchr(digits, word.data[i]) : NULL;
        if (!digit && word.data[i] != '-') return false;
        out->owner[i] = digit ? (uint8_t)(digit - digits) : OWNER_MAP_NONE;
        if (digit && out->owner[i] >= out->urls_len) return false;
    }
    return true;
}

bool owner_map_parse(struct bytes text, struct owner_map *out)
{
    struct bytes owners, order, url;
    *out = (struct owner_map){0};
    if (text.len > OWNER_MAP_TEXT_MAX || (text.len > 0 && text.data[text.len - 1] == ' '))
        return false;
    if (!take_word(&text, &owners) || !take_word(&text, &order)) return false;
    out->ordered = bytes_equal(order, bytes_str(ORDERED));
    if (!out->ordered && !bytes_equal(order, bytes_str(UNORDERED))) return false;
    while (text.len > 0) {
        if (!take_word(&text, &url) || out->urls_len == OWNER_MAP_URLS_MAX) return false;
        out->urls[out->urls_len++] = url;
    }
    return read_owners(owners, out);
}

void owner_map_hash(struct bytes text, char out[OWNER_MAP_HASH_MAX])
{
    *digits_put_hex64(out, hash64_of(text, 0)) = '\0';
}

bool owner_url_is_good(const char *url)
{
    bool known = strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0;
    struct authority at;
    if (!known || strpbrk(strstr(url, "://") + 3, "/?#@")) return false;
    return authority_split(authority_of(url), &at) && authority_has_host(&at) &&
           (!at.port.data || at.number > 0);
}
