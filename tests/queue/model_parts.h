// SPDX-License-Identifier: Apache-2.0
// What the model's files share.
#pragma once

#include "model.h"

struct model_message *at(struct model *m, uint64_t seq);
uint64_t model_held(const struct model *m);
uint64_t model_next(const struct model *m); // the message a claim gets; 0: none
bool model_has_its_turn(const struct model *m, uint64_t seq);
uint64_t model_open(const struct model *m);
bool model_overtakes(const struct model *m, uint64_t seq, uint64_t fence);
void model_grant(struct model *m, uint64_t seq, const char *worker, const uint8_t seed[16],
                 int64_t deadline, bool ticket);
void name_of(struct bytes from, char out[MODEL_NAME_MAX]);
void model_put_grant(struct model *m, uint64_t seq, uint32_t row);
struct model_worker *model_worker(struct model *m, const char *name); // NULL: not registered
uint32_t model_open_of(struct model *m, const char *worker);
enum reason model_mode(struct model *m, const char *worker); // why a claim by it is refused
enum reason model_publish(struct model *m, struct bytes payload);
enum reason model_workers(struct model *m, struct bytes payload);
enum reason model_dispatch(struct model *m, struct bytes payload);
void model_claimed(struct model *m, uint64_t seq, const char *worker);
bool model_refuses(struct model *m, const char *worker, uint32_t wanted); // by `consume`
void model_use(struct model *m, uint64_t seq);
void model_give_back(struct model *m, uint64_t seq, int64_t due, bool expired);
enum outcome_status model_fail(struct model *m, uint64_t seq, bool failed, int64_t *until);
void model_recover(struct model *m, const char *worker);
void model_end(struct model *m, struct model_message *x, enum finished_outcome outcome,
               const char *worker);
enum reason model_check(struct model *m, const struct lock_ref *ref);
enum reason model_spent(struct model *m, struct bytes payload);
enum reason model_raise(struct model *m, struct bytes payload);
enum reason model_admit(const struct model *m, const struct message *msg);
bool model_lives(const struct model_message *x);
void model_join(struct model *m, uint64_t seq, const char *id, bool last);
void model_join_redriven(struct model *m, uint64_t from, uint64_t to);
void model_settle(struct model *m); // at the end of an op
void model_workflows_expire(struct model *m);
void model_enter_published(struct model *m, uint64_t bytes);
enum reason model_published(struct model *m, struct bytes payload);
enum reason model_outbox(struct model *m, struct bytes payload);
void model_deliver(struct model *m, uint64_t seq);   // a worker got the message
void model_lock_over(struct model *m, uint64_t seq); // before its state changes
void model_close(struct model *m, uint64_t seq);     // after it is finished or dead
void model_signals_expire(struct model *m);
int64_t model_signals_wake_at(const struct model *m);
int64_t model_limit(const struct model *m, uint64_t seq); // of the deadline, by interrupts
// The lock ends, and an interrupt is in force. False: none is.
bool model_interrupted(struct model *m, uint64_t seq, bool expired, struct bytes text,
                       enum outcome_status *status);
bool model_extras_ok(uint16_t kind, const struct op_outcome *op);
// The message ends: what is kept of it. Then why, and what the op says.
void model_keep(struct model *m, struct model_message *x, enum finished_outcome outcome);
void model_why(struct model *m, uint64_t seq, uint64_t slot);
void model_says(struct model *m, const struct op_outcome *op, uint32_t index, uint64_t seq);
void model_hold_settle(struct model *m, struct bytes payload);
enum reason model_signals(struct model *m, const struct op *op); // ops of version 6
void model_answer(struct model *m, const struct op *op);         // into m->body
struct event *say(struct model *m, enum event_kind kind, uint64_t seq);
void say_id(struct model *m, struct event *e, const char *workflow);
void say_key(struct model *m, struct event *e, uint64_t seq);
void say_worker(struct model *m, struct event *e, const char *worker);
