// SPDX-License-Identifier: Apache-2.0
// Each shard has a row: the next sequence, and the messages that wait for an earlier one. A message
// under the next sequence is a duplicate, so a row needs no list of ids.
#include "events/consumer.h"

#include "base/array.h"
#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "base/text.h"
#include "events/consumer_inside.h"

#include <string.h>

#define HOLD_MAX   4096
#define HOLD_BYTES ((size_t)16 << 20)
#define HOLD_MS    10000
#define IDS_MAX    65536
#define SHARDS_MAX 16384
#define NO_ROW     UINT32_MAX

struct consumer *consumer_new(const struct consumer_config *config, const struct schema_set *set)
{
    struct consumer *c = NEW(struct consumer);
    c->config = *config;
    if (c->config.hold_max == 0) c->config.hold_max = HOLD_MAX;
    if (c->config.hold_bytes == 0) c->config.hold_bytes = HOLD_BYTES;
    if (c->config.hold_ms == 0) c->config.hold_ms = HOLD_MS;
    if (c->config.ids_max == 0) c->config.ids_max = IDS_MAX;
    if (c->config.shards_max == 0) c->config.shards_max = SHARDS_MAX;
    c->set = set;
    c->ids = memory_zeroed(c->config.ids_max, sizeof *c->ids);
    map_init(&c->by_place);
    map_init(&c->by_id);
    return c;
}

static void item_free(struct item *i)
{
    if (!i) return;
    envelope_in_done(&i->in);
    bytes_free(i->text);
    memory_free(i->why);
    memory_free(i);
}

void consumer_free(struct consumer *c)
{
    if (!c) return;
    for (size_t r = 0; r < c->rows_len; r++) {
        for (size_t i = 0; i < c->rows[r].held_len; i++)
            item_free(c->rows[r].held[i]);
        memory_free(c->rows[r].held);
    }
    for (size_t i = 0; i < c->ready_len; i++)
        item_free(c->ready[i]);
    item_free(c->out);
    memory_free(c->ready);
    memory_free(c->rows);
    memory_free(c->ids);
    map_done(&c->by_place);
    map_done(&c->by_id);
    memory_free(c);
}

static uint64_t place_key(const char *life, uint32_t shard)
{
    return hash64_of(bytes_of(life, CONSUMER_LIFE_LEN), shard);
}

// The row that was not used for the longest time gives way. Rows with held messages stay. NULL: all
// rows have some, so there are at most hold_max more rows than shards_max.
static struct place_row *row_reuse(struct consumer *c)
{
    size_t oldest = c->rows_len;
    for (size_t i = 0; i < c->rows_len; i++) {
        if (c->rows[i].held_len > 0) continue;
        if (oldest == c->rows_len || c->rows[i].used < c->rows[oldest].used) oldest = i;
    }
    if (oldest == c->rows_len) return NULL;
    struct place_row *row = &c->rows[oldest];
    map_remove(&c->by_place, place_key(row->life, row->shard), (uint32_t)oldest);
    for (size_t i = 0; i < c->ids_len; i++)
        if (c->ids[i].row == oldest) c->ids[i].row = NO_ROW;
    memory_free(row->held);
    return row;
}

static struct place_row *row_add(struct consumer *c)
{
    if (c->rows_len >= c->config.shards_max) {
        struct place_row *row = row_reuse(c);
        if (row) return row;
    }
    c->rows = memory_resize(c->rows, (c->rows_len + 1) * sizeof *c->rows);
    return &c->rows[c->rows_len++];
}

struct place_row *consumer_row(struct consumer *c, const char *life, uint32_t shard)
{
    uint64_t key = place_key(life, shard);
    uint32_t v;
    for (size_t at = map_first(&c->by_place, key);
         (v = map_value(&c->by_place, key, &at)) != MAP_NONE;)
        if (c->rows[v].shard == shard && memcmp(c->rows[v].life, life, CONSUMER_LIFE_LEN) == 0)
            return &c->rows[v];
    struct place_row *row = row_add(c);
    *row = (struct place_row){.shard = shard, .next = c->config.from_first ? 1 : 0};
    memcpy(row->life, life, CONSUMER_LIFE_LEN);
    map_add(&c->by_place, key, (uint32_t)(row - c->rows));
    return row;
}

static bool id_known(struct consumer *c, struct hash128 id)
{
    uint32_t v;
    for (size_t at = map_first(&c->by_id, id.lo);
         (v = map_value(&c->by_id, id.lo, &at)) != MAP_NONE;)
        if (hash128_equal(c->ids[v].id, id)) return true;
    return false;
}

// If the oldest id is forgotten, its row remembers the sequence.
static void id_add(struct consumer *c, struct hash128 id, uint32_t row, uint64_t sequence)
{
    struct known_id *k = &c->ids[c->ids_next];
    if (c->ids_len == c->config.ids_max) {
        map_remove(&c->by_id, k->id.lo, (uint32_t)c->ids_next);
        if (k->row != NO_ROW && k->row < c->rows_len && c->rows[k->row].next <= k->sequence)
            c->rows[k->row].next = k->sequence + 1;
    } else {
        c->ids_len++;
    }
    *k = (struct known_id){.id = id, .row = row, .sequence = sequence};
    map_add(&c->by_id, id.lo, (uint32_t)c->ids_next);
    c->ids_next = (c->ids_next + 1) % c->config.ids_max;
}

bool consumer_is_life(struct bytes word)
{
    if (word.len != CONSUMER_LIFE_LEN) return false;
    for (size_t i = 0; i < word.len; i++)
        if (digits_hex_value(word.data[i]) < 0) return false;
    return true;
}

// The queue's id at the front of an event id: 32 hex digits and a dash.
static bool has_life(const char *event_id)
{
    return strlen(event_id) > CONSUMER_LIFE_LEN && event_id[CONSUMER_LIFE_LEN] == '-' &&
           consumer_is_life(bytes_of(event_id, CONSUMER_LIFE_LEN));
}

static struct item *item_read(struct consumer *c, uint64_t number, struct bytes text, int64_t now)
{
    char why[SCHEMA_WHY_MAX] = "";
    struct item *i = NEW(struct item);
    i->number = number;
    i->at = now;
    i->text = bytes_copy(text);
    if (schema_set_read(c->set, i->text, &i->in, why) != ERR_OK) i->why = memory_text(why);
    const struct envelope *e = &i->in.envelope;
    bool gap = !i->why && strcmp(e->event_type, ENVELOPE_GAP) == 0 && e->payload.first > 0 &&
               e->payload.first <= e->payload.last;
    i->first = gap ? e->payload.first : e->sequence;
    i->last = gap ? e->payload.last : e->sequence;
    return i;
}

static void put_ready(struct consumer *c, struct item *i)
{
    *ARRAY_ADD(c->ready, c->ready_len, c->ready_cap) = i;
}

static void drop_duplicate(struct consumer *c, struct item *i)
{
    c->counts.duplicates++;
    item_free(i);
}

// An event that is known by its id: it is filtered, or it has no sequence.
static void take_by_id(struct consumer *c, struct item *i, struct place_row *row)
{
    struct hash128 id = hash128_of(bytes_str(i->in.envelope.event_id));
    bool old = row && i->last < row->next;
    if ((old || id_known(c, id)) && !MUTANT(CONSUMER_DEDUP_OFF)) {
        drop_duplicate(c, i);
        return;
    }
    if (!id_known(c, id)) id_add(c, id, row ? (uint32_t)(row - c->rows) : NO_ROW, i->last);
    put_ready(c, i);
}

static void hold(struct consumer *c, struct place_row *row, struct item *i)
{
    size_t at = row->held_len;
    while (at > 0 && row->held[at - 1]->first > i->first)
        at--;
    bool same =
        at > 0 && row->held[at - 1]->first == i->first && row->held[at - 1]->last == i->last;
    if (same && !MUTANT(CONSUMER_DEDUP_OFF)) {
        drop_duplicate(c, i);
        return;
    }
    *ARRAY_INSERT(row->held, row->held_len, row->held_cap, at) = i;
    c->held++;
    c->held_bytes += i->text.len;
}

void consumer_take(struct consumer *c, uint64_t number, struct bytes text, int64_t now)
{
    struct item *i = item_read(c, number, text, now);
    const struct envelope *e = &i->in.envelope;
    if (number > c->read) c->read = number;
    if (i->why) {
        put_ready(c, i);
        return;
    }
    // The bus can carry events that no node has published: a position must hold what they say.
    bool placed = e->sequence > 0 && i->last < INT64_MAX && has_life(e->event_id);
    struct place_row *row = placed ? consumer_row(c, e->event_id, e->shard) : NULL;
    if (row) {
        row->used = ++c->uses;
        c->turn = (size_t)(row - c->rows);
    }
    if (!row || c->config.filtered)
        take_by_id(c, i, row);
    else if (row->next > 0 && i->last < row->next && !MUTANT(CONSUMER_DEDUP_OFF))
        drop_duplicate(c, i);
    else
        hold(c, row, i);
}

static struct item *unhold_first(struct consumer *c, struct place_row *row)
{
    CHECK(row->held_len > 0 && c->held > 0);
    struct item *i = row->held[0];
    row->held_len--;
    memmove(row->held, row->held + 1, row->held_len * sizeof *row->held);
    c->held--;
    c->held_bytes -= i->text.len;
    return i;
}

// A gap that the publisher tells is returned as a gap, with its message.
static bool is_gap(const struct item *i)
{
    return !i->why && strcmp(i->in.envelope.event_type, ENVELOPE_GAP) == 0;
}

static bool return_item(struct consumer *c, struct item *i, struct consumer_result *out)
{
    c->out = i;
    *out = (struct consumer_result){.kind = i->why ? CONSUMER_REFUSED : CONSUMER_EVENT,
                                    .number = i->number,
                                    .text = i->text,
                                    .envelope = i->why ? NULL : &i->in.envelope,
                                    .why = i->why ? i->why : ""};
    c->counts.events += !i->why;
    c->counts.refused += i->why != NULL;
    return true;
}

// `of` is the message that shows the gap.
static bool return_gap(struct consumer *c, const struct item *of, uint64_t first, uint64_t last,
                       const char *why, struct consumer_result *out)
{
    CHECK(first > 0 && first <= last);
    memcpy(c->life, of->in.envelope.event_id, CONSUMER_LIFE_LEN);
    (void)text_copy(c->queue, sizeof c->queue, of->in.envelope.queue);
    *out = (struct consumer_result){.kind = CONSUMER_GAP,
                                    .why = why,
                                    .life = c->life,
                                    .queue = c->queue,
                                    .shard = of->in.envelope.shard,
                                    .first = first,
                                    .last = last};
    c->counts.gaps++;
    c->counts.missing += last - first + 1;
    return true;
}

static bool return_told_gap(struct consumer *c, struct item *i, uint64_t first,
                            struct consumer_result *out)
{
    (void)return_gap(c, i, first, i->last, "the publisher skipped the events", out);
    c->out = i;
    out->number = i->number;
    out->text = i->text;
    out->envelope = &i->in.envelope;
    return true;
}

static bool is_overdue(const struct consumer *c, const struct item *i, int64_t now)
{
    return c->held > c->config.hold_max || c->held_bytes > c->config.hold_bytes ||
           now - i->at >= c->config.hold_ms;
}

// Returns what the row has next. False: it has nothing, or waits for a missing event.
static bool row_next(struct consumer *c, struct place_row *row, int64_t now,
                     struct consumer_result *out)
{
    while (row->held_len > 0) {
        struct item *i = row->held[0];
        if (row->next == 0) row->next = i->first;
        if (i->first > row->next) {
            if (!is_overdue(c, i, now)) return false;
            uint64_t first = row->next;
            row->next = i->first;
            return return_gap(c, i, first, i->first - 1, "the events did not come in time", out);
        }
        bool duplicate = i->last < row->next;
        (void)unhold_first(c, row);
        if (duplicate && !MUTANT(CONSUMER_DEDUP_OFF)) {
            drop_duplicate(c, i);
            continue;
        }
        uint64_t first = row->next;
        if (!duplicate) row->next = i->last + 1;
        return is_gap(i) && !duplicate ? return_told_gap(c, i, first, out) : return_item(c, i, out);
    }
    return false;
}

// Events that wait in no row come out as they came in.
static bool ready_next(struct consumer *c, struct consumer_result *out)
{
    if (c->ready_len == 0) return false;
    struct item *i = c->ready[0];
    c->ready_len--;
    memmove(c->ready, c->ready + 1, c->ready_len * sizeof *c->ready);
    if (i->why || i->last == 0) return return_item(c, i, out);
    struct place_row *row = consumer_row(c, i->in.envelope.event_id, i->in.envelope.shard);
    if (i->last > row->high) row->high = i->last;
    return is_gap(i) ? return_told_gap(c, i, i->first, out) : return_item(c, i, out);
}

bool consumer_next(struct consumer *c, int64_t now, struct consumer_result *out)
{
    *out = (struct consumer_result){0};
    item_free(c->out);
    c->out = NULL;
    if (ready_next(c, out)) return true;
    for (size_t i = 0; c->held > 0 && i < c->rows_len; i++) {
        size_t at = (c->turn + i) % c->rows_len;
        if (!row_next(c, &c->rows[at], now, out)) continue;
        c->turn = at;
        return true;
    }
    return false;
}

int64_t consumer_wake_at(const struct consumer *c)
{
    int64_t at = INT64_MAX;
    for (size_t r = 0; c->held > 0 && r < c->rows_len; r++) {
        if (c->rows[r].held_len == 0) continue;
        int64_t due = c->rows[r].held[0]->at + c->config.hold_ms;
        if (due < at) at = due;
    }
    return at;
}

struct consumer_counts consumer_counts(const struct consumer *c)
{
    struct consumer_counts counts = c->counts;
    counts.held = c->held;
    return counts;
}

uint64_t consumer_resume(const struct consumer *c)
{
    uint64_t number = c->read + 1;
    for (size_t i = 0; i < c->ready_len; i++)
        if (c->ready[i]->number < number) number = c->ready[i]->number;
    for (size_t r = 0; c->held > 0 && r < c->rows_len; r++)
        for (size_t i = 0; i < c->rows[r].held_len; i++)
            if (c->rows[r].held[i]->number < number) number = c->rows[r].held[i]->number;
    return number;
}

void consumer_restart(struct consumer *c)
{
    c->read = 0;
}
