// SPDX-License-Identifier: Apache-2.0
// Dead letters leave through an ordered outbox. Each is offered with its body and its reason, in
// the order of their numbers. When a letter has arrived, the fold forgets it. The destination keeps
// a mark per source, so a letter that is offered twice (after a crash between the two steps)
// arrives once.
#include "base/check.h"
#include "base/text.h"
#include "shard/inside.h"

#include <string.h>

#define DEAD_LETTER_RETRY_MS 500

static bool first_dead_letter(const struct shard *s, struct message_view *out)
{
    enum { WINDOW = 64 };
    struct message_view window[WINDOW];
    size_t count = machine_outbox(s->machine, window, WINDOW);
    CHECK(count <= WINDOW);
    for (size_t i = 0; i < count; i++) {
        if (window[i].outbox_number <= s->dead_letter_done) continue;
        *out = window[i];
        return true;
    }
    return false;
}

static void want(struct shard *s, uint64_t slot)
{
    CHECK(!s->dead_letter_open); // one letter at a time
    s->dead_letter_wants = slot;
    fetch_want(s, slot);
}

// The reason is copied: it and the message need not fit into the cache together.
static bool reason_of(struct shard *s, const struct message_view *v)
{
    if (s->dead_letter_reason_of == v->outbox_number) return true;
    struct bytes reason = BYTES_EMPTY;
    struct reason_place at = {.slot = v->reason_slot, .op = v->reason_op};
    if (at.slot != 0 && cache_reason(s->cache, &at, &reason) == CACHE_MISSING) {
        want(s, v->reason_slot);
        return false;
    }
    CHECK(v->outbox_number > s->dead_letter_done);
    if (reason.len > FAIL_REASON_MAX) reason = BYTES_EMPTY; // not what the fold saw
    buf_clear(&s->dead_letter_reason);
    buf_put(&s->dead_letter_reason, reason);
    s->dead_letter_reason_of = v->outbox_number;
    return true;
}

enum outgoing_state {
    OUTGOING_NOTHING, // there is no letter, or not now
    OUTGOING_READING, // fetch_want was called for a part of it
    OUTGOING_READY,
};

// Collects the parts of the next letter.
static enum outgoing_state next_dead_letter(struct shard *s, struct message_view *v,
                                            struct cached_message *found)
{
    bool may = s->config.moves_dead_letters && !s->dead_letter_open &&
               shard_now(s) >= s->dead_letters_at &&
               machine_config(s->machine)->dead_letter_queue[0] != 0;
    if (!may || !first_dead_letter(s, v)) return OUTGOING_NOTHING;
    if (!reason_of(s, v)) return OUTGOING_READING;
    CHECK(s->dead_letter_reason_of == v->outbox_number);
    uint64_t missing;
    enum cache_answer answer = cache_find(s->cache, v->place, found, &missing);
    if (answer == CACHE_MISSING) want(s, missing);
    return answer == CACHE_FOUND     ? OUTGOING_READY
           : answer == CACHE_MISSING ? OUTGOING_READING
                                     : OUTGOING_NOTHING;
}

// The sender's headers and, as the last one, the worker that failed the message. The op has no
// field for the worker. A sender's own header of that name is left out.
static struct bytes dead_letter_headers(struct shard *s, const struct message_view *v,
                                        struct bytes headers)
{
    struct failure_view failures[FAILURES_KEPT + 1];
    size_t len = machine_failures(s->machine, v->seq, shard_now(s), failures);
    CHECK(len <= FAILURES_KEPT + 1);
    struct bytes worker = len > 0 ? failures[len - 1].worker : BYTES_EMPTY;
    buf_clear(&s->dead_letter_headers);
    headers_put_others(&s->dead_letter_headers, headers, bytes_str(HEADER_DEAD_WORKER));
    size_t others = s->dead_letter_headers.len;
    if (worker.len > 0) headers_put(&s->dead_letter_headers, bytes_str(HEADER_DEAD_WORKER), worker);
    CHECK(others <= s->dead_letter_headers.len);
    return bytes_of(s->dead_letter_headers.data,
                    s->dead_letter_headers.bad ? others : s->dead_letter_headers.len);
}

static void encode_dead_letter(struct shard *s, const struct message_view *v,
                               const struct cached_message *found)
{
    CHECK(v->outbox_number > s->dead_letter_done);
    struct op_arrive arrive = {.source_shard = s->config.journal.id.shard,
                               .number = v->outbox_number,
                               .origin = bytes_str(s->config.queue),
                               .origin_seq = v->seq,
                               .retries = v->retries,
                               .deliveries = v->deliveries,
                               .cause = v->cause,
                               .died_at = v->died_at,
                               .reason = buf_bytes(&s->dead_letter_reason),
                               .message = found->message};
    arrive.message.headers = dead_letter_headers(s, v, found->message.headers);
    arrive.message.workflow_last = false;
    arrive.message.requires = BYTES_EMPTY; // any worker of the dead-letter queue may read it
    memcpy(arrive.source.bytes, s->config.journal.id.queue, sizeof arrive.source.bytes);
    CHECK(!s->dead_letter_open); // its op may still be read
    buf_clear(&s->dead_letter_op);
    arrive_encode(&s->dead_letter_op, &arrive);
}

bool shard_next_dead_letter(struct shard *s, struct dead_letter *out)
{
    struct message_view v;
    struct cached_message found;
    // During a replay the state has letters that arrived long ago.
    if (!s->view->is_current) return false;
    if (next_dead_letter(s, &v, &found) != OUTGOING_READY) return false;
    encode_dead_letter(s, &v, &found);
    (void)text_copy(s->dead_letter_to, sizeof s->dead_letter_to,
                    machine_config(s->machine)->dead_letter_queue);
    CHECK(!s->dead_letter_open);
    s->dead_letter_open = true;
    *out =
        (struct dead_letter){.to = s->dead_letter_to,
                             .number = v.outbox_number,
                             .op = {.kind = OP_ARRIVE, .payload = buf_bytes(&s->dead_letter_op)}};
    return true;
}

bool outgoing_wants(struct shard *s, uint64_t slot)
{
    struct message_view v;
    struct cached_message found;
    s->dead_letter_wants = 0;
    return next_dead_letter(s, &v, &found) == OUTGOING_READING && s->dead_letter_wants == slot;
}

// Requests the slots that the next letter needs, and answers the calls that wait for it.
void outgoing_advance(struct shard *s)
{
    struct message_view v;
    struct cached_message found;
    enum err halted = s->view->halt_err;
    bool known = halted || s->view->is_current;
    enum outgoing_state state = known ? next_dead_letter(s, &v, &found) : OUTGOING_READING;
    for (struct shard_call *c = s->calls[SHARD_CALL_OUTBOX].head, *next; c; c = next) {
        next = c->next;
        CHECK(c->state == SHARD_CALL_OUTBOX && !c->silent);
        bool late = shard_now(s) >= c->deadline;
        if (state == OUTGOING_READING && !halted && !late) continue;
        enum err err = state == OUTGOING_READY     ? ERR_OK
                       : state == OUTGOING_NOTHING ? ERR_NOT_FOUND
                       : halted                    ? halted
                                                   : ERR_UNAVAILABLE;
        call_answer(s, call_take(s, c), err, BYTES_EMPTY);
    }
}

void shard_dead_letters(struct shard *s, uint64_t ticket, int64_t deadline, struct interval now)
{
    call_push(s, call_new(s, ticket, deadline), SHARD_CALL_OUTBOX);
    shard_tick(s, now);
}

// The source did not commit the outbox op. The letters that arrived are offered again, and the op
// is repeated.
void outgoing_not_forgotten(struct shard *s)
{
    CHECK(s->config.moves_dead_letters);
    s->dead_letter_done = 0;
    s->dead_letters_at = shard_now(s) + DEAD_LETTER_RETRY_MS;
}

void shard_dead_letter_arrived(struct shard *s, uint64_t number, struct interval now)
{
    CHECK(s->dead_letter_open && number > s->dead_letter_done);
    s->dead_letter_open = false;
    s->dead_letter_done = number;
    struct op_outbox forget = {.upto = s->dead_letter_done};
    struct shard_call *c = call_new(s, 0, TIME_NEVER);
    LOCAL(buf, payload, JOURNAL_OP_MAX);
    outbox_encode(&payload, &forget);
    c->silent = true;
    c->kind = OP_OUTBOX;
    c->payload = buf_take(&payload);
    call_commit(s, c);
    shard_tick(s, now);
}

void shard_dead_letter_failed(struct shard *s, uint64_t number, struct interval now)
{
    CHECK(s->dead_letter_open && number > s->dead_letter_done);
    s->dead_letter_open = false;
    s->dead_letters_at = now.lo + DEAD_LETTER_RETRY_MS;
}
