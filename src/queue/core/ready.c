// SPDX-License-Identifier: Apache-2.0
// Which messages can be delivered, and in which order.
//
// The backlog. A plain message has no record: it was ready when it was sent, has priority 0, and
// has no group if the queue is strict. It is a number in a range {seq, count, slot, skip, slots}. A
// range says where all its bytes are: walk the journal's entries forward from slot, skip `skip`
// messages, and the next count messages are seq, seq + 1, ... This holds because only the message
// that directly follows the last one in the journal extends a range. These end a range:
//   - Any other message in the journal: a refused one, one with a record. A redrive does too,
//   because
//     it takes a number without carrying a message (backlog_break).
//   - A slot that the machine did not get (void), or an entry without ops (machine.c).
//   - A message taken from the end, because its number is no longer the last. A message taken from
//     the front moves seq and skip on together.
//   - PLACE_SPAN slots, so that a reader never walks further than that.
// Ranges are in a ring by seq and are used from either end: fifo and lifo cost the same for any
// backlog.
//
// READY records are in a heap by (priority, seq). The next message is the better of the heap's top
// and the end of the backlog. Records that only some workers may get are in lanes (ready_for.c).
//
// Strict queues. Messages are ordered within their scope (group). A delivered message keeps its
// scope until it is finished: over retries, expiry, release and tickets. So a scope offers at most
// one message: the opened one when it is READY again, else its oldest (fifo) or newest (lifo).
// Messages without a group are one scope, and the rest of that scope is the backlog.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "queue/core/record_layouts.h"
#include "queue/tables/registry.h"

static struct range *range_at(const struct backlog *b, size_t index)
{
    return RING_AT(&b->ring, b->rows, (uint32_t)index);
}

const struct range *backlog_at(const struct machine *m, size_t index)
{
    return range_at(&m->backlog, index);
}

static inline uint64_t range_hash(const struct range *r)
{
    return layout_flat_hash(&range_in_line, 0, r);
}

void backlog_push(struct machine *m, const struct range *range)
{
    struct backlog *b = &m->backlog;
    CHECK(b->ring.len == 0 ||
          range_at(b, b->ring.len - 1)->seq + range_at(b, b->ring.len - 1)->count <= range->seq);
    CHECK(range->count > 0 && range->slots < PLACE_SPAN);
    *RING_ADD(&b->ring, b->rows) = *range;
    m->digest += range_hash(range);
}

// skip: the messages before this one in its entry.
void backlog_add(struct machine *m, uint64_t seq, uint32_t skip)
{
    struct backlog *b = &m->backlog;
    struct range *last = b->ring.len > 0 ? range_at(b, b->ring.len - 1) : NULL;
    if (b->open && last && m->slot - last->slot < PLACE_SPAN && last->count < UINT32_MAX / 2) {
        CHECK(last->seq + last->count == seq);
        m->digest -= range_hash(last);
        last->count++;
        last->slots = (uint32_t)(m->slot - last->slot);
        m->digest += range_hash(last);
        return;
    }
    backlog_push(m, &(struct range){.seq = seq, .slot = m->slot, .count = 1, .skip = skip});
    b->open = true;
}

void backlog_break(struct machine *m)
{
    m->backlog.open = false;
}

void backlog_clear(struct machine *m)
{
    struct backlog *b = &m->backlog;
    for (size_t i = 0; i < b->ring.len; i++)
        m->digest -= range_hash(range_at(b, i));
    memory_free(b->rows);
    *b = (struct backlog){0};
}

// Returns the index of the first range that ends after seq.
static size_t backlog_index(const struct backlog *b, uint64_t seq)
{
    size_t lo = 0, hi = b->ring.len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct range *r = range_at(b, mid);
        if (r->seq + r->count <= seq) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    CHECK(lo == hi && lo <= b->ring.len);
    return lo;
}

const struct range *backlog_find(const struct machine *m, uint64_t seq)
{
    const struct backlog *b = &m->backlog;
    size_t at = backlog_index(b, seq);
    if (at == b->ring.len || range_at(b, at)->seq > seq) return NULL;
    CHECK(seq - range_at(b, at)->seq < range_at(b, at)->count);
    return range_at(b, at);
}

// Makes room for a range after this one, or takes this one out.
static void backlog_shift(struct backlog *b, size_t at, bool insert)
{
    CHECK(at < b->ring.len);
    if (insert) {
        (void)RING_ADD(&b->ring, b->rows);
        for (size_t i = b->ring.len - 1; i > at + 1; i--)
            *range_at(b, i) = *range_at(b, i - 1);
        return;
    }
    for (size_t i = at; i + 1 < b->ring.len; i++)
        *range_at(b, i) = *range_at(b, i + 1);
    b->ring.len--;
}

// The range is cut in two. Both parts still begin their walk at the slot of the whole.
static struct place backlog_remove(struct machine *m, uint64_t seq)
{
    struct backlog *b = &m->backlog;
    size_t at = backlog_index(b, seq);
    struct range whole = *range_at(b, at), before = whole, after = whole;
    CHECK(at < b->ring.len && whole.seq <= seq);
    uint32_t offset = (uint32_t)(seq - whole.seq);
    before.count = offset;
    after.seq = seq + 1;
    after.skip += offset + 1;
    after.count -= offset + 1;
    if (at + 1 == b->ring.len && after.count == 0) b->open = false;
    m->digest -= range_hash(&whole);
    if (before.count > 0 && after.count > 0) backlog_shift(b, at, true);
    if (before.count == 0 && after.count == 0) backlog_shift(b, at, false);
    if (before.count > 0) {
        *range_at(b, at++) = before;
        m->digest += range_hash(&before);
    }
    if (after.count > 0) {
        *range_at(b, at) = after;
        m->digest += range_hash(&after);
    }
    return (struct place){whole.slot, whole.skip + offset};
}

static bool is_lifo(const struct machine *m)
{
    return m->config.ordering_mode == ORDERING_LIFO;
}

static uint64_t backlog_next(const struct machine *m)
{
    const struct backlog *b = &m->backlog;
    if (b->ring.len == 0) return 0;
    if (is_strict(m) && m->scopes[SCOPE_UNGROUPED].opened && !MUTANT(ORDER_OFF)) return 0;
    if (!is_lifo(m)) return range_at(b, 0)->seq;
    const struct range *last = range_at(b, b->ring.len - 1);
    CHECK(last->seq > 0 && last->count > 0);
    return last->seq + last->count - 1;
}

static struct place backlog_take(struct machine *m)
{
    struct backlog *b = &m->backlog;
    CHECK(b->ring.len > 0);
    struct range *r = range_at(b, is_lifo(m) ? b->ring.len - 1 : 0);
    struct place place = {r->slot, r->skip};
    CHECK(r->count > 0);
    m->digest -= range_hash(r);
    r->count--;
    if (is_lifo(m)) {
        place.skip += r->count;
        b->open = false;
    } else {
        r->seq++;
        r->skip++;
    }
    if (r->count > 0) {
        m->digest += range_hash(r);
        return place;
    }
    if (is_lifo(m))
        b->ring.len--;
    else
        ring_drop(&b->ring, 1);
    if (b->ring.len == 0) b->open = false;
    return place;
}

static bool seq_before(const struct machine *m, uint64_t a, uint64_t b)
{
    CHECK(a != b); // a message has a record or is in the backlog, not both
    return is_lifo(m) ? a > b : a < b;
}

// The first record of the messages without a group comes after the next message of the backlog. A
// record in the plain heap may be on offer all the same: a worker that gets it gets the backlog
// first. A record with a requirement may not: a worker with the labels must not overtake.
bool backlog_blocks(const struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    if (msg->scope != SCOPE_UNGROUPED || !msg->lane || (msg->flags & MSG_OPENED)) return false;
    uint64_t seq = backlog_next(m);
    return seq && seq_before(m, seq, msg->seq);
}

// Returns the message of the scope that can be delivered.
static uint32_t scope_best(const struct machine *m, const struct scope *s)
{
    CHECK(!s->opened || (msg_at(m, s->opened)->flags & MSG_OPENED));
    if (s->opened && !MUTANT(ORDER_OFF))
        return msg_at(m, s->opened)->state == STATE_READY ? s->opened : 0;
    uint32_t h = is_lifo(m) ? s->last : s->first;
    while (h && msg_at(m, h)->state != STATE_READY) // only if the order check is off
        h = is_lifo(m) ? msg_at(m, h)->prev : msg_at(m, h)->next;
    return h && backlog_blocks(m, h) ? 0 : h;
}

void scope_refresh(struct machine *m, uint32_t scope)
{
    struct scope *s = &m->scopes[scope];
    CHECK(scope >= SCOPE_UNGROUPED && scope < m->scopes_len);
    uint32_t best = scope_best(m, s);
    if (best == s->offered) return;
    if (s->offered) offer_remove(m, s->offered);
    s->offered = best;
    if (!best) return;
    CHECK(msg_at(m, best)->state == STATE_READY && msg_at(m, best)->scope == scope);
    offer_push(m, best);
}

// Inserts the record by seq, nearly always at one of the ends.
void scope_enter(struct machine *m, uint32_t h)
{
    struct msg *msg = msg_at(m, h);
    struct scope *s = &m->scopes[msg->scope];
    uint32_t before = s->last;
    CHECK(s->refs > 0 && !s->first == !s->last);
    if (s->first && msg->seq < msg_at(m, s->first)->seq) before = 0;
    while (before && msg_at(m, before)->seq > msg->seq)
        before = msg_at(m, before)->prev;
    CHECK(msg->scope && (!before || msg_at(m, before)->seq < msg->seq));
    msg->prev = before;
    msg->next = before ? msg_at(m, before)->next : s->first;
    *(before ? &msg_at(m, before)->next : &s->first) = h;
    *(msg->next ? &msg_at(m, msg->next)->prev : &s->last) = h;
}

void scope_leave(struct machine *m, uint32_t h)
{
    struct msg *msg = msg_at(m, h);
    if (!msg->scope) return;
    struct scope *s = &m->scopes[msg->scope];
    CHECK(s->first && s->last);
    CHECK(msg->prev ? msg_at(m, msg->prev)->next == h : s->first == h);
    CHECK(msg->next ? msg_at(m, msg->next)->prev == h : s->last == h);
    *(msg->prev ? &msg_at(m, msg->prev)->next : &s->first) = msg->next;
    *(msg->next ? &msg_at(m, msg->next)->prev : &s->last) = msg->prev;
    msg->prev = msg->next = 0;
    if (s->opened == h) s->opened = 0;
    msg->flags &= (uint8_t)~MSG_OPENED;
    scope_refresh(m, msg->scope);
}

int64_t order_key(const struct msg *msg)
{
    CHECK(msg->priority <= MESSAGE_PRIORITY_MAX);
    return -(int64_t)msg->priority;
}

uint64_t order_tie(const struct machine *m, const struct msg *msg)
{
    return is_lifo(m) ? ~msg->seq : msg->seq;
}

void ready_offer(struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    CHECK(msg->state == STATE_READY);
    if (msg->scope) {
        scope_refresh(m, msg->scope);
    } else {
        offer_push(m, h);
    }
}

void ready_withdraw(struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    CHECK(msg->state == STATE_READY);
    if (!offer_has(m, h)) return; // its scope offers another message
    offer_remove(m, h);
    CHECK(!msg->scope || m->scopes[msg->scope].offered == h);
    if (msg->scope) m->scopes[msg->scope].offered = 0;
}

bool heap_row_before(const struct heap_row *a, const struct heap_row *b)
{
    return a->key != b->key ? a->key < b->key : a->tie < b->tie;
}

// In a strict queue the backlog is one scope. It may be bound to a row, and a record of the scope
// may come first.
static uint64_t strict_backlog(const struct machine *m, uint64_t seq, uint32_t row)
{
    const struct scope *s = &m->scopes[SCOPE_UNGROUPED];
    uint32_t bound = has_affinity(m) ? scope_row(m, s) : 0;
    if (bound && bound != row) return 0;
    return s->offered && seq_before(m, msg_at(m, s->offered)->seq, seq) ? 0 : seq;
}

// The next message of the backlog within reach; 0: none.
static inline uint64_t backlog_reached(const struct machine *m, uint32_t row)
{
    uint64_t seq = backlog_next(m);
    return seq && is_strict(m) ? strict_backlog(m, seq, row) : seq;
}

bool backlog_head(const struct machine *m, uint32_t row, struct heap_row *out)
{
    uint64_t seq = backlog_reached(m, row);
    *out = (struct heap_row){0, is_lifo(m) ? ~seq : seq, 0};
    return seq != 0;
}

// The best record in the lanes within reach, if it is better than `best`, which may be NULL.
static const struct heap_row *lanes_best(const struct machine *m, const struct reach_lanes *reach,
                                         const struct heap_row *best)
{
    uint64_t lanes = m->lanes_ready & (MUTANT(REQUIRES_OFF) ? UINT64_MAX : reach->lanes);
    for (uint32_t lane = 1; lanes; lane++, lanes >>= 1) {
        if (!(lanes & 1)) continue;
        const struct heap_row *top = heap_top(&m->requirements[lane].ready);
        CHECK(top);
        if (!best || heap_row_before(top, best)) best = top;
    }
    const struct heap_row *own =
        reach->row && m->bound_ready > 0 ? heap_top(&m->workers[reach->row].row->ready) : NULL;
    return own && (!best || heap_row_before(own, best)) ? own : best;
}

static inline const struct heap_row *record_best(const struct machine *m,
                                                 const struct reach_lanes *reach)
{
    const struct heap_row *top = heap_top(&m->ready);
    return (m->lanes_ready | m->bound_ready) == 0 ? top : lanes_best(m, reach, top);
}

static bool backlog_first(const struct machine *m, const struct heap_row *top, uint64_t seq)
{
    CHECK(seq > 0);
    if (!top) return true;
    if (top->key < 0) return false; // a higher priority
    return (is_lifo(m) ? ~seq : seq) < top->tie;
}

// A delivered message keeps its scope until it is finished.
static void scope_open(struct machine *m, uint32_t h)
{
    struct msg *msg = msg_at(m, h);
    CHECK(msg->state == STATE_READY);
    if (!msg->scope) return;
    msg->flags |= MSG_OPENED;
    m->scopes[msg->scope].opened = h;
}

struct msg_edit ready_take(struct machine *m, const struct reach_lanes *reach)
{
    const struct heap_row *top = record_best(m, reach);
    uint64_t seq = backlog_reached(m, reach->row);
    if (!top && !seq) return (struct msg_edit){m, 0};
    struct msg_edit edit;
    if (seq && backlog_first(m, top, seq)) {
        edit = msg_new(m, seq, backlog_take(m), 0);
        if (msg_at(m, edit.h)->scope) scope_enter(m, edit.h);
    } else {
        edit = msg_edit(m, top->ref);
        ready_withdraw(m, edit.h);
    }
    scope_open(m, edit.h);
    return edit;
}

uint32_t ready_record(struct machine *m, uint64_t seq)
{
    uint32_t h = map_find(&m->by_seq, seq);
    if (h != MAP_NONE) return h;
    if (!backlog_find(m, seq)) return 0;
    CLEANUP(msg_edit_end) struct msg_edit edit = msg_new(m, seq, backlog_remove(m, seq), 0);
    if (msg_at(m, edit.h)->scope) scope_enter(m, edit.h);
    ready_offer(m, edit.h);
    CHECK(msg_at(m, edit.h)->state == STATE_READY);
    return edit.h;
}

// Whether the order of a strict queue lets this READY record be delivered now.
static bool has_its_turn(const struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    if (!offer_has(m, h)) return false; // its scope offers another message
    if (msg->scope != SCOPE_UNGROUPED || (msg->flags & MSG_OPENED)) return true;
    uint64_t seq = backlog_next(m);
    return !seq || seq_before(m, msg->seq, seq);
}

struct msg_edit ready_take_chosen(struct machine *m, uint64_t seq)
{
    uint32_t h = seq > 0 && seq < m->seq_next ? ready_record(m, seq) : 0;
    bool ready = h && msg_at(m, h)->state == STATE_READY;
    if (!ready || (!has_its_turn(m, h) && !MUTANT(LOCK_TURN_OFF))) return (struct msg_edit){m, 0};
    struct msg_edit edit = msg_edit(m, h);
    ready_withdraw(m, h);
    scope_open(m, h);
    return edit;
}

bool ready_any(const struct machine *m, const struct reach_lanes *reach)
{
    return record_best(m, reach) || backlog_reached(m, reach->row);
}

static void heap_reorder(struct machine *m, struct heap *heap)
{
    struct heap old = *heap;
    heap_init(heap);
    for (size_t i = 0; i < old.len; i++) {
        const struct msg *msg = msg_at(m, old.rows[i].ref);
        heap_push(heap, order_key(msg), order_tie(m, msg), old.rows[i].ref);
    }
    CHECK(heap->len == old.len);
    heap_done(&old);
}

void ready_rebuild(struct machine *m)
{
    CHECK(m->edited == 0); // a record that is being edited may be in no heap
    heap_reorder(m, &m->ready);
    heap_reorder(m, &m->open);
    lanes_reorder(m);
    for (uint32_t s = SCOPE_UNGROUPED; s < m->scopes_len; s++)
        if (m->scopes[s].refs > 0) scope_refresh(m, s);
}
