// SPDX-License-Identifier: Apache-2.0
// How signals ended: a ring of rows, by time. The newest SIGNALS_ENDED_MAX of them stay for the
// setting `retention`, and their answers with them. Each row stays for SIGNAL_KEEP_MIN_MS at least,
// so that its id is known. signal_ops.c refuses signals before there are more than
// SIGNALS_KNOWN_MAX.
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#define LAYOUT_OF struct stored_ended_signal
static const struct layout_field ended_fields[] = {
    FIXED(id),
    U64(seq, .min = 1),
    I64(sent_at),
    I64(at),
    U64(slot, .max = SIGNAL_SLOT_MAX),
    U32(op),
    U32(index),
    U32(number),
    U16(deliveries),
    ENUM(kind, SIGNAL_KIND_COUNT),
    ENUM(state, SIGNAL_STATE_COUNT),
};
const struct layout ended_signal_layout = LAYOUT(ended_fields);
#undef LAYOUT_OF

struct stored_ended_signal ended_stored(const struct ended_signal *row)
{
    return (struct stored_ended_signal){.id = row->id,
                                        .seq = row->seq,
                                        .sent_at = signal_time(row->sent_at),
                                        .at = row->at,
                                        .slot = row->slot,
                                        .op = row->op,
                                        .index = row->index,
                                        .number = row->number,
                                        .deliveries = row->deliveries,
                                        .kind = row->kind,
                                        .state = row->state};
}

static uint64_t ended_hash(const struct ended_signal *row)
{
    struct stored_ended_signal stored = ended_stored(row);
    return layout_flat_hash(&ended_signal_layout, 0, &stored);
}

struct ended_signal *ended_at(const struct machine *m, uint64_t number)
{
    const struct signals *t = &m->signals;
    CHECK(number >= t->ended_first);
    return RING_AT(&t->ended_ring, t->ended, (uint32_t)(number - t->ended_first));
}

bool ended_same_first(const struct machine *m, const struct request_id *id, uint64_t *number)
{
    const struct signals *t = &m->signals;
    uint32_t value =
        t->ended_ring.len > 0 ? map_find(&t->ended_by_id, signal_id_key(id)) : MAP_NONE;
    if (value == MAP_NONE) return false;
    *number = (t->ended_first & ~UINT64_C(0x7fffffff)) | value;
    if (*number < t->ended_first) *number += UINT64_C(1) << 31;
    CHECK(*number < t->ended_first + t->ended_ring.len);
    return true;
}

bool ended_same_next(const struct machine *m, uint64_t *number)
{
    uint32_t before = ended_at(m, *number)->before;
    if (before == 0 || before > *number - m->signals.ended_first) return false; // it was dropped
    *number -= before;
    CHECK(*number >= m->signals.ended_first);
    return true;
}

static void drop_first(struct machine *m)
{
    struct signals *t = &m->signals;
    struct ended_signal *row = ended_at(m, t->ended_first);
    m->digest -= ended_hash(row);
    uint64_t key = signal_id_key(&row->id);
    if (map_find(&t->ended_by_id, key) == short_number(t->ended_first))
        map_remove(&t->ended_by_id, key, short_number(t->ended_first));
    if (row->slot) msg_unmark(m, row->slot);
    t->ended_first++;
    ring_drop(&t->ended_ring, 1);
}

// The slot with the answer of a holder is not needed any more.
static void drop_answer(struct machine *m, uint64_t number)
{
    struct ended_signal *row = ended_at(m, number);
    if (row->slot == 0) return;
    CHECK(row->slot <= m->slot);
    m->digest -= ended_hash(row);
    msg_unmark(m, row->slot);
    row->slot = 0;
    row->op = row->index = 0;
    m->digest += ended_hash(row);
}

void ended_add(struct machine *m, const struct ended_signal *row)
{
    struct signals *t = &m->signals;
    CHECK(t->ended_ring.len < SIGNALS_KNOWN_MAX);
    if (MUTANT(SIGNAL_FORGOTTEN) && t->ended_ring.len == 8) drop_first(m);
    if (t->ended_ring.len >= SIGNALS_ENDED_MAX)
        drop_answer(m, t->ended_first + t->ended_ring.len - SIGNALS_ENDED_MAX);
    uint64_t before = 0, number = t->ended_first + t->ended_ring.len;
    bool again = ended_same_first(m, &row->id, &before);
    struct ended_signal *kept = RING_ADD(&t->ended_ring, t->ended);
    *kept = *row;
    kept->before = again ? (uint32_t)(number - before) : 0;
    if (again)
        *map_at(&t->ended_by_id, signal_id_key(&row->id)) = short_number(number);
    else
        map_add(&t->ended_by_id, signal_id_key(&row->id), short_number(number));
    if (row->slot) msg_mark(m, row->slot);
    m->digest += ended_hash(row);
    CHECK(row->state != SIGNAL_PENDING && row->state < SIGNAL_STATE_COUNT);
    t->ends.counts[row->kind][row->state]++;
    changes_note(m, row->seq);
}

bool ended_is_over(const struct machine *m, const struct ended_signal *row, uint64_t newer)
{
    int64_t keep = newer < SIGNALS_ENDED_MAX ? m->config.retention_ms : 0;
    CHECK(row->at <= m->now);
    return row->at + (keep > SIGNAL_KEEP_MIN_MS ? keep : SIGNAL_KEEP_MIN_MS) <= m->now;
}

void ended_expire(struct machine *m)
{
    struct signals *t = &m->signals;
    while (t->ended_ring.len > 0 &&
           ended_is_over(m, ended_at(m, t->ended_first), t->ended_ring.len - 1))
        drop_first(m);
    CHECK(t->ended_by_id.len <= t->ended_ring.len);
}

void ended_drop_all(struct machine *m)
{
    while (m->signals.ended_ring.len > 0)
        drop_first(m);
    CHECK(m->signals.ended_by_id.len == 0);
}
