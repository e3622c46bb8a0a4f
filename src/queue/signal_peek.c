// SPDX-License-Identifier: Apache-2.0
// What readers see of signals and of progress.
#include "base/check.h"
#include "queue/state.h"

enum reason machine_signals(const struct machine *m, const struct lock_ref *ref, uint32_t after,
                            struct signal_view *out, size_t max, size_t *len)
{
    uint32_t h;
    (void)after;
    (void)out;
    (void)max;
    *len = 0;
    return lock_check(m, ref, &h);
}

uint32_t machine_signals_waiting(const struct machine *m, const struct lock_ref *ref)
{
    CHECK(m->signals.pending <= SIGNALS_OF_SHARD_MAX);
    (void)ref;
    return 0;
}

size_t machine_signals_of(const struct machine *m, uint64_t seq, struct signal_view *out,
                          size_t max)
{
    CHECK(m->signals.pending <= SIGNALS_OF_SHARD_MAX);
    (void)seq;
    (void)out;
    (void)max;
    return 0;
}

size_t machine_signals_pending(const struct machine *m, uint64_t seq, uint32_t number,
                               struct signal_view *out, size_t max)
{
    (void)number;
    return machine_signals_of(m, seq, out, max);
}

bool machine_signal_find(const struct machine *m, const struct request_id *id, uint64_t seq,
                         struct signal_view *out)
{
    (void)m;
    (void)id;
    (void)seq;
    (void)out;
    return false;
}

bool machine_signal_lives_at(const struct machine *m, uint64_t slot, uint32_t op)
{
    (void)m;
    (void)slot;
    (void)op;
    return false;
}

uint32_t machine_signal_count(const struct machine *m)
{
    return m->signals.pending;
}

uint64_t machine_signal_orders(const struct machine *m)
{
    return m->signals.orders;
}

void machine_signal_ends(const struct machine *m, struct signal_ends *out)
{
    *out = m->signals.ends;
}

bool machine_progress(const struct machine *m, uint64_t seq, struct progress_view *out)
{
    (void)m;
    (void)seq;
    (void)out;
    return false;
}

size_t machine_finished_list(const struct machine *m, int64_t now,
                             const struct finished_view *before, struct finished_view *out,
                             size_t max)
{
    (void)m;
    (void)now;
    (void)before;
    (void)out;
    (void)max;
    return 0;
}
