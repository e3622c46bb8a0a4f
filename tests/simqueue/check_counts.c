// SPDX-License-Identifier: Apache-2.0
// I5: sent = ready + delayed + locked + processed + dead + outbound + moved + redriven + purged +
// cancelled at every slot, and each of them is what the books say.
#include "check.h"

#include <inttypes.h>

void check_counts(struct reference *g)
{
    struct machine_stats s;
    machine_stats(g->machine, g->now, &s);
    uint64_t sum = 0;
    for (int i = 0; i < STATE_COUNT; i++)
        sum += s.counts[i];
    if (s.sent != sum || s.sent != g->rows_len)
        findings_add(&g->world->findings, "I5",
                     "lane %u: slot %" PRIu64 ": sent %" PRIu64 ", in all states %" PRIu64
                     ", in the books %" PRIu64,
                     g->lane, g->slot, s.sent, sum, g->rows_len);
    s.counts[STATE_READY] += s.counts[STATE_DELAYED];
    s.counts[STATE_DELAYED] = 0;
    for (int i = 0; i < STATE_COUNT; i++)
        if (s.counts[i] != g->counts[i])
            findings_add(&g->world->findings, "I5",
                         "lane %u: slot %" PRIu64 ": %" PRIu64
                         " messages are %s, in the books %" PRIu64,
                         g->lane, g->slot, s.counts[i], message_state_name((enum message_state)i),
                         g->counts[i]);
}
