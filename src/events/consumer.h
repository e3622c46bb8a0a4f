// SPDX-License-Identifier: Apache-2.0
// The consumer of one stream of the bus, without I/O: messages go in, events come out.
//
// The bus may repeat messages, reorder them, and lose them. The consumer gives its caller each
// event of a shard once, in the order of `sequence`. If an event is missing, the later ones wait
// for it. If it does not come in time, the consumer reports a gap and goes on.
//
//   consumer_take   a message has come        consumer_next      an event, a gap or a refusal
//                                             consumer_wake_at   when to call it again
//
// A *filtered* consumer gets only some events of a shard, so it cannot see gaps. It gives each
// event once, in the order in which the bus has them.
//
// The position is what the caller stores to continue after a crash. It covers every event that
// consumer_next has returned.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "events/envelope.h"
#include "events/schema.h"

#define CONSUMER_LIFE_LEN     32 // digits of a queue's id
#define CONSUMER_POSITION_MAX ((size_t)8 << 20)

struct consumer;

struct consumer_config {
    bool filtered;
    bool from_first;   // a shard without a position begins with sequence 1, not with what comes
    size_t hold_max;   // events that wait for a missing one, in all shards; 0: 4,096
    size_t hold_bytes; // ... and their bytes; 0: 16 MiB
    int64_t hold_ms;   // how long they wait; 0: 10 s
    size_t ids_max;    // events without a sequence, or filtered, that are known by id; 0: 65,536
    size_t shards_max; // shards whose position is known; 0: 16,384
};

enum consumer_kind { CONSUMER_EVENT, CONSUMER_GAP, CONSUMER_REFUSED };

// Valid until the next call.
struct consumer_result {
    enum consumer_kind kind;
    uint64_t number;                 // of the message in the stream; 0: none
    struct bytes text;               // the message: EVENT, REFUSED, and a GAP that was published
    const struct envelope *envelope; // NULL: none
    const char *why;                 // REFUSED, GAP: a sentence
    // GAP: the sequences that are missing.
    const char *life; // the queue's id
    const char *queue;
    uint32_t shard;
    uint64_t first;
    uint64_t last;
};

struct consumer_counts {
    uint64_t events;
    uint64_t duplicates;
    uint64_t gaps;    // ranges
    uint64_t missing; // events in these ranges
    uint64_t refused;
    uint64_t held; // that wait now
};

// The schemas are borrowed.
struct consumer *consumer_new(const struct consumer_config *config, const struct schema_set *set);
void consumer_free(struct consumer *c); // NULL is allowed

// Takes a message of the stream, with its number there. Numbers rise, except after a new
// subscription. The text is copied.
void consumer_take(struct consumer *c, uint64_t number, struct bytes text, int64_t now);
// False: nothing can be returned now.
bool consumer_next(struct consumer *c, int64_t now, struct consumer_result *out);
int64_t consumer_wake_at(const struct consumer *c); // INT64_MAX: when a message comes
struct consumer_counts consumer_counts(const struct consumer *c);

// The number of the first message that the consumer still needs.
uint64_t consumer_resume(const struct consumer *c);
// The stream is another one now: its numbers begin anew.
void consumer_restart(struct consumer *c);
// Appends the position: lines of text with a checksum.
void consumer_position_put(const struct consumer *c, struct buf *to);
// Continues from a position. Call it before the first message. CORRUPT: `why` says what is wrong,
// and the consumer is as before.
MUST_USE enum err consumer_position_take(struct consumer *c, struct bytes text,
                                         char why[ENVELOPE_WHY_MAX]);
