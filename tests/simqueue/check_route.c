// SPDX-License-Identifier: Apache-2.0
// The failure strategy once more, in the words of docs/queues.md: what a failed or expired attempt
// leads to, and how often a message was tried.
#include "check.h"

#include <inttypes.h>

struct route check_route(const struct reference *g, const struct row *row, bool failed)
{
    const struct queue_config *c = &g->config;
    enum message_state end = c->failure_mode == FAILURE_RETRY ? STATE_DEAD : STATE_OUTBOUND;
    bool too_often = c->deliveries_max > 0 && row->deliveries >= c->deliveries_max;
    bool counts = c->failure_mode != FAILURE_DEAD_LETTER;
    bool used_up = counts ? row->retries >= c->retries_max : failed;
    struct route r = {.state = too_often || used_up ? end : STATE_READY};
    r.counted = r.state == STATE_READY && counts;
    r.cause = too_often ? DEAD_DELIVERIES : failed ? DEAD_FAILED : DEAD_EXPIRED;
    return r;
}

void check_attempts(struct reference *g, const struct row *row, uint64_t seq, uint32_t deliveries,
                    uint32_t retries)
{
    if (deliveries != row->deliveries || retries != row->retries)
        findings_add(&g->world->findings, "route",
                     "lane %u: slot %" PRIu64 ": message %" PRIu64
                     " says %u deliveries and %u retries, it had %u and %u",
                     g->lane, g->slot, seq, deliveries, retries, row->deliveries, row->retries);
}

void check_backoff(struct reference *g, uint32_t retries, int64_t until)
{
    const struct backoff_config *b = &g->config.backoff;
    int64_t wait = b->initial_ms;
    for (uint32_t i = 1; i < retries; i++)
        wait = wait * b->multiplier_1000 / 1000;
    if (wait > b->max_ms) wait = b->max_ms;
    int64_t jitter = wait * b->jitter_1000 / 1000;
    bool at_once = until == 0 && g->from + wait - jitter <= g->now;
    bool in_range = until >= g->from + wait - jitter && until <= g->from + wait + jitter &&
                    until <= g->from + b->max_ms;
    if (!at_once && !in_range)
        findings_add(&g->world->findings, "route",
                     "lane %u: slot %" PRIu64 ": retry %u waits %" PRId64 " ms instead of %" PRId64,
                     g->lane, g->slot, retries, until > 0 ? until - g->from : 0, wait);
}
