// SPDX-License-Identifier: Apache-2.0
// A hundred workers ask for one message, all at once, through a few handles and a bad wire. One
// gets it; the others are answered that there is none. A worker in doubt asks again.
#include "check.h"

#include <inttypes.h>
#include <stdio.h>

void crowd_draw(struct world *w)
{
    struct life *life = w->life;
    life->lanes_len = 1;
    draw_config(w, &life->lanes[0], &life->lanes[0].birth);
    life->lanes[0].birth.visibility_timeout_ms = 60 * MINUTE;
    life->lanes[0].birth.capacity = 1000;
    w->mix.nodes = (uint32_t)rng_range(&w->rng, 3, MIX_NODES_MAX);
    w->mix.collectors = 1;
    w->mix.run_ms = MINUTE;
    w->mix.ask_every_ms = 6 * SECOND;
    w->mix.storm_every_ms /= 3; // there is little time: it must happen soon
    w->mix.crash_every_ms /= 3;
    w->mix.pause_every_ms /= 3;
    w->mix.quiet_every_ms = 0;
    life->thread_pool_len = SIM_WORKERS_MAX;
    for (uint32_t i = 0; i < SIM_WORKERS_MAX; i++) {
        life->workers[i] = (struct sim_worker){0};
        (void)snprintf(life->workers[i].name, sizeof life->workers[i].name, "w%u", i);
    }
    life->stale_every_ms = life->operate_every_ms = life->dispatch_every_ms = 0;
}

void crowd_send(struct world *w)
{
    if (w->life->crowd_called) return;
    w->life->crowd_called = true;
    uint32_t ask = sim_call_new(w, SIM_CALL_OP, OP_SEND, 0);
    struct sim_call *a = &w->life->calls[ask];
    struct buf *out = &w->life->scratch;
    buf_clear(out);
    send_begin(out, &a->request);
    send_add(out, &(struct message){.body = bytes_str("the one")});
    send_end(out, 0, 1);
    a->payload = bytes_copy(buf_bytes(out));
    (void)sim_call_submit(w, ask);
}

void crowd_begin(struct world *w)
{
    trace_line(&w->trace, w->now, "the message is there: %u workers ask for it",
               w->life->thread_pool_len);
    for (uint32_t i = 0; i < w->life->thread_pool_len; i++)
        worker_soon(w, i, rng_range(&w->rng, 1, 50));
}

bool crowd_ended(const struct world *w)
{
    for (uint32_t i = 0; i < w->life->thread_pool_len; i++)
        if (!w->life->workers[i].won && !w->life->workers[i].lost) return false;
    return true;
}

void crowd_check(struct world *w)
{
    uint32_t won = 0, lost = 0;
    for (uint32_t i = 0; i < w->life->thread_pool_len; i++) {
        won += w->life->workers[i].won;
        lost += w->life->workers[i].lost;
    }
    uint64_t granted = w->life->lanes[0].reference.fence;
    if (won != 1 || lost != SIM_WORKERS_MAX - 1 || granted != 1)
        findings_add(&w->findings, "I3",
                     "%u workers won, %u saw nothing, %" PRIu64 " locks were given", won, lost,
                     granted);
}
