// SPDX-License-Identifier: Apache-2.0
// Slot n is canonical when it is created while the history has n - 1 slots. Whether an entry has
// effects at all is decided here by rules of its own: the owner's epoch must be the current one.
#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "check.h"
#include "journal/core.h"

#include <inttypes.h>
#include <string.h>

void reference_init(struct reference *g, struct world *w, uint32_t lane)
{
    struct lane *l = &w->life->lanes[lane];
    *g = (struct reference){
        .world = w, .lane = lane, .config = l->birth, .now = TIME_UNKNOWN, .rules = l->birth.rules};
    g->machine = machine_new(&l->id, l->shard, &l->birth);
    events_init(&g->events);
    buf_init(&g->text, SIZE_MAX);
    map_init(&g->by_request);
}

void reference_done(struct reference *g)
{
    for (uint64_t i = 0; i < g->len; i++)
        bytes_free(g->slots[i].bytes);
    for (uint32_t i = 0; i < g->seen_len; i++)
        bytes_free(g->seen[i].body);
    memory_free(g->slots);
    memory_free(g->rows);
    memory_free(g->seen);
    memory_free(g->holds);
    memory_free(g->signals);
    memory_free(g->tokens);
    map_done(&g->by_request);
    machine_free(g->machine);
    events_done(&g->events);
    buf_done(&g->text);
}

const struct reference_slot *reference_at(const struct reference *g, uint64_t slot)
{
    return slot == 0 || slot > g->len ? NULL : &g->slots[slot - 1];
}

struct row *reference_row(struct reference *g, uint64_t seq)
{
    return seq == 0 || seq > g->rows_len ? NULL : &g->rows[seq - 1];
}

static uint64_t request_key(const struct request_id *id)
{
    return hash64_of(bytes_of(id->bytes, sizeof id->bytes), 0);
}

const struct seen *reference_seen(const struct reference *g, const struct request_id *id)
{
    uint64_t key = request_key(id);
    uint32_t i;
    for (size_t at = map_first(&g->by_request, key);
         (i = map_value(&g->by_request, key, &at)) != MAP_NONE;)
        if (memcmp(g->seen[i].id.bytes, id->bytes, sizeof id->bytes) == 0) return &g->seen[i];
    return NULL;
}

void reference_remember(struct reference *g, const struct request_id *id, uint16_t kind,
                        struct bytes body)
{
    if (g->seen_len == g->seen_cap) {
        g->seen_cap = g->seen_cap ? g->seen_cap * 2 : 128;
        g->seen = memory_resize(g->seen, g->seen_cap * sizeof *g->seen);
    }
    g->seen[g->seen_len] =
        (struct seen){.id = *id, .kind = kind, .slot = g->slot, .body = bytes_copy(body)};
    map_add(&g->by_request, request_key(id), g->seen_len++);
}

void reference_move(struct reference *g, struct row *row, enum message_state to)
{
    signals_moved(g, row, to);
    end_note(g, row, to);
    workflow_moved(g, row, to);
    g->counts[row->state]--;
    g->counts[to]++;
    row->state = to;
}

struct row *reference_push(struct reference *g, uint64_t seq)
{
    if (seq != g->rows_len + 1)
        findings_add(&g->world->findings, "I5", "lane %u: message %" PRIu64 " follows %" PRIu64,
                     g->lane, seq, g->rows_len);
    if (g->rows_len == g->rows_cap) {
        g->rows_cap = g->rows_cap ? g->rows_cap * 2 : 128;
        g->rows = memory_resize(g->rows, g->rows_cap * sizeof *g->rows);
    }
    struct row *row = &g->rows[g->rows_len++];
    *row = (struct row){.state = STATE_READY, .sent_slot = g->slot};
    g->counts[STATE_READY]++;
    return row;
}

uint64_t reference_held(const struct reference *g)
{
    return g->counts[STATE_READY] + g->counts[STATE_LOCKED] + g->counts[STATE_DEAD];
}

static void check_entry(struct reference *g, const struct entry *e)
{
    struct findings *v = &g->world->findings;
    if (e->slot != g->slot)
        findings_add(v, "I1", "lane %u: slot %" PRIu64 " holds the entry of %" PRIu64, g->lane,
                     g->slot, e->slot);
    if (!hash128_equal(e->previous, g->chain))
        findings_add(v, "I1", "lane %u: the entry in slot %" PRIu64 " does not chain", g->lane,
                     g->slot);
    struct life *life = g->world->life;
    for (uint32_t i = 0; i < life->pens_len; i++) {
        struct pen *p = &life->pens[i];
        if (!hash128_equal(p->writer, e->writer)) continue;
        if (e->sequence <= p->sequence)
            findings_add(v, "I2", "lane %u: slot %" PRIu64 " repeats an earlier batch", g->lane,
                         g->slot);
        p->sequence = e->sequence;
        return;
    }
    findings_add(v, "I1", "lane %u: slot %" PRIu64 " was written by no node", g->lane, g->slot);
}

// Pairs on their way through a handle that was the owner until now; it does not know yet.
static void note_fenced(struct reference *g)
{
    struct life *life = g->world->life;
    for (uint32_t i = life->sim_calls_open; i < life->sim_calls_len; i++) {
        struct sim_call *a = &life->calls[i];
        if (a->lane != g->lane || !a->partner || a->what != SIM_CALL_OP || !a->open) continue;
        const struct node *n = &g->world->nodes[a->node];
        bool both = life->calls[a->partner - 1].open && !reference_seen(g, &a->request);
        if (!both || a->fenced_slot || !n->up || !journal_is_owner(n->journal)) continue;
        a->fenced_slot = g->slot;
        life->joined[JOINED_FENCED]++;
    }
}

// There is one coordination service here, so only the token counts.
static void fold_own(struct reference *g, const struct op *op)
{
    struct reader r = reader_of(op->payload);
    uint64_t expected = read_u64(&r);
    (void)read_bytes(&r, 16);
    uint64_t token = read_u64(&r);
    struct reader address = reader_of(read_sized(&r, JOURNAL_ADDRESS_MAX));
    uint32_t place = read_u32(&address);
    bool applied = expected == g->epoch && (!g->coord_set || token > g->token);
    if (applied) {
        g->coord_set = true;
        g->token = token;
        g->epoch++;
        note_fenced(g);
    }
    struct life *life = g->world->life;
    if (!reader_end(&r) || place >= life->sim_calls_len) {
        findings_add(&g->world->findings, "I7", "lane %u: slot %" PRIu64 " holds a strange own",
                     g->lane, g->slot);
        return;
    }
    // What the history says of it, for the answer's check.
    struct sim_call *a = &life->calls[place];
    reference_remember(g, &a->request, JOURNAL_OP_OWN, bytes_str(applied ? "y" : "n"));
}

static void fold(struct reference *g, const struct entry *e, struct bytes bytes)
{
    struct op_result *results = memory_zeroed(e->ops_len + 1, sizeof *results);
    struct machine_entry view = {.slot = e->slot,
                                 .time = e->time,
                                 .now = g->now,
                                 .epoch = e->epoch,
                                 .bytes = bytes,
                                 .ops = e->ops,
                                 .ops_len = e->ops_len};
    size_t events_from = g->events.len;
    buf_clear(&g->text);
    machine_apply(g->machine, &view, results, &g->text, &g->events);
    g->from = e->time.hi > g->now ? e->time.hi : g->now;
    check_event_ids(g, events_from);
    ends_expire(g);
    walk_entry(g, e, results, events_from);
    ends_expire(g);
    check_ends(g, g->machine);
    check_workflows(g, events_from);
    check_signals(g);
    check_deadlines(g);
    check_counts(g);
    if (g->slot % 16 == 0) machine_check(g->machine);
    memory_free(results);
}

static void fold_entry(struct reference *g, const struct entry *e, struct reference_slot *row)
{
    check_entry(g, e);
    check_entry_rules(g, e);
    if (e->time.lo > g->now) g->now = e->time.lo;
    row->is_void = e->epoch != 0 && e->epoch != g->epoch;
    g->voids += row->is_void;
    g->chain = e->hash;
    for (size_t i = 0; i < e->ops_len && !row->is_void; i++)
        if (e->ops[i].kind == JOURNAL_OP_OWN) fold_own(g, &e->ops[i]);
    if (!row->is_void) fold(g, e, row->bytes);
    row->epoch = g->epoch;
    row->machine_digest = machine_digest(g->machine);
    row->events_end = g->events.len;
    row->empty = g->dry || !machine_claimable(g->machine, g->now, BYTES_EMPTY);
    row->empty_for = fleet_empty_for(g);
    row->full = reference_held(g) >= g->config.capacity;
    row->owner_only = g->config.consume == CONSUME_OWNER;
    row->ownerless = !row->is_void && g->ownerless;
}

static void extend(struct reference *g, struct bytes bytes)
{
    if (g->len == g->cap) {
        g->cap = g->cap ? g->cap * 2 : 128;
        g->slots = memory_resize(g->slots, g->cap * sizeof *g->slots);
    }
    struct reference_slot *row = &g->slots[g->len++];
    g->slot = g->len;
    *row = (struct reference_slot){.bytes = bytes_copy(bytes), .made_at = g->world->now};
    struct entry e;
    const char *why = NULL;
    if (entry_decode(row->bytes, &e, &why) != ERR_OK) {
        findings_add(&g->world->findings, "I1", "lane %u: slot %" PRIu64 " was written damaged: %s",
                     g->lane, g->slot, why);
        return;
    }
    fold_entry(g, &e, row);
    entry_done(&e);
}

void reference_slot_made(struct reference *g, uint64_t slot, struct bytes bytes)
{
    if (slot == g->len + 1) {
        extend(g, bytes);
    } else if (slot <= g->len) {
        g->zombies++;
    } else {
        findings_add(&g->world->findings, "I1",
                     "lane %u: slot %" PRIu64 " leaves a gap after %" PRIu64, g->lane, slot,
                     g->len);
    }
}
