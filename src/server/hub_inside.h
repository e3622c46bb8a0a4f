// SPDX-License-Identifier: Apache-2.0
// Inside the hub: sources (hub_source.c) and subscribers (hub.c). One lock guards both.
//
//   source:      opening --> catching up --> live --> ended
//                live: it waits at the journal, or sleeps until the bus names an event
//   subscriber's part of a queue:
//                own source, until its events and the shared source's meet --> shared source
#pragma once

#include "base/list.h"
#include "events/bus_progress.h"
#include "os/thread_pool.h"
#include "server/hub.h"

#define RECENT 512 // events that a shared source keeps for subscribers that join

// One queue of a subscriber.
struct subscription {
    struct list_link link; // of the subscriber
    struct list_link in;   // of the source
    struct subscriber *owner;
    struct source *source;
    char queue[QUEUE_NAME_MAX + 1];
    char life[33];
    uint32_t shards;
    bool joining; // begins when the shared source is live
    bool began;   // all that existed was sent
    bool gap;     // say that the client's place is of another life
    struct part_shard {
        struct stream_position at; // of the last event
        bool resumes; // the client told this place, and the event there was not seen yet
    } * by_shard;
};

struct recent_events {
    struct bytes data; // owned
    struct stream_position place;
    int64_t time;
    uint32_t shard;
    uint16_t kind;
    char message[SLUICE_ID_MAX];
    char workflow[MESSAGE_WORKFLOW_MAX + 1];
};

struct source {
    struct list_link link;
    struct hub *hub;
    char queue[QUEUE_NAME_MAX + 1];
    char life[33];
    uint32_t shards;
    bool alone;        // of one subscriber that catches up
    struct list parts; // struct subscription, by `in`
    bool live;         // all events that existed were read
    bool over;    // the queue is deleted, or the source has no subscribers: the next tick frees it
    bool waiting; // a wait is under way
    int64_t unused_ms; // clock_boot_ms since when it has no subscribers; 0: it has some
    struct source_shard {
        struct stream_position at;      // of the last event that was told
        struct stream_position dropped; // of the last one that is not in `recent`
    } * by_shard;
    struct bus_progress bus;
    bool sleeps;        // until the bus names an event, or until the next look at the journal
    bool opened;        // of the task: its first wait began
    bool looked_at_all; // of the task: the last wait was the look after a sleep
    struct recent_events *recent;
    size_t recent_len; // ... that were ever put
    struct pool_task task;
    bool added;
    struct sluice_events *events; // only the task uses it
    struct async_call wait;
    enum sluice_code waited; // the code of the last wait
    int64_t retry_at;
};

struct subscriber {
    struct share share; // first; under the server's lock
    struct list_link link;
    struct hub *hub;
    struct httpd_stream *http;
    struct exchange *exchange; // valid until the stream ends
    uint64_t token_changes;    // of the server, when the token was last checked
    struct stream_filter filter;
    struct list parts; // struct subscription, by `link`
    bool all;
    bool over;        // the next tick ends it
    bool cut;         // ... without waiting for the client
    bool dirty;       // events were passed over since the last id
    atomic_bool lost; // another client took its place
    uint32_t shards;  // of all its queues
    int64_t beat_at;
};

struct hub {
    struct server *server;
    pthread_mutex_t lock;
    struct list sources;
    struct list subscribers;
    size_t len;
    size_t catching; // sources of one subscriber that are open
    struct pool_task tick;
    int64_t listed_ms; // when queues were last listed
    struct bus *bus;   // of the tick: it names events as they are published; NULL: none
    bool bus_up;
};

// An event as it is passed to the subscribers of a source.
struct stream_event {
    struct bytes data; // the JSON
    struct stream_position place;
    uint64_t sequence; // 0: not numbered
    uint32_t shard;
    uint16_t kind;
    const char *message;
    const char *workflow;
    int64_t time;
};

// These need the hub's lock.
struct source *source_new(struct hub *h, const struct stream_queue *q, bool alone);
struct source *source_shared(struct hub *h, const struct stream_queue *q); // opens it if needed
void source_join(struct source *s, struct subscription *p);
void source_leave(struct subscription *p);
void source_start(struct source *s); // opens it, now or when fewer catch up
void source_close(struct source *s); // its task does nothing more; source_free follows
bool source_is_closed(const struct source *s);
void source_free(struct source *s); // without the lock

struct source *source_find_shared(struct hub *h, const char *life); // NULL: none

// hub_bus.c. Without the lock, by the tick: connects to the bus while there are sources, and closes
// it.
void hub_bus_look(struct hub *h);
void hub_bus_close(struct hub *h);

// Passes an event to the part of a subscriber.
void part_tell(struct subscription *p, const struct stream_event *t);
void part_began(struct subscription *p);                  // its source is live
void part_ended(struct subscription *p, const char *why); // the queue is deleted or cannot be read
bool part_stalls(const struct subscription *p); // its client reads too slowly to catch up faster
