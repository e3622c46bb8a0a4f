// SPDX-License-Identifier: Apache-2.0
// What the files of the consumer share.
#pragma once

#include "base/hash.h"
#include "base/map.h"
#include "events/consumer.h"

// A message that was taken and not yet returned.
struct item {
    uint64_t number;
    uint64_t first; // sequences that it stands for: one, or the range of a gap event
    uint64_t last;
    int64_t at; // when it was taken
    struct read_envelope in;
    struct bytes text; // owned
    char *why;         // the message was refused; NULL: it was not
};

// A shard of one life of a queue.
struct place_row {
    char life[CONSUMER_LIFE_LEN + 1];
    uint32_t shard;
    // The next sequence to return; 0: any. In a filtered consumer, the first one that is not
    // certainly a duplicate.
    uint64_t next;
    uint64_t high;      // filtered: the highest sequence that was returned
    uint64_t used;      // when the row was used last
    struct item **held; // by first
    size_t held_len;
    size_t held_cap;
};

// The newest ids, in a ring.
struct known_id {
    struct hash128 id;
    uint32_t row; // UINT32_MAX: none
    uint64_t sequence;
};

struct consumer {
    struct consumer_config config;
    const struct schema_set *set;
    struct place_row *rows;
    size_t rows_len;
    struct map by_place; // hash of life and shard: index of the row
    struct known_id *ids;
    size_t ids_len;
    size_t ids_next;
    struct map by_id;
    struct item **ready; // events in the order of the stream; the shards' events wait in their rows
    size_t ready_len;
    size_t ready_cap;
    size_t turn;                      // the row that is looked at first
    struct item *out;                 // returned last
    char life[CONSUMER_LIFE_LEN + 1]; // of the gap that was returned last
    char queue[SUBJECT_NAME_MAX + 1];
    uint64_t read; // number of the newest message that was taken
    uint64_t uses;
    size_t held;
    size_t held_bytes;
    struct consumer_counts counts;
};

bool consumer_is_life(struct bytes word); // the id of a queue: CONSUMER_LIFE_LEN hex digits
struct place_row *consumer_row(struct consumer *c, const char *life, uint32_t shard);
