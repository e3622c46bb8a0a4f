// SPDX-License-Identifier: Apache-2.0
// The workbench of the scenarios: a store whose clock the test moves, queues on it, and workers in
// words. Every worker has a desk of its own, as if it were another process. A check that fails
// names its line.
#pragma once

#include "../../unit/unit.h"
#include "node/desk.h"
#include "store/fault.h"

#include <pthread.h>

#define BENCH_TEXT_MAX 200

struct bench; // one store

// "mem", "file" or "s3"; "http" is a node on a store in memory, which leaves
// ownership to the hands; "http-owner" one that owns the shards, as nodes do.
struct bench *bench_open(const char *backend);
void bench_close(struct bench *b);
void bench_pass(struct bench *b, int64_t ms); // time passes, for everybody
// For desks opened from now on: slots between snapshots; how long a call tries.
void bench_snapshots(struct bench *b, uint32_t every);
void bench_patience(struct bench *b, int64_t ms);
// Before any desk: the store will fail on command, each call with these chances.
void bench_make_faulty(struct bench *b);
void bench_faults(struct bench *b, const struct fault_options *faults); // NULL: none

// A hand: a queue seen by one worker. By way of a node it has a desk all the same, to look into the
// shard, and for what a coordinator beside the node does. The first desk of a name creates it with
// the given configuration, as key=value words.
struct hand {
    struct bench *bench;
    struct desk *desk;
    struct far_hand *far;      // its way to a node; NULL: all it does is done at the desk
    struct desk_answer answer; // of the last call
    struct event *events;      // all so far
    size_t events_len;
    char name[32];
};

#define CONFIG_WORDS_MAX 12
struct hand *hand_new(struct bench *b, const char *queue, const char *name, ...)
    __attribute__((sentinel));   // then key=value words, NULL
void hand_look(struct hand *w);  // folds what others did
void hand_close(struct hand *w); // its process is gone; what it holds stays held

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

uint64_t hand_send(struct hand *w, const char *body); // must succeed; the message's number
uint64_t hand_send_to(struct hand *w, const char *group, const char *body);
// Messages with their numbers as bodies, as one op.
void hand_send_numbers(struct hand *w, uint64_t first, uint32_t count);
struct request_id request_new(void);
// The answer to a send that may be refused. request NULL: a new one.
struct send_row hand_send_message(struct hand *w, const struct message *m,
                                  const struct request_id *request);
// How many it got (at most max), into out.
size_t hand_claim(struct hand *w, struct held_message *out, size_t max);
bool hand_claim_one(struct hand *w, struct held_message *out);
size_t hand_take(struct hand *w, struct held_message *out, size_t max); // only tickets
size_t hand_claim_as(struct hand *w, const struct request_id *request, struct held_message *out,
                     size_t max);

// The reason of the refusal, or REASON_NONE. wait_ms: renew's lease.
enum reason hand_ack(struct hand *w, const struct held_message *m);
enum reason hand_ack_as(struct hand *w, const struct request_id *request,
                        const struct held_message *m);
enum reason hand_fail(struct hand *w, const struct held_message *m, const char *why);
enum reason hand_release(struct hand *w, const struct held_message *m);
enum reason hand_renew(struct hand *w, const struct held_message *m, int64_t lease_ms);
enum outcome_status hand_status(struct hand *w); // of the last ack or fail
int64_t hand_until(struct hand *w);              // of the last renewal

enum reason hand_register(struct hand *w, uint32_t capacity, int64_t ttl_ms);
void hand_own(struct hand *w, uint64_t token); // becomes the shard's owner
bool hand_dispatch(struct hand *w);            // as the owner; true: it tried to grant something
// As the owner: tickets for one worker, which wait for it that long.
void hand_publish(struct hand *w, const char *worker, uint32_t max, int64_t ticket_ms);
enum reason hand_recover(struct hand *w, const char *worker); // as the owner

void hand_pause(struct hand *w);
void hand_resume(struct hand *w);
uint64_t hand_purge(struct hand *w, bool dead);      // how many
uint64_t hand_redrive(struct hand *w, uint32_t max); // the first new message's number

// A receive that waits, in a thread of its own, as another worker at w's desk.
struct receiver {
    pthread_t thread;
    struct hand *hand;
    const char *name;
    struct held_message got;
    size_t count;
    enum err err;
};
void receiver_start(struct receiver *r, struct hand *w, const char *name); // returns when it waits
void receiver_end(struct receiver *r); // returns when it was answered

struct machine_stats hand_stats(struct hand *w);
uint64_t hand_slot(struct hand *w); // of the last entry, not counting those that name an owner
enum err hand_find(struct hand *w, uint64_t seq, struct message_view *out);
enum message_state hand_state(struct hand *w, uint64_t seq, enum err *err);

// Moves the dead letters of w's queue to the queue that `to` looks at.
size_t hand_carry(struct hand *w, struct hand *to);

// All events of this kind that w's desk has folded so far; how many, and the first max of them in
// out.
size_t hand_events(struct hand *w, enum event_kind kind, struct event *out, size_t max);

const char *held_header(const struct held_message *m, const char *name); // NULL: none
