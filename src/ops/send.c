// SPDX-License-Identifier: Apache-2.0
// Sends messages. The group, dedup key or request id of a message decides its shard. The messages
// of a shard are packed into as few ops as their size allows.
//
// A send into a full queue with backpressure=block is tried again. It must not add a message twice,
// even if the caller repeats the whole call because the answer was lost. Each attempt uses the same
// request id, so messages that were added before are returned, not added again. If a shard
// remembers a refusal for the id, the refused messages are tried with another id, which is derived
// from the first.
#include "base/hash.h"
#include "base/memory.h"
#include "ops/by_shard.h"
#include "ops/ops.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "protocol/send_check.h"
#include "protocol/shard_of.h"
#include "queue/codec/labels.h"
#include "queues/bodies.h"

#include <assert.h>
#include <string.h>

#define OP_BYTES_MAX ((size_t)1 << 20)   // of one op, unless a single message is larger
#define PLENTY       1000                // messages: more space than a few sends take
#define ATTEMPT_PART (UINT64_C(1) << 63) // part numbers of later attempts; ops have smaller ones

// A message of a send. A large body is uploaded once, to the message's shard. Every attempt sends
// the message to that shard.
struct outgoing_message {
    uint32_t shard;
    bool over;             // it is not part of the present attempt
    struct upload *upload; // NULL: the body is in the entry
    enum reason refused;   // it was refused before the upload; REASON_NONE: it was not
};

struct send_call {
    struct local_call call;             // first
    const struct sluice_send *messages; // borrowed, or `copy`
    size_t len;
    struct sluice_send *copy;
    struct outgoing_message *outgoing; // one per message; owned unless it is `one`
    struct outgoing_message one;
    struct sluice_sent *sent;    // one per message
    struct sluice_sent *rows;    // the same, if it is owned
    struct request_id first, id; // of the call, and of the present attempt
    uint32_t attempts;           // how many ids were derived
    bool remembered;             // a shard remembers a refusal for the id
    struct by_shard split;       // of the present attempt
    struct buf payload;          // of the op that was encoded last
    // The present attempt:
    bool refused;            // the queue was full for a message of the last op
    size_t taken;            // messages that were added
    bool in_doubt;           // the result of an op is UNKNOWN
    bool workflows_in_first; // messages of workflows are in the first shard: the queue is strict
};
static_assert(sizeof(struct send_call) <= CALL_BYTES_MAX, "malloc has it at hand");

// The group decides the shard, else the workflow, as the fold asks.
static uint32_t shard_of(const struct send_call *s, const struct sluice_send *m, size_t index)
{
    const struct catalog_row *q = &s->call.queue->row;
    struct bytes workflow = text_or_empty(m->workflow);
    if (workflow.len > 0 && text_or_empty(m->group).len == 0)
        return s->workflows_in_first ? 0 : (uint32_t)(hash64_of(workflow, 0) % q->birth.shards);
    return shard_of_send(q->birth.shards, q->birth.ordering_guarantee, m, s->id.bytes, index);
}

// Notes the first refusal of the call. body_len: of the message.
static void note_refusal(struct send_call *s, size_t body_len, enum sluice_code code,
                         enum reason reason)
{
    struct local_call *c = &s->call;
    if (call_code(c) || code == SLUICE_OK) return;
    if (reason == REASON_TOO_LARGE)
        refuse_large(call_error(c), c->queue, body_len);
    else if (reason != REASON_NONE)
        (void)refuse_reason(call_error(c), reason, c->queue->row.name);
    call_set_code(c, code);
}

static void note_rows(struct send_call *s, struct result *result, enum err err)
{
    struct send_row row;
    for (uint32_t i = 0; i < s->split.count; i++) {
        bool answered = send_row_next(result, &row);
        enum reason reason = answered ? row.reason : result->reason;
        enum err mine = answered ? reason_err(reason) : err;
        if (mine && !call_code(&s->call)) // the messages may be the caller's, and gone
            note_refusal(s, op_body_len(buf_bytes(&s->payload), i), (enum sluice_code)mine, reason);
        s->refused = s->refused || mine == ERR_LIMIT;
        s->taken += !mine;
        s->in_doubt = s->in_doubt || mine == ERR_UNKNOWN;
        struct sluice_sent *sent = &s->sent[by_shard_item(&s->split, i)];
        *sent = (struct sluice_sent){.code = (enum sluice_code)mine,
                                     .duplicate = reason == REASON_DUPLICATE};
        if (!mine) id_print(queue_ref(s->call.queue), s->split.shard, row.seq, sent->id);
    }
}

static void note_failure(struct send_call *s, enum sluice_code code)
{
    if (!call_code(&s->call)) call_set_code(&s->call, code);
    s->in_doubt = s->in_doubt || code == SLUICE_UNKNOWN;
    for (size_t i = 0; i < s->split.count; i++)
        s->sent[by_shard_item(&s->split, i)] = (struct sluice_sent){.code = code};
}

struct recall_check {
    struct op op;
    bool has;
};

static void recall_answer(void *ctx, const struct machine *m, int64_t now)
{
    struct recall_check *memory = ctx;
    struct op_result result;
    LOCAL(buf, text, SIZE_MAX);
    (void)now;
    memory->has = machine_recall(m, &memory->op, &result, &text);
}

static struct request_id op_id(const struct send_call *s)
{
    return request_part(s->id.bytes, s->split.number);
}

// Whether the shard remembers an answer to the op's request id. A repeat would get that answer.
static bool is_remembered(struct send_call *s)
{
    struct shard_runner *r = runner_if_open(s->call.queue, s->split.shard);
    struct request_id id = op_id(s);
    LOCAL(buf, payload, JOURNAL_OP_MAX);
    send_begin(&payload, &id);
    struct recall_check memory = {.op = {OP_SEND, buf_bytes(&payload)}};
    if (r) runner_inspect(r, recall_answer, &memory);
    return memory.has;
}

// No entry refused the op, and an attempt at the owner may still take effect. Another attempt with
// another id could add its messages twice.
static void leave_in_doubt(struct send_call *s)
{
    s->in_doubt = true;
    call_set_code(&s->call, SLUICE_UNKNOWN);
    for (size_t i = 0; i < s->split.count; i++) {
        struct sluice_sent *sent = &s->sent[by_shard_item(&s->split, i)];
        sent->code = code_repeated(sent->code);
    }
}

// Notes the result of the op. If the queue was deleted, the next call looks up its name.
static enum call_op_end op_end(struct local_call *c, const struct call_slot *slot)
{
    struct send_call *s = (struct send_call *)c;
    const struct kept_reply *a = &slot->async.answer;
    enum err err = slot->err;
    struct result result;
    bool answered = a->body.len > 0 && !result_open(buf_bytes(&a->body), OP_SEND, &result);
    bool ours = answered && (result.count == 0 || result.count == s->split.count);
    s->refused = false;
    by_shard_mark_away(&s->split, slot);
    if (ours) {
        note_rows(s, &result, err);
        if (result.reason == REASON_DELETED) queue_stale(c->queue);
    } else if (answered) {
        note_failure(s, refuse_reason(call_error(c), REASON_REQUEST_REUSED, c->queue->row.name));
    } else {
        enum err code = err ? err : ERR_CORRUPT;
        note_failure(s, refuse_op(call_error(c), code, OP_SEND, a, c->queue->row.name));
    }
    bool doubted = call_op_was_repeated(&c->state, slot->index);
    bool asks = s->refused && (doubted || c->state.plan.blocks);
    bool remembered = asks && (slot->forwarded ? slot->remembered : is_remembered(s));
    if (remembered && c->state.plan.blocks) s->remembered = true;
    if (asks && doubted && !remembered) {
        leave_in_doubt(s);
        return STEP_OP_DONE;
    }
    return call_code(c) == SLUICE_LIMIT ? STEP_OP_FULL : STEP_OP_DONE;
}

static void add_message(struct send_call *s, size_t index, struct bytes headers)
{
    const struct outgoing_message *outgoing = &s->outgoing[index];
    const struct sluice_send *m = &s->messages[index];
    struct message out = {.group = text_or_empty(m->group),
                          .dedup = text_or_empty(m->dedup),
                          .content_type = text_or_empty(m->content_type),
                          .workflow = text_or_empty(m->workflow),
                          .workflow_last = m->workflow_last != 0,
                          .headers = headers,
                          .body = bytes_of(m->body, m->body_len),
                          .priority = (uint8_t)m->priority,
                          .when = m->due > 0        ? WHEN_DUE
                                  : m->delay_ms > 0 ? WHEN_DELAY
                                                    : WHEN_NOW,
                          .when_ms = m->due > 0 ? m->due : m->delay_ms};
    struct labels labels = {.len = 0};
    struct labels_error none;
    if (m->needs && !labels_parse(bytes_str(m->needs), &labels, &none)) // checked before
    out.requires = bytes_of(labels.text, labels.len);
    if (outgoing->upload) {
        out.body = BYTES_EMPTY;
        out.reference = upload_reference(outgoing->upload, m->body_len);
    }
    send_add(&s->payload, &out);
}

// Every process must split a call in the same way. 4096: more than all other fields take.
static bool add(void *ctx, size_t index, bool first)
{
    struct send_call *s = ctx;
    LOCAL(buf, headers, MESSAGE_HEADERS_MAX);
    (void)headers_encode(&s->messages[index], &headers, NULL); // checked before
    size_t body = s->outgoing[index].upload ? 0 : s->messages[index].body_len;
    if (first) {
        struct request_id id = op_id(s);
        buf_clear(&s->payload);
        send_begin(&s->payload, &id);
    } else if (s->payload.len + body + headers.len + 4096 > OP_BYTES_MAX) {
        return false;
    }
    add_message(s, index, buf_bytes(&headers));
    return true;
}

static uint32_t shard_of_item(const void *ctx, size_t index)
{
    const struct outgoing_message *p = &((const struct send_call *)ctx)->outgoing[index];
    return p->over || p->refused != REASON_NONE ? NO_SHARD : p->shard;
}

static const struct by_shard_type split_messages = {
    .shard_of = shard_of_item, .add = add, .op_max = SEND_COUNT_MAX};

static struct shard_runner *op(struct local_call *c, uint32_t index, struct op *out,
                               uint32_t *shard)
{
    struct send_call *s = (struct send_call *)c;
    if (by_shard_op(&s->split, c, index)) send_end(&s->payload, 0, s->split.count);
    struct shard_runner *r = call_runner(c, s->split.shard);
    if (!r) note_failure(s, call_code(c));
    *out = (struct op){OP_SEND, buf_bytes(&s->payload)};
    *shard = s->split.shard;
    return r;
}

static void read_size_limit(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(uint64_t *)ctx = machine_config(m)->message_bytes_max;
}

// Checks the size before the upload, by the folded configuration and then by that at the tail.
static bool is_too_large(struct open_queue *q, uint32_t shard, size_t body_len)
{
    struct shard_runner *r;
    uint64_t max = 0;
    if (queue_runner(q, shard, &r, NULL)) return false;
    runner_inspect(r, read_size_limit, &max);
    if (body_len <= max || runner_sync(r)) return false;
    runner_inspect(r, read_size_limit, &max);
    return body_len > max;
}

static bool must_upload(const struct send_call *s, size_t index)
{
    return !s->outgoing[index].upload && s->messages[index].body_len > BODY_INLINE_MAX;
}

static void upload_bodies(struct send_call *s)
{
    CLEANUP(memory_let_go) struct upload_job *jobs = memory_zeroed(s->len, sizeof *jobs);
    size_t count = 0;
    for (size_t i = 0; i < s->len; i++) {
        struct outgoing_message *p = &s->outgoing[i];
        const struct sluice_send *m = &s->messages[i];
        if (!must_upload(s, i)) continue;
        p->upload = NEW(struct upload);
        if (is_too_large(s->call.queue, p->shard, m->body_len)) p->refused = REASON_TOO_LARGE;
        if (p->refused != REASON_NONE) continue;
        jobs[count++] = (struct upload_job){p->shard, bytes_of(m->body, m->body_len), p->upload};
    }
    bodies_upload(s->call.queue, jobs, count);
}

// If one body could not be uploaded, no message is sent. The request id of an op depends on its
// position in the call. If some messages were left out, other ops would use those ids. A later
// attempt with all messages would get wrong answers.
static bool note_uploads(struct send_call *s)
{
    const struct upload *bad = NULL;
    for (size_t i = 0; i < s->len && !bad; i++)
        if (s->outgoing[i].upload && s->outgoing[i].upload->err) bad = s->outgoing[i].upload;
    if (!bad) return true;
    (void)refuse_why(call_error(&s->call), bad->err, s->call.queue->row.name, bad->why);
    for (size_t i = 0; i < s->len; i++)
        s->sent[i] = (struct sluice_sent){.code = call_code(&s->call)};
    return false;
}

static void note_refused(struct send_call *s)
{
    for (size_t i = 0; i < s->len; i++) {
        enum reason reason = s->outgoing[i].refused;
        if (reason == REASON_NONE || s->outgoing[i].over) continue;
        enum sluice_code code = (enum sluice_code)reason_err(reason);
        note_refusal(s, s->messages[i].body_len, code, reason);
        s->sent[i] = (struct sluice_sent){.code = code};
    }
}

// Another attempt. If a refusal is remembered for the id, only the refused messages are sent, with
// another id.
static void begin_attempt(struct send_call *s)
{
    size_t position = 0;
    if (s->remembered) s->id = request_part(s->first.bytes, ATTEMPT_PART + ++s->attempts);
    for (size_t i = 0; i < s->len; i++) {
        struct outgoing_message *p = &s->outgoing[i];
        if (s->remembered && s->sent[i].code != SLUICE_LIMIT) p->over = true;
        if (p->over) continue;
        if (!p->upload) p->shard = shard_of(s, &s->messages[i], position);
        position++;
    }
    call_forget_error(&s->call);
    s->remembered = s->in_doubt = false;
    s->taken = 0;
}

static bool waits_for_room(struct open_queue *q)
{
    struct shard_runner *r;
    return !queue_runner(q, 0, &r, NULL) && runner_saw(r, RUNNER_BLOCKS_SENDERS);
}

static bool refuse_all(struct send_call *s)
{
    enum sluice_code code = sends_check(s->messages, s->len, NULL);
    if (code) (void)sends_check(s->messages, s->len, call_error(&s->call));
    for (size_t i = 0; code && i < s->len; i++)
        s->sent[i] = (struct sluice_sent){.code = code};
    return code;
}

static void read_strict(void *ctx, const struct machine *m, int64_t now)
{
    const struct queue_config *config = machine_config(m);
    (void)now;
    *(bool *)ctx = config->ordering_guarantee && !config->workflow_order;
}

// In a strict queue, messages without a group are one scope, in the first shard. A change of the
// settings begins at that shard. False: it cannot be opened.
static bool find_workflows(struct send_call *s)
{
    bool any = false;
    for (size_t i = 0; !any && i < s->len; i++)
        any = s->messages[i].workflow && *s->messages[i].workflow;
    struct shard_runner *r = any ? call_runner(&s->call, 0) : NULL;
    if (r) runner_inspect(r, read_strict, &s->workflows_in_first);
    return !any || r;
}

static enum call_built build(struct local_call *c, bool may_block, struct call_plan *plan)
{
    struct send_call *s = (struct send_call *)c;
    bool uploads = false;
    enum call_built opened = call_open_queue(c, may_block);
    for (size_t i = 0; opened == CALL_ENDED && i < s->len; i++)
        s->sent[i] = (struct sluice_sent){.code = call_code(c)};
    if (opened != CALL_BUILT) return opened;
    if (s->len == 0 || refuse_all(s)) return CALL_ENDED;
    if (!find_workflows(s)) return CALL_ENDED;
    for (size_t i = 0; i < s->len; i++)
        uploads = uploads || must_upload(s, i);
    if (uploads && !may_block) return CALL_BLOCKS;
    begin_attempt(s);
    if (uploads) upload_bodies(s);
    if (!note_uploads(s)) return CALL_ENDED;
    note_refused(s);
    by_shard_begin(&s->split);
    *plan = (struct call_plan){.ops = 1, .at_once = 1, .blocks = waits_for_room(c->queue)};
    if (plan->blocks && c->caller) plan->behind = blocked_send_enter(c);
    return s->split.next_shard != NO_SHARD ? CALL_BUILT : CALL_ENDED;
}

static void check_space(void *ctx, const struct machine *m, int64_t now)
{
    struct machine_stats stats;
    machine_stats(m, now, &stats);
    uint64_t capacity = machine_config(m)->capacity;
    uint64_t held = stats.counts[STATE_READY] + stats.counts[STATE_DELAYED] +
                    stats.counts[STATE_LOCKED] + stats.counts[STATE_DEAD];
    *(bool *)ctx = *(bool *)ctx && capacity > held && capacity - held > PLENTY;
}

// Whether the queue has much space, so that several sends may try at once.
static bool saw_space(struct open_queue *q)
{
    bool plenty = true;
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_runner *r = runner_if_open(q, i);
        if (r) runner_inspect(r, check_space, &plenty);
    }
    return plenty;
}

struct unwanted_body {
    struct open_queue *queue; // with a hold
    uint32_t shard;
    struct upload *upload;
};

static void forget_body(void *ctx)
{
    struct unwanted_body *b = ctx;
    upload_forget(b->queue, b->shard, b->upload);
    queue_let_go(&b->queue);
    memory_free(b->upload);
    memory_free(b);
}

// Deletes the uploaded bodies that no message refers to: of duplicates and of certain refusals. A
// call without a thread of its own leaves that to the pool, because it blocks.
static void forget_bodies(struct send_call *s)
{
    struct local_call *c = &s->call;
    for (size_t i = 0; i < s->len; i++) {
        struct outgoing_message *p = &s->outgoing[i];
        const struct sluice_sent *sent = &s->sent[i];
        if (!p->upload) continue;
        bool unwanted = sent->duplicate || (sent->code && sent->code != SLUICE_UNKNOWN);
        if (unwanted) {
            struct unwanted_body *b = NEW(struct unwanted_body);
            *b = (struct unwanted_body){c->queue, p->shard, p->upload};
            queue_hold(c->queue);
            if (c->caller)
                engine_run(c->engine, c->name, forget_body, b);
            else
                forget_body(b);
        } else {
            memory_free(p->upload);
        }
        p->upload = NULL;
    }
}

static void ended(struct local_call *c)
{
    struct send_call *s = (struct send_call *)c;
    if (c->state.in_doubt) sent_repeated(s->sent, s->len);
    if (call_code(c) && (s->taken > 0 || s->in_doubt))
        (void)refuse_partly(c->error, call_code(c), s->taken, s->len, "messages");
    if (c->queue) forget_bodies(s);
    if (c->place.blocked) blocked_send_leave(c, !call_code(c) && saw_space(c->queue));
}

static void answer(struct local_call *c, struct async_answer *out)
{
    struct send_call *s = (struct send_call *)c;
    out->sent = s->sent;
    out->len = s->len;
}

static void release(struct local_call *c)
{
    struct send_call *s = (struct send_call *)c;
    if (s->outgoing != &s->one) memory_free(s->outgoing);
    by_shard_done(&s->split);
    buf_done(&s->payload);
    memory_free(s->rows);
    memory_free(s->copy);
    memory_free(s);
}

static void own(struct local_call *c)
{
    struct send_call *s = (struct send_call *)c;
    s->messages = s->copy = sends_copy(s->messages, s->len);
}

static const struct call_type send_type = {.kind = STEP_SEND,
                                           .build = build,
                                           .own = own,
                                           .op = op,
                                           .op_end = op_end,
                                           .ended = ended,
                                           .answer = answer,
                                           .release = release};

static struct send_call *send_new(struct engine *e, const char *queue,
                                  const struct sluice_send *messages, size_t len,
                                  const struct sluice_request *request, struct sluice_sent *sent,
                                  struct async_call *caller)
{
    struct send_call *m = NEW(struct send_call);
    call_prepare(&m->call, &send_type, e, queue, caller);
    int64_t patience = caller ? e->timeout_ms : store_patience_ms(e->store, e->timeout_ms);
    m->call.until = clock_boot_ms() + patience;
    m->messages = messages;
    m->len = len;
    m->outgoing = len <= 1 ? &m->one : memory_zeroed(len, sizeof *m->outgoing);
    by_shard_init(&m->split, &split_messages, m, len);
    if (!sent) m->rows = memory_zeroed(len + 1, sizeof *m->rows);
    m->sent = sent ? sent : m->rows;
    buf_init(&m->payload, JOURNAL_OP_MAX);
    if (request)
        memcpy(m->first.bytes, request->bytes, sizeof m->first.bytes);
    else
        entropy_fill(m->first.bytes, sizeof m->first.bytes);
    m->id = m->first;
    return m;
}

void async_send(struct engine *e, const char *queue, const struct sluice_send *messages, size_t len,
                const struct sluice_request *request, struct async_call *a)
{
    call_start(&send_new(e, queue, messages, len, request, NULL, a)->call);
}

enum sluice_code ops_send(struct engine *e, const char *queue, const struct sluice_send *messages,
                          size_t len, const struct sluice_request *request,
                          struct sluice_sent *sent, struct sluice_error *error)
{
    return call_blocking(&send_new(e, queue, messages, len, request, sent, NULL)->call, error);
}
