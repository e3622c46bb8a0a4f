// SPDX-License-Identifier: Apache-2.0
// How messages ended, for as long as the setting `retention` says: a ring of rows, by time. A row
// has one message, or messages with consecutive numbers that ended alike at the same time. The
// newest FINISHED_MAX rows are kept.
//
// Only a look at a message that is finished searches the rows. So they have no index, and an ack
// costs an append.
#include "queue/tables/finished.h"

#include "base/check.h"
#include "base/memory.h"
#include "queue/core/state.h"

#include <string.h>

#define CAP_KEPT 1024 // a larger ring is freed when it is empty

static const char *const outcome_names[FINISHED_COUNT] = {"processed", "dead-lettered", "purged",
                                                          "redriven", "cancelled"};

const char *finished_outcome_name(enum finished_outcome outcome)
{
    CHECK((unsigned)outcome < FINISHED_COUNT);
    return outcome_names[outcome];
}

static inline struct finished_row *row_at(const struct finished_table *f, uint32_t index)
{
    uint32_t at = f->head + index;
    CHECK(index < f->cap);
    return &f->rows[at < f->cap ? at : at - f->cap];
}

// The sum of odd multiples is cheap. One mix at the end spreads it.
static inline uint64_t row_hash(const struct finished_table *f, const struct finished_row *row)
{
    uint64_t h = row->seq * 0x9e3779b97f4a7c15u + (uint64_t)row->at * 0xc2b2ae3d27d4eb4fu;
    h += ((uint64_t)row->count << 32 | row->attempts) * 0x165667b19e3779f9u;
    return mix(h, name_hash(&f->names, row->worker) + row->outcome);
}

uint64_t finished_digest(const struct machine *m)
{
    const struct finished_table *f = &m->finished;
    CHECK(f->len <= f->cap && f->cap <= FINISHED_MAX);
    uint64_t last = f->len > 0 ? row_hash(f, row_at(f, f->len - 1)) : 0;
    return mix(mix(f->chain, last), f->len);
}

static void drop_first(struct machine *m)
{
    struct finished_table *f = &m->finished;
    CHECK(f->len > 0);
    const struct finished_row *row = row_at(f, 0);
    if (m->retained.ring.len > 0) retained_leave(m, row->seq, row->count);
    if (m->workflows.ended_ring.len > 0) workflow_ended_leave(m, row->seq, row->count);
    // The last row closes, so that the chain does not depend on when it is dropped.
    if (f->len == 1) f->chain = mix(f->chain, row_hash(f, row));
    name_release(&f->names, row->worker);
    f->head = f->head + 1 < f->cap ? f->head + 1 : 0;
    f->len--;
}

static void grow(struct finished_table *f)
{
    uint32_t cap = f->cap < 16 ? 16 : f->cap < FINISHED_MAX / 2 ? f->cap * 2 : FINISHED_MAX;
    CHECK(f->len == f->cap && cap > f->cap);
    struct finished_row *rows = memory_new(cap * sizeof *rows);
    uint32_t first = f->cap - f->head; // rows up to the end of the old ring
    if (f->cap > 0) {
        memcpy(rows, f->rows + f->head, first * sizeof *rows);
        memcpy(rows + first, f->rows, f->head * sizeof *rows);
    }
    memory_free(f->rows);
    f->rows = rows;
    f->head = 0;
    f->cap = cap;
}

static inline struct finished_row *row_new(struct machine *m)
{
    struct finished_table *f = &m->finished;
    if (f->len == FINISHED_MAX) drop_first(m);
    if (f->len == f->cap) grow(f);
    CHECK(f->len < f->cap);
    return row_at(f, f->len++);
}

static inline bool has_worker(const struct finished_table *f, const struct finished_row *row,
                              struct bytes name)
{
    struct bytes have = name_text(&f->names, row->worker);
    return have.len == name.len && (have.len == 0 || memcmp(have.data, name.data, have.len) == 0);
}

void finished_note(struct machine *m, uint64_t seq, uint32_t count, uint32_t attempts,
                   struct bytes worker, enum finished_outcome outcome)
{
    if (m->config.retention_ms == 0) return;
    CHECK(seq + count <= m->seq_next);
    if (m->workflows.members_len > 0 && outcome != FINISHED_REDRIVEN)
        workflow_ended_note(m, seq, count);
    struct finished_table *f = &m->finished;
    struct finished_row *last = f->len > 0 ? row_at(f, f->len - 1) : NULL;
    // Mostly the same worker as before: its name is not searched.
    bool same = last && (has_worker(f, last, worker) || MUTANT(FINISHED_MERGED));
    if (same && last->seq + last->count == seq && last->at == m->now &&
        last->attempts == attempts && last->outcome == outcome &&
        last->count <= UINT32_MAX - count) {
        last->count += count;
        return;
    }
    uint32_t name = same ? last->worker : name_hold(&f->names, worker);
    if (same) name_hold_again(&f->names, name);
    if (last) f->chain = mix(f->chain, row_hash(f, last));
    *row_new(m) = (struct finished_row){.seq = seq,
                                        .at = m->now,
                                        .count = count,
                                        .worker = name,
                                        .attempts = attempts,
                                        .outcome = (uint8_t)outcome};
}

static bool is_over(const struct machine *m, const struct finished_row *row, int64_t now)
{
    return row->at + finished_kept_ms(m) <= now;
}

bool finished_is_over(const struct machine *m, uint32_t index, int64_t now)
{
    CHECK(index < m->finished.len);
    return is_over(m, row_at(&m->finished, index), now);
}

void finished_expire(struct machine *m)
{
    struct finished_table *f = &m->finished;
    while (finished_due(m))
        drop_first(m);
    if (f->len > 0 || f->cap <= CAP_KEPT) return;
    uint64_t chain = f->chain;
    finished_clear(m);
    f->chain = chain;
}

void finished_drop_all(struct machine *m)
{
    while (m->finished.len > 0)
        drop_first(m);
    CHECK(m->finished.names.by_hash.len == 0); // no row refers to a name
}

void finished_clear(struct machine *m)
{
    struct finished_table *f = &m->finished;
    memory_free(f->rows);
    name_table_clear(&f->names);
    *f = (struct finished_table){0};
}

static bool has(const struct finished_row *row, uint64_t seq)
{
    return seq >= row->seq && seq - row->seq < row->count;
}

bool finished_seek(const struct machine *m, uint32_t *index, uint64_t seq)
{
    const struct finished_table *f = &m->finished;
    while (*index < f->len && !has(row_at(f, *index), seq))
        ++*index;
    CHECK(*index <= f->len);
    return *index < f->len;
}

bool finished_in_order(const struct machine *m, uint32_t len,
                       uint64_t (*seq_at)(const struct machine *m, uint32_t index))
{
    uint32_t at = 0;
    uint64_t last = 0;
    CHECK(len <= FINISHED_MAX);
    for (uint32_t i = 0; i < len; i++) {
        uint64_t seq = seq_at(m, i);
        uint32_t before = at;
        if (!finished_seek(m, &at, seq) || (at == before && seq <= last)) return false;
        last = seq;
    }
    return true;
}

static struct finished_view view(const struct machine *m, const struct finished_row *row,
                                 uint64_t seq)
{
    CHECK(row->outcome < FINISHED_COUNT && row->at <= m->now && has(row, seq));
    return (struct finished_view){.seq = seq,
                                  .outcome = (enum finished_outcome)row->outcome,
                                  .at = row->at,
                                  .attempts = row->attempts,
                                  .worker = name_text(&m->finished.names, row->worker)};
}

bool machine_finished(const struct machine *m, uint64_t seq, int64_t now, struct finished_view *out)
{
    const struct finished_table *f = &m->finished;
    for (uint32_t i = f->len; i > 0; i--) {
        const struct finished_row *row = row_at(f, i - 1);
        if (is_over(m, row, now)) return false;
        if (!has(row, seq)) continue;
        *out = view(m, row, seq);
        for (uint32_t k = m->retained.ring.len; k > 0; k--)
            if (retained_at(m, k - 1)->seq == seq) {
                retained_view(retained_at(m, k - 1), out);
                break;
            }
        return true;
    }
    return false;
}

// A place in the rows, from the newest to the oldest: rows 0 .. row - 1 are left, of the last one
// only the first `left` messages. Retained rows 0 .. retained - 1 are left, too.
struct finished_cursor {
    uint32_t row;
    uint32_t left;
    uint32_t retained;
};

static void pass_row(const struct machine *m, struct finished_cursor *b)
{
    const struct finished_row *row = row_at(&m->finished, b->row - 1);
    while (b->retained > 0 && has(row, retained_at(m, b->retained - 1)->seq))
        b->retained--;
    b->row--;
    b->left = b->row > 0 ? row_at(&m->finished, b->row - 1)->count : 0;
    CHECK(b->row < m->finished.len);
}

// Goes on to the messages that ended before this one.
static void pass_newer(const struct machine *m, struct finished_cursor *b,
                       const struct finished_view *before)
{
    while (b->row > 0 && row_at(&m->finished, b->row - 1)->at > before->at)
        pass_row(m, b);
    struct finished_cursor same = *b;
    while (same.row > 0) {
        const struct finished_row *row = row_at(&m->finished, same.row - 1);
        if (row->at < before->at) break;
        if (has(row, before->seq)) {
            same.left = (uint32_t)(before->seq - row->seq);
            while (same.retained > 0 && has(row, retained_at(m, same.retained - 1)->seq) &&
                   retained_at(m, same.retained - 1)->seq >= before->seq)
                same.retained--;
            break;
        }
        pass_row(m, &same);
    }
    *b = same;
    CHECK(b->row <= m->finished.len);
}

size_t machine_finished_list(const struct machine *m, int64_t now,
                             const struct finished_view *before, struct finished_view *out,
                             size_t max)
{
    const struct finished_table *f = &m->finished;
    struct finished_cursor b = {.row = f->len, .retained = m->retained.ring.len};
    b.left = f->len > 0 ? row_at(f, f->len - 1)->count : 0;
    if (before) pass_newer(m, &b, before);
    size_t len = 0;
    while (b.row > 0 && len < max) {
        const struct finished_row *row = row_at(f, b.row - 1);
        if (is_over(m, row, now)) break;
        if (b.left == 0) {
            pass_row(m, &b);
            continue;
        }
        uint64_t seq = row->seq + --b.left;
        out[len] = view(m, row, seq);
        if (b.retained > 0 && retained_at(m, b.retained - 1)->seq == seq)
            retained_view(retained_at(m, --b.retained), &out[len]);
        len++;
    }
    CHECK(len <= max);
    return len;
}

// In a snapshot a row has the differences to the row before it. The names are in the order in which
// the rows use them. The digest has the rows only as a part of the chain, so a hash protects them.

static uint64_t zigzag(uint64_t difference)
{
    return difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0);
}

static uint64_t unzigzag(uint64_t v)
{
    return v >> 1 ^ (v & 1 ? UINT64_MAX : 0);
}

static void save_row(const struct finished_row *row, uint32_t name, uint64_t seq, int64_t at,
                     struct buf *out)
{
    CHECK(row->count > 0 && row->outcome < FINISHED_COUNT && row->at >= at); // as load_row asks
    CHECK(seq + unzigzag(zigzag(row->seq - seq)) == row->seq);
    buf_put_var(out, zigzag(row->seq - seq));
    buf_put_var(out, row->count);
    buf_put_var(out, (uint64_t)row->at - (uint64_t)at);
    buf_put_var(out, name);
    buf_put_var(out, row->attempts);
    buf_put_u8(out, row->outcome);
}

void finished_save(const struct machine *m, struct buf *out)
{
    const struct finished_table *f = &m->finished;
    size_t start = out->len;
    uint32_t *numbers = memory_zeroed(f->names.len + (size_t)1, sizeof *numbers), names = 0;
    uint32_t *order = memory_zeroed(f->names.len + (size_t)1, sizeof *order);
    for (uint32_t i = 0; i < f->len; i++) {
        uint32_t worker = row_at(f, i)->worker;
        if (!worker || numbers[worker]) continue;
        numbers[worker] = ++names;
        order[names] = worker;
    }
    CHECK(names == f->names.by_hash.len);
    buf_put_u32(out, names);
    for (uint32_t i = 1; i <= names; i++)
        buf_put_sized(out, name_text(&f->names, order[i]));
    buf_put_u32(out, f->len);
    int64_t at = f->len > 0 ? row_at(f, 0)->at : 0;
    buf_put_i64(out, at);
    uint64_t seq = 0;
    for (uint32_t i = 0; i < f->len; i++) {
        const struct finished_row *row = row_at(f, i);
        save_row(row, numbers[row->worker], seq, at, out);
        seq = row->seq + row->count;
        at = row->at;
    }
    memory_free(numbers);
    memory_free(order);
    buf_put_u64(out, f->chain);
    if (!out->bad) buf_put_u64(out, hash64_of(bytes_of(out->data + start, out->len - start), 0));
}

#define ROW_BYTES_MIN  6 // smallest size of a row: limits a false count
#define NAME_BYTES_MIN 5

struct loading_state {
    struct bytes *names; // names[1] and so on
    uint32_t names_len;
    uint32_t names_used;
    uint64_t seq;
    int64_t at;
};

static void load_row(struct machine *m, struct reader *r, struct loading_state *l)
{
    uint64_t seq = l->seq + unzigzag(read_var(r)), count = read_var(r), after = read_var(r);
    uint64_t name = read_var(r), attempts = read_var(r);
    uint8_t outcome = read_u8(r);
    if (seq == 0 || seq >= m->seq_next || count == 0 || count > m->seq_next - seq) r->bad = true;
    if (count > UINT32_MAX || attempts > UINT32_MAX || outcome >= FINISHED_COUNT) r->bad = true;
    if (l->at > m->now || after > (uint64_t)m->now - (uint64_t)l->at) r->bad = true;
    if (name > l->names_used + (uint64_t)1 || name > l->names_len) r->bad = true;
    if (r->bad) return;
    if (name > l->names_used) l->names_used++;
    l->at += (int64_t)after;
    l->seq = seq + count;
    struct finished_row row = {.seq = seq,
                               .at = l->at,
                               .count = (uint32_t)count,
                               .attempts = (uint32_t)attempts,
                               .outcome = outcome};
    if (is_over(m, &row, m->now)) {
        r->bad = true;
        return;
    }
    row.worker = name_hold(&m->finished.names, name ? l->names[name] : BYTES_EMPTY);
    *row_new(m) = row;
}

static void load_rows(struct machine *m, struct reader *r, struct loading_state *l)
{
    CHECK(m->finished.len == 0 && m->finished.names.len == 0);
    uint32_t count = read_u32(r);
    l->at = read_i64(r);
    if (count > FINISHED_MAX || count > r->left / ROW_BYTES_MIN) r->bad = true;
    if (count == 0 && l->at != 0) r->bad = true;
    for (uint32_t i = 0; i < count && reader_ok(r); i++)
        load_row(m, r, l);
    // Names that are equal, or that no row uses, would be saved in another way.
    if (l->names_used != l->names_len || m->finished.names.by_hash.len != l->names_len)
        r->bad = true;
}

void finished_load(struct machine *m, struct reader *r)
{
    const uint8_t *start = r->at;
    struct loading_state l = {.names_len = read_u32(r)};
    if (l.names_len > r->left / NAME_BYTES_MIN) r->bad = true;
    if (r->bad) return;
    l.names = memory_zeroed(l.names_len + (size_t)1, sizeof *l.names);
    for (uint32_t i = 1; i <= l.names_len; i++) {
        l.names[i] = read_sized(r, WORKER_NAME_MAX);
        if (l.names[i].len == 0) r->bad = true;
    }
    if (reader_ok(r)) load_rows(m, r, &l);
    memory_free(l.names);
    m->finished.chain = read_u64(r);
    if (r->bad) return;
    uint64_t hash = hash64_of(bytes_of(start, (size_t)(r->at - start)), 0);
    if (read_u64(r) != hash) r->bad = true;
}

void finished_check(const struct machine *m)
{
    const struct finished_table *f = &m->finished;
    size_t named = 0;
    CHECK(f->len <= f->cap && (f->head < f->cap || f->cap == 0));
    for (uint32_t i = 0; i < f->len; i++) {
        const struct finished_row *row = row_at(f, i);
        CHECK(row->seq > 0 && row->count > 0 && row->seq + row->count <= m->seq_next);
        CHECK(row->at <= m->now && !is_over(m, row, m->now));
        CHECK(row->outcome < FINISHED_COUNT);
        if (i > 0) CHECK(row->at >= row_at(f, i - 1)->at);
        named += row->worker != 0;
    }
    name_table_check(&f->names, named);
}
