// SPDX-License-Identifier: Apache-2.0
// The reference fold. Checks on the way: entries chain (I1), a submission is in one effective entry
// at most, is not there once it was answered "not applied", and a request id takes effect once
// (I2), epochs and tokens follow the rules (I7).
#include "history.h"

#include "base/check.h"
#include "base/memory.h"
#include "journal/core.h"

#include <inttypes.h>
#include <string.h>

void history_init(struct history *h, struct tickets *tickets, int64_t memory_ms,
                  struct findings *findings)
{
    *h = (struct history){.findings = findings, .tickets = tickets};
    h->machine = registers_new(memory_ms);
    h->fold = registers_fold(h->machine);
    buf_init(&h->text, (size_t)1 << 20);
}

void history_done(struct history *h)
{
    for (uint64_t i = 0; i < h->len; i++)
        bytes_free(h->slots[i].bytes);
    memory_free(h->slots);
    memory_free(h->writers);
    registers_free(h->machine);
    buf_done(&h->text);
}

const struct history_slot *history_at(const struct history *h, uint64_t slot)
{
    return slot == 0 || slot > h->len ? NULL : &h->slots[slot - 1];
}

static bool says_not_applied(enum err err)
{
    return err == ERR_UNAVAILABLE || err == ERR_LIMIT || err == ERR_FENCED || err == ERR_CORRUPT ||
           err == ERR_DENIED;
}

// One submission found in an entry. Returns NULL when that is already wrong.
static struct ticket *found(struct history *h, uint64_t slot, uint64_t number, bool is_void)
{
    struct ticket *t = tickets_at(h->tickets, number);
    if (!t) {
        findings_add(h->findings, "I2", "slot %" PRIu64 " holds an op that no client submitted",
                     slot);
        return NULL;
    }
    if (t->slot != 0 && !t->is_void && !is_void) {
        findings_add(h->findings, "I2", "ticket %" PRIu64 " is in slots %" PRIu64 " and %" PRIu64,
                     number, t->slot, slot);
        return NULL;
    }
    bool refused = t->answered && t->kind == TICKET_OP && says_not_applied(t->err);
    if (refused && !is_void) {
        findings_add(h->findings, "I2",
                     "ticket %" PRIu64 " was answered %s, then committed in slot %" PRIu64, number,
                     err_name(t->err), slot);
        return NULL;
    }
    if (t->slot != 0 && !t->is_void) return NULL; // the void copy says nothing new
    t->slot = slot;
    t->is_void = is_void;
    return t;
}

// Ops are folded one by one to see which of them takes effect.
static void fold_ask(struct history *h, const struct entry *e, const struct op *op, bool is_void)
{
    struct register_ask what;
    if (!register_parse(op, &what)) {
        findings_add(h->findings, "I1", "slot %" PRIu64 " holds an unreadable op", e->slot);
        return;
    }
    struct ask *ask = asks_find(h->tickets, what.request);
    struct ticket *t = found(h, e->slot, what.attempt, is_void);
    if (!t || is_void) return;
    struct fold_entry one = {.slot = e->slot,
                             .time = e->time,
                             .now = h->now,
                             .epoch = e->epoch,
                             .ops = op,
                             .ops_len = 1};
    struct op_result result = {0};
    uint64_t before = registers_effects(h->machine);
    buf_clear(&h->text);
    h->fold.apply(h->fold.ctx, &one, &result, &h->text);
    struct reader r = reader_of(bytes_of(h->text.data + result.body_at, result.body_len));
    t->fold_err = result.err;
    t->fold_value = read_i64(&r);
    if (!ask) {
        findings_add(h->findings, "I2", "slot %" PRIu64 " holds an unknown request id", e->slot);
    } else if (registers_effects(h->machine) == before) {
        h->repeats++;
    } else if (++ask->effects > 1) {
        findings_add(h->findings, "I2", "ticket %d took effect twice, now in slot %" PRIu64,
                     (int)what.attempt, e->slot);
    }
}

static enum err check_own(struct history *h, uint64_t expected, struct bytes coord, uint64_t token)
{
    if (expected != h->epoch) return ERR_CONFLICT;
    if (h->coord_set && memcmp(h->coord, coord.data, sizeof h->coord) != 0) return ERR_DENIED;
    if (h->coord_set && token <= h->token) return ERR_FENCED;
    memcpy(h->coord, coord.data, sizeof h->coord);
    h->coord_set = true;
    h->token = token;
    h->epoch++;
    return ERR_OK;
}

// The address of an owner is its ticket.
static void fold_own(struct history *h, const struct entry *e, const struct op *op, bool is_void)
{
    struct reader r = reader_of(op->payload);
    uint64_t expected = read_u64(&r);
    struct bytes coord = read_bytes(&r, sizeof h->coord);
    uint64_t token = read_u64(&r);
    struct bytes address = read_sized(&r, JOURNAL_ADDRESS_MAX);
    struct reader a = reader_of(address);
    uint64_t number = read_u64(&a);
    if (!reader_end(&r) || !reader_end(&a)) {
        findings_add(h->findings, "I1", "slot %" PRIu64 " holds an unreadable own", e->slot);
        return;
    }
    struct ticket *t = found(h, e->slot, number, is_void);
    if (t && !is_void) t->fold_err = check_own(h, expected, coord, token);
}

static void fold_coord(struct history *h, const struct op *op)
{
    if (op->payload.len != sizeof h->coord) return;
    memcpy(h->coord, op->payload.data, sizeof h->coord);
    h->coord_set = true;
    h->token = 0;
}

static void fold_op(struct history *h, const struct entry *e, const struct op *op, bool is_void)
{
    if (op->kind >= OP_KIND_MACHINE) {
        fold_ask(h, e, op, is_void);
    } else if (op->kind == JOURNAL_OP_OWN) {
        fold_own(h, e, op, is_void);
    } else if (op->kind == JOURNAL_OP_COORD && !is_void) {
        fold_coord(h, op);
    }
}

// Batches of one writer appear in the order in which it formed them.
static bool writer_rises(struct history *h, const struct entry *e)
{
    size_t i = 0;
    while (i < h->writers_len && !hash128_equal(h->writers[i].id, e->writer))
        i++;
    if (i == h->writers_len) {
        if (h->writers_len == h->writers_cap) {
            h->writers_cap = h->writers_cap ? h->writers_cap * 2 : 16;
            h->writers = memory_resize(h->writers, h->writers_cap * sizeof *h->writers);
        }
        h->writers[h->writers_len++] = (struct history_writer){.id = e->writer};
    }
    bool rises = e->sequence > h->writers[i].sequence;
    h->writers[i].sequence = e->sequence;
    return rises;
}

static void check_entry(struct history *h, const struct entry *e, uint64_t slot)
{
    if (e->slot != slot)
        findings_add(h->findings, "I1", "slot %" PRIu64 " holds the entry of %" PRIu64, slot,
                     e->slot);
    if (!hash128_equal(e->previous, h->chain))
        findings_add(h->findings, "I1", "the entry in slot %" PRIu64 " does not chain", slot);
    if (!writer_rises(h, e))
        findings_add(h->findings, "I2", "slot %" PRIu64 " repeats an earlier batch", slot);
}

static void fold_entry(struct history *h, const struct entry *e, struct history_slot *row)
{
    if (e->time.lo > h->now) h->now = e->time.lo;
    row->is_void = e->epoch != 0 && e->epoch != h->epoch;
    h->voids += row->is_void;
    h->chain = e->hash;
    // An entry without ops of the machine still shows it the time.
    struct fold_entry none = {.slot = e->slot, .time = e->time, .now = h->now, .epoch = e->epoch};
    if (!row->is_void) h->fold.apply(h->fold.ctx, &none, NULL, NULL);
    for (size_t i = 0; i < e->ops_len; i++)
        fold_op(h, e, &e->ops[i], row->is_void);
    row->epoch = h->epoch;
    row->machine_digest = h->fold.digest(h->fold.ctx);
    if (h->ended == 0 && registers_ended(h->machine)) h->ended = e->slot;
}

static void extend(struct history *h, uint64_t slot, struct bytes bytes, int64_t now)
{
    if (h->len == h->cap) {
        h->cap = h->cap ? h->cap * 2 : 16;
        h->slots = memory_resize(h->slots, h->cap * sizeof *h->slots);
    }
    struct history_slot *row = &h->slots[h->len++];
    *row = (struct history_slot){.bytes = bytes_copy(bytes), .made_at = now};
    struct entry e;
    const char *why = NULL;
    if (entry_decode(row->bytes, &e, &why) != ERR_OK) {
        findings_add(h->findings, "I1", "slot %" PRIu64 " was written damaged: %s", slot, why);
        return;
    }
    check_entry(h, &e, slot);
    fold_entry(h, &e, row);
    entry_done(&e);
}

void history_slot_made(struct history *h, uint64_t slot, struct bytes bytes, int64_t now)
{
    if (slot == h->len + 1) {
        extend(h, slot, bytes, now);
    } else if (slot <= h->len) {
        h->zombies++;
    } else {
        findings_add(h->findings, "I1", "slot %" PRIu64 " leaves a gap after %" PRIu64, slot,
                     h->len);
    }
}
