// SPDX-License-Identifier: Apache-2.0
// The events of many queues for many clients of /v1/stream, without a thread for each. A *source*
// reads the events of one queue once for all its subscribers. A subscriber that starts at an
// earlier event has a source of its own until it has caught up.
#pragma once

#include "events/stream_cursor.h"
#include "queue/codec/event.h"
#include "server/inside.h"

#define STREAM_QUEUES_MAX 256
#define STREAM_SHARDS_MAX 256 // of all queues of a stream

struct hub;
struct subscriber;

// What a client wants. A text that is "" and a list without rows do not filter.
struct stream_filter {
    bool types[EVENT_COUNT];
    bool all_types;
    char message[SLUICE_ID_MAX];
    char workflow[MESSAGE_WORKFLOW_MAX + 1];
};

struct stream_queue {
    char name[QUEUE_NAME_MAX + 1];
    char life[33]; // the queue's id
    uint32_t shards;
    bool now; // begins with what happens from now on
    const struct stream_position
        *places; // begins after these, by shard; NULL: with the oldest event
    bool gap;    // the client's place is that of another life of the name
};

struct stream_request {
    struct stream_filter filter;
    const struct stream_queue *queues;
    size_t len;
    bool all; // also queues that are created later
};

struct hub *hub_new(struct server *s); // NULL: no thread
void hub_free(struct hub *h);          // ends the streams; NULL is allowed
void hub_end(struct hub *h);           // the node stops: ends the streams soon
// Answers the request with a stream. Returns false if there is no place for it; the request was
// answered with an error then.
bool hub_subscribe(struct hub *h, struct exchange *x, const struct stream_request *request);
void hub_tokens_changed(
    struct hub *h); // ends the streams whose token may no longer read; NULL is fine
size_t hub_subscribers(struct hub *h);
// Finds a queue for a stream. Blocks.
enum sluice_code stream_queue_find(struct server *s, const char *name, struct stream_queue *out,
                                   struct sluice_error *error);
