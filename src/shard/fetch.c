// SPDX-License-Identifier: Apache-2.0
// Bodies. A claim says where its messages are, and this file reads them from there. Slots with live
// messages are never dropped. But a reader can be late: the message was finished, its slot was
// dropped, and a paused writer created the slot again with other messages. So the rule of the floor
// holds here too. A slot that was read is trusted if one of these is true:
//
//   - The floor, read after the slot, is under the slot: no such slot was dropped.
//   - At a tail seen after the read, the wanted message is still live: its slot was not dropped.
//
// Otherwise the slot counts as collected.
#include "base/check.h"
#include "base/memory.h"
#include "base/mutant.h"
#include "journal/snapshot.h"
#include "shard/inside.h"

#include <stdio.h>
#include <string.h>

#define READ_BYTES      ((size_t)1 << 20)
#define READ_AGAIN_MS   50
#define TAIL_TIMEOUT_MS 30000

void fetch_want(struct shard *s, uint64_t slot)
{
    if (s->fetch.wanted == 0) s->fetch.wanted = slot;
}

static struct bytes keep(struct buf *text, struct bytes from)
{
    size_t at = text->len;
    CHECK(at + from.len >= at && !text->bad);
    buf_put(text, from);
    // An offset, not an address: the buffer may move until it is complete.
    return bytes_of((const uint8_t *)(uintptr_t)at, from.len);
}

static void keep_dead_letter(struct buf *text, const struct op_arrive *a)
{
    CHECK(!text->bad);
    struct bytes worker = arrive_worker(a);
    char number[32];
    char id[MESSAGE_ID_MAX];
    headers_put(text, bytes_str(HEADER_DEAD_REASON), arrive_reason(a));
    if (worker.len > 0) headers_put(text, bytes_str(HEADER_DEAD_WORKER), worker);
    (void)snprintf(number, sizeof number, "%u", a->deliveries);
    headers_put(text, bytes_str(HEADER_DEAD_ATTEMPTS), bytes_str(number));
    (void)snprintf(number, sizeof number, "%u", a->retries);
    headers_put(text, bytes_str(HEADER_DEAD_RETRIES), bytes_str(number));
    (void)snprintf(number, sizeof number, "%lld", (long long)a->died_at);
    headers_put(text, bytes_str(HEADER_DEAD_AT), bytes_str(number));
    headers_put(text, bytes_str(HEADER_DEAD_QUEUE), a->origin);
    message_id_print(&a->source, a->source_shard, a->origin_seq, id);
    headers_put(text, bytes_str(HEADER_DEAD_ID), bytes_str(id));
}

static void keep_headers(struct shard_call *c, const struct cached_message *f, struct delivery *d)
{
    struct op_arrive arrive;
    struct bytes *headers = &d->message.headers;
    *headers = keep(&c->text, BYTES_EMPTY);
    if (f->op->kind != OP_ARRIVE || arrive_decode(f->op->payload, &arrive)) {
        *headers = keep(&c->text, f->message.headers);
        return;
    }
    CHECK(headers->len == 0);
    size_t start = c->text.len;
    headers_put_others(&c->text, f->message.headers, bytes_str(HEADER_DEAD_WORKER));
    size_t others = c->text.len;
    keep_dead_letter(&c->text, &arrive);
    d->dead_letter_headers_len = c->text.len - others;
    headers->len = c->text.len - start;
    CHECK(d->dead_letter_headers_len <= headers->len);
}

static void keep_message(struct shard_call *c, const struct cached_message *f)
{
    CHECK(c->deliveries && c->fetched < c->grants_len);
    CHECK(f->slot >= c->grants[c->fetched].place.slot); // a message is in its slot or a later one
    struct delivery *d = &c->deliveries[c->fetched];
    const struct message *m = &f->message;
    d->grant = c->grants[c->fetched];
    d->sent_at = f->sent_at;
    d->message = *m;
    d->message.group = keep(&c->text, m->group);
    d->message.dedup = keep(&c->text, m->dedup);
    d->message.content_type = keep(&c->text, m->content_type);
    d->message.workflow = keep(&c->text, m->workflow);
    d->message.requires = keep(&c->text, m->requires);
    keep_headers(c, f, d);
    d->message.body = keep(&c->text, m->body);
    d->message.reference.name = keep(&c->text, m->reference.name);
    c->fetched++;
}

static void view_set_address(struct bytes *view, const struct buf *text)
{
    CHECK(view->len == 0 || (uintptr_t)view->data + view->len <= text->len);
    *view = view->len > 0 ? bytes_of(text->data + (uintptr_t)view->data, view->len) : BYTES_EMPTY;
}

// The text is complete and does not move any more: offsets become addresses.
static void views_set_addresses(struct shard_call *c)
{
    CHECK(c->fetched == c->grants_len && !c->text.bad);
    for (size_t i = 0; i < c->fetched; i++) {
        struct message *m = &c->deliveries[i].message;
        view_set_address(&m->group, &c->text);
        view_set_address(&m->dedup, &c->text);
        view_set_address(&m->content_type, &c->text);
        view_set_address(&m->workflow, &c->text);
        view_set_address(&m->requires, &c->text);
        view_set_address(&m->headers, &c->text);
        view_set_address(&m->body, &c->text);
        view_set_address(&m->reference.name, &c->text);
    }
    for (size_t i = 0; i < c->reasons_found; i++)
        view_set_address(&c->reasons[i].text, &c->text);
}

void fetch_start(struct shard *s, struct shard_call *c)
{
    CHECK(!c->deliveries);
    CHECK(c->reasons_found == 0 && c->text.len == 0);
    c->deliveries = memory_zeroed(c->grants_len, sizeof *c->deliveries);
    c->fetched = 0;
    call_push(s, c, SHARD_CALL_FETCHING);
}

void shard_read(struct shard *s, uint64_t ticket, const struct shard_places *wants,
                int64_t deadline, struct interval now)
{
    CHECK(wants->places_len == 0 || wants->places);
    CHECK(wants->reasons_len == 0 || wants->reasons);
    struct shard_call *c = call_new(s, ticket, deadline);
    c->grants = memory_zeroed(wants->places_len, sizeof *c->grants);
    c->grants_len = wants->places_len;
    for (size_t i = 0; i < wants->places_len; i++)
        c->grants[i].place = wants->places[i];
    c->reason_places = memory_zeroed(wants->reasons_len, sizeof *c->reason_places);
    c->reasons = memory_zeroed(wants->reasons_len, sizeof *c->reasons);
    c->reason_places_len = wants->reasons_len;
    for (size_t i = 0; i < wants->reasons_len; i++)
        c->reason_places[i] = wants->reasons[i];
    fetch_start(s, c);
    shard_tick(s, now);
}

void shard_fetch(struct shard *s, uint64_t ticket, const struct place *places, size_t count,
                 int64_t deadline, struct interval now)
{
    shard_read(s, ticket, &(struct shard_places){.places = places, .places_len = count}, deadline,
               now);
}

static void keep_reason(struct shard_call *c, struct bytes text, bool kept)
{
    CHECK(c->reasons_found < c->reason_places_len);
    c->reasons[c->reasons_found++] =
        (struct reason_text){.text = keep(&c->text, text), .kept = kept};
}

// Returns false if a slot must be read first.
static bool fetch_reasons(struct shard *s, struct shard_call *c)
{
    CHECK(c->fetched == c->grants_len); // messages come first
    while (c->reasons_found < c->reason_places_len) {
        const struct reason_place *at = &c->reason_places[c->reasons_found];
        struct bytes text = BYTES_EMPTY;
        enum cache_answer answer = cache_reason(s->cache, at, &text);
        if (answer == CACHE_MISSING) {
            fetch_want(s, at->slot);
            return false;
        }
        keep_reason(c, text, answer == CACHE_FOUND);
    }
    return true;
}

// Answers the call if the cache has everything that it wants.
static void fetch_some(struct shard *s, struct shard_call *c)
{
    CHECK(c->state == SHARD_CALL_FETCHING);
    while (c->fetched < c->grants_len) {
        struct cached_message found;
        uint64_t missing;
        switch (cache_find(s->cache, c->grants[c->fetched].place, &found, &missing)) {
        case CACHE_FOUND:
            keep_message(c, &found);
            break;
        case CACHE_MISSING:
            fetch_want(s, missing);
            return;
        case CACHE_NOWHERE:
            call_answer(s, call_take(s, c), ERR_CORRUPT, BYTES_EMPTY);
            return;
        }
    }
    if (!fetch_reasons(s, c)) return;
    views_set_addresses(c);
    if (c->signals) listen_fetched(c);
    call_answer(s, call_take(s, c), ERR_OK, c->result);
}

static void fetch_sync_tail(struct shard *s)
{
    CHECK(!s->fetch.sync && s->fetch.stage == FETCH_TAIL);
    struct shard_call *c = call_new(s, 0, s->now.hi + TAIL_TIMEOUT_MS);
    c->silent = true;
    s->fetch.sync = c;
    call_push(s, c, SHARD_CALL_SYNCING);
    journal_sync(s->journal, call_ticket(c), c->deadline, s->now);
}

static void fetch_send(struct shard *s)
{
    struct body_fetch *f = &s->fetch;
    bool busy = f->ask.open || f->sync;
    CHECK(!f->ask.open || !f->sync); // one of them at a time
    if (f->wanted == 0 || busy || shard_now(s) < f->again) return;
    switch (f->stage) {
    case FETCH_READING:
        CHECK(f->rows_len == 0);
        open_request_begin(&f->ask, s->journal, REQUEST_READ_LOG, "log", 0);
        f->ask.request.first = f->wanted;
        f->ask.request.limit = READ_BYTES;
        break;
    case FETCH_FLOORS:
        open_request_begin(&f->ask, s->journal, REQUEST_GET, "floor", f->floor_index + 1);
        break;
    case FETCH_TAIL:
        fetch_sync_tail(s);
        break;
    }
}

int64_t fetch_wake_at(const struct shard *s)
{
    const struct body_fetch *f = &s->fetch;
    CHECK(!f->sync || f->stage == FETCH_TAIL);
    CHECK(f->stage == FETCH_READING || f->wanted != 0); // a read that goes on has its slot
    return f->wanted != 0 && !f->ask.open && !f->sync ? f->again : TIME_NEVER;
}

// The locks are granted, but the bodies were not read in time. A repeat with the same request id
// gets them.
static void expire_fetches(struct shard *s)
{
    for (struct shard_call *c = s->calls[SHARD_CALL_FETCHING].head, *next; c; c = next) {
        next = c->next;
        CHECK(c->fetched <= c->grants_len);
        if (shard_now(s) >= c->deadline) call_answer(s, call_take(s, c), ERR_UNKNOWN, BYTES_EMPTY);
    }
}

void fetch_go_on(struct shard *s)
{
    struct body_fetch *f = &s->fetch;
    CHECK(f->stage != FETCH_READING || f->rows_len == 0);
    CHECK(f->stage != FETCH_FLOORS || f->rows_len > 0);
    if (f->stage == FETCH_READING && !f->ask.open) f->wanted = 0;
    for (struct shard_call *c = s->calls[SHARD_CALL_FETCHING].head, *next; c; c = next) {
        next = c->next;
        fetch_some(s, c);
    }
    expire_fetches(s);
    outgoing_advance(s);
    fetch_send(s);
}

static void drop_grant(struct shard_call *c)
{
    CHECK(c->fetched < c->grants_len);
    c->grants_len--;
    memmove(c->grants + c->fetched, c->grants + c->fetched + 1,
            (c->grants_len - c->fetched) * sizeof *c->grants);
}

// The slot that c waits for; 0: none.
static uint64_t missing_of(const struct shard *s, const struct shard_call *c)
{
    CHECK(c->fetched <= c->grants_len && c->reasons_found <= c->reason_places_len);
    struct cached_message found;
    struct bytes text;
    uint64_t missing = 0;
    if (c->fetched < c->grants_len) {
        struct place place = c->grants[c->fetched].place;
        return cache_find(s->cache, place, &found, &missing) == CACHE_MISSING ? missing : 0;
    }
    if (c->reasons_found == c->reason_places_len) return 0;
    const struct reason_place *at = &c->reason_places[c->reasons_found];
    return cache_reason(s->cache, at, &text) == CACHE_MISSING ? at->slot : 0;
}

// Returns true if the message or reason that c wants is live, as far as the fold has read.
static bool is_alive(const struct shard *s, const struct shard_call *c)
{
    CHECK(c->fetched < c->grants_len || c->reasons_found < c->reason_places_len);
    if (c->fetched < c->grants_len)
        return machine_lives_at(s->machine, c->grants[c->fetched].place);
    const struct reason_place *at = &c->reason_places[c->reasons_found];
    return machine_reason_lives_at(s->machine, at->slot, at->op) ||
           machine_signal_lives_at(s->machine, at->slot, at->op);
}

// The slot that c waits for cannot be read, now or later. ERR_NOT_FOUND: its messages are finished
// and it was collected. A fetch may ask for such a slot and gets the error. A repeated receive
// continues without the message, and a read without the reason.
static void give_up(struct shard *s, struct shard_call *c, enum err err)
{
    CHECK(err != ERR_OK);
    if (c->fetched == c->grants_len) {
        keep_reason(c, BYTES_EMPTY, false);
    } else if (c->receives && err == ERR_NOT_FOUND) {
        drop_grant(c);
    } else {
        call_answer(s, call_take(s, c), err, BYTES_EMPTY);
    }
}

static void give_up_all(struct shard *s, enum err err)
{
    CHECK(err != ERR_OK && s->fetch.wanted != 0);
    for (struct shard_call *c = s->calls[SHARD_CALL_FETCHING].head, *next; c; c = next) {
        next = c->next;
        if (missing_of(s, c) == s->fetch.wanted) give_up(s, c, err);
    }
}

static void rows_clear(struct body_fetch *f)
{
    CHECK(f->rows || f->rows_len == 0);
    for (size_t i = 0; i < f->rows_len; i++)
        bytes_free(f->rows[i].bytes);
    memory_free(f->rows);
    f->rows = NULL;
    f->rows_len = 0;
}

void fetch_done(struct shard *s)
{
    rows_clear(&s->fetch);
}

// Ends the read. The next one is for the slot that is wanted then.
static void end_read(struct shard *s, enum err err)
{
    CHECK(!s->fetch.ask.open && !s->fetch.sync);
    rows_clear(&s->fetch);
    s->fetch.stage = FETCH_READING;
    s->fetch.again = err ? shard_now(s) + READ_AGAIN_MS : TIME_UNKNOWN;
}

static void fail_read(struct shard *s, enum err err)
{
    CHECK(err != ERR_OK);
    give_up_all(s, err);
    end_read(s, err);
}

// live: the rows that are trusted although they are under the floor; NULL: none. The first row is
// the wanted one. It is added last, so that the others cannot evict it. A damaged extra row is
// reported when it is wanted.
static void keep_rows(struct shard *s, const bool *live)
{
    const struct body_fetch *f = &s->fetch;
    CHECK(f->rows_len > 0 && f->rows[0].slot == f->wanted);
    enum err err = ERR_OK;
    for (size_t i = f->rows_len; i-- > 0;) {
        const struct fetch_row *row = &f->rows[i];
        bool over = row->slot > f->floor_slot || MUTANT(FETCH_FLOOR_OFF);
        err = ERR_NOT_FOUND;
        if (over || (live && live[i]))
            err = cache_add(s->cache, &s->config.journal.id, row->slot, row->bytes);
    }
    if (err) {
        fail_read(s, err);
    } else {
        end_read(s, ERR_OK);
    }
}

static bool anything_alive(struct shard *s)
{
    CHECK(s->fetch.wanted != 0);
    bool alive = outgoing_wants(s, s->fetch.wanted);
    for (struct shard_call *c = s->calls[SHARD_CALL_FETCHING].head; c && !alive; c = c->next)
        alive = missing_of(s, c) == s->fetch.wanted && is_alive(s, c);
    return alive;
}

static void keep_live_rows(struct shard *s)
{
    const struct body_fetch *f = &s->fetch;
    CHECK(f->rows_len > 0);
    CLEANUP(memory_let_go) bool *live = memory_zeroed(f->rows_len, sizeof *live);
    machine_live_slots(s->machine, f->wanted, f->rows_len, live);
    live[0] = live[0] || anything_alive(s);
    keep_rows(s, live);
}

static void floors_known(struct shard *s)
{
    CHECK(s->fetch.stage == FETCH_FLOORS);
    bool under = s->fetch.wanted <= s->fetch.floor_slot;
    if (!under || MUTANT(FETCH_FLOOR_OFF)) {
        keep_rows(s, NULL);
    } else if (MUTANT(FETCH_TAIL_OFF)) {
        keep_live_rows(s);
    } else {
        s->fetch.stage = FETCH_TAIL;
    }
}

// Keeps the rows up to the first gap.
static void hold_rows(struct body_fetch *f, const struct response *r)
{
    CHECK(!f->rows && f->rows_len == 0);
    f->rows = memory_zeroed(r->rows_len, sizeof *f->rows);
    for (f->rows_len = 0; f->rows_len < r->rows_len; f->rows_len++) {
        const struct response_row *row = &r->rows[f->rows_len];
        if (row->first != f->wanted + f->rows_len) return;
        f->rows[f->rows_len] = (struct fetch_row){row->first, bytes_copy(row->body)};
    }
}

static void on_rows(struct shard *s, const struct response *r)
{
    struct body_fetch *f = &s->fetch;
    CHECK(f->wanted != 0);
    if (journal_floor_index(s->journal) > f->floor_index) {
        f->floor_index = journal_floor_index(s->journal);
        f->floor_slot = journal_floor(s->journal);
    }
    if (r->err == ERR_NOT_FOUND) {
        f->stage = FETCH_TAIL;
    } else if (r->err || r->rows_len == 0 || r->rows[0].first != f->wanted) {
        fail_read(s, ERR_CORRUPT);
    } else {
        hold_rows(f, r);
        f->stage = FETCH_FLOORS;
        if (f->wanted <= f->floor_slot || MUTANT(FETCH_FLOOR_OFF)) floors_known(s);
    }
}

static void on_floor(struct shard *s, const struct response *r)
{
    struct body_fetch *f = &s->fetch;
    CHECK((f->floor_index == 0) == (f->floor_slot == 0));
    struct floor floor;
    if (r->err == ERR_NOT_FOUND) {
        floors_known(s);
    } else if (r->err || floor_decode(r->body, &floor) || floor.index != f->floor_index + 1 ||
               !journal_id_equal(&floor.id, &s->config.journal.id)) {
        fail_read(s, ERR_CORRUPT);
    } else {
        CHECK(f->stage == FETCH_FLOORS && f->rows_len > 0);
        f->floor_index = floor.index;
        f->floor_slot = floor.slot;
    }
}

// A missing slot whose message is live is damage. Otherwise it was collected.
static void slot_is_missing(struct shard *s)
{
    CHECK(s->fetch.rows_len == 0);
    for (struct shard_call *c = s->calls[SHARD_CALL_FETCHING].head, *next; c; c = next) {
        next = c->next;
        if (missing_of(s, c) != s->fetch.wanted) continue;
        give_up(s, c, is_alive(s, c) ? ERR_CORRUPT : ERR_NOT_FOUND);
    }
    end_read(s, ERR_NOT_FOUND);
}

void fetch_tail_seen(struct shard *s, enum err err)
{
    struct body_fetch *f = &s->fetch;
    CHECK(f->stage == FETCH_TAIL);
    f->sync = NULL;
    if (err == ERR_CORRUPT) {
        fail_read(s, err);
    } else if (err) {
        f->again = shard_now(s) + READ_AGAIN_MS;
    } else if (f->rows_len == 0) {
        slot_is_missing(s);
    } else {
        keep_live_rows(s);
    }
}

void fetch_respond(struct shard *s, const struct response *r)
{
    struct body_fetch *f = &s->fetch;
    CHECK(f->stage != FETCH_TAIL); // that stage syncs
    CHECK(f->wanted != 0 && !f->sync);
    f->ask.open = false;
    bool failed = r->err && r->err != ERR_NOT_FOUND && r->err != ERR_CORRUPT;
    f->again = failed ? shard_now(s) + READ_AGAIN_MS : TIME_UNKNOWN;
    if (failed) return;
    if (f->stage == FETCH_READING) {
        on_rows(s, r);
    } else {
        on_floor(s, r);
    }
}
