// SPDX-License-Identifier: Apache-2.0
// A handle as bytes: every field that decides its next step, and nothing else. Request ids are left
// out: they only name requests.
#include "base/check.h"
#include "journal/inside.h"

static void put_pending(const struct pending_list *l, struct buf *out)
{
    CHECK(!l->head == (l->len == 0));
    for (const struct pending_call *p = l->head; p; p = p->next) {
        buf_put_u64(out, p->ticket);
        buf_put_u16(out, p->op.kind);
        buf_put_sized(out, p->op.payload);
        buf_put_i64(out, p->deadline);
        buf_put_u8(out, p->answered);
    }
    buf_put_u8(out, 0xff);
}

static void put_batch(const struct batch *b, struct buf *out)
{
    CHECK(b->active || !b->ops.head);
    CHECK(!b->active || b->bytes.len > ENTRY_HEADER_LEN); // it is encoded as soon as it is active
    buf_put_u8(out, b->active);
    if (!b->active) return;
    buf_put_u8(out, b->maybe_landed);
    buf_put_u64(out, b->slot);
    buf_put_hash128(out, b->hash);
    buf_put_u64(out, b->sequence);
    buf_put_i64(out, b->sent_at);
    put_pending(&b->ops, out);
}

static void put_held(const struct held_request *h, struct buf *out)
{
    CHECK(h->kind == HELD_ROWS || h->rows_len == 0);
    buf_put_u8(out, (uint8_t)h->kind);
    if (h->kind == HELD_NOTHING) return;
    buf_put_i64(out, h->time.lo);
    buf_put_i64(out, h->time.hi);
    for (size_t i = 0; i < h->rows_len; i++) {
        buf_put_i64(out, h->rows[i].modified.lo);
        buf_put_hash128(out, hash128_of(h->rows[i].body));
    }
}

static void put_pace(const struct pace *p, struct buf *out)
{
    CHECK(p->rivals_len <= PACE_RIVALS_MAX);
    CHECK(p->solo <= p->solo_max);
    const int64_t moments[] = {p->credit,     p->credit_at,      p->put_us,  p->asked.lo,
                               p->join_until, p->won_at,         p->turn_at, p->tail_read_at,
                               p->owner_at,   p->courtesy_until, p->away_at};
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        buf_put_i64(out, moments[i]);
    buf_put_i64(out, p->asked.hi);
    buf_put_u64(out, p->joiners);
    buf_put_u32(out, p->run);
    buf_put_u32(out, p->losses);
    buf_put_u32(out, p->solo);
    buf_put_u32(out, p->solo_max);
    buf_put_u8(out, p->pauses_solo);
    buf_put_u8(out, p->read_old);
    for (size_t i = 0; i < p->rivals_len; i++) {
        buf_put_hash128(out, p->rivals[i].writer);
        buf_put_i64(out, p->rivals[i].at);
    }
    buf_put_u8(out, 0xff);
}

void journal_describe(const struct journal *j, struct buf *out)
{
    CHECK(j->phase != PHASE_HALTED || j->halt_err);
    CHECK((j->phase == PHASE_CHECKING) == (j->held.kind != HELD_NOTHING));
    buf_put_u8(out, (uint8_t)j->phase);
    buf_put_u8(out, (uint8_t)j->halt_err);
    if (j->halt_err) buf_put_i64(out, j->look_at);
    buf_put_u32(out, j->doubts);
    buf_put_u32(out, j->looks);
    buf_put_u8(out, (uint8_t)(j->fresh | j->unproven << 1));
    buf_put_u64(out, j->diverged_slot);
    buf_put_i64(out, j->now.lo);
    buf_put_i64(out, j->now.hi);
    buf_put_u64(out, journal_digest(j));
    buf_put_i64(out, j->absent_at);
    buf_put_u8(out, j->replaying);
    buf_put_u64(out, j->sequence);
    buf_put_u64(out, j->committed_slot);
    buf_put_u64(out, j->my_epoch);
    buf_put_u64(out, j->floor_index);
    buf_put_u64(out, j->floor_slot);
    put_pending(&j->queue, out);
    put_pending(&j->syncs, out);
    put_batch(&j->batch, out);
    put_held(&j->held, out);
    open_request_describe(&j->main, out);
    open_request_describe(&j->snap, out);
    buf_put_i64(out, j->retry_at);
    buf_put_u32(out, j->retries);
    put_pace(&j->pace, out);
    for (int i = 0; i < SNAPSHOTS_KEPT; i++)
        buf_put_u64(out, j->candidates[i]);
    buf_put_u64(out, j->snap.open ? j->snap_slot : 0);
    buf_put_u64(out, j->last_snapshot);
    buf_put_u64(out, j->ended_slot);
}
