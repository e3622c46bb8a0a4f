// SPDX-License-Identifier: Apache-2.0
// Rows of every kind, the allowed moves between states, and the digest. The digest is a sum of one
// hash per row, so it is updated row by row and does not depend on the order of creation.
#include "base/check.h"
#include "base/memory.h"
#include "queue/core/record_layouts.h"
#include "queue/tables/registry.h"

static const char *const state_names[STATE_COUNT] = {"ready",  "delayed",  "locked", "processed",
                                                     "dead",   "outbound", "moved",  "redriven",
                                                     "purged", "cancelled"};

#define TO(state) (1u << STATE_##state)

static const unsigned moves[STATE_COUNT + 1] = {
    [STATE_READY] = TO(LOCKED) | TO(PURGED) | TO(CANCELLED),
    [STATE_DELAYED] = TO(READY) | TO(PURGED) | TO(CANCELLED),
    [STATE_LOCKED] = TO(READY) | TO(DELAYED) | TO(PROCESSED) | TO(DEAD) | TO(OUTBOUND) |
                     TO(PURGED) | TO(CANCELLED),
    [STATE_DEAD] = TO(REDRIVEN) | TO(PURGED),
    [STATE_OUTBOUND] = TO(MOVED),
    [STATE_NONE] = TO(READY) | TO(DELAYED),
};

const char *message_state_name(enum message_state s)
{
    CHECK((unsigned)s < STATE_COUNT);
    return state_names[s];
}

void count_move(struct machine *m, enum message_state from, enum message_state to, uint64_t n)
{
    CHECK(to < STATE_COUNT && (moves[from] & (1u << to)));
    if (from == STATE_NONE) {
        m->sent += n;
    } else {
        CHECK(m->counts[from] >= n);
        m->counts[from] -= n;
    }
    m->counts[to] += n;
}

#define LAYOUT_OF struct msg
const struct layout record_layout = LAYOUT(record_fields);
#undef LAYOUT_OF
#define LAYOUT_OF struct lock
const struct layout record_lock_layout = LAYOUT(lock_fields);
const struct layout record_death_layout = LAYOUT(death_fields);
#undef LAYOUT_OF
#define LAYOUT_OF struct range
const struct layout range_layout = LAYOUT(range_fields);
#undef LAYOUT_OF

static uint64_t lock_hash(const struct machine *m, const struct msg *msg, uint64_t seed)
{
    const struct lock *lock = lock_of(m, msg);
    if (msg->state == STATE_DEAD || msg->state == STATE_OUTBOUND)
        return layout_flat_hash(&death_in_line, seed, lock);
    uint64_t h = layout_flat_hash(&lock_in_line, seed, lock);
    return lock->end == LOCK_CURRENT ? mix(h, m->workers[lock->worker].hash) : h;
}

static uint64_t msg_hash(const struct machine *m, uint32_t handle)
{
    const struct msg *msg = msg_at(m, handle);
    uint64_t h = layout_flat_hash(&record_in_line, 0, msg);
    if (msg->scope) h = mix(h, m->scopes[msg->scope].group);
    if (msg->lane) h = mix(h, m->requirements[msg->lane].hash);
    if (msg->state == STATE_DELAYED) h = mix(h, (uint64_t)heap_get(&m->timers, handle)->key);
    return msg->lock ? lock_hash(m, msg, h) : h;
}

static struct msg_edit edit_begin(struct machine *m, uint32_t h)
{
    CHECK(m->edited == 0);
    m->edited = h;
    return (struct msg_edit){m, h};
}

struct msg_edit msg_edit(struct machine *m, uint32_t h)
{
    CHECK(msg_at(m, h)->seq > 0);
    m->digest -= msg_hash(m, h);
    return edit_begin(m, h);
}

void msg_edit_end(struct msg_edit *edit)
{
    struct machine *m = edit->m;
    if (m->edited == 0) return; // freed, or none
    CHECK(m->edited == edit->h);
    m->digest += msg_hash(m, edit->h);
    m->edited = 0;
}

void msg_edit_discard(struct msg_edit *edit)
{
    CHECK(edit->m->edited == edit->h);
    edit->m->edited = 0;
}

static void *rows_grow(void *rows, uint32_t *cap, size_t size)
{
    CHECK(*cap <= UINT32_MAX / 2);
    *cap = *cap < 16 ? 16 : *cap * 2;
    return memory_resize(rows, *cap * size);
}

// The slots that records need, as a count per PLACE_SPAN slots.
void msg_mark(struct machine *m, uint64_t slot)
{
    uint32_t *count = map_at(&m->marks, slot / PLACE_SPAN);
    if (count) {
        ++*count;
    } else {
        map_add(&m->marks, slot / PLACE_SPAN, 1);
    }
}

void msg_unmark(struct machine *m, uint64_t slot)
{
    uint32_t *count = map_at(&m->marks, slot / PLACE_SPAN);
    CHECK(count && *count > 0);
    if (--*count == 0) map_remove(&m->marks, slot / PLACE_SPAN, 0);
}

static uint32_t scope_for(struct machine *m, uint64_t group);

struct msg_edit msg_new(struct machine *m, uint64_t seq, struct place place, uint64_t group)
{
    uint32_t h = m->msgs_free;
    if (h) {
        m->msgs_free = m->msgs[h].next;
    } else {
        if (m->msgs_len == m->msgs_cap) m->msgs = rows_grow(m->msgs, &m->msgs_cap, sizeof *m->msgs);
        h = m->msgs_len++;
    }
    CHECK(seq > 0 && seq < m->seq_next);
    m->msgs[h] = (struct msg){.seq = seq, .slot = place.slot, .skip = place.skip};
    if (is_strict(m)) {
        uint32_t scope = scope_for(m, group);
        m->msgs[h].scope = scope;
        m->scopes[scope].refs++;
    }
    m->msgs_used++;
    map_add(&m->by_seq, seq, h);
    msg_mark(m, place.slot);
    return edit_begin(m, h);
}

static void scope_unref(struct machine *m, uint32_t s)
{
    struct scope *scope = &m->scopes[s];
    CHECK(scope->refs > 0);
    if (--scope->refs > 0 || s == SCOPE_UNGROUPED) return;
    CHECK(!scope->first && !scope->opened && !scope->offered && !scope->offered_to);
    scope_retire(m, s);
    map_remove(&m->by_group, scope->group, s);
    *scope = (struct scope){.free_next = m->scopes_free};
    m->scopes_free = s;
}

// The record is in no heap and no list any more.
void msg_free(struct machine *m, uint32_t h)
{
    struct msg *msg = msg_at(m, h);
    CHECK(m->edited == h && m->msgs_used > 0);
    if (m->signals.boxes_used > 0) signals_close(m, msg->seq);
    lock_drop(m, h);
    map_remove(&m->by_seq, msg->seq, h);
    bool kept = m->retained.uploads.len > 0 && retained_upload(m, msg->seq);
    if (!kept) body_release(m, msg->seq);
    failures_drop(m, msg->seq);
    workflow_leave(m, msg->seq);
    msg_unmark(m, msg->slot);
    if (msg->scope) scope_unref(m, msg->scope);
    if (msg->lane) requirement_unref(m, msg->lane);
    *msg = (struct msg){.next = m->msgs_free};
    m->msgs_free = h;
    m->msgs_used--;
    m->edited = 0;
}

void msg_move(struct machine *m, uint32_t h, enum message_state to)
{
    struct msg *msg = msg_at(m, h);
    CHECK(m->edited == h);
    count_move(m, (enum message_state)msg->state, to, 1);
    msg->state = (uint8_t)to;
    if (m->changes.seqs) changes_note(m, msg->seq);
}

void lock_need(struct machine *m, uint32_t h)
{
    if (msg_at(m, h)->lock) return;
    uint32_t l = m->locks_free;
    if (l) {
        m->locks_free = m->locks[l].free_next;
    } else {
        if (m->locks_len == m->locks_cap)
            m->locks = rows_grow(m->locks, &m->locks_cap, sizeof *m->locks);
        l = m->locks_len++;
    }
    CHECK(l > 0 && l < m->locks_len); // row 0 is none
    m->locks[l] = (struct lock){0};
    msg_at(m, h)->lock = l;
}

void lock_drop(struct machine *m, uint32_t h)
{
    struct msg *msg = msg_at(m, h);
    if (!msg->lock) return;
    CHECK(msg->lock < m->locks_len && msg->lock != m->locks_free);
    m->locks[msg->lock].free_next = m->locks_free;
    m->locks_free = msg->lock;
    msg->lock = 0;
}

uint64_t group_hash(struct bytes group)
{
    if (group.len == 0) return 0;
    uint64_t h = hash64_of(group, 0);
    return h ? h : 1;
}

// Found or new; group 0: ungrouped.
static uint32_t scope_for(struct machine *m, uint64_t group)
{
    if (group == 0) return SCOPE_UNGROUPED;
    uint32_t s = map_find(&m->by_group, group);
    CHECK(s == MAP_NONE || (m->scopes[s].group == group && m->scopes[s].refs > 0));
    if (s != MAP_NONE) return s;
    s = m->scopes_free;
    if (s) {
        m->scopes_free = m->scopes[s].free_next;
    } else {
        if (m->scopes_len == m->scopes_cap)
            m->scopes = rows_grow(m->scopes, &m->scopes_cap, sizeof *m->scopes);
        s = m->scopes_len++;
    }
    m->scopes[s] = (struct scope){.group = group};
    CHECK(s > SCOPE_UNGROUPED && s < m->scopes_len);
    map_add(&m->by_group, group, s);
    if (has_affinity(m)) scope_adopt(m, s);
    return s;
}
