// SPDX-License-Identifier: Apache-2.0
// The registry of workers: rows that OP_WORKERS changes, and the owner's dispatch to them.
#include "base/check.h"
#include "queue/state.h"

enum reason apply_workers(struct machine *m, struct bytes payload)
{
    struct op_workers op;
    CHECK(m->rules >= RULES_WORKERS);
    if (workers_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    return REASON_UNKNOWN_OP;
}

enum reason apply_dispatch(struct machine *m, struct bytes payload)
{
    struct op_dispatch op;
    CHECK(m->rules >= RULES_WORKERS);
    if (dispatch_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    return REASON_UNKNOWN_OP;
}
