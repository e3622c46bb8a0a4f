// SPDX-License-Identifier: Apache-2.0
// A journal handle driven by hand: each request is performed when the test says so, with the
// outcome the test says.
#pragma once

#include "../unit/unit.h"
#include "base/memory.h"
#include "journal/journal.h"
#include "register.h"
#include "runner/perform.h"
#include "store/mem.h"

#define RIG_LIMIT 200 // steps after which a dialogue that goes on is one that hangs

extern const struct journal_rules rig_rules;
extern enum fold_hold (*rig_holds)(void *ctx, struct bytes name); // of the next rig's fold
extern bool rig_tight;                                            // what the store says of itself
extern bool (*rig_grows)(void *ctx, const struct op *op);         // likewise
extern uint64_t rig_tickets; // also makes request ids, which are unique among all handles

struct rig {
    struct store *store;
    struct registers *registers;
    struct journal *journal;
    struct collector *collector;
    struct perform_buffer performance;
    struct interval now;
};

enum fate {
    FATE_OK,
    FATE_UNAVAILABLE,     // certainly not applied
    FATE_UNKNOWN,         // no answer, not applied
    FATE_UNKNOWN_APPLIED, // no answer, applied
    FATES
};

struct interval rig_store_time(struct rig *r);
struct rig rig_on(struct store *s);
void rig_done(struct rig *r);
bool rig_take(struct rig *r, struct request *out);
void rig_serve(struct rig *r, const struct request *request, enum fate fate);
void rig_refuse(struct rig *r, const struct request *request, enum err err);
bool rig_wait_for_retry(struct rig *r);
void rig_settle(struct rig *r);
struct request rig_until_append(struct rig *r);
uint64_t rig_add_until(struct rig *r, uint8_t name, int64_t by, int64_t deadline);
uint64_t rig_add(struct rig *r, uint8_t name, int64_t by);
enum err rig_answer_to(struct rig *r, uint64_t ticket, int64_t *value);
void rig_no_answer_yet(struct rig *r);
void rig_commit(struct rig *r, uint8_t name);
void rig_end(struct rig *r); // REGISTER_END
int64_t rig_value_seen_by_a_newcomer(struct store *s, uint8_t name);
void rig_overwrite(struct store *s, const char *key, struct bytes body);
