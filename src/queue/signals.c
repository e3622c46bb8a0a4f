// SPDX-License-Identifier: Apache-2.0
// Signals to messages.
#include "queue/signals.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/state.h"

void signals_clear(struct machine *m)
{
    CHECK(m->signals.used == 0);
    m->signals = (struct signals){0};
}

void signals_save(const struct machine *m, struct buf *out)
{
    CHECK(m->rules >= RULES_SIGNALS);
    (void)out;
}

void signals_load(struct machine *m, struct reader *r)
{
    CHECK(m->signals.used == 0);
    (void)r;
}

void signals_check(const struct machine *m)
{
    CHECK(m->rules >= RULES_SIGNALS || m->counts[STATE_CANCELLED] == 0);
}

enum reason apply_signal(struct machine *m, struct bytes payload)
{
    struct op_signal op;
    CHECK(m->rules >= RULES_SIGNALS);
    return signal_decode(payload, &op) ? REASON_MALFORMED : REASON_UNKNOWN_OP;
}

enum reason apply_settle(struct machine *m, struct bytes payload)
{
    struct op_signal_settle op;
    CHECK(m->rules >= RULES_SIGNALS);
    return signal_settle_decode(payload, &op) ? REASON_MALFORMED : REASON_UNKNOWN_OP;
}

enum reason apply_withdraw(struct machine *m, struct bytes payload)
{
    struct op_signal_withdraw op;
    CHECK(m->rules >= RULES_SIGNALS);
    return signal_withdraw_decode(payload, &op) ? REASON_MALFORMED : REASON_UNKNOWN_OP;
}
