// SPDX-License-Identifier: Apache-2.0
// A machine on a bench: a journal kept in memory, ops put into the next entry one by one, time set
// by hand.
#pragma once

#include "queue/core/machine.h"

#define RIG_OPS_MAX  16
#define RIG_TIME     INT64_C(100000000) // when the first entry is written
#define RIG_SHARD    3
#define RIG_INSTANCE 7 // of every worker

struct rig_entry {
    uint64_t slot;
    bool is_void; // the machine was not shown it
    struct op ops[RIG_OPS_MAX];
    size_t ops_len;
};

struct rig {
    struct queue_id queue;
    struct queue_config config;
    struct machine *m;
    struct rig_entry *log; // every entry so far; payloads are kept
    size_t log_len;
    size_t log_cap;
    struct rig_entry next; // the one being filled
    struct interval time;
    uint64_t epoch;
    struct op_result results[RIG_OPS_MAX];
    struct buf text;
    struct events events; // of the last entry
    uint64_t seed;        // for tokens
    size_t entry_bytes;   // size of each entry, as the machine is told
};

void rig_init(struct rig *r, const struct queue_config *config);
void rig_done(struct rig *r);
void rig_raise(struct rig *r, uint16_t to); // to that version of the rules, one entry a version

void rig_op(struct rig *r, uint16_t kind, struct buf *payload); // takes the payload
struct machine_entry rig_entry(const struct rig *r);            // what the next commit will apply
void rig_commit(struct rig *r);
void rig_commit_void(struct rig *r);      // takes a slot that the machine never sees
void rig_tick(struct rig *r, int64_t ms); // time passes; an empty entry

struct bytes rig_body(const struct rig *r, size_t op); // the result body of an op
enum reason rig_reason(const struct rig *r, size_t op);
// The message at a place, found as the header says; fails the test when that is impossible.
struct message rig_message(const struct rig *r, struct place place);
const struct event *rig_event(const struct rig *r, enum event_kind kind, size_t nth); // or NULL
size_t rig_events(const struct rig *r, enum event_kind kind);
uint64_t rig_count(const struct rig *r, enum message_state state);

// One op, one entry.
struct send_row rig_send(struct rig *r, const char *body, const char *group);
struct send_row rig_send_message(struct rig *r, const struct message *m);
uint32_t rig_claim(struct rig *r, const char *worker, uint32_t max, struct grant *out);
uint32_t rig_claim_lease(struct rig *r, const char *worker, uint32_t max, int64_t lease,
                         struct grant *out);
struct outcome_row rig_word(struct rig *r, uint16_t kind, const struct grant *g);
void rig_put_word(struct rig *r, uint16_t kind, const struct grant *g, int64_t arrived_at);
void rig_put_claim(struct rig *r, uint16_t kind, const char *worker, uint32_t max, int64_t lease);
// A worker joins.
void rig_put_worker(struct rig *r, const char *worker, uint32_t capacity, int64_t ttl);
void rig_put_publish(struct rig *r, const char *worker, uint32_t max, int64_t ticket_ms);
void rig_put_plain(struct rig *r, uint16_t kind);
void rig_put_configure(struct rig *r, const struct queue_config *config);
void rig_put_redrive(struct rig *r, uint32_t max);
void rig_put_arrive(struct rig *r, uint64_t number, const char *body);
void rig_put_outbox(struct rig *r, uint64_t upto);
uint32_t rig_grants(const struct rig *r, size_t op, struct grant *out, uint32_t max);
struct outcome_row rig_outcome(const struct rig *r, size_t op);
