// SPDX-License-Identifier: Apache-2.0
// A wait of half an entry's time, and fewer waits while callers do not come back.
#include "runner/gather.h"

#include "base/check.h"

#define PUT_SHARE    8 // the weight of the newest duration is one over this
#define WAIT_PART    2 // the wait is this part of an append's duration
#define MISSING_PART 4 // a wait was of use if at most this part of the callers is missing

bool gather_put(struct gather_wait *g, int64_t took_ns)
{
    CHECK(!g->on && g->put_ns >= 0);
    if (took_ns < 0) took_ns = 0;
    g->put_ns = g->put_ns == 0 ? took_ns : g->put_ns + (took_ns - g->put_ns) / PUT_SHARE;
    if (g->put_ns < GATHER_PUT_MIN_NS) return false;
    if (g->skip == 0) return true;
    g->skip--;
    return false;
}

void gather_begin(struct gather_wait *g, size_t answered, int64_t now_ns)
{
    CHECK(!g->on && answered > 0);
    int64_t wait = g->put_ns / WAIT_PART;
    g->on = true;
    g->awaited = g->missing = answered;
    g->until_ns = now_ns + (wait < GATHER_WAIT_MAX_NS ? wait : GATHER_WAIT_MAX_NS);
}

bool gather_arrived(struct gather_wait *g)
{
    if (!g->on || g->missing == 0) return false;
    g->missing--;
    return g->missing == 0;
}

void gather_end(struct gather_wait *g)
{
    CHECK(g->on && g->missing <= g->awaited);
    g->on = false;
    if (MISSING_PART * g->missing <= g->awaited) {
        g->skips = 0;
        return;
    }
    g->skips = g->skips == 0 ? 1 : 2 * g->skips;
    if (g->skips > GATHER_SKIP_MAX) g->skips = GATHER_SKIP_MAX;
    g->skip = g->skips;
    CHECK(g->skip > 0);
}
