// SPDX-License-Identifier: Apache-2.0
// Two nodes as processes of their own on one directory with a queue "tasks", a direct client beside
// them, and a runner to read the journal.
#pragma once

#include "../conformance/store/support.h"
#include "../unit/unit.h"
#include "node_process.h"
#include "queues/owner.h"
#include "runner/runner.h"

#define STATED_MS 6000 // lease and one question: then another node has taken over
#define SLACK_MS  8000 // for a busy machine
#define PAUSE_MS  1000 // that a direct writer makes beside an owner, after each commit
#define CALLS_LEN 8    // one after another, without a pause for each: half that time is plenty

struct rig {
    char dir[SCRATCH_MAX];
    struct node_process one, two; // not started
    struct sluice *client;        // direct
    struct shard_runner *runner;
    struct store *store;
};

int rig_set_up(void **state);    // the program is SLUICE's
int rig_tear_down(void **state); // and kills the nodes

void node_start(struct node_process *n);
void node_pause(const struct node_process *n); // until it stands still
// The number that follows `before` in what the node answers at the path; -1: there is none.
extern const char *node_token; // that it brings; NULL: none
int node_number(const struct node_process *n, const char *path, const char *before);
int sent_through(const struct node_process *n); // messages that it took itself

struct queue_id queue_id_of(struct rig *r, const char *queue);
void runner_open_here(struct rig *r); // at a store of its own
// Of another queue, created with so many shards and nothing else.
struct shard_runner *runner_open_of(struct rig *r, const char *queue, uint32_t shards,
                                    uint32_t shard);
struct runner_owner owner_now(struct rig *r, struct owner_name *name);

void open_at(const char *url, const struct sluice_options *options, struct sluice **out);
void send_by(struct sluice *s, const char *body);
void use_node(const struct node_process *n, const char *body); // one message by way of it
// Receives and acks until there is nothing for a moment; every message comes once.
size_t drain(struct sluice *s);
void nap(void);
