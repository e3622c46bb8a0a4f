// SPDX-License-Identifier: Apache-2.0
// What a call asks of the runners of its shards, and their answers. Each ask has a slot, which
// keeps the answer. call.c performs the other effects.
#pragma once

#include "ops/call.h"

void ask_submit(struct local_call *c, const struct call_effect *e);
void ask_joined(struct local_call *c, const struct call_effect *e);
void ask_claim(struct local_call *c, const struct call_effect *e);
void ask_await(struct local_call *c, const struct call_effect *e);
void ask_look(struct local_call *c, const struct call_effect *e);
void ask_recall(struct local_call *c, const struct call_effect *e);
void ask_withdraw(struct local_call *c, const struct call_effect *e);
void ask_notify(struct local_call *c, uint32_t index);
// Passes the event of an op, a claim, an await or a recall. The slot stays busy if its answer, or
// its error, may become the answer of the call.
void ask_ended(struct call_slot *slot);
