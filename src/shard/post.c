// SPDX-License-Identifier: Apache-2.0
// Dead letters leave by an ordered outbox: each is offered with its body and the reason it died
// for, in the order of their numbers; what arrived is forgotten by the fold. The destination keeps
// a mark per source, so offering one twice (after a crash between the two halves) does no harm.
#include "base/check.h"
#include "base/memory.h"
#include "shard/inside.h"

#include <stdio.h>
#include <string.h>

#define LETTERS_AGAIN_MS 500

static bool first_letter(const struct shard *s, struct message_view *out)
{
    enum { WINDOW = 64 };
    struct message_view window[WINDOW];
    size_t count = machine_outbox(s->machine, window, WINDOW);
    for (size_t i = 0; i < count; i++) {
        if (window[i].outbox_number <= s->letter_done) continue;
        *out = window[i];
        return true;
    }
    return false;
}

// What the letter is made of, or false: it must be read first (fetch_want was told) or cannot be
// had.
static bool contents(struct shard *s, const struct message_view *v, struct found *found,
                     struct bytes *reason)
{
    uint64_t missing;
    *reason = BYTES_EMPTY;
    if (v->reason_slot != 0 &&
        cache_reason(s->cache, v->reason_slot, v->reason_op, reason) == CACHE_MISSING) {
        fetch_want(s, v->reason_slot);
        return false;
    }
    enum cache_answer answer = cache_find(s->cache, v->place, found, &missing);
    if (answer == CACHE_MISSING) fetch_want(s, missing);
    return answer == CACHE_FOUND;
}

static void write_letter(struct shard *s, const struct message_view *v, const struct found *found,
                         struct bytes reason)
{
    struct op_arrive arrive = {.source_shard = s->config.journal.id.shard,
                               .number = v->outbox_number,
                               .origin = bytes_str(s->config.queue),
                               .origin_seq = v->seq,
                               .retries = v->retries,
                               .deliveries = v->deliveries,
                               .cause = v->cause,
                               .died_at = v->died_at,
                               .reason = reason,
                               .message = found->message};
    memcpy(arrive.source.bytes, s->config.journal.id.queue, sizeof arrive.source.bytes);
    buf_clear(&s->letter_text);
    arrive_encode(&s->letter_text, &arrive);
}

static bool post_may_go(const struct shard *s)
{
    return s->config.moves_letters && !s->letter_open && shard_now(s) >= s->letters_again;
}

bool shard_next_letter(struct shard *s, struct letter *out)
{
    const char *to = machine_config(s->machine)->dead_letter_queue;
    struct message_view v;
    struct found found;
    struct bytes reason;
    bool may = post_may_go(s) && to[0] != 0;
    if (!may || !first_letter(s, &v) || !contents(s, &v, &found, &reason)) return false;
    write_letter(s, &v, &found, reason);
    (void)snprintf(s->letter_to, sizeof s->letter_to, "%s", to);
    s->letter_open = true;
    *out = (struct letter){.to = s->letter_to,
                           .number = v.outbox_number,
                           .op = {.kind = OP_ARRIVE, .payload = buf_bytes(&s->letter_text)}};
    return true;
}

// Makes sure that what the next letter is made of gets read.
void post_poke(struct shard *s)
{
    struct message_view v;
    struct found found;
    struct bytes reason;
    if (!post_may_go(s)) return;
    if (first_letter(s, &v)) (void)contents(s, &v, &found, &reason);
}

void shard_letter_arrived(struct shard *s, uint64_t number, struct interval now)
{
    CHECK(s->letter_open && number > s->letter_done);
    s->letter_open = false;
    s->letter_done = number;
    struct op_outbox forget = {.upto = s->letter_done};
    struct call *c = call_new(s, 0, TIME_NEVER);
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, JOURNAL_OP_MAX);
    outbox_encode(&payload, &forget);
    c->silent = true;
    c->kind = OP_OUTBOX;
    c->payload = buf_take(&payload);
    call_commit(s, c);
    shard_tick(s, now);
}

void shard_letter_failed(struct shard *s, uint64_t number, struct interval now)
{
    CHECK(s->letter_open && number > s->letter_done);
    s->letter_open = false;
    s->letters_again = now.lo + LETTERS_AGAIN_MS;
}
