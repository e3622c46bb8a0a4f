// SPDX-License-Identifier: Apache-2.0
#include "store/redis/keys.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

size_t redis_tag_len(const char *key)
{
    if (strncmp(key, "q/", 2) != 0) return 0;
    const char *id_end = strchr(key + 2, '/');
    const char *shard_end = id_end ? strchr(id_end + 1, '/') : NULL;
    return shard_end ? (size_t)(shard_end - key) : 0;
}

static void write_key(struct redis_key *to, const char *prefix, const char *tag, size_t tag_len,
                      const char *rest, const char *name)
{
    int len = snprintf(to->text, sizeof to->text, "{%s:%.*s}%s%s", prefix,
                       tag_len ? (int)tag_len : 1, tag_len ? tag : "c", rest, name);
    CHECK(len > 0 && (size_t)len < sizeof to->text);
}

void redis_key_of(struct redis_key *to, const char *prefix, char kind, const char *key)
{
    const char rest[3] = {kind, ':', 0};
    write_key(to, prefix, key, redis_tag_len(key), rest, key);
}

void redis_key_index(struct redis_key *to, const char *prefix, const char *tag, size_t tag_len)
{
    write_key(to, prefix, tag, tag_len, "i", "");
}

void redis_key_base(struct redis_key *to, const char *prefix, const char *tag, size_t tag_len)
{
    write_key(to, prefix, tag, tag_len, "o:", "");
}

void redis_key_mark(struct redis_key *to, const char *prefix, const char *key)
{
    write_key(to, prefix, key, redis_tag_len(key), "w", "");
}

void redis_key_tags(struct redis_key *to, const char *prefix)
{
    write_key(to, prefix, "", 0, "t", "");
}
