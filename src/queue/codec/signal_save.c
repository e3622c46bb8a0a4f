// SPDX-License-Identifier: Apache-2.0
// Signals in a snapshot, and their invariants. Boxes are saved by message, and their signals by
// number. So equal states have equal bytes.
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <stdlib.h>
#include <string.h>

struct numbered_row {
    uint64_t seq;
    uint32_t b;
};

static int by_number(const void *a, const void *b)
{
    const struct numbered_row *x = a, *y = b;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static void save_id(const struct request_id *id, struct buf *out)
{
    CHECK(request_id_set(id));
    buf_put(out, bytes_of(id->bytes, sizeof id->bytes));
}

static void save_signal(const struct signal *s, struct buf *out)
{
    save_id(&s->id, out);
    buf_put_u64(out, s->slot);
    buf_put_u32(out, s->op);
    buf_put_i64(out, signal_time(s->sent_at));
    buf_put_i64(out, s->due);
    buf_put_u32(out, s->number);
    buf_put_u16(out, s->deliveries);
    buf_put_u8(out, s->kind);
    buf_put_u8(out, s->then);
    buf_put_u8(out, (uint8_t)(s->once | s->settled << 1));
}

static void save_box(const struct machine *m, const struct signal_box *box, struct buf *out)
{
    const struct signals *t = &m->signals;
    CHECK(box->seq > 0 && box->rows <= SIGNALS_OF_MESSAGE_MAX);
    buf_put_u64(out, box->seq);
    buf_put_u32(out, box->number);
    buf_put_u8(out, box->progress_slot != 0);
    if (box->progress_slot) {
        buf_put_u8(out, box->percent);
        buf_put_u64(out, box->progress_slot);
        buf_put_u32(out, box->progress_op);
        buf_put_u32(out, box->progress_index);
        buf_put_i64(out, box->progress_at);
    }
    buf_put_u16(out, box->rows);
    for (uint32_t s = box->first; s; s = t->rows[s].next)
        save_signal(&t->rows[s], out);
}

void signals_save(const struct machine *m, struct buf *out)
{
    const struct signals *t = &m->signals;
    struct numbered_row *order = memory_new((t->boxes_used + (size_t)1) * sizeof *order);
    size_t len = 0;
    for (uint32_t b = 1; b < t->boxes_len; b++)
        if (t->boxes[b].seq) order[len++] = (struct numbered_row){t->boxes[b].seq, b};
    CHECK(len == t->boxes_used);
    qsort(order, len, sizeof *order, by_number);
    buf_put_u32(out, t->boxes_used);
    for (size_t i = 0; i < len; i++)
        save_box(m, &t->boxes[order[i].b], out);
    memory_free(order);
    buf_put_u32(out, t->ended_len);
    for (uint64_t n = t->ended_first; n < t->ended_first + t->ended_len; n++) {
        const struct ended_signal *e = ended_at(m, n);
        save_id(&e->id, out);
        buf_put_u64(out, e->seq);
        buf_put_i64(out, signal_time(e->sent_at));
        buf_put_i64(out, e->at);
        buf_put_u64(out, e->slot);
        buf_put_u32(out, e->op);
        buf_put_u32(out, e->index);
        buf_put_u32(out, e->number);
        buf_put_u16(out, e->deliveries);
        buf_put_u8(out, e->kind);
        buf_put_u8(out, e->state);
    }
}

static void load_id(struct reader *r, struct request_id *id)
{
    struct bytes bytes = read_bytes(r, sizeof id->bytes);
    if (bytes.len > 0) memcpy(id->bytes, bytes.data, bytes.len);
    if (!request_id_set(id)) r->bad = true;
}

static enum message_state state_of(const struct machine *m, uint64_t seq, bool *running)
{
    uint32_t h = map_find(&m->by_seq, seq);
    *running = false;
    if (h == MAP_NONE) return backlog_find(m, seq) ? STATE_READY : STATE_NONE;
    const struct msg *msg = msg_at(m, h);
    *running = msg->state == STATE_LOCKED && !lock_of(m, msg)->ticket;
    return (enum message_state)msg->state;
}

static bool is_unfinished(enum message_state state)
{
    return state == STATE_READY || state == STATE_DELAYED || state == STATE_LOCKED;
}

static bool signal_ok(const struct machine *m, const struct signal *s, uint32_t after, bool running)
{
    if (s->number <= after || s->slot == 0 || s->slot > m->slot || signal_time(s->sent_at) > m->now)
        return false;
    if (s->kind == SIGNAL_INTERRUPT) return running && !s->once && s->due > m->now;
    return !s->settled && s->then == THEN_CANCEL && s->due > m->now;
}

// A time that a row can have.
static bool time_ok(int64_t t)
{
    return signal_time(SIGNAL_TIME(t)) == t;
}

static uint32_t load_signal(struct machine *m, uint32_t b, struct reader *r, uint32_t after,
                            bool running)
{
    struct signal s = {0};
    load_id(r, &s.id);
    uint64_t slot = read_u64(r);
    if (slot > SIGNAL_SLOT_MAX) r->bad = true;
    s.slot = slot & SIGNAL_SLOT_MAX;
    s.op = read_u32(r);
    int64_t sent_at = read_i64(r);
    if (!time_ok(sent_at)) r->bad = true;
    s.sent_at = SIGNAL_TIME(sent_at);
    s.due = read_i64(r);
    s.number = read_u32(r);
    s.deliveries = read_u16(r);
    uint8_t kind = read_u8(r), then = read_u8(r), flags = read_u8(r);
    if (kind >= SIGNAL_KIND_COUNT || then >= SIGNAL_THEN_COUNT || flags > 3) r->bad = true;
    s.kind = kind & 15U;
    s.then = then & 15U;
    s.once = flags & 1U;
    s.settled = flags >> 1 & 1U;
    if (r->bad || !signal_ok(m, &s, after, running) || s.number > m->signals.boxes[b].number) {
        r->bad = true;
        return 0;
    }
    CHECK(m->signals.used < SIGNALS_OF_SHARD_MAX);
    (void)signal_add(m, b, &s);
    return s.number;
}

static void load_progress(struct machine *m, struct signal_box *box, struct reader *r, bool running)
{
    box->percent = read_u8(r);
    uint64_t slot = read_u64(r);
    box->progress_op = read_u32(r);
    box->progress_index = read_u32(r);
    box->progress_at = read_i64(r);
    if (box->percent > PROGRESS_PERCENT_MAX || slot == 0 || slot > m->slot || !running)
        r->bad = true;
    if (box->progress_at > m->now) r->bad = true;
    CHECK(box->progress_slot == 0);
    if (r->bad) return;
    box->progress_slot = slot;
    msg_mark(m, slot);
}

static uint64_t load_box(struct machine *m, struct reader *r, uint64_t after)
{
    uint64_t seq = read_u64(r);
    uint32_t number = read_u32(r);
    uint8_t progress = read_u8(r);
    bool running;
    if (seq <= after || seq >= m->seq_next || progress > 1) r->bad = true;
    if (r->bad || (number == 0 && !progress)) r->bad = true;
    if (r->bad || !is_unfinished(state_of(m, seq, &running))) {
        r->bad = true;
        return 0;
    }
    uint32_t b = signal_box_need(m, seq), last = 0;
    struct signal_box *box = &m->signals.boxes[b];
    m->digest -= signal_box_hash(box);
    box->number = number;
    if (progress) load_progress(m, box, r, running);
    m->digest += signal_box_hash(box);
    uint16_t rows = read_u16(r);
    if (rows > SIGNALS_OF_MESSAGE_MAX || rows > SIGNALS_OF_SHARD_MAX - m->signals.used)
        r->bad = true;
    for (uint16_t i = 0; i < rows && reader_ok(r); i++)
        last = load_signal(m, b, r, last, running);
    CHECK(r->bad || m->signals.boxes[b].rows == rows);
    return seq;
}

static void load_ended(struct machine *m, struct reader *r, uint32_t newer, int64_t *after)
{
    struct ended_signal e = {0};
    load_id(r, &e.id);
    e.seq = read_u64(r);
    int64_t sent_at = read_i64(r);
    if (!time_ok(sent_at)) r->bad = true;
    e.sent_at = SIGNAL_TIME(sent_at);
    e.at = read_i64(r);
    uint64_t slot = read_u64(r);
    if (slot > SIGNAL_SLOT_MAX) r->bad = true;
    e.slot = slot & SIGNAL_SLOT_MAX;
    e.op = read_u32(r);
    e.index = read_u32(r);
    e.number = read_u32(r);
    e.deliveries = read_u16(r);
    uint8_t kind = read_u8(r), state = read_u8(r);
    if (kind >= SIGNAL_KIND_COUNT || state == SIGNAL_PENDING || state >= SIGNAL_STATE_COUNT)
        r->bad = true;
    if (e.seq == 0 || e.seq >= m->seq_next || e.slot > m->slot) r->bad = true;
    if (e.at < *after || e.at > m->now || sent_at > e.at) r->bad = true;
    if (newer >= SIGNALS_ENDED_MAX && e.slot > 0) r->bad = true;
    if (r->bad || ended_is_over(m, &e, newer)) {
        r->bad = true;
        return;
    }
    e.kind = kind & 15U;
    e.state = state & 15U;
    *after = e.at;
    ended_add(m, &e);
}

#define BOX_BYTES_MIN 15
#define ENDED_BYTES   64

void signals_load(struct machine *m, struct reader *r)
{
    CHECK(m->signals.boxes_used == 0 && m->signals.ended_len == 0);
    uint32_t boxes = read_u32(r);
    uint64_t seq = 0;
    if (boxes > r->left / BOX_BYTES_MIN) r->bad = true;
    for (uint32_t i = 0; i < boxes && reader_ok(r); i++)
        seq = load_box(m, r, seq);
    uint32_t ended = read_u32(r);
    int64_t at = INT64_MIN;
    if (ended > SIGNALS_KNOWN_MAX - m->signals.pending || ended > r->left / ENDED_BYTES)
        r->bad = true;
    for (uint32_t i = 0; i < ended && reader_ok(r); i++)
        load_ended(m, r, ended - 1 - i, &at);
    m->signals.ends = (struct signal_ends){0};
}

static void check_box(const struct machine *m, uint32_t b, uint32_t *rows, uint32_t *pending)
{
    const struct signals *t = &m->signals;
    const struct signal_box *box = &t->boxes[b];
    uint32_t last = 0, number = 0, count = 0, waiting = 0;
    bool running;
    CHECK(is_unfinished(state_of(m, box->seq, &running)));
    CHECK(map_find(&t->by_seq, box->seq) == b && (box->number > 0 || box->progress_slot > 0));
    CHECK(box->progress_slot == 0 || running);
    for (uint32_t s = box->first; s; s = t->rows[s].next) {
        const struct signal *row = &t->rows[s];
        CHECK(row->box == b && row->number > number && row->number <= box->number);
        CHECK(signal_ok(m, row, number, running));
        CHECK(!running || row->deliveries > 0);
        CHECK(heap_has(&t->timers, s) == (row->kind != SIGNAL_INTERRUPT));
        number = row->number;
        waiting += !row->settled;
        last = s;
        count++;
    }
    CHECK(box->last == last && box->rows == count && box->waiting == waiting);
    CHECK(count <= SIGNALS_OF_MESSAGE_MAX);
    *rows += count;
    *pending += waiting;
}

// An interrupt limits the deadline of its lock.
static void check_limit(const struct machine *m, uint64_t seq)
{
    const struct signal *in = interrupt_of(m, seq);
    if (!in) return;
    const struct msg *msg = msg_at(m, map_find(&m->by_seq, seq));
    CHECK(msg->state == STATE_LOCKED && lock_of(m, msg)->deadline <= interrupt_limit(m, seq));
}

// Every row is in the list of its id, and each list is in its map once.
static void check_same(const struct machine *m)
{
    const struct signals *t = &m->signals;
    uint64_t lists = 0, n, newest = 0;
    for (uint32_t s = 1; s < t->len; s++) {
        const struct signal *row = &t->rows[s];
        if (!row->box) continue;
        lists += row->same_prev == 0;
        CHECK(row->same_prev ? t->rows[row->same_prev].same_next == s
                             : signal_same_first(m, &row->id) == s);
        CHECK(!row->same_next || t->rows[row->same_next].same_prev == s);
    }
    CHECK(lists == t->by_id.len);
    for (uint64_t at = t->ended_first; at < t->ended_first + t->ended_len; at++) {
        CHECK(ended_same_first(m, &ended_at(m, at)->id, &n) && n >= at);
        newest += n == at;
    }
    CHECK(newest == t->ended_by_id.len);
}

void signals_check(const struct machine *m)
{
    const struct signals *t = &m->signals;
    uint32_t rows = 0, pending = 0, boxes = 0, interrupts = 0;
    for (uint32_t b = 1; b < t->boxes_len; b++) {
        if (!t->boxes[b].seq) continue;
        check_box(m, b, &rows, &pending);
        check_limit(m, t->boxes[b].seq);
        boxes++;
    }
    for (uint32_t s = 1; s < t->len; s++)
        interrupts += t->rows[s].box && t->rows[s].kind == SIGNAL_INTERRUPT;
    CHECK(boxes == t->boxes_used && rows == t->used && pending == t->pending);
    CHECK(t->timers.len == t->used - interrupts && t->by_seq.len == t->boxes_used);
    check_same(m);
    for (uint32_t s = t->free; s; s = t->rows[s].next)
        rows++;
    CHECK(t->len == 0 || rows == t->len - 1);
    CHECK(t->pending + t->ended_len <= SIGNALS_KNOWN_MAX);
    for (uint64_t n = t->ended_first; n < t->ended_first + t->ended_len; n++) {
        uint64_t newer = t->ended_first + t->ended_len - 1 - n;
        CHECK(!ended_is_over(m, ended_at(m, n), newer));
        CHECK(newer < SIGNALS_ENDED_MAX || ended_at(m, n)->slot == 0);
        CHECK(n == t->ended_first || ended_at(m, n - 1)->at <= ended_at(m, n)->at);
    }
}

uint64_t signals_marks(const struct machine *m)
{
    const struct signals *t = &m->signals;
    uint64_t marks = t->used;
    for (uint32_t b = 1; b < t->boxes_len; b++)
        marks += t->boxes[b].seq && t->boxes[b].progress_slot;
    for (uint64_t n = t->ended_first; n < t->ended_first + t->ended_len; n++)
        marks += ended_at(m, n)->slot != 0;
    CHECK(marks <= (uint64_t)t->used + t->boxes_used + t->ended_len);
    return marks;
}
