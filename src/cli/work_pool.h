// SPDX-License-Identifier: Apache-2.0
// A worker: N slots, each a thread that takes one message, runs the program on it and says what
// became of it; a heartbeat thread that keeps their locks; and the orders that stop them.
//
//            receive              exit                 answer
//     IDLE ----------> RUNNING ----------> SETTLING ----------> IDLE
//                         |                    ^
//       lock lost, or     |                    |
//       told to stop      '----> STOPPING -----'
//
// All fields of slots and pool that say so are under the pool's lock. Times are milliseconds of the
// clock that runs through suspend, deadlines are counted from before the claim or renewal was
// asked for.
#pragma once

#include "cli/work_spawn.h"
#include "sluice.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define WORK_JOBS_MAX    1024
#define WORK_WORKER_MAX  128
#define WORK_REASON_MAX  256
#define WORK_PROBLEM_MAX 512
#define WORK_BODY_MAX    96

enum slot_state { SLOT_IDLE, SLOT_RUNNING, SLOT_STOPPING, SLOT_SETTLING };

// Each order includes those before it.
enum work_order {
    WORK_GO,
    WORK_NO_MORE, // take nothing new, finish what runs
    WORK_RETURN,  // stop what runs, give it back
    WORK_AT_ONCE, // the same without patience
};

// How a job ended, as people count it.
enum work_end {
    END_PROCESSED,
    END_RETRYING,
    END_DEAD,
    END_RELEASED,
    END_LOST, // the lock went to somebody else, or ran out
    END_COUNT
};

const char *work_end_name(enum work_end end); // "processed"

// A job that ended, for those who print.
struct work_report {
    const char *id;
    uint32_t attempt;
    enum work_end end;
    int status; // as of waitpid; -1 when the program did not run
    int64_t took_ms;
    const char *reason; // "" when there is none
};

struct worker_pool;

// The face of the worker. Called from any slot, one call at a time.
struct work_ui {
    void *ctx;
    void (*ended)(void *ctx, const struct work_report *r);
    void (*output)(void *ctx, bool is_error, const char *text, size_t len);
    void (*trouble)(void *ctx, const char *sentence); // it goes on, but somebody should know
};

struct work_options {
    struct sluice *store;
    const char *queue;
    char worker[WORK_WORKER_MAX + 1];
    uint32_t jobs;
    int64_t visibility_ms; // 0: the queue's
    int64_t lease_ms;      // which of the two it is, as far as is known
    int64_t kill_after_ms; // from TERM to KILL
    bool once;
    bool drain;
    struct spawn_spec spec;
    struct work_ui ui;
};

struct slot {
    struct worker_pool *pool;
    pthread_t thread;
    bool started;
    uint32_t returns; // jobs in a row that the program gave back; the slot's own
    bool blocked;     // --drain: what is ready waits behind an open message; the slot's own
    uint32_t puzzled; // --drain: times in a row that what is ready could not be had
    struct sluice_batch *next; // came with the answer to an ack; the slot's own, as are ...
    int64_t next_asked_ms;
    struct sluice_request request; // ... of a question that may have been answered with a message
    bool unanswered;
    int wake_fd;  // eventfd: look at your orders
    int timer_fd; // the next deadline of the job
    // under the lock
    enum slot_state state;
    bool lost;  // a renewal was refused
    bool quiet; // the first word on the outcome is on its way: do not renew across it
    char id[SLUICE_ID_MAX];
    char token[SLUICE_TOKEN_MAX]; // "" when it has none
    uint32_t attempt;
    uint32_t retries;         // as claimed
    char body[WORK_BODY_MAX]; // its first bytes
    size_t body_len;
    int64_t started_ms;
    int64_t lease_ms;    // as claimed
    int64_t deadline_ms; // ours, never later than the store's
    int64_t renew_at_ms;
};

// A sync that failed makes a handle useless for good: the store is opened again, so often at most.
#define WORK_HANDLES_MAX 8

struct worker_pool {
    struct work_options options;
    _Atomic(struct sluice *) store; // the options', or a later one
    struct slot *slots;
    pthread_t heartbeat;
    int heartbeat_fd;       // eventfd: the table of locks changed
    int heartbeat_timer_fd; // the next renewal
    int done_fd;            // eventfd: the last slot ended
    _Atomic int order;      // enum work_order
    pthread_mutex_t lock;
    pthread_mutex_t work_ui_lock;
    // under the lock
    uint32_t alive; // slots whose thread goes on
    uint32_t busy;  // slots with a message
    bool heartbeat_stops;
    struct sluice
        *handles[WORK_HANDLES_MAX]; // opened later; closed at the end, for calls may be in them
    uint32_t handles_len;
    int64_t opened_ms;
    uint64_t ended[END_COUNT];
    uint64_t renewals;
    bool ready_known;
    uint64_t ready;           // messages that wait in the queue, as of some seconds ago
    enum sluice_code failure; // why the worker stopped by itself
    char problem[WORK_PROBLEM_MAX];
};

int64_t work_now_ms(void);
// When a lock that was asked for at asked_ms surely still holds: the store's time may run faster
// than this machine's clock, by less than one part in 128 (docs/decisions/0015).
static inline int64_t work_deadline(int64_t asked_ms, int64_t lease_ms)
{
    return asked_ms + lease_ms - lease_ms / 128;
}

// Starts the threads. 0 or an errno. Signals that the caller wants for itself must be blocked.
int pool_start(struct worker_pool *p, const struct work_options *o);
void pool_order(struct worker_pool *p, enum work_order order); // never back to a lesser one
// After done_fd became readable: joins everything. The slots' counts stay readable.
void pool_join(struct worker_pool *p);
// Stops taking messages, for a reason that no patience helps against.
void pool_fail(struct worker_pool *p, enum sluice_code code, const char *sentence);

// Within the worker.
// After a call was not answered for so long: perhaps a fresh handle is.
void pool_reopen(struct worker_pool *p, int64_t since_ms);
void slot_wake(struct slot *s);
// Sleeps until woken or the time has come.
void slot_nap(struct slot *s, int64_t ms);
void *heartbeat_main(void *pool);
void heartbeat_wake(struct worker_pool *p);

// Runs the program on m and says what became of it: takes the message from claimed to settled.
enum work_end job_run(struct slot *s, const struct sluice_message *m, int64_t asked_ms);

// What is to be said about a message.
enum settle_word { WORD_ACK, WORD_FAIL, WORD_RELEASE };
// Says it until the answer is known (or the worker is told to go at once).
enum work_end settle(struct slot *s, enum settle_word word, const char *reason);
void work_ui_trouble(struct worker_pool *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
