// SPDX-License-Identifier: Apache-2.0
// The messages of a batch. One allocation per message holds its body, its strings and its headers.
// The messages of a node's answer are views into the answer, and share their array of headers.
#include "protocol/batch.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct batch_text {
    struct batch_text *next;
    char text[];
};

struct batch_builder {
    struct sluice_batch batch; // first: sluice_batch_free frees the builder
    size_t cap;
    struct bytes input;            // owned; empty unless it came from a node
    struct sluice_header *headers; // owned; of all messages
    struct batch_text *texts;      // owned
};

struct batch_builder *batch_new(size_t max)
{
    struct batch_builder *b = NEW(struct batch_builder);
    b->cap = max;
    b->batch.messages = memory_zeroed(max, sizeof *b->batch.messages);
    return b;
}

const char *batch_keep(struct batch_builder *b, struct bytes text)
{
    struct batch_text *t;
    if (text.len == 0) return "";
    t = memory_new(sizeof *t + text.len + 1);
    memcpy(t->text, text.data, text.len);
    t->text[text.len] = '\0';
    t->next = b->texts;
    b->texts = t;
    return t->text;
}

size_t batch_len(const struct batch_builder *b)
{
    return b->batch.len;
}

void batch_drop_last(struct batch_builder *b)
{
    CHECK(b->batch.len > 0 && !b->input.data);
    struct sluice_message *m = &b->batch.messages[--b->batch.len];
    memory_free((void *)(uintptr_t)m->headers);
    *m = (struct sluice_message){0};
}

struct sluice_batch *batch_take(struct batch_builder *b)
{
    return &b->batch;
}

void batch_own(struct batch_builder *b, struct bytes input, struct sluice_header *headers)
{
    CHECK(!b->input.data && !b->headers);
    b->input = input;
    b->headers = headers;
}

void sluice_batch_free(struct sluice_batch *batch)
{
    struct batch_builder *b = (struct batch_builder *)batch;
    if (!b) return;
    for (size_t i = 0; i < batch->len; i++) {
        const struct sluice_message *m = &batch->messages[i];
        if (!b->input.data)
            memory_free((void *)(uintptr_t)m->headers); // the block starts with the headers
        memory_free((void *)(uintptr_t)m->failures);
        memory_free((void *)(uintptr_t)m->signals);
    }
    while (b->texts) {
        struct batch_text *t = b->texts;
        b->texts = t->next;
        memory_free(t);
    }
    bytes_free(b->input);
    memory_free(b->headers);
    memory_free(batch->messages);
    memory_free(b);
}

static size_t count_headers(struct bytes headers)
{
    struct reader r = reader_of(headers);
    struct bytes name, value;
    size_t count = 0;
    while (headers_next(&r, &name, &value))
        count++;
    return count;
}

const char *text_append(char **at, struct bytes from)
{
    char *text = *at;
    if (from.len > 0) memcpy(text, from.data, from.len);
    text[from.len] = 0;
    *at += from.len + 1;
    return text;
}

static void put_headers(struct sluice_header *to, char **at, struct bytes headers)
{
    struct reader r = reader_of(headers);
    struct bytes name, value;
    while (headers_next(&r, &name, &value)) {
        to->name = text_append(at, name);
        to->value = text_append(at, value);
        to++;
    }
}

// The origin of a dead letter is in its last headers, after those of the sender.
static void put_origin(struct sluice_message *out, struct bytes letter)
{
    size_t len = count_headers(letter);
    CHECK(len <= out->headers_len);
    const struct sluice_header *row = out->headers + out->headers_len - len;
    out->from = (struct sluice_origin){.queue = "", .id = "", .reason = "", .worker = ""};
    for (const struct sluice_header *end = row + len; row < end; row++) {
        if (strcmp(row->name, HEADER_DEAD_QUEUE) == 0) out->from.queue = row->value;
        if (strcmp(row->name, HEADER_DEAD_ID) == 0) out->from.id = row->value;
        if (strcmp(row->name, HEADER_DEAD_REASON) == 0) out->from.reason = row->value;
        if (strcmp(row->name, HEADER_DEAD_WORKER) == 0) out->from.worker = row->value;
        if (strcmp(row->name, HEADER_DEAD_ATTEMPTS) == 0)
            out->from.attempts = (uint32_t)strtoul(row->value, NULL, 10);
        if (strcmp(row->name, HEADER_DEAD_RETRIES) == 0)
            out->from.retries = (uint32_t)strtoul(row->value, NULL, 10);
        if (strcmp(row->name, HEADER_DEAD_AT) == 0)
            out->from.died_at = strtoll(row->value, NULL, 10);
    }
}

static void put_strings(struct sluice_message *out, const struct message *m, struct bytes worker,
                        struct bytes needs)
{
    size_t headers = count_headers(m->headers);
    size_t text = m->body.len + m->group.len + m->dedup.len + m->content_type.len +
                  m->workflow.len + m->headers.len + worker.len + needs.len + 7 + 2 * headers;
    struct sluice_header *block = memory_new(headers * sizeof *block + text);
    char *at = (char *)(block + headers);
    out->headers = block;
    out->headers_len = headers;
    put_headers(block, &at, m->headers);
    out->body = text_append(&at, m->body);
    out->body_len = m->body.len;
    out->group = text_append(&at, m->group);
    out->dedup = text_append(&at, m->dedup);
    out->content_type = text_append(&at, m->content_type);
    out->workflow = text_append(&at, m->workflow);
    out->worker = text_append(&at, worker);
    out->needs = text_append(&at, needs);
}

static struct bytes letter_of(const struct delivery *d)
{
    struct bytes h = d->message.headers;
    CHECK(d->dead_letter_headers_len <= h.len);
    return d->dead_letter_headers_len > 0
               ? bytes_of(h.data + h.len - d->dead_letter_headers_len, d->dead_letter_headers_len)
               : BYTES_EMPTY;
}

static void put_lock(struct sluice_message *out, struct queue_ref q, uint32_t shard,
                     const struct grant *g, int64_t now)
{
    struct lock_name lock = {.shard = shard, .ref = {.seq = g->seq, .token = g->token}};
    token_print(q, &lock, out->token);
    out->state = message_state_name(STATE_LOCKED);
    out->attempt = g->deliveries;
    out->retries = g->retries;
    out->fence = g->fence;
    out->order = g->order;
    out->deadline = g->deadline;
    out->lease_ms = time_surely_left(g->deadline - now);
}

static void put_view(struct sluice_message *out, const struct message_view *v, int64_t now)
{
    out->state = message_state_name(v->state);
    out->attempt = v->deliveries;
    out->retries = v->retries;
    out->fence = v->fence;
    out->order = v->order;
    out->priority = v->priority;
    out->deadline = v->until;
    if (v->state == STATE_LOCKED && v->until > now) out->lease_ms = v->until - now;
}

void batch_add(struct batch_builder *b, struct queue_ref q, uint32_t shard,
               const struct delivery *d, const struct message_view *view, int64_t now)
{
    struct sluice_message *out = &b->batch.messages[b->batch.len++];
    // A worker that receives a message has the labels.
    put_strings(out, &d->message, view ? view->worker : BYTES_EMPTY,
                view ? d->message.requires : BYTES_EMPTY);
    put_origin(out, letter_of(d));
    out->result_type = out->reason = out->progress = "";
    out->percent = -1;
    out->sent_at = d->sent_at;
    out->priority = d->message.priority;
    id_print(q, shard, view ? view->seq : d->grant.seq, out->id);
    if (view) {
        put_view(out, view, now);
    } else {
        put_lock(out, q, shard, &d->grant, now);
    }
}
