// SPDX-License-Identifier: Apache-2.0
// The checkers. They read the world and never change it. What they find goes to its findings.
#pragma once

#include "life.h"

// check_answer.c: one answer to each call, and it says what is in the history.
void check_submitted(struct world *w, const struct sim_op *op);
void check_left(struct world *w, const struct sim_op *op); // an owner gave no result
void check_reply(struct world *w, const struct action *a);
void check_op_over(struct world *w, const struct sim_op *op);
void check_answered(struct world *w, struct sim_call *c);
void check_heard(struct world *w, const struct action *a);
void check_looked(struct world *w, const struct sim_call *c, const struct action *a);
void check_history(struct world *w); // at the end

// check_same_id.c: calls with the same request id get the same messages.
void check_has_turn(struct world *w, const struct sim_call *c); // it asks a shard
void check_claim_starts(struct world *w, const struct sim_call *c);
void check_claim_again(struct world *w, const struct sim_call *c, uint32_t shard);
void check_claim_made(struct world *w, uint32_t id, uint32_t shard);
void check_repeated(struct world *w, const struct sim_call *c);

// check_waiters.c: waiters are served, and what ends leaves nothing behind.
void check_announced(struct world *w);            // after each step
void check_ended(struct world *w, uint32_t call); // it was cancelled a while ago
void check_cancelled(struct world *w, const struct action *a, const struct node *n); // its reply
void check_withdrawn(struct world *w, uint32_t ask); // a served request, after its effects
bool all_served(struct world *w);
void check_nothing_left(struct world *w); // at the end

// check_order.c: the ops of a send are in the order of its messages.
void check_send_made(struct world *w, const struct sim_op *op);
