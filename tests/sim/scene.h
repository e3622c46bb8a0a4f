// SPDX-License-Identifier: Apache-2.0
// The explorer's small world: two writers and one collector on an honest store, where every next
// thing is a choice.
//
// What is a choice of its own: the clock's next tick, a client's op or sync, an append being
// performed, its answer arriving (true, or once in a run "unknown", before or after it is
// performed), a read of the log, the collector starting a round, its floor being written, each of
// its drops. Everything else (listings, snapshots, looks at the floor) happens at once: doing it
// later only shows a higher floor or a later snapshot, which makes the code more careful.
#pragma once

#include "bucket.h"
#include "history.h"
#include "journal/journal.h"

#define SCENE_WRITERS     2
#define SCENE_OPS_MAX     4 // of one writer
#define SCENE_FLIGHTS_MAX 8
#define SCENE_ACTIONS_MAX 32

#define SCENE_VERIFY      2 // V and R, in ticks
#define SCENE_RETAIN      3

struct scene_bounds {
    int64_t ticks; // 0: any number
    uint32_t ops[SCENE_WRITERS];
    uint32_t looks;    // syncs of writer A
    uint32_t unknowns; // appends of writer A that are answered "unknown"
    bool ends;         // with its last op writer B ends the machine; its collector finishes it
};

struct scene_flight {
    bool used;
    uint32_t writer;
    bool collector;
    bool performed;
    bool abandoned;         // answered; it will be performed all the same
    struct request request; // owned body; the key is a constant
    char key[BUCKET_KEY_MAX];
    struct bucket_answer answer;
};

struct scene_writer {
    struct scene *scene;
    uint32_t index;
    struct journal *journal;
    struct registers *machine;
    struct fold inner;
    uint32_t asked; // ops submitted
    bool syncing;
    bool reading; // the last answer it heard was to a read of the log
};

enum action_kind {
    ACTION_TICK,
    ACTION_ASK,     // a: writer
    ACTION_SYNC,    // a: writer
    ACTION_COLLECT, // the collector starts a round
    ACTION_PERFORM, // a: flight; anything but an append is answered at the same moment
    ACTION_ANSWER,  // a: flight
    ACTION_UNKNOWN, // a: flight
};

struct action {
    enum action_kind kind;
    uint32_t a;
};

struct scene {
    struct scene_bounds bounds;
    struct findings findings;
    struct trace *trace; // borrowed; NULL: no trace
    int64_t now;
    struct rng rng;
    struct bucket bucket;
    struct tickets tickets;
    struct history history;
    struct scene_writer writers[SCENE_WRITERS];
    struct collector *collector; // beside writer 1
    struct scene_flight flights[SCENE_FLIGHTS_MAX];
    uint32_t looks;
    uint32_t unknowns;
    struct buf payload;
    struct buf state;
};

void scene_init(struct scene *s, const struct scene_bounds *bounds, struct trace *trace);
void scene_done(struct scene *s);
size_t scene_actions(struct scene *s, struct action out[SCENE_ACTIONS_MAX]);
void scene_act(struct scene *s, struct action action);

// scene_state.c: the hash of all that decides what can come next
uint64_t scene_hash(struct scene *s);
