// SPDX-License-Identifier: Apache-2.0
// The tables of signals. A message with signals or with progress has a box: its signals by number.
// A message without them has nothing, and each hot path tests one counter (boxes_used).
//
// clang-format off
//     (sent) --> PENDING --> ACKED, DECLINED     by the holder of the lock
//                   |------> EXPIRED, WITHDRAWN  by time, by the sender
//                   '------> MISSED              its lock or its message ended
//     (sent) --> APPLIED                         an interrupt that needs no holder
// clang-format on
//
// An interrupt stays in its box until the lock ends, also when its holder has acknowledged it.
// Its time limits the deadline of the lock (interrupt.c).
#include "queue/tables/signals.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <stdlib.h>
#include <string.h>

uint64_t signal_id_key(const struct request_id *id)
{
    uint64_t lo, hi;
    memcpy(&lo, id->bytes, 8);
    memcpy(&hi, id->bytes + 8, 8);
    return mix(lo, hi);
}

uint64_t signal_seq_of(const struct machine *m, const struct signal *s)
{
    CHECK(s->box > 0 && s->box < m->signals.boxes_len);
    return m->signals.boxes[s->box].seq;
}

#define LAYOUT_OF struct stored_signal
static const struct layout_field signal_fields[] = {
    FIXED(id),
    U64(slot, .min = 1, .max = SIGNAL_SLOT_MAX),
    U32(op),
    I64(sent_at),
    I64(due),
    U32(number, .min = 1),
    U16(deliveries),
    ENUM(kind, SIGNAL_KIND_COUNT),
    ENUM(then, SIGNAL_THEN_COUNT),
    U8(flags, .max = 3),
};
const struct layout pending_signal_layout = LAYOUT(signal_fields);
#undef LAYOUT_OF

struct stored_signal signal_stored(const struct signal *s)
{
    return (struct stored_signal){.id = s->id,
                                  .slot = s->slot,
                                  .op = s->op,
                                  .sent_at = signal_time(s->sent_at),
                                  .due = s->due,
                                  .number = s->number,
                                  .deliveries = s->deliveries,
                                  .kind = s->kind,
                                  .then = s->then,
                                  .flags = (uint8_t)(s->once | s->settled << 1)};
}

static uint64_t signal_hash(const struct machine *m, const struct signal *s)
{
    struct stored_signal row = signal_stored(s);
    return layout_flat_hash(&pending_signal_layout, signal_seq_of(m, s), &row);
}

#define LAYOUT_OF struct signal_box
static const struct layout_field box_fields[] = {
    U64(seq, .min = 1),
    U32(number),
    FLAG(reported),
    U8(percent, .max = PROGRESS_PERCENT_MAX, WHEN(reported, 1)),
    U64(progress_slot, .min = 1, WHEN(reported, 1)),
    U32(progress_op, WHEN(reported, 1)),
    U32(progress_index, WHEN(reported, 1)),
    I64(progress_at, WHEN(reported, 1)),
};
const struct layout signal_box_layout = LAYOUT(box_fields);
#undef LAYOUT_OF

uint64_t signal_box_hash(const struct signal_box *box)
{
    return layout_hash(&signal_box_layout, 0x736967u, box);
}

uint32_t signal_box_find(const struct machine *m, uint64_t seq)
{
    const struct signals *t = &m->signals;
    uint32_t b = t->boxes_used > 0 ? map_find(&t->by_seq, seq) : MAP_NONE;
    CHECK(b == MAP_NONE || t->boxes[b].seq == seq);
    return b == MAP_NONE ? 0 : b;
}

uint32_t signal_box_need(struct machine *m, uint64_t seq)
{
    struct signals *t = &m->signals;
    uint32_t b = signal_box_find(m, seq);
    if (b) return b;
    b = t->boxes_free;
    if (b) {
        t->boxes_free = t->boxes[b].last;
    } else {
        if (t->boxes_len == 0) t->boxes_len = 1; // row 0 is none
        (void)ARRAY_ROOM(t->boxes, t->boxes_len, t->boxes_cap, 1);
        b = t->boxes_len++;
    }
    CHECK(seq > 0 && seq < m->seq_next);
    t->boxes[b] = (struct signal_box){.seq = seq};
    t->boxes_used++;
    map_add(&t->by_seq, seq, b);
    m->digest += signal_box_hash(&t->boxes[b]);
    return b;
}

static void box_free(struct machine *m, uint32_t b)
{
    struct signals *t = &m->signals;
    struct signal_box *box = &t->boxes[b];
    CHECK(!box->first && box->waiting == 0 && box->progress_slot == 0);
    m->digest -= signal_box_hash(box);
    map_remove(&t->by_seq, box->seq, b);
    *box = (struct signal_box){.last = t->boxes_free};
    t->boxes_free = b;
    t->boxes_used--;
}

uint32_t signal_same_first(const struct machine *m, const struct request_id *id)
{
    uint32_t s = map_find(&m->signals.by_id, signal_id_key(id));
    CHECK(s == MAP_NONE || m->signals.rows[s].same_prev == 0);
    return s == MAP_NONE ? 0 : s;
}

// The first row of a list stays the first, so that the map does not change.
static void same_add(struct signals *t, uint32_t s, uint32_t first)
{
    struct signal *row = &t->rows[s];
    row->same_next = row->same_prev = 0;
    if (first == 0) {
        map_add(&t->by_id, signal_id_key(&row->id), s);
        return;
    }
    CHECK(first != s);
    row->same_prev = first;
    row->same_next = t->rows[first].same_next;
    t->rows[first].same_next = s;
    if (row->same_next) t->rows[row->same_next].same_prev = s;
}

static void same_remove(struct signals *t, uint32_t s)
{
    const struct signal *row = &t->rows[s];
    uint64_t key = signal_id_key(&row->id);
    CHECK(row->same_prev || map_find(&t->by_id, key) == s);
    if (row->same_next) t->rows[row->same_next].same_prev = row->same_prev;
    if (row->same_prev)
        t->rows[row->same_prev].same_next = row->same_next;
    else if (row->same_next)
        *map_at(&t->by_id, key) = row->same_next;
    else
        map_remove(&t->by_id, key, s);
}

uint32_t signal_add(struct machine *m, uint32_t b, const struct signal *signal)
{
    struct signals *t = &m->signals;
    uint32_t s = t->free;
    if (s) {
        t->free = t->rows[s].next;
    } else {
        if (t->len == 0) t->len = 1; // row 0 is none
        (void)ARRAY_ROOM(t->rows, t->len, t->cap, 1);
        s = t->len++;
    }
    struct signal_box *box = &t->boxes[b];
    CHECK(box->seq > 0 && signal->number <= box->number && signal->slot > 0);
    t->rows[s] = *signal;
    t->rows[s].box = b;
    t->rows[s].next = 0;
    *(box->last ? &t->rows[box->last].next : &box->first) = s;
    box->last = s;
    box->rows++;
    t->used++;
    if (!signal->settled) {
        box->waiting++;
        t->pending++;
    }
    same_add(t, s, signal_same_first(m, &signal->id));
    if (signal->kind != SIGNAL_INTERRUPT) heap_push(&t->timers, signal->due, box->seq, s);
    if (!MUTANT(SIGNAL_COLLECTED)) msg_mark(m, signal->slot);
    m->digest += signal_hash(m, &t->rows[s]);
    return s;
}

static void row_free(struct machine *m, uint32_t s)
{
    struct signals *t = &m->signals;
    struct signal *row = &t->rows[s];
    struct signal_box *box = &t->boxes[row->box];
    CHECK(row->settled && t->used > 0 && box->first);
    uint32_t before = 0, at = box->first;
    while (at != s) {
        before = at;
        at = t->rows[at].next;
        CHECK(at);
    }
    *(before ? &t->rows[before].next : &box->first) = row->next;
    if (box->last == s) box->last = before;
    CHECK(box->rows > 0);
    box->rows--;
    m->digest -= signal_hash(m, row);
    same_remove(t, s);
    if (row->kind != SIGNAL_INTERRUPT) heap_remove(&t->timers, s);
    if (!MUTANT(SIGNAL_COLLECTED)) msg_unmark(m, row->slot);
    *row = (struct signal){.next = t->free};
    t->free = s;
    t->used--;
}

// An event about a signal: its message may have no record.
struct event *emit_signal(struct machine *m, enum event_kind kind, const struct signal *s,
                          uint64_t seq, enum signal_state state)
{
    uint32_t h = map_find(&m->by_seq, seq);
    struct event *e = emit(m, kind, h == MAP_NONE ? 0 : h);
    CHECK(seq > 0);
    if (!e) return NULL;
    const struct range *r = h == MAP_NONE ? backlog_find(m, seq) : NULL;
    if (h == MAP_NONE) {
        e->seq = seq;
        emit_key(m, e, seq, 0);
    }
    if (r) e->place = (struct place){r->slot, r->skip + (uint32_t)(seq - r->seq)};
    e->count = s->number;
    e->signal = s->id;
    e->signal_kind = (enum signal_kind)s->kind;
    e->signal_state = state;
    return e;
}

// The worker of an event is the one that holds the message.
static void emit_holder(struct machine *m, struct event *e, uint64_t seq)
{
    uint32_t h = map_find(&m->by_seq, seq);
    CHECK(h != MAP_NONE && msg_at(m, h)->state == STATE_LOCKED);
    emit_worker(m, e, lock_of(m, msg_at(m, h))->worker);
}

// The row stays if it is an interrupt that is still in force; else the caller frees it.
static void note_end(struct machine *m, uint32_t s, enum signal_state state, struct op_place answer,
                     struct bytes text)
{
    struct signals *t = &m->signals;
    struct signal *row = &t->rows[s];
    struct signal_box *box = &t->boxes[row->box];
    CHECK(!row->settled && box->waiting > 0 && t->pending > 0);
    m->digest -= signal_hash(m, row);
    bool again = MUTANT(SIGNAL_AGAIN) && state == SIGNAL_ACKED && row->number % 2 == 0;
    row->settled = !again;
    m->digest += signal_hash(m, row);
    box->waiting = (uint16_t)(box->waiting - !again);
    t->pending -= !again;
    bool acked = state == SIGNAL_ACKED;
    struct event *e =
        emit_signal(m, acked ? EVENT_SIGNAL_ACKED : EVENT_SIGNAL_ENDED, row, box->seq, state);
    if (e) emit_failure_text(m, e, text);
    if (e && (acked || state == SIGNAL_DECLINED)) emit_holder(m, e, box->seq);
    ended_add(m, &(struct ended_signal){.id = row->id,
                                        .seq = box->seq,
                                        .sent_at = row->sent_at,
                                        .at = m->now,
                                        .slot = answer.slot & SIGNAL_SLOT_MAX,
                                        .op = answer.op,
                                        .index = answer.index,
                                        .number = row->number,
                                        .deliveries = row->deliveries,
                                        .kind = row->kind & 15,
                                        .state = state & 15});
}

void signal_settle(struct machine *m, uint32_t s, enum signal_state state, struct op_place answer,
                   struct bytes text)
{
    note_end(m, s, state, answer, text);
    CHECK(state == SIGNAL_ACKED || state == SIGNAL_DECLINED);
    const struct signal *row = &m->signals.rows[s];
    if (row->kind != SIGNAL_INTERRUPT && row->settled) row_free(m, s);
}

void signal_end(struct machine *m, uint32_t s, enum signal_state state)
{
    if (!m->signals.rows[s].settled) note_end(m, s, state, (struct op_place){0}, BYTES_EMPTY);
    CHECK(m->signals.rows[s].settled);
    row_free(m, s);
}

void signals_deliver(struct machine *m, uint32_t h)
{
    struct signals *t = &m->signals;
    uint64_t seq = msg_at(m, h)->seq;
    uint32_t b = signal_box_find(m, seq);
    if (!b) return;
    CHECK(msg_at(m, h)->state == STATE_LOCKED && !lock_of(m, msg_at(m, h))->ticket);
    for (uint32_t s = t->boxes[b].first; s; s = t->rows[s].next)
        signal_deliver(m, s);
}

void signal_deliver(struct machine *m, uint32_t s)
{
    struct signal *row = &m->signals.rows[s];
    uint64_t seq = signal_seq_of(m, row);
    CHECK(!row->settled);
    m->digest -= signal_hash(m, row);
    if (row->deliveries < UINT16_MAX) row->deliveries++;
    m->digest += signal_hash(m, row);
    m->signals.orders++;
    changes_note(m, seq);
    struct event *e = emit_signal(m, EVENT_SIGNAL_DELIVERED, row, seq, SIGNAL_PENDING);
    if (e) emit_holder(m, e, seq);
}

static void progress_clear(struct machine *m, struct signal_box *box)
{
    if (!box->reported) return;
    CHECK(box->seq > 0 && box->progress_slot > 0);
    m->digest -= signal_box_hash(box);
    msg_unmark(m, box->progress_slot);
    box->progress_slot = 0;
    box->progress_at = 0;
    box->progress_op = box->progress_index = 0;
    box->percent = 0;
    box->reported = false;
    m->digest += signal_box_hash(box);
}

void progress_note(struct machine *m, uint64_t seq, uint8_t percent, uint32_t index)
{
    uint32_t b = signal_box_need(m, seq);
    struct signal_box *box = &m->signals.boxes[b];
    CHECK(percent <= PROGRESS_PERCENT_MAX);
    progress_clear(m, box);
    m->digest -= signal_box_hash(box);
    box->percent = percent;
    box->reported = true;
    box->progress_slot = m->slot;
    box->progress_at = m->now;
    box->progress_op = m->op_index;
    box->progress_index = index;
    msg_mark(m, m->slot);
    m->digest += signal_box_hash(box);
}

void signals_lock_over(struct machine *m, uint64_t seq)
{
    struct signals *t = &m->signals;
    uint32_t b = signal_box_find(m, seq);
    if (!b) return;
    progress_clear(m, &t->boxes[b]);
    for (uint32_t s = t->boxes[b].first, next; s; s = next) {
        next = t->rows[s].next;
        bool ends = t->rows[s].kind == SIGNAL_INTERRUPT || t->rows[s].once;
        if (ends && !MUTANT(SIGNAL_ONCE_STAYS)) signal_end(m, s, SIGNAL_MISSED);
    }
    if (t->boxes[b].number == 0) box_free(m, b);
}

void signals_close(struct machine *m, uint64_t seq)
{
    struct signals *t = &m->signals;
    uint32_t b = signal_box_find(m, seq);
    if (!b) return;
    progress_clear(m, &t->boxes[b]);
    while (t->boxes[b].first)
        signal_end(m, t->boxes[b].first, SIGNAL_MISSED);
    CHECK(t->boxes[b].waiting == 0);
    box_free(m, b);
}

// A purge goes through its messages in the order of memory. The ends of signals have an order, so
// they come first, by number of the message.
void signals_purge(struct machine *m, unsigned states)
{
    const struct signals *t = &m->signals;
    if (t->boxes_used == 0) return;
    uint64_t *seqs = memory_new(t->boxes_used * sizeof *seqs);
    size_t len = 0;
    for (uint32_t b = 1; b < t->boxes_len; b++) {
        uint64_t seq = t->boxes[b].seq;
        uint32_t h = seq ? map_find(&m->by_seq, seq) : MAP_NONE;
        unsigned state = h == MAP_NONE ? STATE_READY : msg_at(m, h)->state;
        if (seq && (states & (1u << state))) seqs[len++] = seq;
    }
    CHECK(len <= t->boxes_used);
    rows_sort(seqs, len, sizeof *seqs);
    for (size_t i = 0; i < len; i++)
        signals_close(m, seqs[i]);
    memory_free(seqs);
}

struct due_signal {
    int64_t due;
    uint64_t seq;
    uint32_t number;
    uint32_t row;
};

static int by_time(const void *a, const void *b)
{
    const struct due_signal *x = a, *y = b;
    if (x->due != y->due) return x->due < y->due ? -1 : 1;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static void collect_due(const struct machine *m, size_t at, struct due_signal *out, size_t *len)
{
    const struct heap *heap = &m->signals.timers;
    if (at >= heap->len || heap->rows[at].key > m->now) return;
    const struct signal *row = &m->signals.rows[heap->rows[at].ref];
    CHECK(row->due == heap->rows[at].key);
    out[(*len)++] =
        (struct due_signal){row->due, signal_seq_of(m, row), row->number, heap->rows[at].ref};
    collect_due(m, 2 * at + 1, out, len);
    collect_due(m, 2 * at + 2, out, len);
}

void signals_expire(struct machine *m)
{
    struct signals *t = &m->signals;
    const struct heap_row *top = heap_top(&t->timers);
    if (top && top->key <= m->now) {
        struct due_signal *due = memory_new(t->timers.len * sizeof *due);
        size_t len = 0;
        collect_due(m, 0, due, &len);
        qsort(due, len, sizeof *due, by_time);
        for (size_t i = 0; i < len; i++)
            signal_end(m, due[i].row, SIGNAL_EXPIRED);
        memory_free(due);
    }
    CHECK(!heap_top(&t->timers) || heap_top(&t->timers)->key > m->now);
    if (t->ended_ring.len > 0) ended_expire(m);
}

int64_t signals_wake_at(const struct machine *m)
{
    const struct heap_row *top = heap_top(&m->signals.timers);
    CHECK(!top || top->key > m->now);
    return top ? top->key : TIME_NEVER;
}

void signals_clear(struct machine *m)
{
    struct signals *t = &m->signals;
    memory_free(t->rows);
    memory_free(t->boxes);
    memory_free(t->ended);
    map_done(&t->by_seq);
    map_done(&t->by_id);
    map_done(&t->ended_by_id);
    heap_done(&t->timers);
    *t = (struct signals){0};
}
