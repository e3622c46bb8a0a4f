// SPDX-License-Identifier: Apache-2.0
// I8: a delivery carries what was sent, and its slots are not dropped while the message lives, nor
// any over the floor. A dead letter says where it came from and why.
#include "base/hash.h"
#include "check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static struct bytes header(const struct message *m, const char *wanted)
{
    struct reader r = reader_of(m->headers);
    struct bytes name, value, found = BYTES_EMPTY;
    while (headers_next(&r, &name, &value))
        if (bytes_equal(name, bytes_str(wanted))) found = value;
    return found;
}

// The newest headers are those of the last journey.
static void check_headers(struct world *w, struct lane *l, const struct row *row,
                          const struct message *m)
{
    struct lane *from = &w->life->lanes[row->origin - 1];
    const struct row *origin = reference_row(&from->reference, row->origin_seq);
    struct bytes reason = header(m, "sluice-dead-reason");
    bool named = origin->reason_slot != 0;
    bool why = named ? hash128_equal(hash128_of(reason), origin->reason)
                     : bytes_equal(reason, bytes_str(dead_cause_name(origin->cause)));
    char id[MESSAGE_ID_MAX];
    message_id_print(&from->id, from->shard, row->origin_seq, id);
    bool where = bytes_equal(header(m, "sluice-dead-queue"), bytes_str(from->name)) &&
                 bytes_equal(header(m, "sluice-dead-id"), bytes_str(id));
    if (!why || !where)
        findings_add(&w->findings, "I10",
                     "lane %u: a dead letter from lane %u is delivered with %s", l->index,
                     from->index, why ? "another origin" : "another reason");
}

void check_body(struct world *w, struct lane *l, uint64_t seq, const struct delivery *d)
{
    const struct row *row = reference_row(&l->reference, seq);
    if (!row || !hash128_equal(row->body, body_hash(&d->message))) {
        findings_add(&w->findings, "I8",
                     "lane %u: message %" PRIu64 " is delivered with another body", l->index, seq);
        return;
    }
    if (row->state == STATE_LOCKED) check_upload(w, l, &d->message, "delivered");
    if (row->origin != 0) check_headers(w, l, row, &d->message);
}

void check_dropped(struct reference *g, uint64_t slot, int64_t made_at)
{
    const struct reference_slot *s = reference_at(g, slot);
    if (!s || s->made_at != made_at) return; // another life of a dropped slot belongs to no handle
    g->world->dropped++;
    if (slot > g->floor)
        findings_add(&g->world->findings, "I8",
                     "lane %u: slot %" PRIu64 " dropped over the floor %" PRIu64, g->lane, slot,
                     g->floor);
    check_signals_dropped(g, slot);
    for (uint64_t i = 0; i < g->rows_len; i++) {
        const struct row *row = &g->rows[i];
        bool dead = row->state == STATE_DEAD || row->state == STATE_OUTBOUND;
        bool lives = dead || row->state == STATE_READY || row->state == STATE_LOCKED ||
                     (row->end_kept && row->body_kept);
        bool body = slot >= row->place.slot && slot <= row->sent_slot;
        bool reason = dead && row->reason_slot == slot;
        if (lives && (body || reason))
            findings_add(&g->world->findings, "I8",
                         "lane %u: slot %" PRIu64 " dropped while message %" PRIu64
                         " (%s, %s in %" PRIu64 "..%" PRIu64 ") needs it",
                         g->lane, slot, i + 1, message_state_name(row->state),
                         body ? "body" : "reason", row->place.slot, row->sent_slot);
    }
}
