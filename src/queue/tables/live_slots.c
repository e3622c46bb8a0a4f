// SPDX-License-Identifier: Apache-2.0
// Exact answers about which slots hold data of live messages. machine_needs may return true for
// slots next to those of a live message. That keeps a slot too long, which does no harm.
//
// Trust in bytes that were read from a slot needs more. A slot that no message needed may have been
// dropped and created again, even if it lies next to a needed slot. The answers here are exact, and
// an answer of false is final.
#include "base/check.h"
#include "queue/core/state.h"

// Returns the first range that ends at or after slot.
static size_t range_from(const struct machine *m, uint64_t slot)
{
    size_t lo = 0, hi = m->backlog.ring.len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct range *r = backlog_at(m, mid);
        if (r->slot + r->slots < slot) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    CHECK(lo == 0 || backlog_at(m, lo - 1)->slot + backlog_at(m, lo - 1)->slots < slot);
    return lo;
}

bool machine_backlog_in(const struct machine *m, uint64_t first, uint64_t last)
{
    CHECK(first <= last);
    size_t at = range_from(m, first);
    return at < m->backlog.ring.len && backlog_at(m, at)->slot <= last;
}

void machine_live_slots(const struct machine *m, uint64_t first, size_t count, bool *live)
{
    CHECK(m->msgs_used < m->msgs_len);
    for (size_t i = 0; i < count; i++)
        live[i] = machine_backlog_in(m, first + i, first + i);
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        const struct msg *msg = msg_at(m, h);
        if (msg->seq != 0 && msg->slot >= first && msg->slot - first < count)
            live[msg->slot - first] = true;
    }
}

static bool backlog_lives_at(const struct machine *m, struct place place)
{
    for (size_t i = range_from(m, place.slot); i < m->backlog.ring.len; i++) {
        const struct range *r = backlog_at(m, i);
        if (r->slot > place.slot) return false;
        if (r->slot == place.slot && place.skip >= r->skip && place.skip - r->skip < r->count)
            return true;
    }
    return false;
}

bool machine_lives_at(const struct machine *m, struct place place)
{
    CHECK(m->msgs_used < m->msgs_len);
    if (backlog_lives_at(m, place)) return true;
    if (map_find(&m->marks, place.slot / PLACE_SPAN) == MAP_NONE) return false;
    for (uint32_t h = 1; h < m->msgs_len; h++) {
        const struct msg *msg = msg_at(m, h);
        if (msg->seq != 0 && msg->slot == place.slot && msg->skip == place.skip) return true;
    }
    return retained_body_lives_at(m, place);
}

static bool is_reason_of(const struct machine *m, const struct msg *msg, uint64_t slot, uint32_t op)
{
    bool dead = msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND;
    CHECK(!dead || msg->lock);
    const struct lock *dead_entry = dead ? lock_of(m, msg) : NULL;
    if (dead_entry && dead_entry->reason_slot == slot && dead_entry->reason_op == op) return true;
    uint32_t newest = map_find(&m->failures.by_seq, msg->seq);
    if (newest == MAP_NONE) return false;
    CHECK(newest < m->failures.rows_len);
    return m->failures.rows[newest].slot == slot && m->failures.rows[newest].op == op;
}

bool machine_reason_lives_at(const struct machine *m, uint64_t slot, uint32_t op)
{
    CHECK(m->msgs_used < m->msgs_len);
    if (map_find(&m->marks, slot / PLACE_SPAN) == MAP_NONE) return false;
    for (uint32_t h = 1; h < m->msgs_len; h++)
        if (msg_at(m, h)->seq != 0 && is_reason_of(m, msg_at(m, h), slot, op)) return true;
    return false;
}
