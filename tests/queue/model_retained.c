// SPDX-License-Identifier: Apache-2.0
// The plain model: what ops say beside an outcome. Results, progress, reasons and kept bodies.
#include "model_parts.h"

#include "base/check.h"

#include <string.h>

bool model_extras_ok(uint16_t kind, const struct op_outcome *op)
{
    if (op->extras.len == 0) return true;
    if (kind != OP_ACK && kind != OP_RENEW) return false;
    for (uint32_t i = 0; i < op->count; i++) {
        struct outcome_extra extra = outcome_extra_of(op, i);
        if (extra.has & (kind == OP_ACK ? EXTRA_PROGRESS : EXTRA_RESULT)) return false;
    }
    return true;
}

void model_keep(struct model *m, struct model_message *x, enum finished_outcome outcome)
{
    bool body = outcome == FINISHED_PROCESSED || outcome == FINISHED_CANCELLED ||
                outcome == FINISHED_DEAD_LETTERED;
    x->has_result = false;
    x->why_slot = 0;
    x->body_kept = body && m->config.retain_body;
}

void model_why(struct model *m, uint64_t seq, uint64_t slot)
{
    struct model_message *x = at(m, seq);
    if (x->kept) x->why_slot = slot;
}

void model_says(struct model *m, const struct op_outcome *op, uint32_t index, uint64_t seq)
{
    struct model_message *x = at(m, seq);
    struct outcome_extra extra = outcome_extra_of(op, index);
    if (extra.has & EXTRA_PROGRESS) {
        x->has_progress = true;
        x->percent = extra.percent;
        x->progress_at = m->now;
    }
    if (!(extra.has & EXTRA_RESULT) || !x->kept) return;
    CHECK(extra.result.len < sizeof x->result);
    x->has_result = true;
    x->result_len = extra.result.len;
    if (extra.result.len > 0) memcpy(x->result, extra.result.data, extra.result.len);
}
