// SPDX-License-Identifier: Apache-2.0
// Dead messages: DEAD in place, or OUTBOUND to the dead-letter queue. The outbox is ordered by
// number. The dead-letter mover commits each message in the destination with OP_ARRIVE, then
// commits OP_OUTBOX in the source. The destination keeps the highest number per source, so a letter
// that is moved twice arrives once.
#include "base/array.h"
#include "base/check.h"
#include "base/mutant.h"
#include "queue/core/state.h"

#include <string.h>

void dead_list_link(struct machine *m, uint32_t h)
{
    struct msg *msg = msg_at(m, h);
    bool dead = msg->state == STATE_DEAD;
    uint32_t *first = dead ? &m->dead_first : &m->outbox_first;
    uint32_t *last = dead ? &m->dead_last : &m->outbox_last;
    CHECK(dead || msg->state == STATE_OUTBOUND);
    CHECK(!*first == !*last);
    CHECK(!*last || lock_of(m, msg_at(m, *last))->number <= lock_of(m, msg)->number);
    msg->prev = *last;
    msg->next = 0;
    *(*last ? &msg_at(m, *last)->next : first) = h;
    *last = h;
}

void dead_list_unlink(struct machine *m, uint32_t h)
{
    struct msg *msg = msg_at(m, h);
    bool dead = msg->state == STATE_DEAD;
    uint32_t *first = dead ? &m->dead_first : &m->outbox_first;
    uint32_t *last = dead ? &m->dead_last : &m->outbox_last;
    CHECK(dead || msg->state == STATE_OUTBOUND);
    CHECK(*first && *last);
    CHECK(msg->prev ? msg_at(m, msg->prev)->next == h : *first == h);
    CHECK(msg->next ? msg_at(m, msg->next)->prev == h : *last == h);
    *(msg->prev ? &msg_at(m, msg->prev)->next : first) = msg->next;
    *(msg->next ? &msg_at(m, msg->next)->prev : last) = msg->prev;
    msg->next = msg->prev = 0;
}

void dead_list_add(struct machine *m, uint32_t h, enum message_state state, enum dead_cause cause,
                   struct op_place why)
{
    CHECK(state == STATE_DEAD || state == STATE_OUTBOUND);
    CHECK(m->edited == h && msg_at(m, h)->lock);
    scope_leave(m, h);
    msg_move(m, h, state);
    *lock_of(m, msg_at(m, h)) = (struct lock){
        .number = ++m->deaths,
        .died_at = m->now,
        .reason_slot = why.slot,
        .reason_op = why.op,
        .cause = (uint8_t)cause,
    };
    if (why.slot) msg_mark(m, why.slot);
    dead_list_link(m, h);
    if (m->signals.boxes_used > 0) signals_close(m, msg_at(m, h)->seq);
    workflow_note_end(m, msg_at(m, h)->seq, WORKFLOW_DIED);
}

static int source_compare(const struct letter_source *a, const struct queue_id *queue,
                          uint32_t shard)
{
    int order = memcmp(a->queue.bytes, queue->bytes, sizeof queue->bytes);
    return order != 0 ? order : (a->shard > shard) - (a->shard < shard);
}

#define LAYOUT_OF struct letter_source
static const struct layout_field source_fields[] = {FIXED(queue), U32(shard), U64(number)};
const struct layout letter_source_layout = LAYOUT(source_fields);
#undef LAYOUT_OF

static uint64_t source_hash(const struct letter_source *s)
{
    return layout_flat_hash(&letter_source_layout, 0, s);
}

// Returns the row, found or new, with number 0. Rows are sorted, so that snapshots have one order.
struct letter_source *source_need(struct machine *m, const struct queue_id *queue, uint32_t shard)
{
    size_t lo = 0, hi = m->sources_len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (source_compare(&m->sources[mid], queue, shard) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    if (lo < m->sources_len && source_compare(&m->sources[lo], queue, shard) == 0)
        return &m->sources[lo];
    CHECK(lo == 0 || source_compare(&m->sources[lo - 1], queue, shard) < 0);
    *ARRAY_INSERT(m->sources, m->sources_len, m->sources_cap, lo) =
        (struct letter_source){.queue = *queue, .shard = shard};
    m->digest += source_hash(&m->sources[lo]);
    return &m->sources[lo];
}

void source_raise(struct machine *m, struct letter_source *s, uint64_t number)
{
    m->digest -= source_hash(s);
    CHECK(s >= m->sources && s < m->sources + m->sources_len);
    if (number > s->number) s->number = number;
    m->digest += source_hash(s);
}

static bool source_load(struct machine *m, void *from)
{
    const struct letter_source *row = from;
    source_raise(m, source_need(m, &row->queue, row->shard), row->number);
    return true;
}

const struct row_table source_rows = {.layout = &letter_source_layout,
                                      .count_bytes = 8,
                                      ROWS_OF_ARRAY(sources, sources_len),
                                      .add = source_load};

enum reason apply_arrive(struct machine *m, struct bytes payload)
{
    struct op_arrive op;
    if (arrive_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    uint32_t skip = m->ordinal++;
    enum reason reason = m->deleted ? REASON_DELETED : REASON_NONE;
    struct letter_source *source = NULL;
    if (reason == REASON_NONE) {
        uint32_t shard = MUTANT(SOURCE_SHARD_OFF) ? 0 : op.source_shard;
        source = source_need(m, &op.source, shard);
        if (op.number <= source->number && !MUTANT(OUTBOX_MARK_OFF)) reason = REASON_ARRIVED_BEFORE;
    }
    // The copy of the body may be deleted already. The mover sends the letter again with a new
    // copy.
    bool stale = body_is_stale(m, &op.message.reference) && !MUTANT(LETTER_STALE_OFF);
    if (reason == REASON_NONE && stale) reason = REASON_BODY_STALE;
    if (reason != REASON_NONE) {
        backlog_break(m);
        result_begin(&m->result, reason);
        buf_put_u64(&m->result, 0);
        return reason;
    }
    source_raise(m, source, op.number);
    CHECK(source->number >= op.number); // the letter arrives once
    if (is_strict(m)) op.message.priority = 0;
    uint64_t seq = message_enter(m, &op.message, 0, skip, false);
    CHECK(seq + 1 == m->seq_next);
    emit_origin(m, &op);
    result_begin(&m->result, REASON_NONE);
    buf_put_u64(&m->result, seq);
    return REASON_NONE;
}

enum reason apply_outbox(struct machine *m, struct bytes payload)
{
    struct op_outbox op;
    if (outbox_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    uint64_t moved = 0;
    while (m->outbox_first) {
        uint32_t h = m->outbox_first;
        const struct lock *dead_entry = lock_of(m, msg_at(m, h));
        CHECK(msg_at(m, h)->state == STATE_OUTBOUND);
        if (dead_entry->number > op.upto) break;
        (void)emit(m, EVENT_MESSAGE_MOVED, h);
        CLEANUP(msg_edit_end) struct msg_edit edit = msg_edit(m, h);
        dead_list_unlink(m, h);
        if (dead_entry->reason_slot) msg_unmark(m, dead_entry->reason_slot);
        msg_move(m, h, STATE_MOVED);
        msg_free(m, h);
        moved++;
    }
    CHECK(m->outbox_first || m->counts[STATE_OUTBOUND] == 0);
    result_begin(&m->result, REASON_NONE);
    buf_put_u64(&m->result, moved);
    return REASON_NONE;
}
