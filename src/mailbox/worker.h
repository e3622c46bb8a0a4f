// SPDX-License-Identifier: Apache-2.0
// The mailbox of one worker in one shard, on the worker's side. Events go in, effects come out.
//
//     mailbox_request  an op with a request id       MAILBOX_WRITE    create an object of `out`
//     mailbox_want     a receive waits               MAILBOX_READ     get an object of `in`
//     mailbox_written  a write has ended             MAILBOX_LOOK     get the owner's mark
//     mailbox_read     a read has ended              MAILBOX_DIRECT   commit the op in the journal
//     mailbox_looked   a look has ended              MAILBOX_REPLY    a request has its answer
//     mailbox_done     a direct commit has ended     MAILBOX_MESSAGE  a message for a receive
//     mailbox_tick     time has passed               MAILBOX_JOIN     register the worker again
//
// A request is written to an object of `out`. If its answer does not come within MAILBOX_ANSWER_MS,
// and the worker got nothing else from the owner for MAILBOX_FRESH_MS, it looks for the mark of the
// owner. If there is no new one, the worker commits the request directly with the same request id,
// so it takes effect once. If the owner made a mark a moment ago, it lives and answers others. Then
// the worker waits, and looks again, up to MAILBOX_PATIENCE_MS: direct commits of many workers
// would make a slow owner slower.
//
// If the owner is silent, the worker commits directly until an owner answers one of its objects.
//
// A ticket is a lock with a short deadline. The worker first renews it, and hands out the message
// when the renewal was answered. So no other worker can have the message.
#pragma once

#include "base/interval.h"
#include "mailbox/object.h"
#include "queue/codec/result.h"

#define MAILBOX_ANSWER_MS   2000  // how long a request waits for an owner without a sign of life
#define MAILBOX_PATIENCE_MS 20000 // and for one that makes marks
#define MAILBOX_FRESH_MS    3500  // a mark, or an object, is a sign of life for that long
#define MAILBOX_LINGER_MS   20    // how long an object waits for more requests

struct mailbox_worker;

struct mailbox_worker_config {
    struct queue_id queue;
    uint32_t shard;
    struct bytes worker; // copied
    uint64_t instance;
    uint64_t seed;   // fresh random bits: request ids are drawn from it
    int64_t beat_ms; // an object at least this often; it is the heartbeat of the registration
};

struct mailbox_worker *mailbox_worker_new(const struct mailbox_worker_config *config,
                                          struct interval now);
void mailbox_worker_free(struct mailbox_worker *w); // NULL is allowed

// The op has a request id. ticket > 0 names it in the reply.
void mailbox_request(struct mailbox_worker *w, uint64_t ticket, struct op op, struct interval now);
// How many messages the receives of the worker wait for now. lease_ms: as in op_claim.
void mailbox_want(struct mailbox_worker *w, uint32_t count, int64_t lease_ms, struct interval now);
void mailbox_written(struct mailbox_worker *w, uint64_t number, enum err err, struct interval now);
// ERR_NOT_FOUND: the object is not there yet.
void mailbox_read(struct mailbox_worker *w, uint64_t number, enum err err, struct bytes object,
                  struct interval now);
// modified: when the mark was written, in store time. Without a mark err is ERR_NOT_FOUND.
void mailbox_looked(struct mailbox_worker *w, enum err err, struct interval modified,
                    struct interval now);
// Before mailbox_done: signals wait for locks that the op has renewed (mailbox_signal_put).
void mailbox_done_signals(struct mailbox_worker *w, uint64_t id, struct bytes rows);
void mailbox_done(struct mailbox_worker *w, uint64_t id, enum err err, struct bytes result,
                  struct interval now);
// The worker claimed this message directly. It may have been a ticket of the worker, which is then
// not taken again. Do not claim directly while mailbox_takes: the claim could get the same tickets.
void mailbox_claimed(struct mailbox_worker *w, const struct lock_ref *ref, struct interval now);
bool mailbox_takes(const struct mailbox_worker *w);
void mailbox_tick(struct mailbox_worker *w, struct interval now);

enum mailbox_effect_kind {
    MAILBOX_WRITE,
    MAILBOX_READ,
    MAILBOX_LOOK,
    MAILBOX_DIRECT,
    MAILBOX_REPLY,
    MAILBOX_MESSAGE,
    MAILBOX_JOIN,
};

struct mailbox_effect {
    enum mailbox_effect_kind kind;
    uint64_t number;      // write, read: of the object
    uint64_t id;          // direct: for mailbox_done
    uint64_t ticket;      // reply
    enum err err;         // reply: as runner_do
    uint16_t op_kind;     // direct
    struct lock_ref ref;  // message
    int64_t deadline;     // message: of its lock
    bool has_signals;     // message: signals wait for its holder
    struct bytes signals; // reply to a renewal: read with mailbox_signal_next; may be empty
    // write: the object; direct: the payload; reply: the fold's result; message: its encoding
    struct bytes body;
};
// The body is valid until the next call of mailbox_effect, and a write's until mailbox_written.
bool mailbox_effect(struct mailbox_worker *w, struct mailbox_effect *out);
int64_t mailbox_wake_at(const struct mailbox_worker *w);

// The object that a write creates; valid until mailbox_written.
struct bytes mailbox_writing(const struct mailbox_worker *w);

// No owner answers: receives claim directly.
bool mailbox_is_direct(const struct mailbox_worker *w);
size_t mailbox_open_requests(const struct mailbox_worker *w);
