// SPDX-License-Identifier: Apache-2.0
// Bodies: a claim says where its messages are, and they are read from there. Slots with live
// messages are never dropped, so what is read is what was sent.
#include "base/check.h"
#include "base/memory.h"
#include "shard/inside.h"

#include <stdio.h>
#include <string.h>

#define READ_BYTES    ((size_t)1 << 20)
#define READ_AGAIN_MS 50

void fetch_want(struct shard *s, uint64_t slot)
{
    if (s->wanted == 0) s->wanted = slot;
}

static struct bytes keep(struct buf *text, struct bytes from)
{
    size_t at = text->len;
    buf_put(text, from);
    // A place, not an address: the buffer may move until it is complete.
    return bytes_of((const uint8_t *)(uintptr_t)at, from.len);
}

static void keep_dead_letter(struct buf *text, const struct op_arrive *a)
{
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

static void keep_headers(struct call *c, const struct found *f, struct delivery *d)
{
    struct op_arrive arrive;
    struct bytes *headers = &d->message.headers;
    *headers = keep(&c->text, BYTES_EMPTY);
    if (f->op->kind != OP_ARRIVE || arrive_decode(f->op->payload, &arrive)) {
        *headers = keep(&c->text, f->message.headers);
        return;
    }
    size_t start = c->text.len;
    headers_put_others(&c->text, f->message.headers, bytes_str(HEADER_DEAD_WORKER));
    size_t others = c->text.len;
    keep_dead_letter(&c->text, &arrive);
    d->letter_len = c->text.len - others;
    headers->len = c->text.len - start;
}

static void keep_message(struct call *c, const struct found *f)
{
    struct delivery *d = &c->deliveries[c->fetched];
    const struct message *m = &f->message;
    d->grant = c->grants[c->fetched];
    d->sent_at = f->sent_at;
    d->message = *m;
    d->message.group = keep(&c->text, m->group);
    d->message.dedup = keep(&c->text, m->dedup);
    d->message.content_type = keep(&c->text, m->content_type);
    d->message.workflow = keep(&c->text, m->workflow);
    keep_headers(c, f, d);
    d->message.body = keep(&c->text, m->body);
    d->message.reference.name = keep(&c->text, m->reference.name);
    c->fetched++;
}

static void settle(struct bytes *view, const struct buf *text)
{
    *view = view->len > 0 ? bytes_of(text->data + (uintptr_t)view->data, view->len) : BYTES_EMPTY;
}

// The text is complete and stays where it is: places become addresses.
static void settle_all(struct call *c)
{
    for (size_t i = 0; i < c->fetched; i++) {
        struct message *m = &c->deliveries[i].message;
        settle(&m->group, &c->text);
        settle(&m->dedup, &c->text);
        settle(&m->content_type, &c->text);
        settle(&m->workflow, &c->text);
        settle(&m->headers, &c->text);
        settle(&m->body, &c->text);
        settle(&m->reference.name, &c->text);
    }
    for (size_t i = 0; i < c->told; i++)
        settle(&c->reasons[i].text, &c->text);
}

void fetch_start(struct shard *s, struct call *c)
{
    c->deliveries = memory_zeroed(c->grants_len, sizeof *c->deliveries);
    c->fetched = 0;
    call_push(s, c, CALL_FETCHING);
}

void shard_read(struct shard *s, uint64_t ticket, const struct shard_wants *wants, int64_t deadline,
                struct interval now)
{
    struct call *c = call_new(s, ticket, deadline);
    c->grants = memory_zeroed(wants->places_len, sizeof *c->grants);
    c->grants_len = wants->places_len;
    for (size_t i = 0; i < wants->places_len; i++)
        c->grants[i].place = wants->places[i];
    c->asked = memory_zeroed(wants->reasons_len, sizeof *c->asked);
    c->reasons = memory_zeroed(wants->reasons_len, sizeof *c->reasons);
    c->asked_len = wants->reasons_len;
    for (size_t i = 0; i < wants->reasons_len; i++)
        c->asked[i] = wants->reasons[i];
    fetch_start(s, c);
    shard_tick(s, now);
}

void shard_fetch(struct shard *s, uint64_t ticket, const struct place *places, size_t count,
                 int64_t deadline, struct interval now)
{
    shard_read(s, ticket, &(struct shard_wants){.places = places, .places_len = count}, deadline,
               now);
}

static void tell_reason(struct call *c, struct bytes text, bool kept)
{
    c->reasons[c->told++] = (struct reason_text){.text = keep(&c->text, text), .kept = kept};
}

// False: a slot must be read first.
static bool fetch_reasons(struct shard *s, struct call *c)
{
    while (c->told < c->asked_len) {
        const struct reason_place *at = &c->asked[c->told];
        struct bytes text = BYTES_EMPTY;
        enum cache_answer answer = cache_reason(s->cache, at->slot, at->op, &text);
        if (answer == CACHE_MISSING) {
            fetch_want(s, at->slot);
            return false;
        }
        tell_reason(c, text, answer == CACHE_FOUND);
    }
    return true;
}

// Answers the call if all it wants is at hand.
static void fetch_some(struct shard *s, struct call *c)
{
    while (c->fetched < c->grants_len) {
        struct found found;
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
    settle_all(c);
    call_answer(s, call_take(s, c), ERR_OK, c->result);
}

static void ask(struct shard *s)
{
    bool early = shard_now(s) < s->reading_again;
    if (s->wanted == 0 || s->reading.open || early) return;
    asking_open(&s->reading, s->journal, REQUEST_READ_LOG, "log", 0);
    s->reading.request.first = s->wanted;
    s->reading.request.limit = READ_BYTES;
}

// The locks are granted but the bodies cannot be had in time: the same request id brings them
// later.
static void end_patience(struct shard *s)
{
    for (struct call *c = s->calls[CALL_FETCHING].head, *next; c; c = next) {
        next = c->next;
        if (shard_now(s) >= c->deadline) call_answer(s, call_take(s, c), ERR_UNKNOWN, BYTES_EMPTY);
    }
}

void fetch_go_on(struct shard *s)
{
    if (!s->reading.open) s->wanted = 0;
    for (struct call *c = s->calls[CALL_FETCHING].head, *next; c; c = next) {
        next = c->next;
        fetch_some(s, c);
    }
    end_patience(s);
    post_poke(s);
    ask(s);
}

// While its lock runs nobody else can finish a message, so its slot must be there. Afterwards
// somebody may have, and the slot was collected: what was granted then is no longer anybody's.
static bool may_be_finished(const struct shard *s, const struct grant *g)
{
    return s->now.hi >= g->deadline;
}

static void drop_grant(struct call *c)
{
    c->grants_len--;
    memmove(c->grants + c->fetched, c->grants + c->fetched + 1,
            (c->grants_len - c->fetched) * sizeof *c->grants);
}

// The slot that was wanted cannot be had, now or later. A fetch may ask for what was collected; a
// receive goes on without a message whose lock ran out, and a read without a reason.
static void give_up(struct shard *s, enum err err)
{
    for (struct call *c = s->calls[CALL_FETCHING].head, *next; c; c = next) {
        next = c->next;
        struct found found;
        uint64_t missing = 0;
        if (c->fetched == c->grants_len) {
            bool reason = c->told < c->asked_len && c->asked[c->told].slot == s->wanted;
            if (reason) tell_reason(c, BYTES_EMPTY, false);
            continue;
        }
        const struct grant *g = &c->grants[c->fetched];
        enum cache_answer answer = cache_find(s->cache, g->place, &found, &missing);
        if (answer != CACHE_MISSING || missing != s->wanted) continue;
        if (c->receives && err == ERR_NOT_FOUND && may_be_finished(s, g)) {
            drop_grant(c);
        } else {
            call_answer(s, call_take(s, c), c->receives ? ERR_CORRUPT : err, BYTES_EMPTY);
        }
    }
}

static enum err keep_rows(struct shard *s, const struct response *r)
{
    if (r->err) return r->err;
    if (r->rows_len == 0 || r->rows[0].first != s->wanted) return ERR_CORRUPT;
    // The first is the one that was wanted: it comes last, so that the others cannot push it out.
    // One of them that is damaged is spoken of when it is wanted.
    enum err err = ERR_OK;
    for (size_t i = r->rows_len; i-- > 0;)
        err = cache_add(s->cache, &s->config.journal.id, r->rows[i].first, r->rows[i].body);
    return err;
}

void fetch_respond(struct shard *s, const struct response *r)
{
    s->reading.open = false;
    enum err err = keep_rows(s, r);
    if (err == ERR_CORRUPT || err == ERR_NOT_FOUND) give_up(s, err);
    s->reading_again = err ? shard_now(s) + READ_AGAIN_MS : TIME_DAWN;
}
