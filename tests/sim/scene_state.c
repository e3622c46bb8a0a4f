// SPDX-License-Identifier: Apache-2.0
// When are two small worlds the same? Moments are kept as ages, and ages that no rule can tell
// apart are one: knowledge of an absence older than V is stale however old it is, and a slot older
// than R may be dropped. So time needs no bound: a world that only grows older returns to itself.
//
// This reads a handle's fields (nothing else outside the journal does): journal_describe says
// everything, moments and nonces included, and would never find two worlds alike. What is left out
// follows from what is kept: the folded state from the slot, since any other than the history's is
// a broken promise already; entry times and nonces only name entries here, because sessions and
// requests are remembered for longer than any run lasts.
#include "base/check.h"
#include "base/hash.h"
#include "journal/inside.h"
#include "scene.h"

#include <string.h>

// V + 1 is R: one cut serves both. An age of R or more is all the same.
_Static_assert(SCENE_RETAIN == SCENE_VERIFY + 1, "one cut for knowledge and for slots");

static void put_age(const struct scene *s, int64_t moment, struct buf *out)
{
    bool known = moment != TIME_UNKNOWN && s->now - moment < SCENE_RETAIN;
    CHECK(moment <= s->now);
    buf_put_u8(out, known ? (uint8_t)(s->now - moment) : UINT8_MAX);
}

static bool is_fresh(const struct journal *j, int64_t answered)
{
    return j->absent_at != TIME_UNKNOWN && answered - j->absent_at <= SCENE_VERIFY;
}

static void put_handle(const struct scene *s, const struct scene_writer *w, struct buf *out)
{
    const struct journal *j = w->journal;
    CHECK(j->held.kind == HELD_NOTHING && !j->snap.open); // those happen at once
    buf_put_u8(out, (uint8_t)w->asked);
    buf_put_u8(out, (uint8_t)(w->syncing | j->replaying << 1));
    buf_put_u8(out, (uint8_t)j->phase);
    buf_put_u8(out, (uint8_t)j->core.slot);
    put_age(s, j->absent_at, out);
    buf_put_u8(out, (uint8_t)j->sequence);
    buf_put_u8(out, (uint8_t)j->floor_index);
    buf_put_u8(out, (uint8_t)j->floor_slot);
    buf_put_u8(out, (uint8_t)j->last_snapshot);
    buf_put_u8(out, (uint8_t)j->ended_slot);
    buf_put_u8(out, (uint8_t)((j->queue.head != NULL) | (j->syncs.head != NULL) << 1));
    buf_put_u8(out, j->batch.active);
    if (!j->batch.active) return;
    buf_put_u8(out, (uint8_t)j->batch.slot);
    buf_put_u8(out, (uint8_t)j->batch.sequence);
    buf_put_u8(out, j->batch.maybe_landed);
    put_age(s, j->batch.sent_at, out);
}

// Which writer's which batch an entry is.
static void put_entry(struct bytes bytes, struct buf *out)
{
    struct entry e;
    const char *why;
    enum err err = entry_decode(bytes, &e, &why);
    CHECK(err == ERR_OK);
    buf_put_u8(out, (uint8_t)e.writer.lo);
    buf_put_u8(out, (uint8_t)e.sequence);
    entry_done(&e);
}

static void put_flight(const struct scene *s, const struct scene_flight *f, struct buf *out)
{
    const struct journal *j = s->writers[f->writer].journal;
    buf_put_u8(out, (uint8_t)(f->collector | f->performed << 1 | f->abandoned << 2));
    buf_put_u8(out, (uint8_t)f->writer);
    buf_put_u8(out, (uint8_t)f->request.kind);
    buf_put_u8(out, (uint8_t)f->request.first);
    if (f->request.kind == REQUEST_APPEND) put_entry(f->request.body, out);
    if (!f->performed) return;
    buf_put_u8(out, (uint8_t)f->answer.response.err);
    buf_put_u8(out, is_fresh(j, f->answer.response.time.hi));
    put_age(s, f->answer.response.time.lo, out);
}

// Places in the table mean nothing.
static void put_flights(const struct scene *s, struct buf *out)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < SCENE_FLIGHTS_MAX; i++) {
        if (!s->flights[i].used) continue;
        size_t from = out->len;
        put_flight(s, &s->flights[i], out);
        sum += hash64_of(bytes_of(out->data + from, out->len - from), 0);
        out->len = from;
    }
    buf_put_u64(out, sum);
}

// Of the snapshots only the newest is ever loaded: listings do not lag here, and it is never
// deleted.
static void put_object(const struct scene *s, const struct bucket_object *o, bool newest,
                       struct buf *out)
{
    struct floor f;
    if (floor_decode(o->body, &f) == ERR_OK) {
        buf_put_u8(out, 'f');
        buf_put_u8(out, (uint8_t)f.slot);
        return;
    }
    struct core core;
    struct snapshot snap;
    core_init(&core);
    enum err err = snapshot_decode(o->body, &core, &snap);
    CHECK(err == ERR_OK);
    buf_put_u8(out, 's');
    buf_put_u8(out, (uint8_t)core.slot);
    if (newest) {
        buf_put_u8(out, (uint8_t)snap.floor_index);
        put_age(s, snap.absent_at, out);
    }
    core_done(&core);
}

static void put_store(const struct scene *s, struct buf *out)
{
    for (uint64_t n = 1; n <= s->bucket.slots_len; n++) {
        const struct bucket_slot *slot = bucket_slot(&s->bucket, n);
        buf_put_u8(out, slot != NULL);
        if (!slot) continue;
        put_age(s, slot->made_at, out);
        put_entry(slot->body, out);
    }
    for (size_t i = 0; i < s->bucket.objects_len; i++)
        put_object(s, s->bucket.objects[i], i + 1 == s->bucket.objects_len, out);
}

static void put_history(const struct scene *s, struct buf *out)
{
    for (uint64_t n = 1; n <= s->history.len; n++)
        put_entry(history_at(&s->history, n)->bytes, out);
    buf_put_u8(out, 0);
    for (size_t i = 0; i < s->tickets.len; i++)
        buf_put_u8(out, s->tickets.rows[i].answered ? (uint8_t)(1 + s->tickets.rows[i].err) : 0);
}

uint64_t scene_hash(struct scene *s)
{
    struct buf *out = &s->state;
    buf_clear(out);
    if (s->bounds.ticks > 0) buf_put_i64(out, s->now);
    buf_put_u8(out, (uint8_t)s->unknowns);
    buf_put_u8(out, (uint8_t)s->looks);
    for (uint32_t i = 0; i < SCENE_WRITERS; i++)
        put_handle(s, &s->writers[i], out);
    put_store(s, out);
    put_flights(s, out);
    put_history(s, out);
    // At rest the collector remembers nothing that the next round does not read again.
    if (collector_running(s->collector)) collector_describe(s->collector, out);
    CHECK(!out->bad);
    return hash64_of(buf_bytes(out), 0);
}
