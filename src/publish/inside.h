// SPDX-License-Identifier: Apache-2.0
// Private to publish.c (the node) and shard.c (one shard).
#pragma once

#include "events/publisher.h"
#include "events/schema.h"
#include "events/subject.h"
#include "os/thread_pool.h"
#include "publish/publish.h"
#include "queues/queues.h"

#define PAUSE_MS        5   // so that one run of a shard serves several entries
#define PUBLISH_LOOK_MS 500 // how often the node looks at the shards that it owns

// Which message of an event was acknowledged. With two versions, the event waits for both.
enum ack_of { ACK_ONLY, ACK_OLDER, ACK_NEWER, ACK_KINDS };

struct ack_row {
    uint64_t tag;
    enum ack_of of;
    struct publisher_answer answer;
};

struct ack_target {
    struct published_shard *shard;
    enum ack_of of;
    struct bus_sender *sender;
};

// What the owner's runner knows of the shard.
struct machine_look {
    bool published;
    struct publisher_cursor cursor;
    uint64_t events;
    bool overdue;
    bool off;
    int64_t now;
};

// A shard that the node publishes. Its task is the only user of the publisher.
struct published_shard {
    struct pool_task task; // first
    struct publish_engine *all;
    struct published_shard *next;
    struct open_queue *queue; // with a hold
    uint32_t shard;
    struct shard_runner *own; // the queue's
    // Of the task.
    struct shard_runner *reader; // NULL: none
    struct publisher *publisher;
    struct ack_target ways[ACK_KINDS];
    struct ack_row *half; // of events whose other message was not acknowledged yet
    size_t half_len, half_cap;
    struct buf content; // for one event
    struct buf payload; // of the op that is committed
    struct machine_look seen;
    int64_t looked_at;
    int64_t retry_at; // of a reader that failed
    int64_t follow_at;
    bool owns;
    bool up;
    uint64_t connection;
    int64_t committed_at;
    uint64_t read_slot, read_sequence; // of the last event that was read
    char stream[SUBJECT_STREAM_MAX];
    // Under the lock.
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct ack_row *acks;
    size_t acks_len, acks_cap;
    bool wanted;     // the node owns the shard
    bool following;  // the follow is under way
    bool has_events; // the reader may have some
    bool reader_failed;
    bool ending, ended;
    uint64_t unfit; // events that their schema refuses
    bool committing;
    bool commit_ok;
    struct publisher_cursor commit;
    struct publisher_status status; // a copy, for others
    uint64_t events;                // that the shard has had
    int64_t now;                    // store time of the copy
    bool overdue, refused;
    char why[BUS_WHY_MAX];
    struct runner_async follow, commit_call;
};

struct publish_engine {
    struct pool_task task; // first: looks at the owned shards
    struct engine *engine;
    struct publishing_config config;
    char node[256];
    struct bus *bus;
    const struct schema_set *schemas;
    struct schema_set *own_schemas; // NULL: they are the caller's
    struct pool_share *share;
    _Atomic bool up;
    pthread_mutex_t lock; // guards everything below
    struct published_shard *shards;
    int64_t down_since; // clock_boot_ms; 0: not degraded
    int64_t started_at;
    int64_t opened_at; // when the queues of the catalog were opened last
    _Atomic bool stopping;
    // Of shards that this node no longer publishes.
    struct publishing_status past;
};

struct published_shard *published_shard_new(struct publish_engine *all, struct open_queue *q,
                                            uint32_t shard, struct shard_runner *own);
void published_shard_free(struct published_shard *s); // waits until nothing uses it
void published_shard_want(struct published_shard *s, bool wanted);
// All its events are on the bus, or it publishes nothing.
bool published_shard_is_done(struct published_shard *s);
bool publishes_by_shard(const struct published_shard *s); // a stream for each shard
enum err stream_name(const struct published_shard *s, uint32_t shard, char out[SUBJECT_STREAM_MAX]);
// Creates the streams of the queue, or compares them. Waits for the server. *state: of the one that
// has this shard. ERR_LIMIT: the queue has too many shards for a stream each.
enum err streams_ensure(struct published_shard *s, struct bus_stream_state *state,
                        char why[static BUS_WHY_MAX]);
void publishing_say(struct publish_engine *p, enum publishing_note note, const char *queue,
                    uint32_t shard, const char *why);
bus_ack_fn acks_note; // ctx: struct ack_target
void acks_take(struct published_shard *s, int64_t now);
