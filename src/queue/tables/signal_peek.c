// SPDX-License-Identifier: Apache-2.0
// What readers see of signals and of progress.
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <stdlib.h>
#include <string.h>

static void view_row(const struct machine *m, const struct signal *s, struct signal_view *out)
{
    CHECK(s->kind < SIGNAL_KIND_COUNT);
    *out = (struct signal_view){.id = s->id,
                                .seq = signal_seq_of(m, s),
                                .number = s->number,
                                .kind = (enum signal_kind)s->kind,
                                .state = SIGNAL_PENDING,
                                .once = s->once,
                                .then = (enum signal_then)s->then,
                                .deliveries = s->deliveries,
                                .sent_at = signal_time(s->sent_at),
                                .until = s->due,
                                .carried = {s->slot, s->op, 0}};
}

static void view_ended(const struct ended_signal *e, struct signal_view *out)
{
    CHECK(e->state != SIGNAL_PENDING && e->state < SIGNAL_STATE_COUNT);
    *out = (struct signal_view){.id = e->id,
                                .seq = e->seq,
                                .number = e->number,
                                .kind = (enum signal_kind)e->kind,
                                .state = (enum signal_state)e->state,
                                .deliveries = e->deliveries,
                                .sent_at = signal_time(e->sent_at),
                                .ended_at = e->at,
                                .answer = {e->slot, e->op, e->index}};
}

// Pending signals of the box after a number. Returns how many.
static size_t view_box(const struct machine *m, uint32_t b, uint32_t after, struct signal_view *out,
                       size_t max)
{
    const struct signals *t = &m->signals;
    size_t len = 0;
    for (uint32_t s = b ? t->boxes[b].first : 0; s && len < max; s = t->rows[s].next)
        if (!t->rows[s].settled && t->rows[s].number > after) view_row(m, &t->rows[s], &out[len++]);
    CHECK(len <= max);
    return len;
}

// The box that the holder of this lock may read; 0: nothing waits.
static enum reason box_of(const struct machine *m, const struct lock_ref *ref, uint32_t *box)
{
    uint32_t h;
    *box = 0;
    enum reason reason = lock_check(m, ref, &h);
    if (reason != REASON_NONE) return reason;
    CHECK(msg_at(m, h)->state == STATE_LOCKED);
    if (!lock_of(m, msg_at(m, h))->ticket) *box = signal_box_find(m, ref->seq);
    return REASON_NONE;
}

enum reason machine_signals(const struct machine *m, const struct lock_ref *ref, uint32_t after,
                            struct signal_view *out, size_t max, size_t *len)
{
    uint32_t b;
    enum reason reason = box_of(m, ref, &b);
    *len = reason == REASON_NONE ? view_box(m, b, after, out, max) : 0;
    return reason;
}

uint32_t machine_signals_waiting(const struct machine *m, const struct lock_ref *ref)
{
    uint32_t b;
    if (m->signals.pending == 0 || box_of(m, ref, &b) != REASON_NONE) return 0;
    CHECK(b < m->signals.boxes_len);
    return b ? m->signals.boxes[b].waiting : 0;
}

bool machine_signal_waits(const struct machine *m, const struct request_id *id, uint64_t seq)
{
    const struct signals *t = &m->signals;
    uint32_t b = signal_box_find(m, seq);
    CHECK(b < t->boxes_len || b == 0);
    for (uint32_t s = b ? t->boxes[b].first : 0; s; s = t->rows[s].next) {
        const struct signal *row = &t->rows[s];
        if (!row->settled && memcmp(row->id.bytes, id->bytes, sizeof id->bytes) == 0) return true;
    }
    return false;
}

size_t machine_signals_of(const struct machine *m, uint64_t seq, struct signal_view *out,
                          size_t max)
{
    const struct signals *t = &m->signals;
    size_t len = view_box(m, signal_box_find(m, seq), 0, out, max);
    for (uint64_t n = t->ended_first + t->ended_ring.len; n > t->ended_first && len < max; n--) {
        const struct ended_signal *e = ended_at(m, n - 1);
        if (e->seq == seq) view_ended(e, &out[len++]);
    }
    CHECK(len <= max);
    return len;
}

size_t machine_signals_pending(const struct machine *m, uint64_t seq, uint32_t number,
                               struct signal_view *out, size_t max)
{
    const struct signals *t = &m->signals;
    uint64_t *seqs = memory_new((t->boxes_used + (size_t)1) * sizeof *seqs);
    size_t boxes = 0, len = 0;
    for (uint32_t b = 1; b < t->boxes_len; b++)
        if (t->boxes[b].seq >= seq && t->boxes[b].waiting > 0) seqs[boxes++] = t->boxes[b].seq;
    CHECK(boxes <= t->boxes_used);
    rows_sort(seqs, boxes, sizeof *seqs);
    for (size_t i = 0; i < boxes && len < max; i++)
        len += view_box(m, signal_box_find(m, seqs[i]), seqs[i] == seq ? number : 0, out + len,
                        max - len);
    memory_free(seqs);
    return len;
}

static bool is_wanted(const struct request_id *have, const struct request_id *id, uint64_t at,
                      uint64_t seq)
{
    return memcmp(have->bytes, id->bytes, sizeof id->bytes) == 0 && (seq == 0 || at == seq);
}

bool machine_signal_find(const struct machine *m, const struct request_id *id, uint64_t seq,
                         struct signal_view *out)
{
    const struct signals *t = &m->signals;
    const struct signal *first = NULL;
    uint64_t lowest = UINT64_MAX, n;
    for (uint32_t i = signal_same_first(m, id); i; i = t->rows[i].same_next) {
        const struct signal *s = &t->rows[i];
        uint64_t at = signal_seq_of(m, s);
        if (s->settled || !is_wanted(&s->id, id, at, seq) || at >= lowest) continue;
        first = s;
        lowest = at;
    }
    if (first) view_row(m, first, out);
    if (first) return true;
    bool ended = ended_same_first(m, id, &n);
    while (ended && !is_wanted(&ended_at(m, n)->id, id, ended_at(m, n)->seq, seq))
        ended = ended_same_next(m, &n);
    if (ended) view_ended(ended_at(m, n), out);
    return ended;
}

static int by_message(const void *a, const void *b)
{
    const struct signal_view *x = a, *y = b;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

size_t machine_signals_room(const struct machine *m, const struct request_id *id)
{
    const struct signals *t = &m->signals;
    size_t room = 0;
    uint64_t n;
    for (uint32_t i = signal_same_first(m, id); i; i = t->rows[i].same_next)
        room++;
    for (bool more = ended_same_first(m, id, &n); more; more = ended_same_next(m, &n))
        room++;
    CHECK(room <= (size_t)t->used + t->ended_ring.len);
    return room;
}

size_t machine_signals_with(const struct machine *m, const struct request_id *id,
                            struct signal_view *out, size_t max)
{
    const struct signals *t = &m->signals;
    size_t len = 0;
    uint64_t n;
    for (uint32_t i = signal_same_first(m, id); i && len < max; i = t->rows[i].same_next)
        if (!t->rows[i].settled && is_wanted(&t->rows[i].id, id, 0, 0))
            view_row(m, &t->rows[i], &out[len++]);
    for (bool more = ended_same_first(m, id, &n); more && len < max; more = ended_same_next(m, &n))
        if (is_wanted(&ended_at(m, n)->id, id, 0, 0)) view_ended(ended_at(m, n), &out[len++]);
    CHECK(len <= max);
    qsort(out, len, sizeof *out, by_message);
    return len;
}

bool machine_signal_lives_at(const struct machine *m, uint64_t slot, uint32_t op)
{
    const struct signals *t = &m->signals;
    if (map_find(&m->marks, slot / PLACE_SPAN) == MAP_NONE) return false;
    for (uint32_t s = 1; s < t->len; s++)
        if (t->rows[s].box && t->rows[s].slot == slot && t->rows[s].op == op) return true;
    for (uint32_t b = 1; b < t->boxes_len; b++) {
        const struct signal_box *box = &t->boxes[b];
        if (box->seq && box->progress_slot == slot && box->progress_op == op) return true;
    }
    for (uint64_t n = t->ended_first; n < t->ended_first + t->ended_ring.len; n++)
        if (ended_at(m, n)->slot == slot && ended_at(m, n)->op == op) return true;
    CHECK(t->boxes_used <= t->boxes_len);
    return retained_lives_at(m, slot, op);
}

uint32_t machine_signal_count(const struct machine *m)
{
    CHECK(m->signals.pending <= m->signals.used);
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

void machine_forget_ends(struct machine *m)
{
    m->signals.ends = (struct signal_ends){0};
}

bool machine_progress(const struct machine *m, uint64_t seq, struct progress_view *out)
{
    uint32_t b = signal_box_find(m, seq);
    if (!b || m->signals.boxes[b].progress_slot == 0) return false;
    const struct signal_box *box = &m->signals.boxes[b];
    CHECK(box->percent <= PROGRESS_PERCENT_MAX);
    *out =
        (struct progress_view){.percent = box->percent,
                               .at = box->progress_at,
                               .text = {box->progress_slot, box->progress_op, box->progress_index}};
    return true;
}
