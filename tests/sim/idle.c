// SPDX-License-Identifier: Apache-2.0
// Counts the ticks that had no effect, one after another.
#include "idle.h"

#include <inttypes.h>

void idle_begin(struct idle *i)
{
    i->acted = false;
}

void idle_act(struct idle *i)
{
    i->acted = true;
    i->ticks = 0;
}

void idle_end(struct idle *i, struct findings *f, uint32_t node, int64_t now, int64_t wake_at,
              int64_t reached)
{
    bool due = i->wake_at <= reached;
    i->wake_at = wake_at;
    if (i->acted) return;
    if (wake_at <= reached)
        findings_add(f, "idle", "n%u did nothing and asks for a tick in the past", node);
    if (i->ticks == 0 || now - i->since >= 1000) {
        i->since = now;
        i->ticks = 0;
    }
    i->ticks += due;
    if (i->ticks > IDLE_TICKS_MAX)
        findings_add(f, "idle", "n%u had %u ticks without an effect in %" PRId64 " ms", node,
                     i->ticks, now - i->since);
}
