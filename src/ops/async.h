// SPDX-License-Identifier: Apache-2.0
// The calls of sluice.h without blocking. A server can have thousands of them under way on a few
// threads. Each call does the same as the call of that name in sluice.h.
//
// A call borrows its arguments until it returns. The library calls `done` exactly once, on any
// thread, perhaps before the call returns. `done` must not block. It may start another call. The
// answer is valid until `done` returns, except the batch: `done` owns it and frees it.
#pragma once

#include "protocol/call_arguments.h"
#include "queues/bodies.h"

#include <stdbool.h>

struct engine;

struct async_answer {
    enum sluice_code code;
    const struct sluice_error *error;
    const struct sluice_sent *sent;        // send: one per message
    const struct sluice_outcome *outcomes; // ack, fail, release, renew, acks of a receive: one each
    size_t len;                 // of sent or outcomes; 0: the call failed before the first of them
    struct sluice_batch *batch; // receive; NULL unless code is SLUICE_OK
    struct sluice_signals *signals; // signals_poll, signal_wait; the call frees it
    struct collected_list
        *collected;        // async_collect (ops/collect.h); `done` frees it; NULL: an error
    const bool *forwarded; // which of sent or outcomes another node did; NULL: none
    bool batch_forwarded;  // the messages are another node's
};

// The caller embeds it in the struct that `done` needs. It must live until `done` is called.
struct async_call {
    void (*done)(struct async_call *async, const struct async_answer *a);
    struct answer_budget *budget; // for a receive; NULL: unlimited
    const char *token;            // of the caller, for the owner of a shard; NULL: none
    struct local_call *inside;    // only the library uses it; under the handle's lock
};

// How a call is made (start_<name> in ops/ops.h). With `async`, the function returns SLUICE_OK at
// once. The arguments and the places of the results must then live until `done`.
struct request_origin {
    struct engine *engine;
    struct async_call *async;             // NULL: the caller waits
    const struct sluice_request *request; // of a node's client; NULL: the library draws one
    const char *token;                    // ... for the owner of a shard; NULL: none
};

void async_send(struct engine *e, const char *queue, const struct sluice_send *messages, size_t len,
                const struct sluice_request *request, struct async_call *a);
void async_receive(struct engine *e, const char *queue, const struct sluice_receive *options,
                   struct async_call *a);
// The receive no longer waits. If it has claimed nothing, it ends without messages: `done` is
// called soon, perhaps before this returns. A claim under way is not cancelled, and acks are
// answered. Call it only after async_receive returned. Nothing happens if `done` was called.
void async_cancel(struct engine *e, struct async_call *a);

void async_settle(struct engine *e, const char *queue, const struct settle *what,
                  struct async_call *a);

// async_cancel ends them, without rows.
void async_signals_poll(struct engine *e, const char *queue, const struct signals_poll *poll,
                        struct async_call *a);
void async_signal_wait(struct engine *e, const char *queue, const char *signal, const char *message,
                       int64_t wait_ms, struct async_call *a);

// Waits for the next events of a stream of a store. All events of the wait before must have been
// taken. `done` has a code other than SLUICE_OK if the events cannot be read.
void async_events_wait(struct sluice_events *e, int64_t wait_ms, struct async_call *a);
// The same for the events that one shard has now.
void async_events_look(struct sluice_events *e, uint32_t shard, struct async_call *a);
// Takes an event that the last wait brought. Returns false if there is none.
bool async_events_take(struct sluice_events *e, struct sluice_event *out);
enum events_end {
    EVENTS_CAME,    // perhaps only ones before the stream's position
    EVENTS_NONE,    // none came in this time, and all that exist were read
    EVENTS_DELETED, // the queue is deleted, and all its events were read
};
enum events_end async_events_end(const struct sluice_events *e); // of the last wait
