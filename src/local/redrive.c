// SPDX-License-Identifier: Apache-2.0
// Redrives dead messages. A message that died in its own queue is redriven by an op of that queue.
// A dead letter is sent to another queue, then acked here. The request id of that send is derived
// from the letter's id. So if a redrive is interrupted and repeated, no letter is sent twice.
#include "local/redrive.h"
#include "base/hash.h"
#include "base/memory.h"
#include "local/change.h"

#include <stdio.h>
#include <string.h>

#define LETTERS_AT_ONCE 16    // few, because bodies may be large
#define LEASE_MS        60000 // a batch must be sent within it; the queue's own may be too short
#define AT_ONCE         10000 // messages of one redrive op

struct redrive {
    struct change change; // first
    uint32_t max;         // 0: all
    uint64_t done;
};

// How many messages the next op redrives at most.
static uint32_t redrive_part(const struct redrive *r)
{
    uint64_t left = r->max == 0 ? AT_ONCE : r->max - r->done;
    return left < AT_ONCE ? (uint32_t)left : AT_ONCE;
}

static void encode_redrive(const struct change *ch, const struct request_id *request,
                           struct buf *out)
{
    uint32_t max = redrive_part((const struct redrive *)ch);
    redrive_encode(out, &(struct op_redrive){.request = *request, .max = max});
}

// A full op is followed by another one on the same shard.
static enum sluice_code take_redriven(struct change *ch, const struct result *result,
                                      enum sluice_code code)
{
    struct redrive *r = (struct redrive *)ch;
    uint32_t count = result && result->reason == REASON_NONE ? result->count : 0;
    r->done += count;
    if (count < AT_ONCE) ch->shard++;
    if (r->max > 0 && r->done == r->max) ch->shard = UINT32_MAX;
    return result && result->reason == REASON_NOT_DEAD ? SLUICE_OK : code;
}

static enum sluice_code redrive_in_place(struct open_queue *q, uint32_t max, uint64_t *done,
                                         struct sluice_error *error)
{
    struct redrive r = {
        .change = {.kind = OP_REDRIVE, .encode = encode_redrive, .take = take_redriven},
        .max = max,
        .done = *done};
    if (max > 0 && *done >= max) return SLUICE_OK;
    enum sluice_code code = change_open_queue(q, &r.change, error);
    *done = r.done;
    return code;
}

static struct sluice_request request_for(const char *id, uint64_t salt)
{
    struct sluice_request r;
    uint64_t lo = hash64_of(bytes_str(id), salt), hi = hash64_of(bytes_str(id), ~salt);
    memcpy(r.bytes, &lo, sizeof lo);
    memcpy(r.bytes + sizeof lo, &hi, sizeof hi);
    return r;
}

static enum sluice_code send_again(struct sluice *s, const struct sluice_message *m, const char *to,
                                   struct sluice_error *error)
{
    struct sluice_header *headers = memory_zeroed(m->headers_len + 1, sizeof *headers);
    size_t len = 0;
    for (size_t i = 0; i < m->headers_len; i++)
        if (strncmp(m->headers[i].name, HEADER_DEAD, strlen(HEADER_DEAD)) != 0)
            headers[len++] = m->headers[i];
    headers[len++] = (struct sluice_header){"sluice-redriven-from", m->id};
    struct sluice_send again = {.body = m->body,
                                .body_len = m->body_len,
                                .group = m->group,
                                .content_type = m->content_type,
                                .workflow = m->workflow,
                                .priority = m->priority,
                                .headers = headers,
                                .headers_len = len};
    struct sluice_request request = request_for(m->id, 0);
    enum sluice_code code = sluice_send(s, to, &again, 1, &request, NULL, error);
    if (code == SLUICE_LIMIT) { // perhaps the remembered answer of an earlier try: use another id
        request = request_for(m->id, m->fence);
        code = sluice_send(s, to, &again, 1, &request, NULL, error);
    }
    memory_free(headers);
    return code;
}

void leftovers_keep(struct leftovers *l, const char *token)
{
    l->tokens = memory_resize(l->tokens, (l->len + 1) * sizeof *l->tokens);
    memcpy(l->tokens[l->len++], token, SLUICE_TOKEN_MAX);
}

void leftovers_release(struct sluice *s, const char *queue, struct leftovers *l)
{
    const char **tokens = memory_zeroed(l->len + 1, sizeof *tokens);
    for (size_t i = 0; i < l->len; i++)
        tokens[i] = l->tokens[i];
    if (l->len > 0) (void)sluice_release(s, queue, tokens, l->len, 0, NULL, NULL);
    memory_free(tokens);
    memory_free(l->tokens);
}

static enum sluice_code allowed(const struct redrive_where *where, const char *to,
                                struct sluice_error *error)
{
    return where->may ? where->may(where->ctx, to, error) : SLUICE_OK;
}

// An error about the target queue names the field "to": "queue" is the one that is redriven.
static enum sluice_code name_target(enum sluice_code code, struct sluice_error *error)
{
    if (code && error && strcmp(error->field, "queue") == 0)
        (void)snprintf(error->field, sizeof error->field, "to");
    return code;
}

bool is_letter(const struct sluice_message *m)
{
    return *m->from.queue != 0;
}

enum sluice_code redrive_letter(struct sluice *s, const char *queue,
                                const struct redrive_where *where, const struct sluice_message *m,
                                struct sluice_error *error)
{
    const char *to = where->to ? where->to : m->from.queue;
    const char *token = m->token;
    enum sluice_code code = allowed(where, to, error);
    if (!code) code = name_target(send_again(s, m, to, error), error);
    return code ? code : sluice_ack(s, queue, &token, 1, NULL, error);
}

// Redrives the letters of a batch. The first error is the answer.
static enum sluice_code redrive_batch(struct sluice *s, const char *queue,
                                      const struct redrive_where *where,
                                      const struct sluice_batch *batch, struct leftovers *left,
                                      uint64_t *done, struct sluice_error *error)
{
    enum sluice_code first = SLUICE_OK;
    for (size_t i = 0; i < batch->len; i++) {
        const struct sluice_message *m = &batch->messages[i];
        if (!is_letter(m)) {
            leftovers_keep(left, m->token); // it is no dead letter
            continue;
        }
        enum sluice_code code = redrive_letter(s, queue, where, m, first ? NULL : error);
        if (code) leftovers_keep(left, m->token);
        if (!code) (*done)++;
        if (!first) first = code;
    }
    return first;
}

static enum sluice_code redrive_letters(struct sluice *s, const char *queue,
                                        const struct redrive_where *where, uint32_t max,
                                        uint64_t *done, struct sluice_error *error)
{
    struct leftovers left = {0};
    enum sluice_code first = SLUICE_OK;
    for (bool more = true; more && (max == 0 || *done < max);) {
        uint64_t want = max == 0 ? LETTERS_AT_ONCE : max - *done;
        struct sluice_receive options = {.worker = "redrive",
                                         .visibility_ms = LEASE_MS,
                                         .max = want < LETTERS_AT_ONCE ? (uint32_t)want
                                                                       : LETTERS_AT_ONCE};
        struct sluice_batch *batch;
        enum sluice_code code = sluice_receive(s, queue, &options, &batch, first ? NULL : error);
        if (code && !first) first = code;
        if (code) break;
        size_t strays = left.len;
        code = redrive_batch(s, queue, where, batch, &left, done, first ? NULL : error);
        more = left.len - strays < batch->len; // a batch without a sent letter ends the search
        if (!first) first = code;
        sluice_batch_free(batch);
    }
    leftovers_release(s, queue, &left);
    return first;
}

enum sluice_code redrive_where(struct sluice *s, const char *queue,
                               const struct redrive_where *where, uint32_t max, uint64_t *redriven,
                               struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    CLEANUP(queue_let_go) struct open_queue *target = NULL;
    uint64_t done = 0;
    const char *to = where->to;
    enum sluice_code code = queue_get(s, queue, &q, error);
    if (!code && to && strcmp(to, queue) == 0)
        code = refuse(error, ERR_INVALID, "to", "%s cannot be redriven into itself", queue);
    if (!code && to) code = allowed(where, to, error);
    if (!code && to) code = name_target(queue_get(s, to, &target, error), error);
    // Letters first. A letter that also died in this queue is made ready by redrive_in_place, and
    // so it is counted once.
    if (!code) code = redrive_letters(s, queue, where, max, &done, error);
    if (!code) code = redrive_in_place(q, max, &done, error);
    if (redriven) *redriven = done;
    return code;
}

enum sluice_code direct_redrive(struct sluice *s, const char *queue, const char *to, uint32_t max,
                                uint64_t *redriven, struct sluice_error *error)
{
    return redrive_where(s, queue, &(struct redrive_where){.to = to}, max, redriven, error);
}
