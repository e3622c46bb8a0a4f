// SPDX-License-Identifier: Apache-2.0
// The op that raises the version of the rules, and the version that an entry needs.
#include "queue/core/rules.h"

#include "base/check.h"
#include "queue/core/state.h"

uint16_t machine_rules(const struct machine *m)
{
    CHECK(m->rules >= RULES_FIRST && m->rules <= rules_newest());
    return m->rules;
}

uint16_t machine_rules_needed(const struct machine *m, const struct op *ops, size_t ops_len)
{
    uint16_t needed = m->rules;
    CHECK(needed >= RULES_FIRST);
    struct op_raise op;
    for (size_t i = 0; i < ops_len; i++)
        if (ops[i].kind == OP_RAISE && raise_decode(ops[i].payload, &op) == ERR_OK &&
            op.to > needed)
            needed = op.to;
    return needed;
}

// A version that is reached already is no error, so that a raise can be repeated. A version that
// the source code does not know never comes here from a journal, which stops before such an entry.
enum reason apply_raise(struct machine *m, struct bytes payload)
{
    struct op_raise op;
    if (raise_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (op.to > rules_newest()) return REASON_UNKNOWN_OP;
    if (m->deleted) return REASON_DELETED;
    if (op.to > m->rules + 1) return REASON_RULES_SKIPPED;
    if (op.to == m->rules + 1) {
        m->rules = op.to;
        struct event *e = emit(m, EVENT_QUEUE_UPGRADED, 0);
        if (e) e->count = m->rules;
    }
    CHECK(m->rules >= op.to);
    result_begin(&m->result, REASON_NONE);
    buf_put_u64(&m->result, m->rules);
    return REASON_NONE;
}

uint64_t machine_event_count(const struct machine *m)
{
    return m->event_count;
}
