// SPDX-License-Identifier: Apache-2.0
// The publisher's cursor: up to where the events of this shard are on the bus. It is state, so the
// collector of every process can keep the entries whose events are not published yet.
//
// Marks tell how old and how large the unpublished part of the journal is. The first mark is the
// first entry after which an event was not published. A further one is made each minute, or after
// MARK_BYTES. If there are too many, every second one is dropped.
#include "queue/tables/cursor.h"

#include "base/check.h"
#include "queue/core/state.h"

#include <string.h>

#define MARK_MS    INT64_C(60000)
#define MARK_BYTES (UINT64_C(16) << 20)

#define LAYOUT_OF  struct cursor_mark
static const struct layout_field mark_fields[] = {U64(slot), I64(at), U64(bytes)};
const struct layout cursor_mark_layout = LAYOUT(mark_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct cursor
static const struct layout_field cursor_fields[] = {
    FLAG(published), U64(slot), U64(sequence), U64(bytes), U8(marks_len, .max = CURSOR_MARKS_MAX)};
const struct layout cursor_layout = LAYOUT(cursor_fields);
#undef LAYOUT_OF

static bool is_all_published(const struct machine *m)
{
    CHECK(m->cursor.sequence <= m->event_count);
    return m->cursor.sequence == m->event_count;
}

static void thin_out(struct cursor *c)
{
    CHECK(c->marks_len == CURSOR_MARKS_MAX);
    for (uint32_t i = 0; i < CURSOR_MARKS_MAX / 2; i++)
        c->marks[i] = c->marks[2 * (size_t)i];
    c->marks_len = CURSOR_MARKS_MAX / 2;
}

void cursor_enter(struct machine *m, uint64_t bytes)
{
    struct cursor *c = &m->cursor;
    CHECK(c->published);
    if (is_all_published(m)) c->marks_len = 0;
    const struct cursor_mark *last = c->marks_len > 0 ? &c->marks[c->marks_len - 1] : NULL;
    if (!last || m->now - last->at >= MARK_MS || c->bytes - last->bytes >= MARK_BYTES) {
        if (c->marks_len == CURSOR_MARKS_MAX) thin_out(c);
        c->marks[c->marks_len++] = (struct cursor_mark){m->slot, m->now, c->bytes};
    }
    c->bytes += bytes;
}

// The first mark that stays is the last one at or before the first unpublished entry.
static void drop_marks(struct machine *m)
{
    struct cursor *c = &m->cursor;
    uint32_t drop = 0;
    while (drop + 1 < c->marks_len && c->marks[drop + 1].slot <= c->slot + 1)
        drop++;
    CHECK(drop == 0 || drop < c->marks_len);
    memmove(c->marks, c->marks + drop, (c->marks_len - drop) * sizeof *c->marks);
    c->marks_len -= drop;
}

// A cursor that is reached already is no error, so that a report can be repeated.
enum reason apply_published(struct machine *m, struct bytes payload)
{
    struct op_published op;
    struct cursor *c = &m->cursor;
    if (published_decode(payload, &op) != ERR_OK) return REASON_MALFORMED;
    if (m->epoch == 0) return REASON_NOT_OWNER;
    if (op.slot >= m->slot || op.sequence > m->event_count) return REASON_OUT_OF_RANGE;
    // The cursor has one direction, in both numbers.
    bool lower = op.slot < c->slot || op.sequence < c->sequence;
    bool higher = op.slot > c->slot || op.sequence > c->sequence;
    if (lower && higher) return REASON_OUT_OF_RANGE;
    if (higher || (lower && MUTANT(CURSOR_FALLS))) {
        c->slot = op.slot;
        c->sequence = op.sequence;
    }
    bool stop = op.flags & PUBLISHED_STOP, begins = !c->published && !stop;
    c->published = !stop;
    if (stop) c->bytes = c->marks_len = 0;
    if (begins) c->marks[c->marks_len++] = (struct cursor_mark){m->slot, m->now, 0};
    drop_marks(m);
    result_begin(&m->result, REASON_NONE);
    buf_put_u64(&m->result, c->sequence);
    return REASON_NONE;
}

bool machine_published(const struct machine *m, uint64_t *slot, uint64_t *sequence)
{
    *slot = m->cursor.slot;
    *sequence = m->cursor.sequence;
    return m->cursor.published;
}

bool machine_unpublished(const struct machine *m, int64_t now, struct machine_publish_lag *out)
{
    const struct cursor *c = &m->cursor;
    *out = (struct machine_publish_lag){0};
    if (!c->published || m->config.publish == PUBLISH_OFF) return false;
    if (is_all_published(m) || c->marks_len == 0) return true;
    if (now < m->now) now = m->now;
    out->events = m->event_count - c->sequence;
    out->age_ms = now - c->marks[0].at;
    out->bytes = c->bytes - c->marks[0].bytes;
    const struct queue_config *config = &m->config;
    out->overdue =
        out->age_ms >= config->publish_keep_ms || out->bytes >= config->publish_keep_bytes;
    return true;
}

// The highest slot that publish=skip gives up: entries that are older than publishKeep, and entries
// behind the last publishKeepBytes. 0: none. Entries after the last mark are as old as the newest
// one at least.
static uint64_t skipped_slot(const struct machine *m, int64_t now)
{
    const struct cursor *c = &m->cursor;
    uint64_t slot = 0;
    if (now - m->now >= m->config.publish_keep_ms) return m->slot;
    for (uint32_t i = 0; i < c->marks_len; i++) {
        const struct cursor_mark *mark = &c->marks[i];
        if (now - mark->at >= m->config.publish_keep_ms) slot = mark->slot;
        bool large = c->bytes - mark->bytes >= m->config.publish_keep_bytes;
        if (large && mark->slot - 1 > slot) slot = mark->slot - 1;
    }
    return slot;
}

uint64_t machine_floor_limit(const struct machine *m, int64_t now)
{
    const struct cursor *c = &m->cursor;
    if (!c->published || m->config.publish == PUBLISH_OFF || MUTANT(FLOOR_PAST_CURSOR))
        return UINT64_MAX;
    if (is_all_published(m)) return m->slot;
    CHECK(c->slot < m->slot);
    // No operator can change the settings of a deleted queue, so it does not wait for ever.
    bool skips = m->config.publish == PUBLISH_SKIP || m->deleted;
    uint64_t skipped = skips ? skipped_slot(m, now) : 0;
    return skipped > c->slot ? skipped : c->slot;
}

uint64_t cursor_mix(const struct machine *m, uint64_t h)
{
    const struct cursor *c = &m->cursor;
    h = layout_flat_hash(&cursor_layout, h, c);
    for (uint32_t i = 0; i < c->marks_len; i++)
        h = layout_flat_hash(&cursor_mark_layout, h, &c->marks[i]);
    return h;
}

void cursor_save(const struct machine *m, struct buf *out)
{
    const struct cursor *c = &m->cursor;
    layout_put(&cursor_layout, out, c);
    for (uint32_t i = 0; i < c->marks_len; i++)
        layout_put(&cursor_mark_layout, out, &c->marks[i]);
}

void cursor_load(struct machine *m, struct reader *r)
{
    struct cursor *c = &m->cursor;
    if (!layout_read(&cursor_layout, r, c)) return;
    if (!c->published && c->marks_len > 0) r->bad = true;
    if (c->sequence > m->event_count || (c->slot >= m->slot && c->slot > 0)) r->bad = true;
    const struct cursor_mark *before = &(struct cursor_mark){0, INT64_MIN, 0};
    for (uint32_t i = 0; i < c->marks_len && reader_ok(r); i++) {
        struct cursor_mark *mark = &c->marks[i];
        if (!layout_read(&cursor_mark_layout, r, mark)) return;
        if (mark->slot <= before->slot || mark->slot > m->slot) r->bad = true;
        if (mark->at < before->at || mark->at > m->now) r->bad = true;
        if (mark->bytes < before->bytes || mark->bytes > c->bytes) r->bad = true;
        before = mark;
    }
}

void cursor_check(const struct machine *m)
{
    const struct cursor *c = &m->cursor;
    CHECK(c->published || (c->marks_len == 0 && c->bytes == 0));
    CHECK(c->sequence <= m->event_count && (c->slot < m->slot || c->slot == 0));
    CHECK(c->marks_len <= CURSOR_MARKS_MAX);
    for (uint32_t i = 0; i < c->marks_len; i++) {
        CHECK(c->marks[i].slot <= m->slot && c->marks[i].at <= m->now);
        CHECK(c->marks[i].bytes <= c->bytes);
        if (i > 0) CHECK(c->marks[i - 1].slot < c->marks[i].slot);
        if (i > 0) CHECK(c->marks[i - 1].at <= c->marks[i].at);
    }
}
