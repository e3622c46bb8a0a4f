// SPDX-License-Identifier: Apache-2.0
// Inside the workbench. bench.c has the stores, the time, and what only a runner can do: inspecting
// a shard's state, and the coordinator's part. What workers, senders and operators do has two
// versions, of which a program links one: drivers_runner.c, and drivers_http.c by way of a node.
#pragma once

#include "../store/support.h"
#include "bench.h"

#define WORKERS_MAX_HERE 160
#define RECEIVE_WAIT_MS  (INT64_C(20) * 3600 * 1000) // longer than any time a test lets pass

struct bench {
    struct store *store; // what the runners see
    struct store *clock; // the store itself, for time to pass
    enum { BENCH_MEM, BENCH_FILE, BENCH_SERVER } kind;
    char dir[SCRATCH_MAX];      // file
    struct journal_rules rules; // of the runners; all zero: the defaults
    int64_t patience_ms;
    struct dispatch_rollout dispatch; // of the runners: off, so that a test chooses the moment
    struct client *workers[WORKERS_MAX_HERE];
    size_t workers_len;
    struct node *node; // NULL until there is a client, and with clients at runners
    bool node_owns;    // it is the shards' owner, and so there is no other coordinator
};

struct op_claim bench_claim(const char *worker, size_t max); // with a fresh request id and seed
// Does the op and opens its result.
enum err bench_perform(struct client *w, uint16_t kind, struct buf *payload, struct result *out);
struct state_look {
    uint64_t seq;
    struct machine_stats stats;
    struct message_view view;
    uint64_t slot;
    enum err err;
    bool ended; // and it is known how
    struct spec_end end;
};

struct state_look bench_look(struct client *w, uint64_t seq); // seq 0: no message

void drivers_begin(struct bench *b); // before the first hand: the store is what it will be
void drivers_end(struct bench *b);   // after the last one; releases the store
void drivers_look(struct bench *b);  // time has passed
void spec_join(struct client *w, const struct runner_config *config); // the runner is open
void spec_leave(struct client *w);

struct settle_step {
    uint16_t kind; // OP_ACK, OP_FAIL, OP_RELEASE, OP_RENEW
    int64_t wait_ms;
    const char *why;
    const struct request_id *request; // NULL: a new one
};
enum reason spec_settle(struct client *w, const struct settle_step *s,
                        const struct held_message *m);
