// SPDX-License-Identifier: Apache-2.0
// Private to the worker's side: worker.c (requests, writes, the time) and worker_inbox.c (what the
// owner writes, tickets).
#pragma once

#include "base/rng.h"
#include "mailbox/worker.h"

// clang-format off
//     GATHERING --> WRITING --> WRITTEN --> answered
//         '------------'-----------'------> DIRECT --> answered
// clang-format on
enum request_state { REQUEST_GATHERING, REQUEST_WRITING, REQUEST_WRITTEN, REQUEST_IS_DIRECT };

struct mailbox_request {
    struct mailbox_request *next;
    uint64_t id;
    uint64_t ticket; // 0: the worker's own renewal of tickets
    enum request_state state;
    uint64_t number; // of the object that has it
    struct request_id request;
    uint16_t op_kind;
    struct bytes payload; // owned
    int64_t since;
    uint32_t takes;       // tickets that it renews
    struct bytes signals; // owned: what waits for its locks, as the answer will say
};

enum ticket_state { TICKET_HELD, TICKET_TAKING, TICKET_GONE };

// A ticket is remembered until its deadline, so that it is not taken twice.
struct held_ticket {
    struct held_ticket *next;
    enum ticket_state state;
    struct lock_ref ref;
    int64_t deadline;
    uint64_t taken_by;    // the id of the request
    struct bytes message; // owned; empty once it is gone
};

struct effect_row {
    struct effect_row *next;
    struct mailbox_effect effect;
    bool owned; // the body
};

struct mailbox_worker {
    struct mailbox_worker_config config;
    struct bytes name; // owned
    struct rng rng;
    struct interval now;
    struct mailbox_request *open, *open_tail; // in the order of their ids
    uint64_t ids;
    struct held_ticket *held, *held_tail; // in the order of arrival
    uint32_t want;
    int64_t lease_ms;

    // The object that is being written; number 0: none.
    uint64_t writing;
    struct buf object;
    bool write_open;    // the effect was given out
    int64_t write_at;   // a failed write is repeated then
    uint64_t out_last;  // the newest number
    int64_t written_at; // when the newest one was begun

    uint64_t in_last; // read up to here
    bool read_open;
    int64_t unseen_at; // when the oldest object was begun that no owner has handled yet
    int64_t newest_at; // when the newest object of the owner was read
    bool look_open;
    int64_t looked_at; // when the newest look ended; TIME_UNKNOWN: none
    int64_t marked_at; // the newest mark of the owner; TIME_UNKNOWN: none
    int64_t poll_at;
    int64_t pace_ms;   // between two reads that find nothing
    int64_t expect_ms; // how long an owner takes, from experience
    uint32_t misses;   // reads that found nothing since the newest object was written

    bool direct;
    uint64_t probe;   // the first number that was written since the worker is direct; 0: none
    int64_t probe_at; // when the next one is written
    int64_t probe_ms; // the time between two

    struct effect_row *effects, *effects_tail, *effect_out;
};

void side_effect_put(struct mailbox_worker *w, const struct mailbox_effect *e, bool owned);
void side_open_add(struct mailbox_worker *w, uint64_t ticket, struct op op, uint32_t takes);
// Returns whether it is a new one that can be taken.
bool side_ticket_add(struct mailbox_worker *w, const struct mailbox_ticket *ticket);
void side_take_tickets(struct mailbox_worker *w); // renews as many as receives want
void side_tickets_forget(struct mailbox_worker *w);
void side_tickets_expire(struct mailbox_worker *w);
void side_taken(struct mailbox_worker *w, const struct mailbox_request *r, enum err err,
                struct bytes result);
