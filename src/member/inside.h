// SPDX-License-Identifier: Apache-2.0
// Private to this folder: shared by start.c (the first join), member.c (steps, stop), perform.c
// (the effects), view.c (what the service shows), challenge.c (members that give no sign of life),
// settings.c (what nodes should agree on), catalog.c (queues), hints.c, shards.c (calls) and
// status.c.
#pragma once

#include "member/member.h"
#include "os/thread_pool.h"
#include "queues/owner.h"
#include "queues/queues.h"

#define MEMBER_THREADS 8

// A queue that this node has heard of.
struct known_queue {
    struct queue_id id;
    char name[QUEUE_NAME_MAX + 1];
    uint32_t shards;
    bool listed; // in the catalog, when it was read last
};

struct membership {
    struct owner_cluster hooks; // first
    struct engine *engine;
    struct coord *coord;
    bool on_store; // the service is the store: each request counts
    uint8_t coord_id[COORD_ID_LEN];
    struct coord_member self;
    struct membership_config config;
    int64_t lease_ms;
    int64_t offset_ms; // wall clock - clock_boot_ms, at the start
    struct pool_share *share;
    struct pool_task timer;
    char service[32]; // the backend

    pthread_mutex_t lock; // guards everything below
    pthread_cond_t changed;
    struct cluster *cluster;
    bool begun; // it has joined once; before, the step function is not run (start.c)
    bool stopping;
    bool left;       // it is no member any more: nothing is begun
    int64_t left_at; // clock_boot_ms
    bool draining;

    // view.c
    bool join_done;        // the first join was made before the first step
    int64_t next_beat_at;  // clock_boot_ms: the service needs no heartbeat before
    uint64_t parked_list;  // a LIST that the next heartbeat answers; 0: none
    int64_t parked_at;     // clock_boot_ms
    uint64_t parked_renew; // a RENEW that the next heartbeat answers; 0: none
    uint64_t renew_epoch;
    bool look;                                    // the next LIST is made at once
    bool greets;                                  // the next LIST tells every member to look
    struct coord_answer last;                     // of the newest list
    int64_t last_at;                              // clock_boot_ms
    uint64_t leader_epoch;                        // the highest that was seen
    uint64_t leader_told;                         // the epoch of the last event about a leader
    struct plan plan;                             // the newest that was read
    struct plan reported;                         // in observe-only mode
    uint64_t plan_shown_epoch, plan_shown_number; // to the step function

    // perform.c: shards that were released, whose journals name this node still
    struct followed_shard {
        struct shard_key shard;
        int64_t end_ms; // clock_boot_ms
    } * followed;
    size_t followed_len, followed_cap;
    bool follows; // a thread does it

    // challenge.c
    size_t challenges; // under way

    // reach.c
    struct pool_task reach_task;
    struct reach_row {
        char name[COORD_NAME_MAX + 1];
        unsigned fails; // rounds in a row without an answer
    } * reach_rows;
    size_t reach_len;

    // catalog.c
    struct known_queue *queues;
    size_t queues_len, queues_cap;
    int64_t catalog_at;   // clock_boot_ms: when the leader reads the catalog next
    int64_t catalog_read; // ... and read it last
    bool catalog_busy;

    // hints.c
    int64_t hint_second;
    uint32_t hints_now;     // in that second
    struct hint_job *hints; // to other nodes, that wait; the oldest first
    struct hint_job **hints_end;
    size_t hints_len;

    // sample.c, while this node leads
    struct shard_sample *samples; // by shard; only the job that samples uses them
    size_t samples_len;
    int64_t sample_at;  // clock_boot_ms: when the leader asks the owners next
    int64_t sampled_at; // ... and asked them last
    bool sampling;
    uint32_t unowned;        // shards that no member owns
    uint64_t unowned_events; // ... and what waits there for the bus

    // status.c
    struct membership_event *events; // a ring of MEMBER_EVENTS_MAX
    uint64_t events_len;             // ever
    struct membership_counters counters;
    uint64_t renewed_epoch; // of the last epoch-renewed event,
    int64_t renewed_at;     // clock_boot_ms: ... and when it was made
    int64_t latency_window; // clock_boot_ms: since when latency_ms_max counts
    int64_t degraded_since;
    char why[COORD_WHY_MAX];
};

// An effect with a request, on a thread of the share.
struct effect_job {
    struct pool_job job; // first
    struct membership *m;
    struct cluster_effect effect;
    struct plan plan; // PUBLISH
};

// member.c
struct interval membership_now(const struct membership *m);
void membership_step(struct membership *m, const struct cluster_event *e);
void membership_answer(struct membership *m, uint64_t request, enum err err, uint64_t number);
// Runs the job on the member's threads, or fails it at once.
void membership_run(struct membership *m, uint64_t key, struct effect_job *job);

// start.c
// Joins, or begins to join in the background if the service does not answer.
enum sluice_code start_or_wait(struct membership *m, struct sluice_error *error);
// The next try. Returns when to try again, by clock_boot_ms. 0: the node has joined.
int64_t start_again(struct membership *m);

// perform.c
void effect_run(struct pool_job *job);
void effect_failed(struct effect_job *job, enum err err);
// The others see a change at their next list. A hint makes them list at once.
void tell_members(struct membership *m);

// view.c
void view_heartbeat(struct membership *m, const struct cluster_effect *e);
void view_renew(struct membership *m, const struct cluster_effect *e);
void view_list(struct membership *m, const struct cluster_effect *e);
void view_watch(struct membership *m); // begins to watch the service, if that costs nothing
void view_look(struct membership *m);  // list at once
// Notes the outcome and the duration of a call of the service.
void coord_noted(struct membership *m, enum err err, int64_t began_ms,
                 const struct coord_answer *a);

// challenge.c
bool member_answers(const char *url, const char *name); // blocks for at most a second
// Asks the silent members of the list, each on a thread of the share.
void members_challenge(struct membership *m, const struct coord_answer *listed);

// settings.c
void settings_tell(struct membership *m); // puts what this node goes by into its record
// Reports members of the list that are new and go by other settings.
void settings_compare(struct membership *m, const struct coord_answer *listed);
void settings_show(const struct membership *m, struct membership_status *s); // the lock is held

// reach.c
int64_t reach_run(struct pool_task *task);

// catalog.c
void queues_note(struct membership *m, const struct queue_id *id, const char *name,
                 uint32_t shards);
// Copies the name of the queue. The lock is held. False: it is not known.
bool queues_name(const struct membership *m, const uint8_t id[16], char out[QUEUE_NAME_MAX + 1]);
MUST_USE enum err catalog_load(struct membership *m, struct shard_key **out, size_t *len);
// The shards of the queues that the catalog had last, ascending; the caller frees them. The lock is
// held.
struct shard_key *catalog_shards(const struct membership *m, size_t *len);
// The queue of this name that the catalog had last; NULL: none. The lock is held.
const struct known_queue *catalog_queue(const struct membership *m, const char *name);
void catalog_run(struct membership *m); // for the leader, on a thread of the share
// True if no plan has the shard: the leader must read the catalog again. The lock is held.
bool catalog_wanted(struct membership *m, const struct shard_key *key);

// hints.c
// holds: this node serves the shard.
void hint_send(struct membership *m, const struct member_id *to, const char *queue, uint32_t shard,
               bool holds);
// The same to a node at this URL.
void hint_post(struct membership *m, const char *url, const char *queue, uint32_t shard,
               bool holds);
void hint_all(struct membership *m); // the plan is another: tells the owners of used shards

// shards.c
void shard_name(const struct shard_key *key, char out[COORD_SHARD_MAX + 1]);
void shard_key_of(const struct open_queue *q, uint32_t shard, struct shard_key *out);
bool shard_is_unplanned(const struct membership *m, const struct shard_key *key); // lock is held
void shard_event(struct membership *m, enum cluster_event_kind kind, const struct shard_key *key);
// The lock is held. The name is empty if there is no leader.
void leader_id(const struct membership *m, struct member_id *out);
void shards_hooks(struct membership *m);

// sample.c
void sample_run(struct membership *m); // for the leader, on a thread of the share

// status.c
void event_add(struct membership *m, const struct cluster_effect *e);            // the lock is held
void event_add_leader(struct membership *m, const char *leader, uint64_t epoch); // the lock is held
