// SPDX-License-Identifier: Apache-2.0
// A few threads that serve any number of members. A member gets a turn when it is due or was
// kicked, never two turns at once. The crew grows while turns block and others want theirs, up to
// its bound, and shrinks when there is nothing to do: what it costs depends on what happens, not on
// how many members there are.
#pragma once

#include "base/err.h"
#include "node/company.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CREW_NEVER INT64_MAX

struct crew;

// Embedded in what it serves, which it must not outlive. Nobody but the crew touches its fields.
struct crew_member {
    struct crew *crew;
    // Answers when the next one is due, by clock_boot_ms: at once for a time that has passed,
    // CREW_NEVER for not before a kick. No lock of the crew is held.
    int64_t (*turn)(struct crew_member *m);
    struct crew_member *next; // in the line
    int64_t asked;            // crew_due during a turn
    uint32_t ref;
    uint32_t refused; // enum refusal
    bool in_line;
    bool inside; // has its turn
    bool kicked; // during it
    bool slow;   // this turn may block
    bool lingers;
    bool leans;
    bool leaving;
};

// Threads are made when there is something to do.
struct crew *crew_new(size_t threads_max);
void crew_free(struct crew *c); // NULL is fine; its members have been removed
// Of its members together.
struct company *crew_company(struct crew *c);

// ERR_LIMIT: there is no thread, and none can be had. The first turn comes with the first kick.
MUST_USE enum err crew_add(struct crew *c, struct crew_member *m,
                           int64_t (*turn)(struct crew_member *m));
// Waits until its turn is over; there is no other then. Not for use in a turn.
void crew_remove(struct crew_member *m);
void crew_kick(struct crew_member *m); // a turn as soon as possible, after the present one if any
// A turn at boot_ms, if none was due before. It is not postponed by this.
void crew_due(struct crew_member *m, int64_t boot_ms);
// The same under a lock that the turn will want: answers whom to wake, by futex_wake_all, when it
// is free. NULL: nobody.
_Atomic uint32_t *crew_kick_quietly(struct crew_member *m);
_Atomic uint32_t *crew_due_quietly(struct crew_member *m, int64_t boot_ms);

// ---- in a turn

// From here on this turn may block: somebody else sees to the other members. Once is enough.
void crew_slow(struct crew_member *m);
// From here on this turn may wait for what another turn brings. False: so many do already that none
// might be left to bring it; come again.
MUST_USE bool crew_lean(struct crew_member *m);
// May this turn sleep until something happens elsewhere that no kick tells of? 0: yes; few may at
// the same time. Else: look without waiting, and come again at that time: the more there are, the
// later. All of them come at the same moments, so that one thread wakes up once for many. Those who
// are eager, since there was something lately, go first.
int64_t crew_linger(struct crew_member *m, bool eager);
