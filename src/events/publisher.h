// SPDX-License-Identifier: Apache-2.0
// The publisher of one shard's events: it decides, and touches nothing. A reader of the journal
// feeds it, a bus answers it, and its effects say what to do next.
//
// clang-format off
//            own                    synced
//     IDLE ------> SYNCING <------------------> RUNNING
//      ^              |    error, no ack in time,   |
//      |     lose     |    reconnect, lost tail     |
//      '--------------'-----------------------------'
// clang-format on
//
// The rules:
//   1. Events leave in the order of their sequence. At most `window` of them are unacknowledged.
//   2. An event that is not acknowledged is published again, with the same id.
//   3. The cursor never passes an event that is not acknowledged. It stays behind the
//      acknowledgements for `settle_ms`, because a bus that loses power forgets its newest
//      messages. So the journal still has what such a bus forgot.
//   4. Before the first publish, and after each fault, the publisher compares the stream's newest
//      event of the shard with what it knows. If the stream has less, the rest is published again.
//   5. If the journal no longer has an event that the stream lacks, a gap event names the range.
//
// Two publishers may both believe that they own the shard. Then events are published twice, with
// the same ids. No event is lost by it.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "base/rng.h"

#define PUBLISHER_WINDOW         1024
#define PUBLISHER_ACK_MS         5000
// nats-server syncs its files every two minutes.
#define PUBLISHER_SETTLE_MS      150000
#define PUBLISHER_BACKOFF_MIN_MS 50
#define PUBLISHER_BACKOFF_MAX_MS 10000

struct publisher_config {
    // Only this shard's events are in the stream, so its last sequence is a fence.
    bool fenced;
    uint32_t window;   // 0: PUBLISHER_WINDOW
    int64_t ack_ms;    // 0: PUBLISHER_ACK_MS
    int64_t settle_ms; // negative: PUBLISHER_SETTLE_MS
    uint64_t seed;     // of the pauses
};

struct publisher;
struct publisher *publisher_new(const struct publisher_config *config);
void publisher_free(struct publisher *p); // NULL is allowed

// A place in the journal: all events up to the sequence, which are all events of the slots up to
// the slot.
struct publisher_cursor {
    uint64_t slot;
    uint64_t sequence;
};

// This process owns the shard from now on, or does not any more. The cursor is the fold's. NULL:
// the fold has none, because the shard was never published. Then the publisher begins with the
// oldest event that is kept, and publisher_cursor says so at once.
void publisher_own(struct publisher *p, int64_t now, const struct publisher_cursor *durable);
void publisher_lose(struct publisher *p);
// The connection to the bus came up (a new one), or went down.
void publisher_bus(struct publisher *p, int64_t now, bool up);

enum publisher_effect_kind {
    PUBLISHER_SYNC,    // ask the stream for its state; answer with publisher_synced
    PUBLISHER_REWIND,  // begin to read the journal again, at the oldest entry that is kept
    PUBLISHER_PUBLISH, // publish; the answer goes to publisher_ack, a refusal to publisher_refused
};

struct publisher_effect {
    enum publisher_effect_kind kind;
    uint64_t tag;
    struct bytes content; // PUBLISH: a view, valid until the next call
    uint64_t sequence;
    bool fenced; // PUBLISH: only if the stream's newest message has this number
    uint64_t stream_last;
};
// The next thing to do. False: nothing now; call it again after an input, or at publisher_wake_at.
bool publisher_next(struct publisher *p, int64_t now, struct publisher_effect *out);
int64_t publisher_wake_at(const struct publisher *p); // INT64_MAX: only after an input

// What the stream has of this shard.
struct publisher_tail {
    enum err err;         // not ERR_OK: it could not be asked
    uint64_t sequence;    // of the newest event; 0: none of this life of the queue
    uint64_t number;      // its number in the stream; 0: none
    uint64_t stream_last; // number of the stream's newest message
    bool trimmed;         // limits of the stream have removed messages
};
void publisher_synced(struct publisher *p, int64_t now, uint64_t tag,
                      const struct publisher_tail *tail);
// sequence: the message's number in the stream.
struct publisher_answer {
    enum err err;
    uint64_t sequence;
    bool duplicate;
};
void publisher_ack(struct publisher *p, int64_t now, uint64_t tag,
                   const struct publisher_answer *a);
void publisher_refused(struct publisher *p, int64_t now, uint64_t tag); // it was not sent

// The reader. Events come in order, from the oldest that the journal has after each REWIND.
bool publisher_wants_more(const struct publisher *p);            // read on
bool publisher_wants(const struct publisher *p, uint64_t event); // false: the bus has it
// True if events before this one are missing on the bus and in the journal. Then feed the gap
// event, whose sequence is *last, first.
bool publisher_gap(struct publisher *p, uint64_t event, uint64_t *first, uint64_t *last);
struct publisher_item {
    uint64_t sequence;
    uint64_t slot;
    int64_t at;
    uint64_t missing;     // gap event: the number of events that it stands for
    bool in_tail;         // publisher_tail can be this event; false: of events of workflows
    struct bytes content; // copied
};
void publisher_feed(struct publisher *p, const struct publisher_item *item);
// All events of the slots up to this one were read. sequence: the last of them, fed or not.
void publisher_fed(struct publisher *p, uint64_t slot, uint64_t sequence);

// The cursor that may be committed now. False: the committed one is as good.
bool publisher_cursor(const struct publisher *p, int64_t now, struct publisher_cursor *out);
void publisher_committed(struct publisher *p, struct publisher_cursor durable);

struct publisher_status {
    bool owns;
    bool running;        // the bus is there and takes events
    uint64_t acked;      // all events up to this sequence are on the bus
    uint64_t waiting;    // events that were fed and not acknowledged
    int64_t oldest_at;   // time of the oldest of them; 0: none
    uint64_t published;  // acknowledged since the start, without duplicates
    uint64_t repeated;   // acknowledged as duplicates
    uint64_t dropped;    // events that gap events stand for
    uint64_t healed;     // times that the stream had lost its tail
    uint64_t retries;    // times that it had to ask the stream again
    enum err last_error; // of the last fault; ERR_OK after an acknowledgement
};
struct publisher_status publisher_status(const struct publisher *p);
