// SPDX-License-Identifier: Apache-2.0
// Signals in a snapshot, and their invariants. Boxes are saved by message, and their signals by
// number. So equal states have equal bytes.
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

static void save_box(const struct machine *m, const struct signal_box *box, struct buf *out)
{
    const struct signals *t = &m->signals;
    CHECK(box->rows <= SIGNALS_OF_MESSAGE_MAX);
    layout_put(&signal_box_layout, out, box);
    buf_put_u16(out, box->rows);
    for (uint32_t s = box->first; s; s = t->rows[s].next) {
        struct stored_signal row = signal_stored(&t->rows[s]);
        layout_put(&pending_signal_layout, out, &row);
    }
}

void signals_save(const struct machine *m, struct buf *out)
{
    const struct signals *t = &m->signals;
    struct numbered_row *order = memory_new((t->boxes_used + (size_t)1) * sizeof *order);
    size_t len = 0;
    for (uint32_t b = 1; b < t->boxes_len; b++)
        if (t->boxes[b].seq) order[len++] = (struct numbered_row){t->boxes[b].seq, b};
    CHECK(len == t->boxes_used);
    rows_sort(order, len, sizeof *order);
    buf_put_u32(out, t->boxes_used);
    for (size_t i = 0; i < len; i++)
        save_box(m, &t->boxes[order[i].at], out);
    memory_free(order);
    buf_put_u32(out, t->ended_ring.len);
    for (uint32_t i = 0; i < t->ended_ring.len; i++) {
        struct stored_ended_signal row = ended_stored(ended_at(m, t->ended_first + i));
        layout_put(&ended_signal_layout, out, &row);
    }
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
    struct stored_signal row;
    if (!layout_read(&pending_signal_layout, r, &row)) return 0;
    struct signal s = {.id = row.id,
                       .slot = row.slot & SIGNAL_SLOT_MAX,
                       .op = row.op,
                       .sent_at = SIGNAL_TIME(row.sent_at),
                       .due = row.due,
                       .number = row.number,
                       .deliveries = row.deliveries,
                       .kind = row.kind & 15U,
                       .then = row.then & 15U,
                       .once = row.flags & 1U,
                       .settled = row.flags >> 1 & 1U};
    if (!request_id_set(&row.id) || !time_ok(row.sent_at)) r->bad = true;
    if (r->bad || !signal_ok(m, &s, after, running) || s.number > m->signals.boxes[b].number) {
        r->bad = true;
        return 0;
    }
    CHECK(m->signals.used < SIGNALS_OF_SHARD_MAX);
    (void)signal_add(m, b, &s);
    return s.number;
}

static uint64_t load_box(struct machine *m, struct reader *r, uint64_t after)
{
    struct signal_box row = {0};
    bool running;
    if (!layout_read(&signal_box_layout, r, &row)) return 0;
    if (row.seq <= after || row.seq >= m->seq_next || (row.number == 0 && !row.reported))
        r->bad = true;
    if (r->bad || !is_unfinished(state_of(m, row.seq, &running))) {
        r->bad = true;
        return 0;
    }
    if (row.reported && (!running || row.progress_slot > m->slot || row.progress_at > m->now))
        r->bad = true;
    uint16_t rows = read_u16(r);
    if (rows > SIGNALS_OF_MESSAGE_MAX || rows > SIGNALS_OF_SHARD_MAX - m->signals.used)
        r->bad = true;
    if (r->bad) return 0;
    uint32_t b = signal_box_need(m, row.seq), last = 0;
    struct signal_box *box = &m->signals.boxes[b];
    CHECK(!box->reported && box->rows == 0);
    m->digest += signal_box_hash(&row) - signal_box_hash(box);
    *box = row;
    if (row.reported) msg_mark(m, row.progress_slot);
    for (uint16_t i = 0; i < rows && reader_ok(r); i++)
        last = load_signal(m, b, r, last, running);
    CHECK(r->bad || m->signals.boxes[b].rows == rows);
    return row.seq;
}

static void load_ended(struct machine *m, struct reader *r, uint32_t newer, int64_t *after)
{
    struct stored_ended_signal row;
    if (!layout_read(&ended_signal_layout, r, &row)) return;
    if (!request_id_set(&row.id) || !time_ok(row.sent_at)) r->bad = true;
    if (row.state == SIGNAL_PENDING || row.seq >= m->seq_next || row.slot > m->slot) r->bad = true;
    if (row.at < *after || row.at > m->now || row.sent_at > row.at) r->bad = true;
    if (newer >= SIGNALS_ENDED_MAX && row.slot > 0) r->bad = true;
    struct ended_signal e = {.id = row.id,
                             .seq = row.seq,
                             .sent_at = SIGNAL_TIME(row.sent_at),
                             .at = row.at,
                             .slot = row.slot & SIGNAL_SLOT_MAX,
                             .op = row.op,
                             .index = row.index,
                             .number = row.number,
                             .deliveries = row.deliveries,
                             .kind = row.kind & 15U,
                             .state = row.state & 15U};
    if (r->bad || ended_is_over(m, &e, newer)) {
        r->bad = true;
        return;
    }
    *after = e.at;
    ended_add(m, &e);
}

void signals_load(struct machine *m, struct reader *r)
{
    CHECK(m->signals.boxes_used == 0 && m->signals.ended_ring.len == 0);
    uint64_t boxes = rows_count(r, 4, 0, &signal_box_layout), seq = 0;
    for (uint64_t i = 0; i < boxes && reader_ok(r); i++)
        seq = load_box(m, r, seq);
    uint32_t known = SIGNALS_KNOWN_MAX - m->signals.pending;
    uint32_t ended = (uint32_t)rows_count(r, 4, known, &ended_signal_layout);
    int64_t at = INT64_MIN;
    if (known == 0 && ended > 0) r->bad = true;
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
    for (uint64_t at = t->ended_first; at < t->ended_first + t->ended_ring.len; at++) {
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
    CHECK(t->pending + t->ended_ring.len <= SIGNALS_KNOWN_MAX);
    for (uint64_t n = t->ended_first; n < t->ended_first + t->ended_ring.len; n++) {
        uint64_t newer = t->ended_first + t->ended_ring.len - 1 - n;
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
    for (uint64_t n = t->ended_first; n < t->ended_first + t->ended_ring.len; n++)
        marks += ended_at(m, n)->slot != 0;
    CHECK(marks <= (uint64_t)t->used + t->boxes_used + t->ended_ring.len);
    return marks;
}
