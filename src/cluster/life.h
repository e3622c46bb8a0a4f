// SPDX-License-Identifier: Apache-2.0
// The lives of nodes as one observer sees them, from the member records of the
// coordination service. The observer draws negative conclusions only when they
// are sure (lease.h).
//
// clang-format off
//     (record) --> JOINING --steady--> HEALTHY --late--> SUSPECT --silent--> UNHEALTHY
//                                       ^  ^                |                 |    |
//                                       |  '------ beat ----'                 |    |
//                                       '----------------- steady ------------'    |
//                                                                                  |
//     every state --leaves--> LEAVING --silent--> GONE <-------- forgotten --------'
//
//     JOINING, HEALTHY: silent --> UNHEALTHY
//     forgotten, removed, replaced: every state --> GONE
//     stays: LEAVING --> JOINING
// clang-format on
//
// life.c has the table. A node is a name and an incarnation. If two records
// have one name, the record that joined later replaces the other.
#pragma once

#include "base/interval.h"
#include "cluster/identity.h"

enum life { LIFE_JOINING, LIFE_HEALTHY, LIFE_SUSPECT, LIFE_UNHEALTHY, LIFE_LEAVING, LIFE_GONE };

enum life_cause {
    LIFE_STEADY,    // heartbeats without a gap for steady_ms
    LIFE_BEAT,      // a heartbeat since the last look
    LIFE_LATE,      // no heartbeat for late_ms
    LIFE_SILENT,    // no heartbeat for lease_ms
    LIFE_FORGOTTEN, // no heartbeat for forget_ms
    LIFE_LEAVES,    // the record says that the node leaves
    LIFE_STAYS,     // a later record says that it does not leave after all
    LIFE_REMOVED,   // the record is gone
    LIFE_REPLACED,  // the name has a later incarnation
};

struct life_rules {
    int64_t lease_ms; // 5 s; 15 s on a store of high latency
    int64_t late_ms; // 4/5 of the lease: more than two thirds pass between a heartbeat and the next
                     // list
    int64_t steady_ms; // 2/5 of the lease
    int64_t forget_ms; // 60 s
};

void life_rules_defaults(struct life_rules *r, int64_t lease_ms);
const char *life_name(enum life life);
// What the table says; the same state if the cause changes nothing.
enum life life_after(enum life life, enum life_cause cause);

// A record as the coordination service has it.
struct member_report {
    struct member_id id;
    uint64_t joined; // rises with every join in one coordination service
    uint32_t capacity;
    struct interval beat; // the time of the last heartbeat
    bool leaving;
};

struct member {
    struct member_report seen;
    enum life life;
    struct interval first_seen;
    struct interval changed; // when the life last changed
    struct interval since;   // the first heartbeat of the run without a gap
};

#define MEMBERS_MAX 1024

struct members {
    struct member *rows; // by name
    size_t len;
    size_t cap;
};

// A change of a life, for events.
struct life_change {
    struct member_id id;
    enum life from;
    enum life to;
};
struct life_changes {
    struct life_change *rows;
    size_t len;
    size_t cap;
};

void members_init(struct members *m);
void members_done(struct members *m);
void life_changes_done(struct life_changes *c);
// Takes over a list of records, in any order; records after MEMBERS_MAX names
// are ignored. Members without a record are dropped. Appends what changed to
// `changes`.
void members_see(struct members *m, const struct life_rules *r, const struct member_report *list,
                 size_t list_len, struct interval now, struct life_changes *changes);
// Does what the time causes.
void members_tick(struct members *m, const struct life_rules *r, struct interval now,
                  struct life_changes *changes);
// When the time causes the next change, if no heartbeat comes before; TIME_NEVER: none.
int64_t members_wake_at(const struct members *m, const struct life_rules *r, struct interval now);
const struct member *members_find(const struct members *m,
                                  const struct member_id *id); // or NULL
const struct member *members_named(const struct members *m,
                                   const char *name);                // or NULL
const struct member *members_first_healthy(const struct members *m); // or NULL
