// SPDX-License-Identifier: Apache-2.0
// The register machine: the small state that proves the journal. Named counters, each with a value
// and perhaps a hold on the slot that last kept it. Every op has a request id; for a while of
// journal time the same id gets the same answer and no second effect.
#pragma once

#include "journal/fold.h"

#define REGISTER_REQUEST_LEN  16
#define REGISTER_NAME_MAX     15
#define REGISTER_NAMES_MAX    64
#define REGISTER_REQUESTS_MAX 100000

enum register_verb {
    REGISTER_ADD,  // a: how much; answers the new value
    REGISTER_CAS,  // a: expected, b: new value; CONFLICT when another value is there
    REGISTER_READ, // answers the value; NOT_FOUND when the name was never written
    REGISTER_KEEP, // holds on to the slot of this op; answers the slot held before, or 0
    REGISTER_DROP, // lets go; NOT_FOUND when nothing was held
    REGISTER_END,  // everything goes; from then on every op is answered NOT_FOUND
    REGISTER_VERBS
};

// What a client asks. The attempt has no meaning to the machine: it tells the checkers which
// submission of one request an entry carries.
struct register_ask {
    enum register_verb verb;
    uint8_t request[REGISTER_REQUEST_LEN];
    uint32_t attempt;
    char name[REGISTER_NAME_MAX + 1];
    int64_t a;
    int64_t b;
};

struct op register_op(const struct register_ask *ask, struct buf *payload); // view into payload
bool register_parse(const struct op *op, struct register_ask *out);
const char *register_verb_name(enum register_verb verb);

struct registers;

struct registers *registers_new(int64_t memory_ms); // how long a request id is remembered
void registers_free(struct registers *m);           // NULL is fine
struct fold registers_fold(struct registers *m);    // views m
bool registers_ended(const struct registers *m);
uint64_t registers_effects(const struct registers *m); // ops that were not repetitions, so far
