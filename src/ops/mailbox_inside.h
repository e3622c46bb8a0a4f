// SPDX-License-Identifier: Apache-2.0
// Private to the worker's side: mailbox_session.c (sessions and their requests) and mailbox_calls.c
// (receive and settle).
#pragma once

#include "base/list.h"
#include "mailbox/worker.h"
#include "ops/mailbox_session.h"

struct engine;

// A message that was handed to the worker's program, or is about to be.
struct mailbox_lock {
    struct list_link link; // of `arrived` or `taken`
    uint32_t shard;
    struct lock_ref ref;
    int64_t deadline;
    bool has_signals;     // signals wait for it
    struct bytes message; // owned; empty once a receive has it
};

// A request that waits for its answer.
struct mailbox_wait {
    struct list_link link; // of `waits`
    uint64_t ticket;
    bool done;
    enum err err;
    struct buf body;
    struct buf signals; // of a renewal: read with mailbox_signal_next
};

struct mailbox_lane { // one shard
    struct mailbox_worker *box;
    struct shard_runner *runner;
    char prefix[MAILBOX_KEY_MAX];
};

struct mailbox_session {
    struct list_link link; // of all sessions
    struct engine *engine;
    struct open_queue *queue; // with a hold
    char worker[WORKER_NAME_MAX + 1];
    char box[MAILBOX_BOX_MAX + 1];
    uint64_t instance;
    uint32_t capacity; // of each shard
    int64_t ttl_ms;
    char *labels; // owned
    int users;    // under the handle's lock
    bool over;    // closed: freed with its last user
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct mailbox_lane *lanes; // one per shard
    uint32_t lanes_len;
    struct list arrived; // struct mailbox_lock: messages that no receive took yet
    struct list taken;   // struct mailbox_lock: messages that the program has
    struct list waits;   // struct mailbox_wait
    uint64_t tickets;
    uint32_t want; // of all receives
    int64_t lease_ms;
};

// With a use. The `skip` first ones are left out; NULL as worker: any.
struct mailbox_session *session_find(struct engine *e, const char *queue, const char *worker,
                                     size_t skip);
void session_let_go(struct mailbox_session **m); // NULL is fine
// Performs requests of the session until done(ctx), or until the boot time `until`. Call it with
// the lock; it releases the lock while it waits.
void session_drive(struct mailbox_session *m, bool (*done)(struct mailbox_session *m, void *ctx),
                   void *ctx, int64_t until);
// Performs what is due and waits for nothing. Call it with the lock.
void session_step(struct mailbox_session *m);
bool session_is_direct(const struct mailbox_session *m); // with the lock
bool session_takes(const struct mailbox_session *m);     // with the lock
void session_set_want(struct mailbox_session *m);        // with the lock
void lock_row_free(struct list *of, struct mailbox_lock *l);
