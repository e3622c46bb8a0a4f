// SPDX-License-Identifier: Apache-2.0
// The calls of sluice.h without blocking. A server can have thousands of them under way on a few
// threads. Each call does the same as the call of that name in sluice.h.
//
// A call borrows its arguments until it returns. The library calls `done` exactly once, on any
// thread, perhaps before the call returns. `done` must not block. It may start another call. The
// answer is valid until `done` returns, except the batch: `done` owns it and frees it.
#pragma once

#include "local/transport.h"

#include <stdbool.h>

// The threads of the handle. A node runs its own work on them, too.
struct thread_pool *async_thread_pool(struct sluice *s);
// The id of the store, in hex. It tells two stores apart.
#define ASYNC_STORE_ID 33
void async_store_id(const struct sluice *s, char out[ASYNC_STORE_ID]);

// How far the dispatch of tickets is rolled out in this process (enum rollout), and how often it
// was withheld in shadow.
void async_dispatch(struct sluice *s, int rollout);
uint64_t async_dispatch_withheld(struct sluice *s);

struct async_answer {
    enum sluice_code code;
    const struct sluice_error *error;
    const struct sluice_sent *sent;        // send: one per message
    const struct sluice_outcome *outcomes; // ack, fail, release, renew, acks of a receive: one each
    size_t len;                 // of sent or outcomes; 0: the call failed before the first of them
    struct sluice_batch *batch; // receive; NULL unless code is SLUICE_OK
    struct sluice_signals *signals; // signals_poll, signal_wait; the call frees it
    struct collected *collected; // async_collect (local/collect.h); `done` frees it; NULL: an error
    const bool *away;            // which of sent or outcomes another node did; NULL: none
    bool batch_away;             // the messages are another node's
};

// The memory that an answer with messages may take. A server has one for each answer, because it
// keeps many answers at a time. The library reserves memory when it knows which messages it will
// deliver, and before it reads a body.
struct answer_budget {
    uint64_t most; // bytes in one answer; a single message may have more
    // Reserves `bytes` for the whole answer; an earlier reservation is included. Returns false if
    // that much is not available. With `waits` it may block for a moment until it is.
    bool (*take)(struct answer_budget *budget, uint64_t bytes, bool waits);
};

// The caller embeds it in the struct that `done` needs. It must live until `done` is called.
struct async_call {
    void (*done)(struct async_call *l, const struct async_answer *a);
    struct answer_budget *budget; // for a receive; NULL: unlimited
    const char *token;            // of the caller, for the owner of a shard; NULL: none
    struct local_call *inside;    // only the library uses it; under the handle's lock
};

void async_send(struct sluice *s, const char *queue, const struct sluice_send *messages, size_t len,
                const struct sluice_request *request, struct async_call *l);
void async_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                   struct async_call *l);
// The receive no longer waits. If it has claimed nothing, it ends without messages: `done` is
// called soon, perhaps before this returns. A claim under way is not cancelled, and acks are
// answered. Call it only after async_receive returned. Nothing happens if `done` was called.
void async_cancel(struct sluice *s, struct async_call *l);

void async_settle(struct sluice *s, const char *queue, const struct settle *what,
                  struct async_call *l);

// async_cancel ends them, without rows.
void async_signals_poll(struct sluice *s, const char *queue, const struct signals_poll *poll,
                        struct async_call *l);
void async_signal_wait(struct sluice *s, const char *queue, const char *signal, const char *message,
                       int64_t wait_ms, struct async_call *l);

// Waits for the next events of a stream of a store. All events of the wait before must have been
// taken. `done` has a code other than SLUICE_OK if the events cannot be read.
void async_events_wait(struct sluice_events *e, int64_t wait_ms, struct async_call *l);
// The same for the events that one shard has now.
void async_events_look(struct sluice_events *e, uint32_t shard, struct async_call *l);
// Takes an event that the last wait brought. Returns false if there is none.
bool async_events_take(struct sluice_events *e, struct sluice_event *out);
enum events_end {
    EVENTS_CAME,    // perhaps only ones before the stream's position
    EVENTS_NONE,    // none came in this time, and all that exist were read
    EVENTS_DELETED, // the queue is deleted, and all its events were read
};
enum events_end async_events_end(const struct sluice_events *e); // of the last wait
