// SPDX-License-Identifier: Apache-2.0
// Affinity: with dispatch=affinity a group stays with the row that got its last ticket, as long as
// that registration lives. A group with messages has its bond in its scope. A group without
// messages has a row here, so that its next message finds the same worker. Only the newest
// BONDS_MAX of these are kept.
#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "queue/tables/registry.h"

#define BONDS_MAX 65536

#define LAYOUT_OF struct affinity_row
static const struct layout_field row_fields[] = {U64(group), U64(serial, .min = 1)};
const struct layout affinity_row_layout = LAYOUT(row_fields);
#undef LAYOUT_OF

static uint64_t bond_hash(uint64_t group, uint64_t serial)
{
    struct affinity_row row = {.group = group, .serial = serial};
    CHECK(serial > 0);
    return layout_flat_hash(&affinity_row_layout, 0x626f6e64u, &row);
}

static bool is_live(const struct machine *m, uint32_t w, uint64_t serial)
{
    CHECK(w < m->workers_len);
    const struct worker *worker = &m->workers[w];
    return worker->row && worker->serial == serial && worker->row->mode != WORKER_IS_EVICTED;
}

uint32_t scope_row(const struct machine *m, const struct scope *s)
{
    return s->bound && is_live(m, s->bound, s->bound_serial) && !MUTANT(AFFINITY_OFF) ? s->bound
                                                                                      : 0;
}

static void set_bound(struct machine *m, struct scope *s, uint32_t w, uint64_t serial)
{
    CHECK(w < m->workers_len && (w == 0 || serial > 0));
    if (s->bound_serial) m->digest -= bond_hash(s->group, s->bound_serial);
    s->bound = w;
    s->bound_serial = serial;
    if (serial) m->digest += bond_hash(s->group, serial);
}

// The scope's message is just granted, so it offers nothing.
void scope_bind(struct machine *m, uint32_t scope, uint32_t w)
{
    struct scope *s = &m->scopes[scope];
    CHECK(has_affinity(m) && has_row(m, w) && (!s->offered || MUTANT(ORDER_OFF)));
    if (s->bound_serial != m->workers[w].serial) set_bound(m, s, w, m->workers[w].serial);
}

static void unlink_bond(struct machine *m, uint32_t at)
{
    struct affinity_table *b = &m->bonds;
    struct affinity_row *row = &b->rows[at];
    CHECK(at > 0 && row->serial > 0 && b->used > 0);
    *(row->older ? &b->rows[row->older].newer : &b->oldest) = row->newer;
    *(row->newer ? &b->rows[row->newer].older : &b->newest) = row->older;
    m->digest -= bond_hash(row->group, row->serial);
    map_remove(&b->by_group, row->group, at);
    *row = (struct affinity_row){.newer = b->free};
    b->free = at;
    b->used--;
}

static void append_bond(struct machine *m, uint64_t group, uint64_t serial)
{
    struct affinity_table *b = &m->bonds;
    if (b->used == BONDS_MAX) unlink_bond(m, b->oldest);
    uint32_t at = b->free;
    if (at) {
        b->free = b->rows[at].newer;
    } else {
        if (b->len == 0) b->len = 1; // row 0 is none
        (void)ARRAY_ROOM(b->rows, b->len, b->cap, 1);
        at = b->len++;
    }
    CHECK(serial > 0 && map_find(&b->by_group, group) == MAP_NONE);
    b->rows[at] = (struct affinity_row){.group = group, .serial = serial, .older = b->newest};
    *(b->newest ? &b->rows[b->newest].newer : &b->oldest) = at;
    b->newest = at;
    b->used++;
    map_add(&b->by_group, group, at);
    m->digest += bond_hash(group, serial);
}

void scope_adopt(struct machine *m, uint32_t scope)
{
    struct scope *s = &m->scopes[scope];
    uint32_t at = map_find(&m->bonds.by_group, s->group);
    CHECK(!s->bound_serial);
    if (at == MAP_NONE) return;
    uint64_t serial = m->bonds.rows[at].serial;
    unlink_bond(m, at);
    uint32_t w = map_find(&m->by_serial, serial);
    if (w != MAP_NONE) set_bound(m, s, w, serial);
}

void scope_retire(struct machine *m, uint32_t scope)
{
    struct scope *s = &m->scopes[scope];
    if (!s->bound_serial) return;
    uint64_t serial = s->bound_serial;
    uint32_t w = s->bound;
    CHECK(scope != SCOPE_UNGROUPED && s->refs == 0); // that one is never freed
    set_bound(m, s, 0, 0);
    if (has_affinity(m) && is_live(m, w, serial)) append_bond(m, s->group, serial);
}

void bonds_clear(struct machine *m)
{
    memory_free(m->bonds.rows);
    map_done(&m->bonds.by_group);
    m->bonds = (struct affinity_table){0};
}

// A bond whose registration ended has no effect any more. It is saved all the same: it counts until
// it is replaced.
void bonds_save(const struct machine *m, struct buf *out)
{
    struct affinity_row *bound = memory_new((m->scopes_len + 1U) * sizeof *bound);
    size_t len = 0;
    for (uint32_t s = SCOPE_UNGROUPED; s < m->scopes_len; s++)
        if (m->scopes[s].bound_serial)
            bound[len++] =
                (struct affinity_row){m->scopes[s].group, m->scopes[s].bound_serial, 0, 0};
    rows_sort(bound, len, sizeof *bound);
    buf_put_u64(out, len);
    for (size_t i = 0; i < len; i++)
        layout_put(&affinity_row_layout, out, &bound[i]);
    memory_free(bound);
    buf_put_u64(out, m->bonds.used);
    for (uint32_t at = m->bonds.oldest; at; at = m->bonds.rows[at].newer)
        layout_put(&affinity_row_layout, out, &m->bonds.rows[at]);
}

// Moves what the scope offers into the right lane.
static void reoffer(struct machine *m, uint32_t scope, uint32_t w, uint64_t serial)
{
    struct scope *s = &m->scopes[scope];
    uint32_t offered = s->offered;
    CHECK(scope < m->scopes_len && (!offered || msg_at(m, offered)->scope == scope));
    if (offered) offer_remove(m, offered);
    set_bound(m, s, w, serial);
    if (offered) offer_push(m, offered);
}

static bool load_bound(struct machine *m, const struct affinity_row *row)
{
    uint32_t s = row->group ? map_find(&m->by_group, row->group) : SCOPE_UNGROUPED;
    if (s == MAP_NONE || m->scopes[s].bound_serial) return false;
    uint32_t w = map_find(&m->by_serial, row->serial);
    reoffer(m, s, w == MAP_NONE ? 0 : w, row->serial);
    return true;
}

static bool load_free(struct machine *m, const struct affinity_row *row)
{
    if (row->group == 0 || map_find(&m->bonds.by_group, row->group) != MAP_NONE) return false;
    if (map_find(&m->by_group, row->group) != MAP_NONE) return false;
    append_bond(m, row->group, row->serial);
    return true;
}

void bonds_load(struct machine *m, struct reader *r)
{
    CHECK(m->bonds.used == 0);
    for (int free = 0; free < 2; free++) {
        uint64_t count = rows_count(r, 8, free ? BONDS_MAX : 0, &affinity_row_layout);
        if (count > 0 && !has_affinity(m)) r->bad = true;
        for (uint64_t i = 0; i < count && reader_ok(r); i++) {
            struct affinity_row row = {0};
            if (!layout_read(&affinity_row_layout, r, &row)) return;
            bool good = row.serial <= m->serial;
            if (!good || !(free ? load_free : load_bound)(m, &row)) r->bad = true;
        }
    }
}

void scopes_reoffer(struct machine *m, uint32_t w)
{
    CHECK(has_row(m, w));
    for (uint32_t s = SCOPE_UNGROUPED; has_affinity(m) && s < m->scopes_len; s++) {
        struct scope *scope = &m->scopes[s];
        if (scope->bound == w && scope->bound_serial == m->workers[w].serial)
            reoffer(m, s, w, scope->bound_serial);
    }
}

void bonds_forget(struct machine *m)
{
    while (m->bonds.oldest)
        unlink_bond(m, m->bonds.oldest);
    for (uint32_t s = SCOPE_UNGROUPED; s < m->scopes_len; s++)
        if (m->scopes[s].bound_serial) reoffer(m, s, 0, 0);
    CHECK(m->bonds.used == 0 && m->bound_ready == 0);
}

void bonds_check(const struct machine *m)
{
    uint32_t used = 0;
    for (uint32_t at = m->bonds.oldest; at; at = m->bonds.rows[at].newer) {
        const struct affinity_row *row = &m->bonds.rows[at];
        CHECK(map_find(&m->bonds.by_group, row->group) == at && row->serial <= m->serial);
        CHECK(row->newer ? m->bonds.rows[row->newer].older == at : m->bonds.newest == at);
        CHECK(map_find(&m->by_group, row->group) == MAP_NONE); // its scope would have it
        used++;
    }
    CHECK(used == m->bonds.used && used <= BONDS_MAX);
    CHECK(used == 0 || has_affinity(m));
    for (uint32_t s = SCOPE_UNGROUPED; s < m->scopes_len; s++)
        CHECK(!m->scopes[s].bound_serial || has_affinity(m));
}
