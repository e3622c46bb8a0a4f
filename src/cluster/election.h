// SPDX-License-Identifier: Apache-2.0
// The election of the leader as one node sees it. The coordination service
// grants the lease and numbers the epochs. This code decides when a node asks
// for it, renews it and gives it up.
//
// clang-format off
//               observed             asks            granted
//     OBSERVING ---------> FOLLOWING -----> ASKING ---------> LEADING
//                           ^  ^  ^            |               |  |
//                           |  |  '------------'               |  |
//                           |  |  refused, unknown             |  |
//                           |  '-------------------------------'  |
//                           |    the lease may have ended, or     |
//                           |    a renewal was refused            |
//                           '------------ RESIGNING <-------------'
//                             a smaller name for cool_down_ms, or stop
// clang-format on
//
// A candidate is the first healthy member by name. If the first one does not
// become leader, the next ones ask too, each one lease later than the one
// before. At a cold start these turns begin when the observation has ended.
#pragma once

#include "cluster/life.h"

enum election_role {
    ELECTION_OBSERVING,
    ELECTION_FOLLOWING,
    ELECTION_ASKING,
    ELECTION_LEADING,
    ELECTION_RESIGNING,
};

enum election_action {
    ELECTION_WAIT,
    ELECTION_ASK,       // ask for the lease of epoch + 1
    ELECTION_RENEW,     // renew the lease
    ELECTION_STEP_DOWN, // the lease may have ended: stop leading, ask nothing
    ELECTION_RESIGN,    // give the lease back
};

struct election_rules {
    int64_t lease_ms;     // 5 s
    int64_t observe_ms;   // 5 s: how long a node looks before it asks for the first
                          // time
    int64_t cool_down_ms; // 30 s: how long a smaller name is healthy before the
                          // leader resigns
};

// The leader's record in the coordination service.
struct leader_report {
    bool held; // the service says that the lease has not ended
    struct member_id id;
    uint64_t epoch; // the last epoch given out; 0: none
};

struct election {
    struct election_rules rules;
    enum election_role role;
    struct leader_report seen; // what was seen last, or won
    struct interval started;   // when the node saw the service for the first time
    bool started_known;
    bool led;               // a leader was seen since the start; before: a cold start
    struct interval vacant; // since when no leader was seen
    bool vacant_known;
    uint64_t epoch; // of this node's own leadership
    int64_t until;  // the end of its lease
    int64_t renew_at;
    struct interval leading_since;
};

void election_rules_defaults(struct election_rules *r, int64_t lease_ms);
void election_init(struct election *e, const struct election_rules *r);
// A list of the service arrived.
void election_see(struct election *e, const struct leader_report *seen,
                  const struct member_id *self, struct interval now);
// Decides what to do now. `stopping`: the node leaves and has nothing left to
// lead.
enum election_action election_decide(const struct election *e, const struct members *m,
                                     const struct member_id *self, bool stopping,
                                     struct interval now);
// The effects of the action that was taken, and of its answer. `sent` is when
// it was sent.
void election_asked(struct election *e);
void election_granted(struct election *e, const struct member_id *self, uint64_t epoch,
                      struct interval sent, struct interval now);
void election_refused(struct election *e); // refused, unknown or unavailable
void election_renewed(struct election *e, struct interval sent);
void election_renewal_failed(struct election *e, bool refused, struct interval now);
// Steps down or has resigned.
void election_down(struct election *e, struct interval now);
// Leads no longer; the request to give the lease back is under way.
void election_resigning(struct election *e, struct interval now);
bool election_leads(const struct election *e,
                    struct interval now); // lease held
