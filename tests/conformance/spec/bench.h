// SPDX-License-Identifier: Apache-2.0
// The workbench of the scenarios: a store whose clock the test moves, queues on it, and workers in
// words. Every worker has a runner of its own, as if it were another process. A check that fails
// names its line.
#pragma once

#include "../../support/fault_store.h"
#include "../../unit/unit.h"
#include "runner/runner.h"

#include <pthread.h>

#define BENCH_TEXT_MAX 200

struct bench; // one store

// "mem", "file", "s3" or "redis"; "http" is a node on a store in memory, which leaves
// ownership to the hands; "http-owner" one that owns the shards, as nodes do.
struct bench *bench_open(const char *backend);
void bench_close(struct bench *b);
void bench_pass(struct bench *b, int64_t ms); // time passes for every client
// For runners opened from now on: slots between snapshots; how long a call tries.
void bench_snapshots(struct bench *b, uint32_t every);
void bench_patience(struct bench *b, int64_t ms);
// Before any runner is opened: the store will fail on command, each call with these chances.
void bench_make_faulty(struct bench *b);
void bench_faults(struct bench *b, const struct fault_options *faults); // NULL: none

// A client: a queue as one worker sees it. By way of a node it has a runner too, to inspect the
// shard and for what a coordinator beside the node does. The first runner of a name creates the
// queue with the given configuration, as key=value words.
struct client {
    struct bench *bench;
    struct shard_runner *runner;
    struct remote_client *remote; // its way to a node; NULL: all it does is done at the runner
    struct kept_reply answer;     // of the last call
    struct event *events;         // all so far
    size_t events_len;
    char name[32];
};

#define CONFIG_WORDS_MAX 12
struct client *spec_new(struct bench *b, const char *queue, const char *name, ...)
    __attribute__((sentinel));     // then key=value words, NULL
void spec_look(struct client *w);  // folds what others did
void spec_close(struct client *w); // its process is gone; what it holds stays held

// A claimed message, copied.
struct held_message {
    uint64_t seq;
    struct hash128 token;
    uint64_t fence;
    int64_t deadline;
    uint32_t deliveries;
    uint32_t retries;
    uint64_t order;
    char body[BENCH_TEXT_MAX];
    char headers[8][2][BENCH_TEXT_MAX];
    int headers_len;
};

uint64_t spec_send(struct client *w, const char *body); // must succeed; the message's number
uint64_t spec_send_to(struct client *w, const char *group, const char *body);
// Messages with their numbers as bodies, as one op.
void spec_send_numbers(struct client *w, uint64_t first, uint32_t count);
struct request_id request_new(void);
// The answer to a send that may be refused. request NULL: a new one.
struct send_row spec_send_message(struct client *w, const struct message *m,
                                  const struct request_id *request);
// How many it got (at most max), into out.
size_t spec_claim(struct client *w, struct held_message *out, size_t max);
bool spec_claim_one(struct client *w, struct held_message *out);
size_t spec_take(struct client *w, struct held_message *out, size_t max); // only tickets
size_t spec_claim_as(struct client *w, const struct request_id *request, struct held_message *out,
                     size_t max);

// The reason of the refusal, or REASON_NONE. wait_ms: renew's lease.
enum reason spec_ack(struct client *w, const struct held_message *m);
enum reason spec_ack_as(struct client *w, const struct request_id *request,
                        const struct held_message *m);
enum reason spec_fail(struct client *w, const struct held_message *m, const char *why);
enum reason spec_release(struct client *w, const struct held_message *m);
enum reason spec_renew(struct client *w, const struct held_message *m, int64_t lease_ms);
enum outcome_status spec_status(struct client *w); // of the last ack or fail
int64_t spec_until(struct client *w);              // of the last renewal

// The reason of the refusal, or REASON_NONE. The first one raises the queue's rules.
enum reason spec_register(struct client *w, uint32_t capacity, int64_t ttl_ms);
enum reason spec_beat(struct client *w);
enum reason spec_unregister(struct client *w);
enum reason spec_evict(struct client *w, const char *worker); // as an operator
void spec_own(struct client *w, uint64_t token);              // becomes the shard's owner
bool spec_dispatch(struct client *w); // as the owner; true: it tried to grant something
// As the owner: tickets for registered workers, which wait for them that long. Returns how many.
uint32_t spec_grant(struct client *w, uint32_t max, int64_t ticket_ms);

void spec_pause(struct client *w);
void spec_resume(struct client *w);
uint64_t spec_purge(struct client *w, bool dead);      // how many
uint64_t spec_redrive(struct client *w, uint32_t max); // the first new message's number

// A receive that waits, in a thread of its own, as another worker at w's runner.
struct receiver {
    pthread_t thread;
    struct client *client;
    const char *name;
    struct held_message got;
    size_t count;
    enum err err;
};
void receiver_start(struct receiver *r, struct client *w,
                    const char *name); // returns when it waits
void receiver_end(struct receiver *r); // returns when it was answered

struct machine_stats spec_stats(struct client *w);
uint64_t spec_slot(struct client *w); // of the last entry, not counting those that name an owner
enum err spec_find(struct client *w, uint64_t seq, struct message_view *out);
enum message_state spec_state(struct client *w, uint64_t seq, enum err *err);
// How a finished message ended. False: this is not known.
struct spec_end {
    char outcome[BENCH_TEXT_MAX]; // "processed"
    char worker[BENCH_TEXT_MAX];
    int64_t at;
    uint32_t attempts;
};
bool spec_end(struct client *w, uint64_t seq, struct spec_end *out);

// Moves the dead letters of w's queue to the queue that `to` looks at.
size_t spec_carry(struct client *w, struct client *to);

// All events of this kind that w's runner has folded so far; how many, and the first max of them in
// out.
size_t spec_events(struct client *w, enum event_kind kind, struct event *out, size_t max);

const char *held_header(const struct held_message *m, const char *name); // NULL: none
