// SPDX-License-Identifier: Apache-2.0
// The ownership of one shard, as one process decides it. It is pure: facts go in, a move comes out.
//
// The caller checks a shard when it uses it. Two moves only ask for facts: READ for those of the
// journal, ASK_PEER for the answer of the node that the journal names. After each the caller
// decides again. Every other move ends the check and says when the next one is due.
//
// clang-format off
//     check ──► READ ──► ASK_PEER ──► TAKE, LEAVE, ASK_CLUSTER or WAIT
//       └─────────┴─────────► UNCHANGED: nothing was found out
// clang-format on
//
// What the journal and the node say decides:
//
//     the owner is ...            alone             member        joining    client
//     none                        TAKE              ASK_CLUSTER   UNCHANGED  WAIT
//     this node, without a claim  (it needs none)   ASK_CLUSTER   UNCHANGED  (it is no node)
//     an earlier start of this    TAKE              ASK_CLUSTER   UNCHANGED  (it is no node)
//     a node that proves itself   LEAVE             LEAVE         UNCHANGED  LEAVE
//     a node in doubt             WAIT              WAIT          UNCHANGED  WAIT
//     a node that does not        TAKE after its    ASK_CLUSTER   UNCHANGED  WAIT
//                                 lease, till then
//                                 WAIT
//
// Safety does not rest on it: the journal applies an own at one slot, and entries of an earlier
// owner are void after it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define OWNERSHIP_LEASE_MS  5000  // store time: a silent owner that does not prove itself keeps it
#define OWNERSHIP_CHECK_MS  1000  // how often a shard is checked ...
#define OWNERSHIP_OTHER_MS  5000  // ... that another node owns, by a node ...
#define OWNERSHIP_SYNC_MS   5000  // ... or by a client, which then reads the journal
#define OWNERSHIP_JOIN_MS   100   // ... and whether a node has joined
#define OWNERSHIP_MEMORY_MS 10000 // an older answer does not count: a node may be back
// Added to the end of a lease, so that the next check comes just after it.
#define OWNERSHIP_RETRY_MS  (OWNERSHIP_LEASE_MS / 100)

enum ownership_kind {
    OWNERSHIP_ALONE,   // a node without a cluster: it takes shards
    OWNERSHIP_MEMBER,  // a node of a cluster, which decides which node takes a shard
    OWNERSHIP_JOINING, // a node that is to be a member, or was one: it takes none
    OWNERSHIP_CLIENT,  // no node: it only looks for the owner
};

enum ownership_journal {
    OWNERSHIP_FOLDED,     // the facts are from the last fold
    OWNERSHIP_CURRENT,    // the journal was read up to its tail
    OWNERSHIP_UNREADABLE, // ... that failed
};

// The answer of the node that the journal names.
enum ownership_answer {
    OWNERSHIP_NOT_ASKED,
    OWNERSHIP_PROVEN,
    OWNERSHIP_DECLINES, // a process answers, and is not that node
    OWNERSHIP_AWAY,     // none came in time
    OWNERSHIP_DOUBTED,  // a challenge is under way
};

struct ownership_facts {
    enum ownership_kind kind;
    bool wanted; // the caller wants a check although this process is the owner by the last fold
    enum ownership_journal journal;
    bool mine;       // this process is the owner
    bool unserved;   // member: ... and it has no claim: it gave the shard away, or lost its session
    bool deleted;    // the queue is
    uint64_t epoch;  // of the owner; 0: there was none
    bool named;      // the journal's address of the owner can be read
    bool same_node;  // ... and has the name of this node: an earlier start
    bool knows;      // client: it sends ops to an owner that proved itself ...
    bool knows_this; // ... and the journal names the same one
    bool known_away; // ... but it did not answer since
    bool first;      // client: the first check of the shard
    enum ownership_answer answer;
    int64_t answer_age_ms;
    int64_t seen_at; // store time of the owner's last entry; TIME_UNKNOWN: none was seen
    int64_t now;     // store time, the earliest that it can be
};

enum ownership_move {
    OWNERSHIP_READ,        // read the journal up to its tail, and decide again
    OWNERSHIP_ASK_PEER,    // send the node a challenge, and decide again
    OWNERSHIP_TAKE,        // own it: the epoch is the expected one
    OWNERSHIP_LEAVE,       // the node that the journal names owns it: ops go there
    OWNERSHIP_ASK_CLUSTER, // it is used, and no live node has the claim for it
    OWNERSHIP_WAIT,        // no other node is known to own it: ops are done here
    OWNERSHIP_UNCHANGED,   // what is known of the owner stays
};

struct ownership_decision {
    enum ownership_move move;
    int64_t again_ms;  // when to check again; READ, ASK_PEER: 0
    bool away;         // the owner does not answer: a direct writer need not pause for it
    bool tell_cluster; // the cluster learns the epoch of another owner
};

// Since when an owner is silent of which no entry was seen. Zeroed at first.
struct ownership_silence {
    uint64_t epoch;
    int64_t since; // store time
};

struct ownership_decision ownership_decide(const struct ownership_facts *f,
                                           struct ownership_silence *s);
