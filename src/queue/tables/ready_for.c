// SPDX-License-Identifier: Apache-2.0
// Lanes: READY records that only some workers may get. There is one lane for each requirement of
// pending messages, and one for each row of the registry, with the groups that are bound to it. A
// record is in the plain heap or in one lane. So the lanes share one index of positions, which a
// lane borrows while it changes. Without messages of this kind there is no lane.
#include "base/check.h"
#include "base/memory.h"
#include "queue/codec/labels.h"
#include "queue/tables/registry.h"

#include <assert.h>
#include <string.h>

static_assert(REQUIREMENTS_MAX == 64, "a set of lanes is 64 bits");

static struct heap *borrow(struct machine *m, struct heap *lane)
{
    CHECK(!lane->at);
    lane->at = m->lane_at;
    lane->at_cap = m->lane_at_cap;
    return lane;
}

static void give_back(struct machine *m, struct heap *lane)
{
    CHECK(lane->at_cap >= m->lane_at_cap); // the table only grows
    m->lane_at = lane->at;
    m->lane_at_cap = lane->at_cap;
    lane->at = NULL;
    lane->at_cap = 0;
}

void lane_free(struct heap *lane)
{
    CHECK(!lane->at);
    memory_free(lane->rows);
    *lane = (struct heap){0};
}

// The row in whose lane the record belongs, if its group is bound to a row that may get it.
static uint32_t row_for(const struct machine *m, const struct msg *msg)
{
    if (!msg->scope || !has_affinity(m)) return 0;
    uint32_t w = scope_row(m, &m->scopes[msg->scope]);
    CHECK(!w || m->workers[w].row);
    if (!w || !msg->lane) return w;
    return m->workers[w].row->matches & UINT64_C(1) << (msg->lane - 1) ? w : 0;
}

static void push(struct machine *m, struct heap *lane, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    heap_push(borrow(m, lane), order_key(msg), order_tie(m, msg), h);
    give_back(m, lane);
}

void offer_push(struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    CHECK(msg->state == STATE_READY);
    uint32_t row = row_for(m, msg);
    if (row) {
        m->scopes[msg->scope].offered_to = row;
        m->bound_ready++;
        push(m, &m->workers[row].row->ready, h);
    } else if (msg->lane) {
        m->lanes_ready |= UINT64_C(1) << (msg->lane - 1);
        push(m, &m->requirements[msg->lane].ready, h);
    } else {
        heap_push(&m->ready, order_key(msg), order_tie(m, msg), h);
    }
}

static uint32_t offered_to(const struct machine *m, const struct msg *msg)
{
    return msg->scope ? m->scopes[msg->scope].offered_to : 0;
}

static bool in_lane(const struct machine *m, uint32_t h)
{
    return h < m->lane_at_cap && m->lane_at[h] != 0;
}

void offer_remove(struct machine *m, uint32_t h)
{
    const struct msg *msg = msg_at(m, h);
    uint32_t row = offered_to(m, msg);
    if (!row && !msg->lane) {
        heap_remove(&m->ready, h);
        return;
    }
    struct heap *lane = row ? &m->workers[row].row->ready : &m->requirements[msg->lane].ready;
    heap_remove(borrow(m, lane), h);
    give_back(m, lane);
    if (row) {
        CHECK(m->bound_ready > 0);
        m->bound_ready--;
        m->scopes[msg->scope].offered_to = 0;
    } else if (lane->len == 0) {
        m->lanes_ready &= ~(UINT64_C(1) << (msg->lane - 1));
    }
}

bool offer_has(const struct machine *m, uint32_t h)
{
    return heap_has(&m->ready, h) || in_lane(m, h);
}

static void reorder(struct machine *m, struct heap *lane)
{
    struct heap old = *lane;
    *lane = (struct heap){0};
    for (size_t i = 0; i < old.len; i++)
        m->lane_at[old.rows[i].ref] = 0;
    for (size_t i = 0; i < old.len; i++)
        push(m, lane, old.rows[i].ref);
    CHECK(lane->len == old.len);
    memory_free(old.rows);
}

void lanes_reorder(struct machine *m)
{
    for (uint8_t lane = 1; m->requirements && lane <= REQUIREMENTS_MAX; lane++)
        if (m->requirements[lane].ready.len > 0) reorder(m, &m->requirements[lane].ready);
    for (uint32_t i = 0; i < m->names_len && m->bound_ready > 0; i++)
        if (has_row(m, m->names[i])) reorder(m, &m->workers[m->names[i]].row->ready);
}

void lane_flush(struct machine *m, uint32_t w)
{
    struct heap *lane = &m->workers[w].row->ready;
    while (lane->len > 0) {
        uint32_t h = heap_top(lane)->ref;
        CHECK(offered_to(m, msg_at(m, h)) == w);
        offer_remove(m, h);
        offer_push(m, h);
    }
}

static struct bytes requirement_text(const struct machine *m, uint8_t lane)
{
    CHECK(lane > 0 && lane <= REQUIREMENTS_MAX && m->requirements);
    return bytes_of(m->requirements[lane].text, m->requirements[lane].len);
}

uint8_t requirement_find(const struct machine *m, struct bytes text)
{
    uint64_t hash = hash64_of(text, 0);
    for (uint8_t lane = 1; m->requirements && lane <= REQUIREMENTS_MAX; lane++)
        if (m->requirements[lane].text && m->requirements[lane].hash == hash &&
            bytes_equal(requirement_text(m, lane), text))
            return lane;
    return 0;
}

// A row of the table that no message has: a new one, else the first.
static uint8_t free_requirement(const struct machine *m)
{
    uint8_t found = 0;
    for (uint8_t lane = REQUIREMENTS_MAX; lane >= 1; lane--)
        if (m->requirements[lane].refs == 0 && (!found || !m->requirements[lane].text))
            found = lane;
    return found;
}

static void match_rows(struct machine *m, uint8_t lane)
{
    uint64_t bit = UINT64_C(1) << (lane - 1);
    for (uint32_t i = 0; i < m->names_len; i++) {
        struct registration *row = m->workers[m->names[i]].row;
        if (!row) continue;
        row->matches &= ~bit;
        if (labels_match(registry_labels(row), requirement_text(m, lane))) row->matches |= bit;
    }
}

uint8_t requirement_need(struct machine *m, struct bytes text)
{
    uint8_t lane = requirement_find(m, text);
    if (lane) return lane;
    if (!m->requirements)
        m->requirements = memory_zeroed(REQUIREMENTS_MAX + 1, sizeof *m->requirements);
    lane = free_requirement(m);
    if (!lane) return 0;
    struct requirement *r = &m->requirements[lane];
    CHECK(r->refs == 0 && r->ready.len == 0 && text.len <= LABELS_TEXT_MAX);
    memory_free(r->text);
    lane_free(&r->ready);
    *r = (struct requirement){.text = memory_new(text.len), .len = (uint16_t)text.len};
    memcpy(r->text, text.data, text.len);
    r->hash = hash64_of(text, 0);
    match_rows(m, lane);
    return lane;
}

void requirement_ref(struct machine *m, uint8_t lane)
{
    CHECK(lane > 0 && m->requirements[lane].text);
    m->requirements[lane].refs++;
    m->required++;
}

void requirement_unref(struct machine *m, uint8_t lane)
{
    CHECK(m->requirements[lane].refs > 0);
    CHECK(m->required > 0);
    m->requirements[lane].refs--;
    m->required--;
}

uint64_t requirements_met(const struct machine *m, struct bytes labels)
{
    uint64_t met = 0;
    for (uint8_t lane = 1; m->requirements && lane <= REQUIREMENTS_MAX; lane++)
        if (m->requirements[lane].text && labels_match(labels, requirement_text(m, lane)))
            met |= UINT64_C(1) << (lane - 1);
    return met;
}

void requirements_clear(struct machine *m)
{
    for (uint8_t lane = 1; m->requirements && lane <= REQUIREMENTS_MAX; lane++) {
        lane_free(&m->requirements[lane].ready);
        memory_free(m->requirements[lane].text);
    }
    memory_free(m->requirements);
    memory_free(m->lane_at);
    m->requirements = NULL;
    m->lane_at = NULL;
    m->lane_at_cap = 0;
}

uint8_t requirement_number(const struct machine *m, uint8_t lane)
{
    uint8_t number = 1;
    if (lane == 0) return 0;
    for (uint8_t i = 1; i <= REQUIREMENTS_MAX; i++)
        if (m->requirements[i].refs > 0 &&
            bytes_compare(requirement_text(m, i), requirement_text(m, lane)) < 0)
            number++;
    CHECK(number <= REQUIREMENTS_MAX);
    return number;
}

// Sorted by text: equal states have equal bytes.
void requirements_save(const struct machine *m, struct buf *out)
{
    uint8_t count = 0, order[REQUIREMENTS_MAX + 1] = {0};
    for (uint8_t lane = 1; m->requirements && lane <= REQUIREMENTS_MAX; lane++) {
        if (m->requirements[lane].refs == 0) continue;
        order[requirement_number(m, lane)] = lane;
        count++;
    }
    buf_put_u8(out, count);
    for (uint8_t i = 1; i <= count; i++)
        buf_put_sized(out, requirement_text(m, order[i]));
}

void requirements_load(struct machine *m, struct reader *r, uint8_t lanes[REQUIREMENTS_MAX + 1])
{
    struct bytes before = BYTES_EMPTY;
    uint8_t count = read_u8(r);
    lanes[0] = 0;
    if (count > REQUIREMENTS_MAX) r->bad = true;
    for (uint8_t i = 1; i <= count && reader_ok(r); i++) {
        struct bytes text = read_sized(r, LABELS_TEXT_MAX);
        if (r->bad || !labels_are_canonical(text) || bytes_compare(before, text) >= 0) {
            r->bad = true;
            return;
        }
        before = text;
        lanes[i] = requirement_need(m, text);
        CHECK(lanes[i] > 0);
    }
}

static void check_lane(const struct machine *m, const struct heap *lane, uint8_t number,
                       uint32_t row)
{
    CHECK(!lane->at);
    for (size_t i = 0; i < lane->len; i++) {
        uint32_t h = lane->rows[i].ref;
        const struct msg *msg = msg_at(m, h);
        CHECK(msg->seq && msg->state == STATE_READY);
        CHECK(m->lane_at[h] == i + 1 && !heap_has(&m->ready, h));
        CHECK(offered_to(m, msg) == row && row_for(m, msg) == row);
        CHECK(row || msg->lane == number);
        CHECK(lane->rows[i].key == order_key(msg) && lane->rows[i].tie == order_tie(m, msg));
    }
}

static void check_requirements(const struct machine *m)
{
    uint64_t refs[REQUIREMENTS_MAX + 1] = {0}, all = 0;
    for (uint32_t h = 1; h < m->msgs_len; h++)
        if (msg_at(m, h)->seq) refs[msg_at(m, h)->lane]++;
    for (uint8_t lane = 1; lane <= REQUIREMENTS_MAX; lane++) {
        const struct requirement *r = m->requirements ? &m->requirements[lane] : NULL;
        CHECK(refs[lane] == (r ? r->refs : 0));
        all += refs[lane];
        if (!r) continue;
        CHECK(r->ready.len <= r->refs);
        CHECK((r->ready.len > 0) == (m->lanes_ready >> (lane - 1) & 1));
        check_lane(m, &r->ready, lane, 0);
    }
    CHECK(all == m->required);
}

void lanes_check(const struct machine *m)
{
    uint64_t bound = 0;
    check_requirements(m);
    for (uint32_t i = 0; i < m->names_len; i++) {
        const struct registration *row = m->workers[m->names[i]].row;
        if (!row) continue;
        CHECK(row->matches == requirements_met(m, registry_labels(row)));
        check_lane(m, &row->ready, 0, m->names[i]);
        bound += row->ready.len;
    }
    CHECK(bound == m->bound_ready);
    CHECK(m->required == 0 || m->requirements);
}
