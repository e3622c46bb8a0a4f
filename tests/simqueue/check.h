// SPDX-License-Identifier: Apache-2.0
// The checkers, one file each. They read the reference model's records before an effect is written
// into them, or what handles and workers see. What they find goes to the world's findings.
#pragma once

#include "life.h"

// I1 and I7, check_history.c: one history, one state for all handles; stale epochs have no effect;
// no grant outside the owner's epoch, where only the owner hands out messages.
void check_state(struct world *w, struct node *n);
void check_epoch(struct reference *g, const struct entry *e, const struct op *op,
                 enum reason reason);

// Registered workers, check_fleet.c: a ticket goes to a live row that runs, has room and the
// labels; no row with room is passed over for ever; a group stays with its row; an evicted worker
// holds nothing; a name has one process.
void fleet_walk(struct reference *g, const struct walk_op *o); // OP_WORKERS
void fleet_expire(struct reference *g);                        // at the end of an entry
void fleet_forget(struct reference *g);                        // `dispatch` changed
void check_fleet(struct reference *g, const struct walk_op *o, const struct row *row,
                 struct bytes worker, bool takes_up); // before the grant
uint32_t fleet_labels_of(const struct reference *g, struct bytes worker);
uint64_t fleet_empty_for(const struct reference *g); // workers that could claim nothing, as bits
void walk_end_holds(struct reference *g, struct hash128 token);

// The version of the rules, check_rules.c: a program stops before what it cannot fold, and only
// there; every entry names the version that it needs.
void check_entry_rules(struct reference *g, const struct entry *e); // before it is folded
void check_rules(struct world *w, const struct node *n);
bool is_stopped(const struct world *w, const struct node *n); // rightly, before such an entry
void check_raise(struct reference *g, const struct walk_op *o);

// I2, check_answer.c: an answer says what is in the history; request ids take effect once.
void check_answer(struct world *w, struct node *n, uint32_t ask, const struct shard_reply *r);
void check_patience(struct world *w, struct node *n); // after a tick: no call waits too long
// The caller takes r for the last word about its op.
void check_conclusion(struct world *w, uint32_t ask, const struct shard_reply *r);
void check_committed(struct reference *g, const struct entry *e, const struct walk_op *o);

// I3 and I4, check_locks.c: one token per message, rising fences, stale words fail, nothing
// finished is handed out, two workers never hold one message.
void check_grant(struct reference *g, const struct row *row, const struct grant *grant,
                 bool chosen); // an operator chose the message: a pause does not count
void check_word(struct reference *g, const struct op_outcome *op, const struct lock_ref *ref,
                enum reason reason);
void check_expiry(struct reference *g, const struct row *row, uint64_t seq);
void check_deadlines(struct reference *g); // after an entry
void check_hold(struct world *w, struct lane *l, uint32_t worker, const struct grant *grant);

// The failure strategy, check_route.c: every attempt is counted and the last one is the last.
struct route {
    enum message_state state; // READY, DEAD or OUTBOUND
    bool counted;
    enum dead_cause cause;
};
struct route check_route(const struct reference *g, const struct row *row, bool failed);
// When a message that failed for the retries-th time is ready again (0: at once).
void check_backoff(struct reference *g, uint32_t retries, int64_t until);
void check_attempts(struct reference *g, const struct row *row, uint64_t seq, uint32_t deliveries,
                    uint32_t retries);

// How messages ended, check_ends.c: a look at a finished message says what became of it, for the
// time that the queue keeps that.
void end_note(struct reference *g, struct row *row, enum message_state to); // before it is moved
void ends_expire(struct reference *g);
void check_ends(struct reference *g, const struct machine *m); // a part of the messages

// I5, check_counts.c: sent is the sum of the states; capacity holds.
void check_counts(struct reference *g);

// I6, check_order.c: strict scopes keep their order and have one open message; in other
// queues the best one goes first.
void check_opened(struct reference *g, const struct row *row, uint64_t seq, uint32_t labels);

// I8, check_bodies.c: what is delivered is what was sent, and stays until then.
void check_body(struct world *w, struct lane *l, uint64_t seq, const struct delivery *d);
void check_dropped(struct reference *g, uint64_t slot, int64_t made_at);

// I8, check_uploads.c: objects that messages refer to are there, others go.
struct hash128 body_hash(const struct message *m); // wherever the body is
uint64_t body_key(const struct message *m);
void check_upload(struct world *w, const struct lane *l, const struct message *m, const char *when);
void check_deleted(struct reference *g, const char *key);
uint32_t lane_orphans(const struct lane *l);

// Workflows and the publisher's cursor, check_workflow.c.
bool walk_workflow(struct reference *g, const struct event *e); // false: no event of a workflow
void workflow_sent(struct reference *g, struct row *row, const struct message *m);
void workflow_scope(const struct reference *g, struct row *row, const struct message *m);
void workflow_redriven(struct reference *g, struct row *row, const struct row *was);
void workflow_moved(struct reference *g, const struct row *row, enum message_state to);
void check_workflow_ends(struct reference *g);                     // after an op
void check_workflows(struct reference *g, size_t events_from);     // after an entry
void walk_published(struct reference *g, const struct walk_op *o); // OP_PUBLISHED
void check_floor_published(struct reference *g);                   // a floor was made

// Signals, check_signals.c: each ends once, by the holder in order, by time, by its sender, or with
// its lock or message; only the holder gets it.
void signal_wrong(struct reference *g, uint64_t seq, uint32_t number, const char *what);
struct reference_signal *signal_find(struct reference *g, const struct request_id *id,
                                     uint64_t seq);              // NULL: never accepted
void signals_walk(struct reference *g, const struct walk_op *o); // the ops
bool signals_hold_lock(const struct reference *g, const struct op *op, const struct row *row);
bool signals_event(const struct event *e);
void signals_told(struct reference *g, const struct event *e);
void signals_moved(struct reference *g, struct row *row, enum message_state to); // before it is
const struct reference_signal *signals_interrupt(const struct reference *g, const struct row *row);
int64_t signals_limit(const struct reference *g, const struct row *row); // of the deadline
// The lock ends, and the message goes where the interrupt says.
enum outcome_status signals_stop(struct reference *g, struct row *row,
                                 const struct reference_signal *by);
void signals_forget(struct reference *g); // ends that are not kept any more
void check_signals(struct reference *g);  // after an entry
void check_signals_dropped(struct reference *g, uint64_t slot);
// check_listen.c: what workers get. slot: the handle has read so far at least
void check_delivered(struct reference *g, uint64_t slot, const struct lock_ref *ref,
                     enum reason reason, const struct signal_view *v, size_t len);
void check_listen(struct world *w, struct node *n, uint32_t ask, const struct shard_reply *r);
void token_granted(struct reference *g, struct hash128 token);
void token_ended(struct reference *g, struct hash128 token);
void token_interrupted(struct reference *g, struct hash128 token);
bool token_was_interrupted(struct reference *g, struct hash128 token);

// I9, check_events.c: ids are unique and gap-free, every handle reports the same.
void check_event_ids(struct reference *g, size_t from);
void check_events_heard(struct world *w, struct node *n);
void check_events_again(struct reference *g); // a fold from the beginning

// I10, check_dead_letters.c: every dead letter arrives once, as it was.
void check_arrival(struct reference *g, const struct op_arrive *a, enum reason reason);
void check_forgotten(struct reference *g, const struct row *row, uint64_t seq);

// Acks that a receive carries, check_joined.c: its claim is behind them in their entry; a
// client that is answered "done" finds the message done by this very ack, at any later time.
void check_joined(struct reference *g, const struct walk_op *o); // before it is written down
void check_acked(struct world *w, uint32_t ask, struct bytes body);

// Dedup keys, check_dedup.c: within its window a key has one message.
void check_dedup(struct reference *g, const struct message *m, const struct send_row *row);

// Deletions, check_deleted.c: nothing has an effect after one, and its journal is collected.
void check_deletion(struct reference *g); // before it is written down
void check_after_deletion(struct reference *g, const struct walk_op *o);
bool deletion_was_seen(const struct reference *g, const struct node *n); // by a handle
void check_finished(struct world *w, const struct lane *l);
uint64_t slots_left(const struct world *w, const struct lane *l);

// check_drain.c: after the faults everything gets done.
// Letters to a queue that was deleted stay where they are.
bool letters_are_stuck(const struct world *w, const struct lane *l);
bool lane_is_empty(const struct world *w, const struct lane *l);
void check_drain(struct world *w);
