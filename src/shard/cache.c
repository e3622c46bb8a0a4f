// SPDX-License-Identifier: Apache-2.0
// Entries in order of arrival, found by slot; the oldest is evicted first. The messages of an entry
// are counted and indexed once, so that a batch of a thousand deliveries does not scan it a
// thousand times. The counts outlive the bytes: to find a message, the cache counts past the
// messages of earlier slots, and those need not all fit at once.
#include "shard/cache.h"

#include "base/check.h"
#include "base/map.h"
#include "base/memory.h"
#include "shard/shard.h"

#include <assert.h>

// The start of a message's bytes.
struct message_place {
    uint32_t op;
    struct reader at;
};

struct cached_entry {
    uint64_t slot;
    struct bytes bytes;
    struct entry entry; // views into bytes
    struct message_place *messages;
    uint32_t messages_len;
};

struct counted_row {
    uint64_t slot; // 0: no count yet
    uint32_t messages;
};

#define COUNTS 1024
static_assert(COUNTS >= PLACE_SPAN, "each slot of one search needs its own row");

struct cache {
    size_t bytes_max;
    size_t bytes;
    struct cached_entry *rows; // a ring
    size_t cap;
    size_t first;
    size_t len;
    struct map by_slot; // to the ring's index
    struct counted_row counts[COUNTS];
};

#define ROW_COST 256 // the overhead of an entry, in bytes

struct cache *cache_new(size_t bytes_max)
{
    struct cache *c = NEW(struct cache);
    c->bytes_max = bytes_max;
    map_init(&c->by_slot);
    return c;
}

static size_t cost(const struct cached_entry *row)
{
    CHECK(row->messages || row->messages_len == 0);
    return row->bytes.len + ROW_COST + row->messages_len * sizeof *row->messages;
}

static void row_done(struct cached_entry *row)
{
    entry_done(&row->entry);
    bytes_free(row->bytes);
    memory_free(row->messages);
}

static void evict(struct cache *c)
{
    CHECK(c->len > 0);
    struct cached_entry *row = &c->rows[c->first];
    CHECK(c->bytes >= cost(row));
    map_remove(&c->by_slot, row->slot, (uint32_t)c->first);
    CHECK(c->by_slot.len == c->len - 1);
    c->bytes -= cost(row);
    row_done(row);
    c->first = (c->first + 1) % c->cap;
    c->len--;
}

void cache_free(struct cache *c)
{
    if (!c) return;
    while (c->len > 0)
        evict(c);
    CHECK(c->bytes == 0 && c->by_slot.len == 0);
    map_done(&c->by_slot);
    memory_free(c->rows);
    memory_free(c);
}

static void cache_ring_grow(struct cache *c)
{
    CHECK(c->len == c->cap);
    size_t cap = c->cap > 0 ? c->cap * 2 : 64;
    struct cached_entry *rows = memory_zeroed(cap, sizeof *rows);
    map_clear(&c->by_slot);
    for (size_t i = 0; i < c->len; i++) {
        rows[i] = c->rows[(c->first + i) % c->cap];
        map_add(&c->by_slot, rows[i].slot, (uint32_t)i);
    }
    CHECK(c->by_slot.len == c->len); // each row has its own slot
    memory_free(c->rows);
    c->rows = rows;
    c->cap = cap;
    c->first = 0;
}

static void index_send(struct cached_entry *row, uint32_t op, struct op_send *send)
{
    CHECK(op < row->entry.ops_len);
    for (uint32_t i = 0; i < send->count; i++) {
        struct message skipped;
        row->messages[row->messages_len++] = (struct message_place){op, send->messages};
        send_next(send, &skipped);
    }
}

static void index_messages(struct cached_entry *row)
{
    uint32_t count = ops_messages(row->entry.ops, row->entry.ops_len);
    row->messages = memory_zeroed(count, sizeof *row->messages);
    for (uint32_t i = 0; i < row->entry.ops_len; i++) {
        const struct op *op = &row->entry.ops[i];
        struct op_send send;
        struct op_arrive arrive;
        if (op->kind == OP_SEND && !send_open(op->payload, &send)) {
            index_send(row, i, &send);
        } else if (op->kind == OP_ARRIVE && !arrive_decode(op->payload, &arrive)) {
            row->messages[row->messages_len++] = (struct message_place){.op = i};
        }
    }
    CHECK(row->messages_len == count);
}

// Whether one of the ops carries a text that may be wanted soon.
static bool has_text(const struct entry *e)
{
    for (size_t i = 0; i < e->ops_len; i++) {
        const struct op *op = &e->ops[i];
        if (op->kind == OP_FAIL || op->kind == OP_SIGNAL || op->kind == OP_SIGNAL_SETTLE)
            return true;
        if (op->kind == OP_CANCEL || outcome_has_extras(op)) return true;
    }
    return false;
}

static void keep_row(struct cache *c, const struct cached_entry *row)
{
    while (c->len > 0 && c->bytes + cost(row) > c->bytes_max)
        evict(c);
    if (c->len == c->cap) cache_ring_grow(c);
    CHECK(c->len < c->cap);
    CHECK(map_find(&c->by_slot, row->slot) == MAP_NONE);
    size_t at = (c->first + c->len) % c->cap;
    c->rows[at] = *row;
    c->len++;
    c->bytes += cost(row);
    map_add(&c->by_slot, row->slot, (uint32_t)at);
}

enum err cache_add(struct cache *c, const struct journal_id *id, uint64_t slot, struct bytes bytes)
{
    if (map_find(&c->by_slot, slot) != MAP_NONE) return ERR_OK;
    struct cached_entry row = {.slot = slot, .bytes = bytes_copy(bytes)};
    CHECK(c->by_slot.len == c->len && c->len <= c->cap);
    const char *why;
    enum err err = entry_decode(row.bytes, &row.entry, &why);
    bool ours = !err && row.entry.slot == slot && journal_id_equal(&row.entry.id, id);
    if (!ours) {
        if (!err) entry_done(&row.entry);
        bytes_free(row.bytes);
        return ERR_CORRUPT;
    }
    CHECK(slot > 0); // no entry has slot 0
    index_messages(&row);
    c->counts[slot % COUNTS] = (struct counted_row){slot, row.messages_len};
    if (row.messages_len > 0 || has_text(&row.entry)) {
        keep_row(c, &row);
    } else {
        row_done(&row);
    }
    return ERR_OK;
}

static struct cached_entry *find_slot(const struct cache *c, uint64_t slot)
{
    uint32_t at = map_find(&c->by_slot, slot);
    CHECK(at == MAP_NONE || (at < c->cap && c->rows[at].slot == slot));
    return at == MAP_NONE ? NULL : &c->rows[at];
}

static void open_message(const struct cached_entry *row, uint32_t index, struct cached_message *out)
{
    CHECK(index < row->messages_len);
    const struct message_place *m = &row->messages[index];
    CHECK(m->op < row->entry.ops_len);
    const struct op *op = &row->entry.ops[m->op];
    *out = (struct cached_message){.slot = row->slot, .op = op, .sent_at = row->entry.time.lo};
    if (op->kind == OP_ARRIVE) {
        struct op_arrive arrive;
        CHECK(!arrive_decode(op->payload, &arrive)); // it succeeded when the entry was indexed
        out->message = arrive.message;
    } else {
        struct op_send send = {.count = 1, .messages = m->at};
        send_next(&send, &out->message);
    }
}

enum cache_answer cache_find(struct cache *c, struct place place, struct cached_message *out,
                             uint64_t *missing)
{
    uint32_t skip = place.skip;
    for (uint64_t slot = place.slot; slot < place.slot + PLACE_SPAN; slot++) {
        const struct counted_row *counted = &c->counts[slot % COUNTS];
        if (counted->slot == slot && skip >= counted->messages) {
            skip -= counted->messages;
            continue;
        }
        const struct cached_entry *row = find_slot(c, slot);
        if (!row) {
            *missing = slot;
            return CACHE_MISSING;
        }
        if (skip < row->messages_len) {
            open_message(row, skip, out);
            return CACHE_FOUND;
        }
        skip -= row->messages_len;
    }
    return CACHE_NOWHERE;
}

static bool signal_text(struct bytes payload, struct bytes *out)
{
    struct op_signal signal;
    if (signal_decode(payload, &signal)) return false;
    *out = signal.kind == SIGNAL_INTERRUPT ? signal.reason : signal.payload;
    return true;
}

static bool answer_text(struct bytes payload, uint32_t index, struct bytes *out)
{
    struct op_signal_settle settle;
    struct signal_answer row;
    if (signal_settle_decode(payload, &settle) || index >= settle.count) return false;
    struct reader rows = reader_of(settle.rows);
    for (uint32_t i = 0; i <= index; i++)
        if (!signal_answer_next(&rows, &row)) return false;
    *out = row.answer;
    return true;
}

static bool outcome_text(const struct op *op, const struct reason_place *at, struct bytes *out)
{
    struct op_outcome outcome;
    if (outcome_decode(op->payload, &outcome)) return false;
    if (op->kind == OP_FAIL) *out = outcome.reason;
    if (op->kind == OP_FAIL) return true;
    if (at->index >= outcome.count) return false;
    struct outcome_extra extra = outcome_extra_of(&outcome, at->index);
    *out = op->kind == OP_RENEW ? extra.text : at->type ? extra.content_type : extra.result;
    return true;
}

enum cache_answer cache_reason(struct cache *c, const struct reason_place *at, struct bytes *out)
{
    const struct cached_entry *row = find_slot(c, at->slot);
    if (!row) return CACHE_MISSING;
    if (at->op >= row->entry.ops_len) return CACHE_NOWHERE;
    const struct op *op = &row->entry.ops[at->op];
    struct op_cancel cancel;
    bool found = false;
    switch (op->kind) {
    case OP_FAIL:
    case OP_ACK:
    case OP_RENEW:
        found = outcome_text(op, at, out);
        break;
    case OP_SIGNAL:
        found = signal_text(op->payload, out);
        break;
    case OP_SIGNAL_SETTLE:
        found = answer_text(op->payload, at->index, out);
        break;
    case OP_CANCEL:
        found = !cancel_decode(op->payload, &cancel);
        if (found) *out = cancel.reason;
        break;
    default:
        break;
    }
    return found ? CACHE_FOUND : CACHE_NOWHERE;
}
