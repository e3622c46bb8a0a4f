// SPDX-License-Identifier: Apache-2.0
// What the processes of the stress test write down while they live: one file that all of them map,
// so that a written line survives every kill. A row for each message ever tried.
#pragma once

#include <sluice.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARED_RECORD_ROWS_MAX 2000000u
#define SHARED_RECORD_IDS_MAX  (2 * SHARED_RECORD_ROWS_MAX) // some are given up half written
#define GROUPS                 16u
#define SENDERS_MAX            256 // at once, and killed ones that are not noticed yet
#define FLEET_MAX              1024

enum lane { LANE_PLAIN, LANE_STRICT, LANE_HYBRID, LANES };
extern const char *const lane_names[LANES]; // the queues
#define DEAD_QUEUE "dead"

enum phase {
    PHASE_RUN,   // senders send, workers work, some are killed
    PHASE_DRAIN, // no more is sent, no process is killed
    PHASE_STOP
};

struct row {
    _Atomic uint8_t sent;     // the send was answered
    _Atomic uint8_t acked;    // acks that were answered with OK
    _Atomic uint8_t received; // deliveries that a worker saw
    _Atomic uint8_t refused;  // the send was answered: certainly not done
    uint8_t lane;
    uint8_t group;                // strict: GROUPS of them
    _Atomic uint64_t fence;       // the highest seen
    _Atomic uint64_t acked_fence; // of the delivery that was acked
    _Atomic uint32_t id;          // its place among the ids; 0: no one has noted it
};

// A registered worker of the fleet (fleet.c). A process that replaces a killed one has new workers
// in the same rows.
struct fleet_row {
    _Atomic uint64_t life; // of the process that wrote the row last
    _Atomic uint64_t joined;
    _Atomic uint64_t served; // messages that it got
};

struct shared_record {
    _Atomic int phase;
    _Atomic uint64_t next;      // number of the next message
    _Atomic uint64_t ended;     // acked or failed for good, roughly: keeps the backlog short
    _Atomic uint64_t refused;   // words that came too late
    _Atomic uint64_t abandoned; // locks left to run out
    _Atomic uint64_t given_up;  // sends without a clear answer that were not asked for again
    _Atomic uint64_t denied;    // ... that were certainly not done, and left at that
    _Atomic uint64_t unknown;   // answers that had to be asked for again
    _Atomic uint64_t faults;    // things that must not happen; the first is described
    char fault[256];
    _Atomic int senders[SENDERS_MAX]; // process ids of senders that have not ended
    struct fleet_row fleet[FLEET_MAX];
    struct row rows[SHARED_RECORD_ROWS_MAX];
    _Atomic uint32_t ids_len; // places that were taken; the first is never used
    char ids[SHARED_RECORD_IDS_MAX][SLUICE_ID_MAX];
};

struct shared_record *shared_record_open(const char *path, bool create); // NULL: errno says why
void shared_record_fault(struct shared_record *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Remembers the message's id; a fault when it has another one already.
void shared_record_id(struct shared_record *s, uint64_t number, const char *id);
// NULL: no one has noted it.
const char *shared_record_id_of(const struct shared_record *s, uint64_t number);

struct chance {
    uint64_t state;
};
uint64_t chance_next(struct chance *c);
uint64_t chance_under(struct chance *c, uint64_t limit); // 0 .. limit - 1
bool chance_percent(struct chance *c, uint64_t percent);
