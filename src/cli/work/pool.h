// SPDX-License-Identifier: Apache-2.0
// A worker. It has N slots, each a thread that receives one message, runs the program on it and
// settles it. A heartbeat thread renews the locks. A listening thread receives the signals to all
// jobs, and an answering thread acknowledges them. Orders stop the slots.
//
// clang-format off
//            receive              exit                 answer
//     IDLE ----------> RUNNING ----------> SETTLING ----------> IDLE
//                         |                    ^
//       lock lost, or     |                    |
//       order to stop     '----> STOPPING -----'
// clang-format on
//
// The pool's lock protects the fields of slots and pool that are marked so. Times are milliseconds
// of a clock that also runs during suspend. Deadlines count from before the claim or renewal was
// sent.
#pragma once

#include "base/interval.h"
#include "cli/work/spawn.h"
#include "cli/work/talk.h"
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

// Each order includes the orders before it.
enum work_order {
    WORK_GO,
    WORK_NO_MORE, // receive nothing new, finish running jobs
    WORK_RETURN,  // stop running jobs and release their messages
    WORK_AT_ONCE, // like WORK_RETURN, but without waiting
};

// How a job ended, for the counters.
enum work_end {
    END_PROCESSED,
    END_RETRYING,
    END_DEAD,
    END_RELEASED,
    END_CANCELLED, // by an interrupt
    END_LOST,      // the lock expired or another worker has it
    END_COUNT
};

const char *work_end_name(enum work_end end); // such as "processed"

// A job that ended, for the UI.
struct work_report {
    const char *id;
    uint32_t attempt;
    enum work_end end;
    int status; // as of waitpid; -1 if the program did not run
    int64_t took_ms;
    const char *reason; // "" if there is none
};

// A signal to a job, for the UI.
struct work_signal {
    const char *message;
    const char *signal; // its id
    uint32_t number;
    const char *kind;
    const char *state; // "received", "acked", "declined", or "refused": the answer came too late
    const char *reason;
};

struct worker_pool;

// The UI of the worker. Any slot calls it; the calls never overlap.
struct work_ui {
    void *ctx;
    void (*ended)(void *ctx, const struct work_report *r);
    void (*signal)(void *ctx, const struct work_signal *s);
    void (*output)(void *ctx, bool is_error, const char *text, size_t len);
    void (*trouble)(void *ctx, const char *sentence); // a problem that does not stop the worker
};

struct work_options {
    struct sluice *store;
    const char *queue;
    char worker[WORK_WORKER_MAX + 1];
    uint32_t jobs;
    int64_t visibility_ms; // 0: that of the queue
    int64_t lease_ms;      // visibility_ms or that of the queue, as far as known
    int64_t kill_after_ms; // time from TERM to KILL
    int64_t unread_ms;     // time for a program to read a signal
    int steer_signal;      // unix signal for a steer or a question; 0: none
    bool polls;            // false: renewals tell of signals, which costs no request
    bool once;
    bool drain;
    bool paused;     // the queue, when the worker started
    bool registers;  // the user asked for it
    bool registered; // the worker joined
    struct spawn_spec spec;
    struct work_ui ui;
};

struct slot {
    struct worker_pool *pool;
    pthread_t thread;
    bool started;
    // Only the slot's thread uses the fields from here to unanswered.
    uint32_t returns;          // jobs in a row that the program gave back
    bool blocked;              // --drain: ready messages wait behind an open message
    uint32_t empty_receives;   // --drain: how often in a row a ready message could not be received
    struct sluice_batch *next; // a message that came with the answer to an ack
    int64_t next_asked_ms;
    struct sluice_request request; // id of a receive whose answer is unknown
    bool unanswered;
    int wake_fd;  // eventfd: the slot must check its order
    int timer_fd; // timerfd: the next deadline of the job
    // The lock protects the fields below.
    enum slot_state state;
    bool lost;  // a renewal was refused
    bool quiet; // the first attempt to settle is under way, so the lock is not renewed
    char id[SLUICE_ID_MAX];
    char token[SLUICE_TOKEN_MAX]; // "" without a message
    uint32_t attempt;
    uint32_t retries;         // at the claim
    char body[WORK_BODY_MAX]; // the first bytes of the body
    size_t body_len;
    int64_t started_ms;
    int64_t lease_ms;    // at the claim
    int64_t deadline_ms; // on the local clock, never later than the store's
    int64_t renew_at_ms;
    int64_t store_ahead_ms; // the store's clock, less the local one
    int64_t limit_ms;       // the end of the lock because of an interrupt; 0: none
    bool cut;               // an interrupt without grace ended the lock
    bool waits;             // a renewal said that a signal waits
    struct job_signal *inbox, *inbox_last;
    uint32_t number;  // of the last signal that came
    uint32_t signals; // signals that came
    uint32_t open;    // ... and have no end yet
    uint32_t answers; // on their way to the store
    int percent;      // -1: no progress was reported
    char progress[SLUICE_PROGRESS_TEXT_MAX + 1];
    bool progress_new; // for the next renewal
};

// An answer on its way to the store.
struct job_answer {
    struct job_answer *next;
    struct slot *slot;
    char token[SLUICE_TOKEN_MAX];
    char message[SLUICE_ID_MAX];
    struct job_signal *signal;
};

// A handle whose fdatasync failed stays unusable. The worker then opens the store again, at most
// this many times.
#define WORK_HANDLES_MAX 8

struct worker_pool {
    struct work_options options;
    _Atomic(struct sluice *) store; // that of the options, or one opened later
    struct slot *slots;
    pthread_t heartbeat;
    int heartbeat_fd;       // eventfd: the locks changed
    int heartbeat_timer_fd; // timerfd: the next renewal
    pthread_t listener, answerer;
    int listen_fd;            // eventfd: the jobs changed, or a signal waits
    int answer_fd;            // eventfd: there are answers
    int done_fd;              // eventfd: the last slot has ended
    _Atomic int order;        // enum work_order
    atomic_bool found_paused; // --drain ended because the queue is paused
    atomic_bool drained;      // an operator drains this worker
    atomic_bool held;         // an operator paused this worker, and a slot has said so
    atomic_bool ownerless;    // no owner hands out messages, and a slot has said so
    pthread_mutex_t lock;
    pthread_mutex_t work_ui_lock;
    // The lock protects the fields below.
    uint32_t alive; // slots whose thread still runs
    uint32_t busy;  // slots with a message
    bool heartbeat_stops;
    bool deaf; // the queue or the node does not know signals yet
    struct job_answer *answers, *answers_last;
    // Handles that were opened later. They are closed at the end, because calls may still use them.
    struct sluice *handles[WORK_HANDLES_MAX];
    uint32_t handles_len;
    int64_t opened_ms;
    uint64_t ended[END_COUNT];
    uint64_t renewals;
    bool ready_known;
    uint64_t ready;           // ready messages in the queue, as of a few seconds ago
    double queue_rate;        // messages a second that all workers together process; 0: not known
    enum sluice_code failure; // why the worker stopped by itself
    char problem[WORK_PROBLEM_MAX];
};

// Whether a call with this answer must be repeated: it was not applied, or may have been.
bool work_undecided(enum sluice_code code);
// Returns until when a lock surely holds that was requested at asked_ms, for lease_ms of the
// store's time.
static inline int64_t work_deadline(int64_t asked_ms, int64_t lease_ms)
{
    return asked_ms + time_surely_left(lease_ms);
}

// Starts the threads. Returns 0 or an errno. The caller must block the signals that it handles
// itself.
int pool_start(struct worker_pool *p, const struct work_options *o);
void pool_order(struct worker_pool *p, enum work_order order); // never returns to a lower order
// Call it after done_fd became readable. Joins all threads. The counters stay readable.
void pool_join(struct worker_pool *p);
// Stops receiving because of an error that retries do not solve.
void pool_fail(struct worker_pool *p, enum sluice_code code, const char *sentence);

// For the files of the worker.
//
// Called after a call had no answer since since_ms. Opens a new handle, which may work.
void pool_reopen(struct worker_pool *p, int64_t since_ms);
void slot_wake(struct slot *s);
// Sleeps until slot_wake or for ms.
void slot_sleep(struct slot *s, int64_t ms);
void *heartbeat_main(void *pool);
void heartbeat_wake(struct worker_pool *p);
void *listener_main(void *pool);
void listener_wake(struct worker_pool *p);
// Adds a signal to the slot's inbox. The caller has the lock. Numbers that came before are ignored.
void inbox_put(struct slot *s, const struct sluice_signal_state *signal);
void *answer_main(void *pool);
// Sends the ends of signals to the store, in this order. Takes ownership of the signal.
void answer_put(struct slot *s, struct job_signal *signal);
void answer_wake(struct worker_pool *p);
// Waits until the slot's answers have arrived, or until its lock has ended.
void answer_flush(struct slot *s);

// Runs the program on m and settles the message.
enum work_end job_run(struct slot *s, const struct sluice_message *m, int64_t asked_ms);

// How to settle a message.
enum settle_word { WORD_ACK, WORD_FAIL, WORD_RELEASE };
// Repeats the call until its outcome is known, or until WORK_AT_ONCE.
enum work_end slot_settle(struct slot *s, enum settle_word word, const char *reason,
                          const struct job_conversation *talk);
// How a message ended whose lock an interrupt limited.
enum work_end slot_interrupted(struct slot *s);
void work_ui_signal(struct worker_pool *p, const char *message, const struct job_signal *signal,
                    const char *state, const char *reason);
void work_ui_trouble(struct worker_pool *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
