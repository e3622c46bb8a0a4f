// SPDX-License-Identifier: Apache-2.0
// Dead messages get another chance: those that died in place by an op of their own queue; dead
// letters by being sent to another queue and acked here. The send's request id is made of the
// letter's own id, so a redrive that was cut off and is repeated sends nothing twice.
#include "api/inside.h"
#include "base/hash.h"
#include "base/memory.h"
#include "os/entropy.h"

#include <stdio.h>
#include <string.h>

#define LETTERS_AT_ONCE 100
#define ALL             10000 // of one redrive op

static enum sluice_code redrive_in_place(struct open_queue *q, uint32_t max, uint64_t *done,
                                         struct sluice_error *error)
{
    struct desk_answer answer;
    desk_answer_init(&answer);
    enum sluice_code code = SLUICE_OK;
    for (uint32_t shard = 0; !code && shard < q->row.birth.shards; shard++) {
        struct desk *d;
        struct op_redrive op = {.max = max > 0 ? max - (uint32_t)*done : ALL};
        if (op.max == 0) break;
        code = queue_desk(q, shard, &d, error);
        if (code) break;
        CLEANUP(buf_done) struct buf payload;
        buf_init(&payload, 4096);
        entropy_fill(op.request.bytes, sizeof op.request.bytes);
        redrive_encode(&payload, &op);
        enum err err = desk_do(d, (struct op){OP_REDRIVE, buf_bytes(&payload)}, &answer);
        struct result result;
        bool told =
            answer.body.len > 0 && !result_open(buf_bytes(&answer.body), OP_REDRIVE, &result);
        if (told && result.reason == REASON_NONE) *done += result.count;
        if (told && result.reason == REASON_NOT_DEAD) continue; // there are none
        code = refuse_op(error, err, OP_REDRIVE, &answer, q->row.name);
    }
    desk_answer_done(&answer);
    return code;
}

static const char *header(const struct sluice_message *m, const char *name)
{
    for (size_t i = 0; i < m->headers_len; i++)
        if (strcmp(m->headers[i].name, name) == 0) return m->headers[i].value;
    return NULL;
}

static struct sluice_request request_for(const char *id)
{
    struct sluice_request r;
    struct hash128 h = hash128_of(bytes_str(id));
    memcpy(r.bytes, &h, sizeof r.bytes);
    return r;
}

static enum sluice_code send_again(struct sluice *s, const struct sluice_message *m, const char *to,
                                   struct sluice_error *error)
{
    struct sluice_header *headers = memory_zeroed(m->headers_len + 1, sizeof *headers);
    size_t len = 0;
    for (size_t i = 0; i < m->headers_len; i++)
        if (strncmp(m->headers[i].name, "sluice-dead-", 12) != 0) headers[len++] = m->headers[i];
    headers[len++] = (struct sluice_header){"sluice-redriven-from", m->id};
    struct sluice_send again = {.body = m->body,
                                .body_len = m->body_len,
                                .group = m->group,
                                .content_type = m->content_type,
                                .workflow = m->workflow,
                                .priority = m->priority,
                                .headers = headers,
                                .headers_len = len};
    struct sluice_request request = request_for(m->id);
    enum sluice_code code = sluice_send(s, to, &again, 1, &request, NULL, error);
    memory_free(headers);
    return code;
}

// One received letter: sent and acked, or given back.
static enum sluice_code redrive_letter(struct sluice *s, const char *queue,
                                       const struct sluice_message *m, const char *to,
                                       struct sluice_error *error)
{
    const char *target = to ? to : header(m, "sluice-dead-queue");
    const char *token = m->token;
    enum sluice_code code;
    if (!target) {
        code = refuse(error, ERR_INVALID, "to",
                      "message %s is not a dead letter: say with --to where it shall go", m->id);
    } else {
        code = send_again(s, m, target, error);
    }
    if (code) {
        (void)sluice_release(s, queue, &token, 1, 0, NULL, NULL);
        return code;
    }
    return sluice_ack(s, queue, &token, 1, NULL, error);
}

static enum sluice_code redrive_letters(struct sluice *s, const char *queue, const char *to,
                                        uint32_t max, uint64_t *done, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    while (!code && (max == 0 || *done < max)) {
        uint64_t left = max == 0 ? LETTERS_AT_ONCE : max - *done;
        struct sluice_receive ask = {
            .worker = "redrive", .max = left < LETTERS_AT_ONCE ? (uint32_t)left : LETTERS_AT_ONCE};
        struct sluice_batch *batch;
        code = sluice_receive(s, queue, &ask, &batch, error);
        if (code) break;
        bool none = batch->len == 0;
        for (size_t i = 0; i < batch->len; i++) {
            const char *token = batch->messages[i].token;
            if (code) {
                (void)sluice_release(s, queue, &token, 1, 0, NULL, NULL);
                continue;
            }
            code = redrive_letter(s, queue, &batch->messages[i], to, error);
            if (!code) (*done)++;
        }
        sluice_batch_free(batch);
        if (none) break;
    }
    return code;
}

enum sluice_code sluice_redrive(struct sluice *s, const char *queue, const char *to, uint32_t max,
                                uint64_t *redriven, struct sluice_error *error)
{
    struct open_queue *q;
    uint64_t done = 0;
    enum sluice_code code = queue_get(s, queue, &q, error);
    if (!code && to && strcmp(to, queue) == 0)
        code = refuse(error, ERR_INVALID, "to", "%s cannot be redriven into itself", queue);
    struct open_queue *target;
    if (!code && to) code = queue_get(s, to, &target, error);
    if (!code) code = redrive_in_place(q, max, &done, error);
    // What was redriven in place is ready now, and not a letter.
    if (!code && done == 0) code = redrive_letters(s, queue, to, max, &done, error);
    if (redriven) *redriven = done;
    return code;
}
