// SPDX-License-Identifier: Apache-2.0
// Time, ownership and sessions: the state that every entry changes, whatever the machine is.
#include "journal/core.h"

#include "base/array.h"
#include "base/check.h"
#include "base/layout.h"
#include "base/memory.h"
#include "base/mutant.h"

#include <string.h>

void core_init(struct core *c)
{
    *c = (struct core){.now = TIME_UNKNOWN, .horizon = TIME_UNKNOWN, .oldest = TIME_NEVER};
}

void core_done(struct core *c)
{
    memory_free(c->sessions);
    core_init(c);
}

static int writer_compare(struct hash128 a, struct hash128 b)
{
    if (a.hi != b.hi) return a.hi < b.hi ? -1 : 1;
    return (a.lo > b.lo) - (a.lo < b.lo);
}

// What holds between any two entries. An empty table has no oldest row and no hash.
static bool core_is_sound(const struct core *c)
{
    bool empty = c->sessions_len == 0;
    if (c->sessions_len > c->sessions_cap || c->address_len > sizeof c->address) return false;
    return empty == (c->oldest == TIME_NEVER) && (!empty || c->sessions_hash == 0);
}
static size_t session_place(const struct core *c, struct hash128 writer)
{
    size_t lo = 0;
    size_t hi = c->sessions_len;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (writer_compare(c->sessions[mid].writer, writer) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    CHECK(lo <= c->sessions_len);
    return lo;
}

static struct session *session_find(const struct core *c, struct hash128 writer)
{
    size_t at = session_place(c, writer);
    bool past = at == c->sessions_len;
    CHECK(past || writer_compare(c->sessions[at].writer, writer) >= 0); // the rows are sorted
    bool found = !past && hash128_equal(c->sessions[at].writer, writer);
    return found ? &c->sessions[at] : NULL;
}

static uint64_t session_hash(const struct session *s)
{
    uint64_t h = hash64_mix(s->writer.lo, s->writer.hi);
    return hash64_mix(hash64_mix(h, s->sequence), (uint64_t)s->time);
}

static void session_remove(struct core *c, size_t at)
{
    CHECK(at < c->sessions_len);
    struct session *row = &c->sessions[at];
    // Rows are removed oldest first, or all that are older than some time. So a writer born after
    // the horizon still has its row.
    if (row->time >= c->horizon) c->horizon = row->time + 1;
    c->sessions_hash ^= session_hash(row);
    memmove(row, row + 1, (c->sessions_len - at - 1) * sizeof *row);
    c->sessions_len--;
}

static void sessions_find_oldest(struct core *c)
{
    c->oldest = TIME_NEVER;
    for (size_t i = 0; i < c->sessions_len; i++)
        if (c->sessions[i].time < c->oldest) c->oldest = c->sessions[i].time;
}

static void sessions_expire(struct core *c, const struct journal_rules *rules)
{
    if (c->sessions_len == 0 || c->now - c->oldest < rules->session_ttl_ms) return;
    for (size_t i = c->sessions_len; i-- > 0;)
        if (c->now - c->sessions[i].time >= rules->session_ttl_ms) session_remove(c, i);
    sessions_find_oldest(c);
    CHECK(c->sessions_len == 0 || c->now - c->oldest < rules->session_ttl_ms);
}

static void sessions_evict(struct core *c, const struct journal_rules *rules)
{
    while (c->sessions_len >= rules->sessions_max && c->sessions_len > 0) {
        size_t oldest = 0;
        for (size_t i = 1; i < c->sessions_len; i++)
            if (c->sessions[i].time < c->sessions[oldest].time) oldest = i;
        session_remove(c, oldest);
        sessions_find_oldest(c);
    }
    CHECK(c->sessions_len < rules->sessions_max || c->sessions_len == 0);
}

static struct session *session_insert(struct core *c, const struct journal_rules *rules,
                                      struct hash128 writer)
{
    sessions_evict(c, rules);
    size_t at = session_place(c, writer);
    // A writer has one row.
    CHECK(at == c->sessions_len || !hash128_equal(c->sessions[at].writer, writer));
    struct session *row = ARRAY_INSERT(c->sessions, c->sessions_len, c->sessions_cap, at);
    *row = (struct session){.writer = writer};
    c->sessions_hash ^= session_hash(row);
    return row;
}

static void session_advance(struct core *c, const struct journal_rules *rules,
                            const struct entry *e)
{
    struct session *row = session_find(c, e->writer);
    if (!row) row = session_insert(c, rules, e->writer);
    CHECK(hash128_equal(row->writer, e->writer));
    CHECK(row->sequence == 0 || row->sequence < e->sequence); // others are void
    c->sessions_hash ^= session_hash(row);
    row->sequence = e->sequence;
    row->time = c->now;
    c->sessions_hash ^= session_hash(row);
    if (c->now < c->oldest) c->oldest = c->now;
}

enum session_outcome core_session(const struct core *c, struct hash128 writer, uint64_t sequence,
                                  int64_t born)
{
    CHECK(sequence > 0);
    const struct session *row = session_find(c, writer);
    if (row) return row->sequence >= sequence ? SESSION_COMMITTED : SESSION_NOT_COMMITTED;
    return born >= c->horizon ? SESSION_NOT_COMMITTED : SESSION_UNDECIDABLE;
}

static enum err apply_own(struct core *c, struct bytes payload)
{
    struct reader r = reader_of(payload);
    uint64_t expected = read_u64(&r);
    struct bytes coord = read_bytes(&r, sizeof c->coord);
    uint64_t token = read_u64(&r);
    struct bytes address = read_sized(&r, JOURNAL_ADDRESS_MAX);
    if (!reader_end(&r)) return ERR_INVALID;
    if (expected != c->epoch) return ERR_CONFLICT;
    if (c->coord_set && memcmp(c->coord, coord.data, coord.len) != 0) return ERR_DENIED;
    if (c->coord_set && token <= c->token) return ERR_FENCED;
    memcpy(c->coord, coord.data, coord.len);
    c->coord_set = true;
    c->token = token;
    c->address_len = address.len;
    if (address.len > 0) memcpy(c->address, address.data, address.len);
    c->epoch++;
    CHECK(c->epoch > expected); // core_load bounds it, so it does not wrap
    CHECK(c->address_len <= sizeof c->address);
    return ERR_OK;
}

// Tokens of two services cannot be compared, so the count starts again. The epoch continues to
// rise.
static enum err apply_coord(struct core *c, struct bytes payload)
{
    if (payload.len != sizeof c->coord) return ERR_INVALID;
    memcpy(c->coord, payload.data, payload.len);
    c->coord_set = true;
    c->token = 0;
    return ERR_OK;
}

static enum err apply_own_op(struct core *c, const struct op *op)
{
    CHECK(op->kind < OP_KIND_MACHINE);
    switch (op->kind) {
    case JOURNAL_OP_DIGEST:
    case JOURNAL_OP_TOUCH:
        // A digest was compared before the entry is folded. A touch only advances time.
        return ERR_OK;
    case JOURNAL_OP_OWN:
        return apply_own(c, op->payload);
    case JOURNAL_OP_COORD:
        return apply_coord(c, op->payload);
    default:
        return ERR_INVALID;
    }
}

// A repeated or older batch of a writer has no effect, nor has an entry of another epoch.
static bool is_void(const struct core *c, const struct entry *e)
{
    if (e->epoch != 0 && e->epoch != c->epoch && !MUTANT(EPOCH_OFF)) return true;
    const struct session *row = session_find(c, e->writer);
    return row && row->sequence >= e->sequence;
}

bool core_apply(struct core *c, const struct journal_rules *rules, const struct entry *e,
                struct op_result *results)
{
    CHECK(e->slot == c->slot + 1);
    CHECK(0 <= e->time.lo && e->time.lo <= e->time.hi);
    c->slot = e->slot;
    c->chain = e->hash;
    if (e->time.lo > c->now) c->now = e->time.lo;
    sessions_expire(c, rules);
    if (is_void(c, e)) return false;
    session_advance(c, rules, e);
    for (size_t i = 0; i < e->ops_len; i++) {
        if (e->ops[i].kind >= OP_KIND_MACHINE) continue;
        enum err err = apply_own_op(c, &e->ops[i]);
        if (results) results[i] = (struct op_result){.err = err};
    }
    CHECK(core_is_sound(c));
    return true;
}

uint64_t core_digest(const struct core *c)
{
    CHECK(c->address_len <= sizeof c->address);
    uint64_t h = hash64_mix(c->slot, c->chain.lo);
    h = hash64_mix(h, (uint64_t)c->now);
    h = hash64_mix(h, c->epoch);
    h = hash64_mix(h, c->token);
    h = hash64_mix(h, hash64_of(bytes_of(c->coord, sizeof c->coord), c->coord_set));
    h = hash64_mix(h, hash64_of(bytes_of(c->address, c->address_len), 0));
    h = hash64_mix(h, (uint64_t)c->horizon);
    return hash64_mix(h, c->sessions_hash);
}

#define LAYOUT_OF struct session
static const struct layout_field session_fields[] = {
    HASH(writer),
    U64(sequence),
    I64(time),
};
const struct layout session_layout = LAYOUT(session_fields);
#undef LAYOUT_OF

// Then the address, the horizon and the sessions. The reader has the bounds: entries that lie can
// lead to a state outside of them, which no process loads.
#define LAYOUT_OF struct core
static const struct layout_field core_fields[] = {
    U64(slot), HASH(chain), I64(now), U64(epoch), FLAG(coord_set), FIXED(coord), U64(token),
};
const struct layout core_layout = LAYOUT(core_fields);
#undef LAYOUT_OF

void core_save(const struct core *c, struct buf *out)
{
    CHECK(c->sessions_len <= UINT32_MAX);
    CHECK(core_is_sound(c));
    layout_put(&core_layout, out, c);
    buf_put_sized(out, bytes_of(c->address, c->address_len));
    buf_put_i64(out, c->horizon);
    buf_put_u32(out, (uint32_t)c->sessions_len);
    for (size_t i = 0; i < c->sessions_len; i++)
        layout_put(&session_layout, out, &c->sessions[i]);
}

// As in an entry: sums of such times cannot overflow.
static bool is_time(int64_t time)
{
    return 0 <= time && time <= ENTRY_TIME_MAX;
}

static void load_sessions(struct core *c, struct reader *r)
{
    CHECK(!c->sessions && c->sessions_len == 0);
    uint32_t len = read_u32(r);
    if (len > r->left / layout_bytes_min(&session_layout)) r->bad = true;
    if (!reader_ok(r)) return;
    c->sessions = memory_zeroed(len, sizeof *c->sessions);
    c->sessions_len = c->sessions_cap = len;
    for (size_t i = 0; i < len && layout_read(&session_layout, r, &c->sessions[i]); i++) {
        struct session *row = &c->sessions[i];
        if (i > 0 && writer_compare(row[-1].writer, row->writer) >= 0) r->bad = true;
        if (!is_time(row->time)) r->bad = true;
        c->sessions_hash ^= session_hash(row);
    }
    if (reader_ok(r)) sessions_find_oldest(c);
}

enum err core_load(struct core *c, struct reader *r)
{
    core_done(c);
    (void)layout_read(&core_layout, r, c);
    struct bytes address = read_sized(r, JOURNAL_ADDRESS_MAX);
    c->address_len = address.len;
    if (address.len > 0) memcpy(c->address, address.data, address.len);
    c->horizon = read_i64(r);
    load_sessions(c, r);
    bool horizon_ok = c->horizon == TIME_UNKNOWN || is_time(c->horizon - 1);
    bool slot_ok = 0 < c->slot && c->slot <= ENTRY_SLOT_MAX / 2; // there are slots after it
    bool epoch_ok = c->epoch <= ENTRY_SLOT_MAX;                  // the next ones do not wrap
    if (!slot_ok || !epoch_ok || !is_time(c->now) || !horizon_ok) r->bad = true;
    if (!reader_ok(r)) {
        core_done(c);
        return ERR_CORRUPT;
    }
    CHECK(core_is_sound(c));
    return ERR_OK;
}
