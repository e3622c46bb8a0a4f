// SPDX-License-Identifier: Apache-2.0
// The request id of the send of a letter is derived from the letter's id. So if a redrive is
// interrupted and repeated, no letter is sent twice.
#include "ops/redrive_letters.h"
#include "ops/ops.h"
#include "protocol/call_arguments.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "ops/change.h"
#include "ops/look.h"
#include "os/entropy.h"
#include "queues/bodies.h"

#include <string.h>

#define LEASE_MS 60000 // a page must be sent within it; the queue's own may be too short

struct listing {
    struct look look; // first
    uint64_t after;
    uint64_t *seqs;
    size_t max, len;
};

static void list_ready(void *ctx, const struct machine *m, int64_t now)
{
    struct listing *l = ctx;
    CLEANUP(memory_let_go) struct message_view *views = memory_zeroed(l->max, sizeof *views);
    l->len = machine_list(m, STATE_READY, l->after, now, views, l->max);
    for (size_t i = 0; i < l->len; i++)
        l->seqs[i] = views[i].seq;
}

static enum sluice_code list_shard(struct look *l, struct sluice_error *error)
{
    (void)error;
    runner_inspect(l->runner, list_ready, l);
    l->enough = true;
    return SLUICE_OK;
}

enum sluice_code letters_list(struct open_queue *q, uint32_t shard, uint64_t after, uint64_t *seqs,
                              size_t max, size_t *len, struct sluice_error *error)
{
    struct listing l = {
        .look = {.first = shard, .shard = list_shard}, .after = after, .seqs = seqs, .max = max};
    enum sluice_code code = look_at_open_queue(q, &l.look, error);
    *len = l.len;
    return code;
}

struct page_look {
    struct look look; // first
    struct letter_page *page;
    const uint64_t *seqs;
    size_t seqs_len;
    struct message_view views[LETTERS_AT_ONCE];
    size_t len;
};

static void find_ready(void *ctx, const struct machine *m, int64_t now)
{
    struct page_look *l = ctx;
    l->len = 0;
    for (size_t i = 0; i < l->seqs_len; i++) {
        struct message_view *v = &l->views[l->len];
        if (!machine_find(m, l->seqs[i], now, v) && v->state == STATE_READY) l->len++;
    }
}

// Messages that were finished meanwhile are not in the batch.
static enum sluice_code number_batch(struct letter_page *p, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    for (size_t i = 0; !code && i < p->batch->len; i++) {
        uint32_t shard;
        code = id_parse(queue_ref(p->queue), p->batch->messages[i].id, &shard, &p->seqs[i], error);
        p->wanted[i] = is_letter(&p->batch->messages[i]);
    }
    return code;
}

static enum sluice_code read_bodies(struct page_look *l, struct shard_runner *r,
                                    struct sluice_error *error)
{
    struct letter_page *p = l->page;
    struct place places[LETTERS_AT_ONCE];
    enum err errs[LETTERS_AT_ONCE] = {ERR_OK};
    for (size_t i = 0; i < l->len; i++)
        places[i] = l->views[i].place;
    LOCAL(kept_reply, answer);
    enum err err = runner_fetch(r, places, l->len, &answer);
    size_t len = err ? 0 : batch_len_within(answer.deliveries, l->len, BATCH_BYTES_MAX);
    struct batch_builder *b = batch_new(LETTERS_AT_ONCE);
    if (len > 0) bodies_add(b, p->queue, p->shard, r, answer.deliveries, l->views, len, errs);
    p->cut = len < l->len;
    sluice_batch_free(p->batch);
    p->batch = batch_take(b);
    enum sluice_code code = SLUICE_OK;
    if (err) code = refuse_why(error, err, p->queue->row.name, answer.why ? answer.why : "");
    for (size_t i = 0; !code && i < len; i++)
        if (errs[i] && errs[i] != ERR_NOT_FOUND)
            code = refuse(error, errs[i], "body", "the body of a dead letter could not be read");
    return code ? code : number_batch(p, error);
}

static enum sluice_code read_shard(struct look *l, struct sluice_error *error)
{
    l->enough = true;
    runner_inspect(l->runner, find_ready, l);
    return read_bodies((struct page_look *)l, l->runner, error);
}

enum sluice_code page_read(struct letter_page *p, struct open_queue *q, uint32_t shard,
                           const uint64_t *seqs, size_t len, struct sluice_error *error)
{
    CHECK(len <= LETTERS_AT_ONCE);
    *p = (struct letter_page){.queue = q, .shard = shard};
    struct page_look l = {
        .look = {.first = shard, .shard = read_shard}, .page = p, .seqs = seqs, .seqs_len = len};
    return look_at_open_queue(q, &l.look, error);
}

void page_done(struct letter_page *p)
{
    sluice_batch_free(p->batch);
}

struct lock_change {
    struct change change; // first
    struct letter_page *page;
};

static void encode_lock(const struct change *ch, const struct request_id *request, struct buf *out)
{
    const struct letter_page *p = ((const struct lock_change *)ch)->page;
    struct op_lock op = {.request = *request, .worker = bytes_str("redrive"), .lease_ms = LEASE_MS};
    entropy_fill(op.seed, sizeof op.seed);
    LOCAL(buf, seqs, LETTERS_AT_ONCE * sizeof *p->seqs);
    for (size_t i = 0; i < p->batch->len; i++) {
        if (!p->wanted[i]) continue;
        buf_put_u64(&seqs, p->seqs[i]);
        op.count++;
    }
    op.seqs = buf_bytes(&seqs);
    lock_encode(out, &op);
}

static enum sluice_code take_locks(struct change *ch, const struct result *result,
                                   enum sluice_code code)
{
    struct letter_page *p = ((struct lock_change *)ch)->page;
    struct result rows = result ? *result : (struct result){0};
    struct grant g;
    ch->shard = UINT32_MAX; // one op
    if (!result || result->reason != REASON_NONE) return code;
    while (grant_next(&rows, &g))
        for (size_t i = 0; i < p->batch->len; i++) {
            struct sluice_message *m = &p->batch->messages[i];
            if (p->seqs[i] != g.seq) continue;
            token_print(queue_ref(p->queue),
                        &(struct lock_name){p->shard, {.seq = g.seq, .token = g.token}}, m->token);
            m->fence = g.fence;
        }
    return SLUICE_OK;
}

static enum sluice_code lock_wanted(struct letter_page *p, struct sluice_error *error)
{
    struct lock_change l = {
        .change = {.kind = OP_LOCK, .shard = p->shard, .encode = encode_lock, .take = take_locks},
        .page = p};
    bool any = false;
    for (size_t i = 0; i < p->batch->len; i++)
        any |= p->wanted[i];
    if (!any) return SLUICE_OK;
    return change_open_queue(p->queue, &l.change, error);
}

static struct sluice_request request_for(const char *id, uint64_t salt)
{
    struct sluice_request r;
    uint64_t lo = hash64_of(bytes_str(id), salt), hi = hash64_of(bytes_str(id), ~salt);
    memcpy(r.bytes, &lo, sizeof lo);
    memcpy(r.bytes + sizeof lo, &hi, sizeof hi);
    return r;
}

static enum sluice_code send_again(struct engine *e, const struct sluice_message *m, const char *to,
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
    enum sluice_code code = ops_send(e, to, &again, 1, &request, NULL, error);
    if (code == SLUICE_LIMIT) { // perhaps the remembered answer of an earlier try: use another id
        request = request_for(m->id, m->fence);
        code = ops_send(e, to, &again, 1, &request, NULL, error);
    }
    memory_free(headers);
    return code;
}

static const char *target_of(const struct redrive_target *where, const struct sluice_message *m)
{
    return where->to ? where->to : m->from.queue;
}

// Ends the locks of the letters: acked if they were sent, else released.
static void end_locks(struct letter_page *p, const bool *sent)
{
    struct engine *e = p->queue->engine;
    const char *queue = p->queue->row.name, *tokens[2][LETTERS_AT_ONCE];
    size_t len[2] = {0, 0}, rows[LETTERS_AT_ONCE];
    struct sluice_outcome outcomes[LETTERS_AT_ONCE] = {{0}};
    struct sluice_error why = {.code = SLUICE_OK};
    for (size_t i = 0; i < p->batch->len; i++) {
        const char *token = p->batch->messages[i].token;
        if (!*token) continue;
        if (sent[i]) rows[len[1]] = i;
        tokens[sent[i]][len[sent[i]]++] = token;
    }
    struct settle release = {.kind = SETTLE_RELEASE, .tokens = tokens[0], .len = len[0]};
    struct settle ack = {.kind = SETTLE_ACK, .tokens = tokens[1], .len = len[1]};
    if (len[0] > 0) (void)ops_settle(e, queue, &release, NULL, NULL);
    if (len[1] > 0) (void)ops_settle(e, queue, &ack, outcomes, &why);
    for (size_t i = 0; i < len[1]; i++) {
        p->sent[rows[i]] = outcomes[i].code == SLUICE_OK;
        if (outcomes[i].code == SLUICE_OK) continue;
        p->why[rows[i]] = why;
        p->why[rows[i]].code = outcomes[i].code;
    }
}

enum sluice_code page_redrive(struct letter_page *p, const struct redrive_target *where,
                              struct sluice_error *error)
{
    bool sent[LETTERS_AT_ONCE] = {false};
    for (size_t i = 0; i < p->batch->len; i++)
        if (p->wanted[i] &&
            redrive_allowed(where, target_of(where, &p->batch->messages[i]), &p->why[i]))
            p->wanted[i] = false;
    enum sluice_code code = lock_wanted(p, error);
    for (size_t i = 0; !code && i < p->batch->len; i++) {
        const struct sluice_message *m = &p->batch->messages[i];
        if (!*m->token) continue;
        sent[i] = !redrive_name_target(
            send_again(p->queue->engine, m, target_of(where, m), &p->why[i]), &p->why[i]);
    }
    end_locks(p, sent);
    return code;
}
