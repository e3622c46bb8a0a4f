// SPDX-License-Identifier: Apache-2.0
// The library's calls for somebody who cannot wait: a server that has thousands of them on a few
// threads. Each means what the call of the same name in sluice.h means.
//
// Arguments are borrowed for the call only. `done` is called exactly once, on any thread, perhaps
// before the call returns; it must not block, and may make the next call. What it is shown lives
// until it returns, except the batch, which is its own to free.
#pragma once

#include "sluice.h"

#include <stdbool.h>

struct async_answer {
    enum sluice_code code;
    const struct sluice_error *error;
    const struct sluice_sent *sent;        // send: one per message
    const struct sluice_outcome *outcomes; // ack, fail, release, renew, acks of a receive: one each
    size_t len;                 // of these; 0 when the call failed before it came to any of them
    struct sluice_batch *batch; // receive; NULL unless code is SLUICE_OK
};

// What an answer with messages may take, for somebody who has to keep many of them. He is asked
// when it is known what there is to hand out, before a body is read.
struct answer_budget {
    uint64_t most; // bytes in one answer; a single message may have more
    // Whether there is room for so many in this answer, all in all; waits: it may block for a
    // moment until there is.
    bool (*take)(struct answer_budget *budget, uint64_t bytes, bool waits);
};

// Embed it in what the callback needs to know. Must live until done was called.
struct async_call {
    void (*done)(struct async_call *l, const struct async_answer *a);
    struct answer_budget *budget; // for a receive; NULL: there always is some
    bool unnamed;                 // nobody will repeat the receive, though it has a request id
    void *inside;                 // the library's, as are these
    bool at_runner;
    bool with_acks;
};

void async_send(struct sluice *s, const char *queue, const struct sluice_send *messages, size_t len,
                const struct sluice_request *request, struct async_call *l);
void async_receive(struct sluice *s, const char *queue, const struct sluice_receive *options,
                   struct async_call *l);
// A receive that still waits and was given nothing is forgotten: true, and done is not called any
// more. False: it was called, or will be, soon if the receive has acks, for they are to be told, or
// is on its way to the shards; or somebody else was told true. Not before async_receive returned.
bool async_cancel(struct sluice *s, struct async_call *l);

enum async_outcome { ASYNC_ACK, ASYNC_FAIL, ASYNC_RELEASE, ASYNC_RENEW };
struct async_settle {
    enum async_outcome kind;
    const char *const *tokens;
    size_t len;
    int64_t wait_ms;                      // release: the delay; renew: the visibility timeout
    const char *reason;                   // fail; may be NULL
    const struct sluice_request *request; // may be NULL
};
void async_settle(struct sluice *s, const char *queue, const struct async_settle *what,
                  struct async_call *l);
