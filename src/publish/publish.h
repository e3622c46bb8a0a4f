// SPDX-License-Identifier: Apache-2.0
// Publishes the events of the shards that this node owns to a message bus. Each shard has a
// publisher (events/publisher.h) and a reader of the journal, and runs as a task of the handle's
// pool. All shards share one connection. Calls never wait for the bus.
#pragma once

#include "bus/bus.h"
#include "events/envelope.h"
#include "sluice.h"

struct engine;

struct publish_engine;
struct schema_set;

enum publishing_note {
    PUBLISHING_DEGRADED, // events do not reach the bus
    PUBLISHING_RECOVERED,
    PUBLISHING_REFUSED, // a stream has other limits, or the bus refuses the node
    PUBLISHING_OVERDUE, // events wait for longer than publishKeep
    PUBLISHING_HEALED,  // a stream had lost its newest events; they were published again
    PUBLISHING_GAP,     // events were skipped (publish=skip)
    PUBLISHING_SCHEMA,  // an event does not fit its schema
};

struct publishing_config {
    const char *bus;  // the URL of the bus
    const char *node; // the name of the node, for envelopes
    bool shadow;      // publish, but commit no cursor: no journal waits for the bus
    // The versions of the envelope. While the window is open, each event is two messages, and it
    // counts as published when the bus has both.
    struct envelope_window window;
    // The schemas that events are compared with. The caller frees them after publishing_stop. NULL:
    // those of this program.
    const struct schema_set *schemas;
    // Called by threads of the pool; must be quick. queue "": of all queues. May be NULL.
    void (*note)(void *ctx, enum publishing_note note, const char *queue, uint32_t shard,
                 const char *why);
    void *ctx;
};

// INVALID: the URL or a credential of the bus. A bus that does not answer is no error.
enum sluice_code publishing_start(struct engine *e, const struct publishing_config *config,
                                  struct publish_engine **out, struct sluice_error *error);
void publishing_stop(struct publish_engine *p); // NULL is allowed

struct publishing_status {
    bool degraded; // there is no connection, or a shard cannot publish
    int64_t degraded_ms;
    char why[BUS_WHY_MAX]; // "" unless it is degraded
    bool overdue;          // an alarm: events wait for longer than publishKeep
    uint32_t shards;       // that this node publishes
    uint64_t lag_events;   // that are not acknowledged by the bus
    int64_t lag_ms;        // the age of the oldest of them
    uint64_t published;
    uint64_t repeated; // the bus had them already
    uint64_t dropped;  // skipped, and named in a gap event
    uint64_t unfit;    // events that their schema refuses; they were published
    uint64_t healed;   // streams that had lost their newest events
    uint64_t retries;  // times that a shard had to ask the bus again
};
void publishing_status(struct publish_engine *p, struct publishing_status *out);
// The connection, for readers of the same bus. It lives until publishing_stop.
struct bus *publishing_bus(struct publish_engine *p);
