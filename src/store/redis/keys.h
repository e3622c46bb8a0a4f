// SPDX-License-Identifier: Apache-2.0
// The keys in Redis. All keys of one shard carry one hash tag, the rest carries another, so that a
// script never needs keys of two servers of a cluster.
//
//   {<prefix>:<tag>}o:<key>   an object
//   {<prefix>:<tag>}i         the names of the tag's objects, a sorted set
//   {<prefix>:<tag>}l:<log>   a log, a stream
//   {<prefix>:<tag>}m:<log>   its last slot and time, a hash
//   {<prefix>:<tag>}w         written to learn what the replicas have (durability=replicas:N)
//   {<prefix>:c}t             the tags of shards that have objects, each with a '/' at its end
//
// The tag of "q/<id>/<shard>/..." is "q/<id>/<shard>". Every other key has the tag "c".
#pragma once

#include "store/redis/url.h"
#include "store/store.h"

#define REDIS_KEY_MAX (REDIS_PREFIX_MAX + 2 * STORE_KEY_MAX + 16)
#define REDIS_TAG_MAX (STORE_KEY_MAX + 1)

struct redis_key {
    char text[REDIS_KEY_MAX];
};

// The length of the tag at the start of a key of the store; 0: the tag "c".
size_t redis_tag_len(const char *key);
// kind is 'o', 'l' or 'm'.
void redis_key_of(struct redis_key *to, const char *prefix, char kind, const char *key);
// The index of a tag, given with its length; 0: "c".
void redis_key_index(struct redis_key *to, const char *prefix, const char *tag, size_t tag_len);
// What every object's key of the tag starts with.
void redis_key_base(struct redis_key *to, const char *prefix, const char *tag, size_t tag_len);
void redis_key_mark(struct redis_key *to, const char *prefix, const char *key);
void redis_key_tags(struct redis_key *to, const char *prefix);
