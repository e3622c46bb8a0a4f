// SPDX-License-Identifier: Apache-2.0
// The mailboxes of a shard, on the owner's side. The owner works in rounds. The caller performs the
// steps of a round in this order, and may perform the requests of one step in parallel:
//
//     owner_begin                 the time before the LIST
//     owner_listed                each key that the LIST of `out` answered
//     owner_read_key, _object     get each object, and pass it in
//     owner_op, owner_committed   commit each op in the shard, and pass in its result
//     owner_worker                each registered worker that uses a mailbox
//     owner_ticket                each ticket of such a worker; owner_deliver if it is new
//     owner_write, owner_written  create each object
//     owner_delete_key, _deleted  delete each key
//     owner_end
//
// A round may stop after any step, because the next one repeats what is not complete: an object of
// `out` is deleted only after its answers were written. An op that is committed twice has the same
// request id, so it takes effect once.
//
// A new owner lists `in` once (owner_in_listed), so that it does not reuse numbers. The newest
// object of each box of `in` therefore stays until the worker is gone.
#pragma once

#include "base/interval.h"
#include "mailbox/object.h"

#define MAILBOX_ROUND_MS    250                       // between the begins of two rounds
#define MAILBOX_OUT_AGE_MS  (INT64_C(5) * 60 * 1000)  // an older object is not read any more
#define MAILBOX_BOX_IDLE_MS (INT64_C(10) * 60 * 1000) // then an unregistered box is deleted
#define MAILBOX_IN_LIST_MS  (INT64_C(10) * 60 * 1000) // between two lists of `in`
#define MAILBOX_UNREAD_MAX  8 // objects of `in` that a worker leaves unread; then no more tickets
#define MAILBOX_IN_BODY_MAX ((size_t)8 << 20)
#define MAILBOX_DELETES_MAX 1000
#define MAILBOX_MARK_MS     1000 // between two marks of a slow owner

struct mailbox_owner;

struct mailbox_owner *mailbox_owner_new(const char *prefix, const struct queue_id *queue,
                                        uint32_t shard);
void mailbox_owner_free(struct mailbox_owner *o); // NULL is allowed

void owner_begin(struct mailbox_owner *o, struct interval now);
bool owner_lists_in(const struct mailbox_owner *o); // this round needs a LIST of `in`, too
void owner_in_listed(struct mailbox_owner *o, const char *key);
void owner_in_done(struct mailbox_owner *o); // every page of it was passed in
void owner_listed(struct mailbox_owner *o, const char *key, struct interval modified);

size_t owner_reads(const struct mailbox_owner *o);
void owner_read_key(const struct mailbox_owner *o, size_t i, char key[static MAILBOX_KEY_MAX]);
void owner_object(struct mailbox_owner *o, size_t i, enum err err, struct bytes object);
// Every listed object was read. If not, the time may not pass a deadline yet (limit.h).
bool owner_has_all(const struct mailbox_owner *o);

size_t owner_ops(const struct mailbox_owner *o);
struct op owner_op(const struct mailbox_owner *o, size_t i); // a view, valid until owner_end
// Signals wait for the holders of the locks that the op renews (mailbox_signal_put). Before
// owner_committed, with its result; only if the queue's rules have signals.
void owner_signals(struct mailbox_owner *o, size_t i, struct bytes rows);
// A result without a body is no answer, and nor is one that the next object of the worker does not
// take: the op is repeated in the next round.
void owner_committed(struct mailbox_owner *o, size_t i, enum err err, struct bytes result);

// beat_ms: how often its registration is renewed. Returns true if it is due: the worker has written
// an object since.
bool owner_worker(struct mailbox_owner *o, struct bytes name, uint64_t instance, int64_t beat_ms);
// Returns true if the ticket was not delivered yet. The caller then reads its message and calls
// owner_deliver. If the next object of the worker does not take the message, it is asked for again.
bool owner_ticket(struct mailbox_owner *o, struct bytes name, uint64_t instance,
                  const struct lock_ref *ref);
void owner_deliver(struct mailbox_owner *o, struct bytes name, uint64_t instance,
                   const struct mailbox_ticket *ticket);

// A round that takes long makes workers commit directly, which makes it longer. So tickets are
// delivered to a bounded number of workers until they are taken, to those first that were served
// longest ago. The bound follows the time that rounds take. A ticket that is not delivered returns
// to its place.
uint32_t owner_room(const struct mailbox_owner *o); // how many workers
uint64_t owner_served(struct mailbox_owner *o, struct bytes name, uint64_t instance); // the round
void owner_took(struct mailbox_owner *o, int64_t ms, bool full); // the round; full: no room left

// While rounds are slow, the owner overwrites its mark about once a second. Workers that wait for
// an answer then know that it lives. Ask between any two steps, with the store time. True: write it
// now (mailbox_mark_key).
bool owner_mark_due(struct mailbox_owner *o, int64_t now);

size_t owner_writes(struct mailbox_owner *o); // builds them; call it once
// The views are valid until owner_end.
void owner_write(const struct mailbox_owner *o, size_t i, char key[static MAILBOX_KEY_MAX],
                 struct bytes *object);
void owner_written(struct mailbox_owner *o, size_t i, enum err err);

// At most MAILBOX_DELETES_MAX. Deleting is slow, so later rounds need not wait for it:
// owner_deleted may come between any two later steps. Until then this returns 0.
size_t owner_deletes(struct mailbox_owner *o);
void owner_delete_key(const struct mailbox_owner *o, size_t i, char key[static MAILBOX_KEY_MAX]);
void owner_deleted(struct mailbox_owner *o, enum err err); // all of them
void owner_end(struct mailbox_owner *o);
