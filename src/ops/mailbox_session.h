// SPDX-License-Identifier: Apache-2.0
// The worker's side of mailboxes in the library: a worker that joined with WORKER_MAILBOX receives
// and settles through objects (mailbox/worker.h). No thread of its own performs the requests: the
// calls of the worker do, while they wait.
#pragma once

#include "protocol/call_arguments.h"
#include "queues/queues.h"

struct mailbox_sessions;

// Returns whether a worker of this handle should use a mailbox: the store is reached over a
// network, the shard has an owner, and no node answers. asked: the program wants one on such a
// store.
bool mailbox_wanted(struct engine *e, const char *queue, bool asked);
struct mailbox_join {
    const char *worker;
    uint64_t instance; // not 0
    uint32_t capacity; // of the whole queue; each shard gets its share, rounded up
    int64_t ttl_ms;
    const char *labels; // canonical; "": none
};
// Registers the worker in every shard, by direct commits. Its receives go through its mailbox from
// now on. It may be repeated with other values and the same instance. The reason of a refusal is
// error->reason.
enum sluice_code mailbox_join(struct engine *e, const char *queue, const struct mailbox_join *join,
                              struct sluice_error *error);
// Ends the registration, and releases the messages that no receive took. NULL as worker: all of
// the handle, whose registrations are left to expire.
void mailbox_leave(struct engine *e, const char *queue, const char *worker);
void mailbox_sessions_free(struct engine *e);
bool mailbox_session_exists(struct engine *e, const char *queue, const char *worker);

// Receives and settles through a mailbox. Return false if that is not possible: the worker has
// none, no owner answers, or the locks are not from it. Then the call is done as any other.
bool mailbox_receive(struct engine *e, const char *queue, const struct sluice_receive *options,
                     struct sluice_batch **out, struct sluice_error *error, enum sluice_code *code);
bool mailbox_settle(struct engine *e, const char *queue, const struct settle *what,
                    struct sluice_outcome *outcomes, struct sluice_error *error,
                    enum sluice_code *code);
// A worker with a mailbox got these messages by a direct claim.
void mailbox_note_claimed(struct engine *e, const char *queue, const char *worker,
                          const struct sluice_batch *batch);
