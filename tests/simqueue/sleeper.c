// SPDX-License-Identifier: Apache-2.0
// A writer that slept since before a slot was taken: when the slot has been dropped, its entry gets
// there after all. The wire's late writes do that too, but seldom with a message in them, and
// seldom where a fetch looks.
#include "base/check.h"
#include "check.h"
#include "journal/entry.h"

#include <inttypes.h>

void sleeper_may_wake(struct world *w, struct lane *l, uint64_t slot)
{
    if (w->phase != WORLD_FAULTY || !rng_chance(&w->rng, w->life->sleepers)) return;
    life_after(w, rng_range(&w->rng, 1, 5 * SECOND), LIFE_SLEEPER, l->index, (uint32_t)slot);
}

static void put_entry(struct world *w, const struct entry *was, struct buf *out)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 12);
    send_begin(&payload, &(struct request_id){{0}});
    for (uint32_t i = 0; i < 3; i++)
        send_add(&payload, &(struct message){.body = bytes_str("a message of no sender")});
    send_end(&payload, 0, 3);
    struct op op = {.kind = OP_SEND, .payload = buf_bytes(&payload)};
    struct entry e = *was;
    e.writer = (struct hash128){rng_next(&w->rng), 99};
    e.epoch = 0;
    e.sequence = 1;
    e.nonce = rng_next(&w->rng);
    e.ops = &op;
    e.ops_len = 1;
    entry_encode(&e, out);
}

// A client fetches the message that was there.
static void look_there(struct world *w, struct lane *l, uint64_t slot)
{
    for (uint64_t i = 0; i < l->reference.rows_len; i++) {
        const struct row *row = &l->reference.rows[i];
        if (row->place.slot > slot || row->sent_slot < slot) continue;
        uint32_t ask = sim_call_new(w, SIM_CALL_FETCH, 0, l->index);
        w->life->calls[ask].place = row->place;
        w->life->calls[ask].place_seq = i + 1;
        world_at(w, w->now + rng_range(&w->rng, 1, 5 * SECOND), EVENT_RETRY, ask, 0);
        return;
    }
}

void sleeper_wakes(struct world *w, struct lane *l, uint64_t slot)
{
    struct entry was;
    const char *why;
    CLEANUP(buf_done) struct buf bytes;
    buf_init(&bytes, 1 << 13);
    if (w->phase != WORLD_FAULTY || bucket_slot(&l->bucket, slot)) return;
    CHECK(entry_decode(reference_at(&l->reference, slot)->bytes, &was, &why) == ERR_OK);
    put_entry(w, &was, &bytes);
    entry_done(&was);
    struct bucket_answer answer;
    bucket_answer_init(&answer);
    struct request q = {
        .kind = REQUEST_APPEND, .key = "", .first = slot, .body = buf_bytes(&bytes)};
    trace_line(&w->trace, w->now, "! slot %" PRIu64 " of lane %u is created again", slot, l->index);
    bucket_perform(&l->bucket, &q, w->now, &answer);
    bucket_answer_done(&answer);
    look_there(w, l, slot);
}
