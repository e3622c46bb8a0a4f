// SPDX-License-Identifier: Apache-2.0
// Sends messages. The group, dedup key or request id of a message decides its shard. The messages
// of a shard are packed into as few ops as their size allows.
#include "base/hash.h"
#include "base/memory.h"
#include "local/bodies.h"
#include "local/send_attempts.h"
#include "os/clock.h"
#include "os/entropy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define OP_BYTES_MAX ((size_t)1 << 20) // of one op, unless a single message is larger
#define PLENTY       1000              // messages: more space than a few sends take

// A message of a send. A large body is uploaded once, to the message's shard. Every try sends the
// message to that shard.
struct outgoing {
    const struct sluice_send *message;
    uint32_t shard;
    struct upload *upload; // NULL: the body is in the entry
    enum reason refused;   // it was refused before the upload; REASON_NONE: it was not
};

// One pass over the messages of a call, op by op.
struct sending {
    struct open_queue *queue;
    const struct outgoing *outgoing;
    struct request_id request;
    struct sluice_sent *sent; // may be NULL
    struct sluice_error *error;
    enum sluice_code code; // the first refusal
    size_t *members;       // of the op being filled: indexes of messages
    struct buf payload;
    uint32_t count;
    uint32_t op_number;     // part number of the next op's request id
    bool refused;           // the queue was full for a message of the op
    bool remembered;        // the shard remembers such a refusal for the op's request id
    size_t taken;           // messages that were added
    bool in_doubt;          // the result of an op is UNKNOWN
    struct bytes concluded; // the encoded op, if `outgoing` is NULL
};

static struct bytes text(const char *t)
{
    return t ? bytes_str(t) : BYTES_EMPTY;
}

static enum sluice_code too_long(struct sluice_error *error, const char *field, size_t len,
                                 size_t max)
{
    return refuse(error, ERR_INVALID, field, "%s has %zu bytes; at most %zu are allowed", field,
                  len, max);
}

static enum sluice_code check_message(const struct sluice_send *m, struct sluice_error *error)
{
    const struct {
        const char *name, *value;
        size_t max;
    } texts[] = {{"group", m->group, MESSAGE_GROUP_MAX},
                 {"dedup", m->dedup, MESSAGE_DEDUP_MAX},
                 {"contentType", m->content_type, MESSAGE_CONTENT_TYPE_MAX},
                 {"workflow", m->workflow, MESSAGE_WORKFLOW_MAX}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (text(texts[i].value).len > texts[i].max)
            return too_long(error, texts[i].name, strlen(texts[i].value), texts[i].max);
    if (m->body_len > BODY_BYTES_MAX) return too_long(error, "body", m->body_len, BODY_BYTES_MAX);
    if (m->priority < 0 || m->priority > MESSAGE_PRIORITY_MAX)
        return refuse(error, ERR_INVALID, "priority", "priority %d is not in 0..%d", m->priority,
                      MESSAGE_PRIORITY_MAX);
    if (m->delay_ms < 0 || m->delay_ms > DELAY_MAX_MS || m->due < 0)
        return refuse(error, ERR_INVALID, "delay", "a delay of %" PRId64 " ms is not possible",
                      m->delay_ms);
    if (m->delay_ms > 0 && m->due > 0)
        return refuse(error, ERR_INVALID, "delay", "give a delay or a due time, not both");
    return SLUICE_OK;
}

static enum sluice_code put_headers(const struct sluice_send *m, struct buf *out,
                                    struct sluice_error *error)
{
    for (size_t i = 0; i < m->headers_len; i++) {
        if (!m->headers[i].name || m->headers[i].name[0] == 0)
            return refuse(error, ERR_INVALID, "headers", "a header has no name");
        headers_put(out, text(m->headers[i].name), text(m->headers[i].value));
    }
    if (out->bad)
        return refuse(error, ERR_INVALID, "headers", "the headers have more than %zu bytes",
                      MESSAGE_HEADERS_MAX);
    return SLUICE_OK;
}

// The group decides the shard, else the dedup key, else the request id: messages of a group, and
// messages with the same dedup key, must be in the same shard.
static uint32_t shard_of(const struct open_queue *q, const struct sluice_send *m,
                         const struct request_id *request, size_t index)
{
    uint32_t shards = q->row.birth.shards;
    if (shards == 1) return 0;
    struct bytes key = text(m->group);
    if (key.len == 0 && q->row.birth.ordering_guarantee) return 0; // one scope, one shard
    if (key.len == 0) key = text(m->dedup);
    if (key.len > 0) return (uint32_t)(hash64_of(key, 0) % shards);
    uint64_t h = hash64_of(bytes_of(request->bytes, sizeof request->bytes), index);
    return (uint32_t)(h % shards);
}

// Notes the first refusal of the call; index: the message.
static void note_refusal(struct sending *s, size_t index, enum sluice_code code, enum reason reason)
{
    if (s->code || code == SLUICE_OK) return;
    s->code = code;
    if (reason == REASON_TOO_LARGE)
        refuse_large(s->error, s->queue,
                     s->outgoing ? s->outgoing[index].message->body_len
                                 : op_body_len(s->concluded, index));
    else if (reason != REASON_NONE)
        (void)refuse_reason(s->error, reason, s->queue->row.name);
}

static void note_rows(struct sending *s, uint32_t shard, struct result *result, enum err err)
{
    struct send_row row;
    for (uint32_t i = 0; i < s->count; i++) {
        bool answered = send_row_next(result, &row);
        enum reason reason = answered ? row.reason : result->reason;
        enum err mine = answered ? reason_err(reason) : err;
        note_refusal(s, s->members[i], (enum sluice_code)mine, reason);
        s->refused = s->refused || mine == ERR_LIMIT;
        s->taken += !mine;
        s->in_doubt = s->in_doubt || mine == ERR_UNKNOWN;
        if (!s->sent) continue;
        struct sluice_sent *sent = &s->sent[s->members[i]];
        *sent = (struct sluice_sent){.code = (enum sluice_code)mine,
                                     .duplicate = reason == REASON_DUPLICATE};
        if (!mine) id_print(s->queue, shard, row.seq, sent->id);
    }
}

static void note_failure(struct sending *s, enum sluice_code code)
{
    if (!s->code) s->code = code;
    s->in_doubt = s->in_doubt || code == SLUICE_UNKNOWN;
    for (uint32_t i = 0; s->sent && i < s->count; i++)
        s->sent[s->members[i]] = (struct sluice_sent){.code = code};
}

// Notes the result of the filled op. If the queue was deleted, the next call looks up its name.
static void conclude_send(struct sending *s, uint32_t shard, enum err err,
                          const struct runner_answer *a)
{
    struct result result;
    struct sluice_error *error = s->code ? NULL : s->error;
    bool answered = a->body.len > 0 && !result_open(buf_bytes(&a->body), OP_SEND, &result);
    bool ours = answered && (result.count == 0 || result.count == s->count);
    if (ours) {
        note_rows(s, shard, &result, err);
        if (result.reason == REASON_DELETED) queue_stale(s->queue);
    } else if (answered) {
        note_failure(s, refuse_reason(error, REASON_REQUEST_REUSED, s->queue->row.name));
    } else {
        note_failure(s, refuse_op(error, err ? err : ERR_CORRUPT, OP_SEND, a, s->queue->row.name));
    }
}

struct recall_check {
    struct op op;
    bool has;
};

static void recall_answer(void *ctx, const struct machine *m, int64_t now)
{
    struct recall_check *memory = ctx;
    struct op_result result;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, SIZE_MAX);
    (void)now;
    memory->has = machine_recall(m, &memory->op, &result, &text);
}

// Whether the shard remembers an answer to the op's request id. A repeat would get that answer.
static bool is_remembered(struct shard_runner *d, struct op op)
{
    struct recall_check memory = {.op = op};
    runner_inspect(d, recall_answer, &memory);
    return memory.has;
}

// Commits the filled op and empties the buffer.
static void commit_op(struct sending *s, uint32_t shard)
{
    if (s->count == 0) return;
    struct shard_runner *d;
    send_end(&s->payload, 0, s->count);
    enum sluice_code code = queue_work_runner(s->queue, shard, &d, s->code ? NULL : s->error);
    if (code) {
        note_failure(s, code);
    } else {
        struct runner_answer answer;
        runner_answer_init(&answer);
        struct op op = {OP_SEND, buf_bytes(&s->payload)};
        enum err err = runner_do(d, op, &answer);
        s->refused = false;
        conclude_send(s, shard, err, &answer);
        if (s->refused && is_remembered(d, op)) s->remembered = true;
        runner_answer_done(&answer);
    }
    buf_clear(&s->payload);
    s->count = 0;
}

static void add_message(struct sending *s, size_t index, struct bytes headers)
{
    const struct outgoing *outgoing = &s->outgoing[index];
    const struct sluice_send *m = outgoing->message;
    if (s->count == 0) {
        struct request_id id = request_part(s->request.bytes, s->op_number++);
        send_begin(&s->payload, &id);
    }
    struct message out = {.group = text(m->group),
                          .dedup = text(m->dedup),
                          .content_type = text(m->content_type),
                          .workflow = text(m->workflow),
                          .headers = headers,
                          .body = bytes_of(m->body, m->body_len),
                          .priority = (uint8_t)m->priority,
                          .when = m->due > 0        ? WHEN_DUE
                                  : m->delay_ms > 0 ? WHEN_DELAY
                                                    : WHEN_NOW,
                          .when_ms = m->due > 0 ? m->due : m->delay_ms};
    if (outgoing->upload) {
        out.body = BYTES_EMPTY;
        out.reference = upload_reference(outgoing->upload, m->body_len);
    }
    send_add(&s->payload, &out);
    s->members[s->count++] = index;
}

// Notes a message that was refused before its upload. False: it was not refused.
static bool note_refused(struct sending *s, size_t index)
{
    enum reason reason = s->outgoing[index].refused;
    if (reason == REASON_NONE) return false;
    enum sluice_code code = (enum sluice_code)reason_err(reason);
    note_refusal(s, index, code, reason);
    if (s->sent) s->sent[index] = (struct sluice_sent){.code = code};
    return true;
}

// Whether the message belongs to the next op. Blocking and asynchronous sends must split a call in
// the same way, because the split decides the request ids. 4096: more than all other fields take.
static bool is_full(const struct sending *s, const struct outgoing *p, size_t headers_len)
{
    size_t need = (p->upload ? 0 : p->message->body_len) + headers_len + 4096;
    return s->count == SEND_COUNT_MAX || s->payload.len + need > OP_BYTES_MAX;
}

static void send_shard(struct sending *s, uint32_t shard, size_t len)
{
    CLEANUP(buf_done) struct buf headers;
    buf_init(&headers, MESSAGE_HEADERS_MAX);
    for (size_t i = 0; i < len; i++) {
        const struct outgoing *p = &s->outgoing[i];
        if (p->shard != shard || note_refused(s, i)) continue;
        buf_clear(&headers);
        (void)put_headers(p->message, &headers, NULL); // checked before
        if (is_full(s, p, headers.len)) commit_op(s, shard);
        add_message(s, i, buf_bytes(&headers));
    }
    commit_op(s, shard);
}

static enum sluice_code check_all(const struct sluice_send *messages, size_t len,
                                  struct sluice_error *error)
{
    CLEANUP(buf_done) struct buf headers;
    buf_init(&headers, MESSAGE_HEADERS_MAX);
    for (size_t i = 0; i < len; i++) {
        buf_clear(&headers);
        enum sluice_code code = check_message(&messages[i], error);
        if (!code) code = put_headers(&messages[i], &headers, error);
        if (code) return code;
    }
    return SLUICE_OK;
}

static void read_size_limit(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *(uint64_t *)ctx = machine_config(m)->message_bytes_max;
}

// Checks the size before the upload, by the folded configuration and then by that at the tail.
static bool is_too_large(struct open_queue *q, const struct outgoing *p)
{
    struct shard_runner *d;
    uint64_t max = 0;
    if (queue_runner(q, p->shard, &d, NULL)) return false;
    runner_inspect(d, read_size_limit, &max);
    if (p->message->body_len <= max || runner_sync(d)) return false;
    runner_inspect(d, read_size_limit, &max);
    return p->message->body_len > max;
}

static void upload_bodies(struct open_queue *q, struct outgoing *outgoing, size_t len)
{
    struct upload_job *jobs = NULL;
    size_t count = 0;
    for (size_t i = 0; i < len; i++) {
        struct outgoing *p = &outgoing[i];
        if (p->upload || p->message->body_len <= BODY_INLINE_MAX) continue;
        if (!jobs) jobs = memory_zeroed(len - i, sizeof *jobs);
        p->upload = NEW(struct upload);
        if (is_too_large(q, p)) p->refused = REASON_TOO_LARGE;
        if (p->refused != REASON_NONE) continue;
        jobs[count++] = (struct upload_job){
            p->shard, bytes_of(p->message->body, p->message->body_len), p->upload};
    }
    bodies_upload(q, jobs, count);
    memory_free(jobs);
}

// If one body could not be uploaded, no message is sent. The request id of an op depends on its
// position in the call. If some messages were left out, other ops would use those ids. A later try
// with all messages would get wrong answers.
static enum sluice_code note_uploads(struct sending *s, size_t len)
{
    const struct upload *bad = NULL;
    for (size_t i = 0; i < len && !bad; i++)
        if (s->outgoing[i].upload && s->outgoing[i].upload->err) bad = s->outgoing[i].upload;
    if (!bad) return SLUICE_OK;
    enum sluice_code code = refuse_why(s->error, bad->err, s->queue->row.name, bad->why);
    for (size_t i = 0; s->sent && i < len; i++)
        s->sent[i] = (struct sluice_sent){.code = code};
    return code;
}

// Deletes the uploaded bodies that no message refers to: of duplicates and of certain refusals.
static void free_outgoing(struct open_queue *q, struct outgoing *outgoing, size_t len,
                          const struct sluice_sent *sent)
{
    for (size_t i = 0; i < len; i++) {
        struct outgoing *p = &outgoing[i];
        if (!p->upload) continue;
        bool unwanted = sent[i].duplicate || (sent[i].code && sent[i].code != SLUICE_UNKNOWN);
        if (unwanted) upload_forget(q, p->shard, p->upload);
        memory_free(p->upload);
    }
    memory_free(outgoing);
}

// One pass. *remembered: a shard remembers a refusal, so another try needs another request id.
static enum sluice_code send_once(struct open_queue *q, struct outgoing *outgoing, size_t len,
                                  const struct request_id *request, struct sluice_sent *sent,
                                  bool *remembered, struct sluice_error *error)
{
    struct sending sending = {
        .queue = q, .outgoing = outgoing, .request = *request, .sent = sent, .error = error};
    for (size_t i = 0; i < len; i++)
        if (!outgoing[i].upload) outgoing[i].shard = shard_of(q, outgoing[i].message, request, i);
    upload_bodies(q, outgoing, len);
    enum sluice_code code = note_uploads(&sending, len);
    if (code) return code;
    sending.members = memory_zeroed(len < SEND_COUNT_MAX ? len : SEND_COUNT_MAX, sizeof(size_t));
    buf_init(&sending.payload, JOURNAL_OP_MAX);
    for (uint32_t shard = 0; shard < q->row.birth.shards; shard++)
        send_shard(&sending, shard, len);
    buf_done(&sending.payload);
    memory_free(sending.members);
    *remembered = sending.remembered;
    bool partly = sending.taken > 0 || sending.in_doubt;
    return partly ? refuse_partly(error, sending.code, sending.taken, len, "messages")
                  : sending.code;
}

static bool waits_for_room(struct open_queue *q)
{
    struct queue_config c;
    return queue_known_config(q, &c) && c.backpressure == BACKPRESSURE_BLOCK;
}

// A repeated send must not add a message twice, even if the caller repeats the whole call because
// the answer was lost. Each try uses the same request id, so messages that were added before are
// returned, not added again. If a refusal is remembered for the id, the refused messages are tried
// with another id, which is derived from the first.
struct send_attempts {
    struct open_queue *queue; // with a hold
    struct outgoing *outgoing;
    size_t len;
    struct sluice_sent *sent;
    struct sluice_error *error;
    struct request_id first, id; // of the call, and of the present try
    uint32_t ids;                // how many ids were derived
    bool remembered;             // as in send_once
    size_t *rest;                // the messages of the present try
    size_t rest_len;
};

static struct send_attempts *send_attempts_new(struct open_queue *q,
                                               const struct sluice_send *messages, size_t len,
                                               const struct request_id *id,
                                               struct sluice_sent *sent, struct sluice_error *error)
{
    struct send_attempts *t = NEW(struct send_attempts);
    *t = (struct send_attempts){
        .queue = q, .len = len, .sent = sent, .error = error, .first = *id, .id = *id};
    t->outgoing = memory_zeroed(len, sizeof *t->outgoing);
    t->rest = memory_zeroed(len, sizeof *t->rest);
    t->rest_len = len;
    for (size_t i = 0; i < len; i++) {
        t->outgoing[i].message = &messages[i];
        t->rest[i] = i;
    }
    return t;
}

static enum sluice_code send_attempts_try(struct send_attempts *t)
{
    size_t len = t->rest_len;
    struct outgoing *outgoing = memory_zeroed(len, sizeof *outgoing);
    struct sluice_sent *sent = memory_zeroed(len, sizeof *sent);
    for (size_t i = 0; i < len; i++)
        outgoing[i] = t->outgoing[t->rest[i]];
    enum sluice_code code =
        send_once(t->queue, outgoing, len, &t->id, sent, &t->remembered, t->error);
    for (size_t i = 0; i < len; i++) {
        t->outgoing[t->rest[i]] = outgoing[i]; // it may have been uploaded
        t->sent[t->rest[i]] = sent[i];
    }
    memory_free(outgoing);
    memory_free(sent);
    return code;
}

#define ATTEMPT_PART (UINT64_C(1) << 63) // part numbers of later tries; ops have smaller ones

enum sluice_code send_attempts_again(struct send_attempts *t)
{
    size_t refused = 0;
    if (!t->remembered) return send_attempts_try(t);
    for (size_t i = 0; i < t->rest_len; i++)
        if (t->sent[t->rest[i]].code == SLUICE_LIMIT) t->rest[refused++] = t->rest[i];
    t->rest_len = refused;
    t->id = request_part(t->first.bytes, ATTEMPT_PART + ++t->ids);
    return send_attempts_try(t);
}

struct send_attempts *send_attempts_resume(struct sluice *s, const char *queue,
                                           const struct sluice_send *messages, size_t len,
                                           const struct sluice_request *request,
                                           struct sluice_sent *sent, struct sluice_error *error)
{
    struct open_queue *q;
    struct request_id id;
    if (queue_get(s, queue, &q, error)) return NULL;
    memcpy(id.bytes, request->bytes, sizeof id.bytes);
    struct send_attempts *t = send_attempts_new(q, messages, len, &id, sent, error);
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, JOURNAL_OP_MAX);
    send_begin(&payload, &id);
    for (uint32_t i = 0; !t->remembered && i < q->row.birth.shards; i++) {
        struct shard_runner *d = runner_if_open(q, i);
        t->remembered = d && is_remembered(d, (struct op){OP_SEND, buf_bytes(&payload)});
    }
    return t;
}

enum sluice_code send_attempts_begin(struct sluice *s, const char *queue,
                                     const struct sluice_send *messages, size_t len,
                                     const struct sluice_request *request, struct sluice_sent *sent,
                                     struct sluice_error *error, struct send_attempts **out)
{
    struct open_queue *q;
    struct request_id id;
    *out = NULL;
    enum sluice_code code = queue_get(s, queue, &q, error);
    if (!code) code = check_all(messages, len, error);
    for (size_t i = 0; code && i < len; i++)
        sent[i] = (struct sluice_sent){.code = code};
    if (code || len == 0) {
        queue_let_go(&q);
        return code;
    }
    entropy_fill(id.bytes, sizeof id.bytes);
    if (request) memcpy(id.bytes, request->bytes, sizeof id.bytes);
    struct send_attempts *t = send_attempts_new(q, messages, len, &id, sent, error);
    code = send_attempts_try(t);
    if (code == SLUICE_LIMIT && waits_for_room(q))
        *out = t;
    else
        send_attempts_end(t);
    return code;
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

bool send_attempts_saw_space(const struct send_attempts *t)
{
    bool plenty = true;
    for (uint32_t i = 0; i < t->queue->row.birth.shards; i++) {
        struct shard_runner *d = runner_if_open(t->queue, i);
        if (d) runner_inspect(d, check_space, &plenty);
    }
    return plenty;
}

void send_attempts_end(struct send_attempts *t)
{
    if (!t) return;
    free_outgoing(t->queue, t->outgoing, t->len, t->sent);
    queue_let_go(&t->queue);
    memory_free(t->rest);
    memory_free(t);
}

enum sluice_code direct_send(struct sluice *s, const char *queue,
                             const struct sluice_send *messages, size_t len,
                             const struct sluice_request *request, struct sluice_sent *sent,
                             struct sluice_error *error)
{
    struct send_attempts *attempts;
    struct sluice_sent *rows = sent ? sent : memory_zeroed(len + 1, sizeof *rows);
    enum sluice_code code =
        send_attempts_begin(s, queue, messages, len, request, rows, error, &attempts);
    int64_t deadline = clock_boot_ms() + store_patience_ms(s->store, s->timeout_ms);
    struct timespec pause = {.tv_nsec = FULL_PAUSE_MIN_MS * 1000000};
    while (attempts && code == SLUICE_LIMIT && clock_boot_ms() < deadline) {
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < FULL_PAUSE_MAX_MS * 1000000) pause.tv_nsec *= 2;
        code = send_attempts_again(attempts);
    }
    send_attempts_end(attempts);
    if (!sent) memory_free(rows);
    return code;
}

bool send_as_one_op(struct open_queue *q, const struct sluice_send *messages, size_t len,
                    const struct sluice_request *request, struct buf *payload, uint32_t *shard)
{
    if (len == 0 || len > SEND_COUNT_MAX || check_all(messages, len, NULL)) return false;
    struct request_id id;
    if (request)
        memcpy(id.bytes, request->bytes, sizeof id.bytes);
    else
        entropy_fill(id.bytes, sizeof id.bytes);
    size_t bytes = 0;
    *shard = shard_of(q, &messages[0], &id, 0);
    for (size_t i = 0; i < len; i++) {
        if (messages[i].body_len > BODY_INLINE_MAX) return false;
        bytes += messages[i].body_len + messages[i].headers_len * 64 + 512;
        if (bytes > OP_BYTES_MAX || shard_of(q, &messages[i], &id, i) != *shard) return false;
    }
    struct outgoing *outgoing = memory_zeroed(len, sizeof *outgoing);
    struct sending sending = {.queue = q, .outgoing = outgoing, .request = id};
    sending.members = memory_zeroed(len, sizeof *sending.members);
    buf_init(&sending.payload, JOURNAL_OP_MAX);
    CLEANUP(buf_done) struct buf headers;
    buf_init(&headers, MESSAGE_HEADERS_MAX);
    for (size_t i = 0; i < len; i++) {
        outgoing[i].message = &messages[i];
        buf_clear(&headers);
        (void)put_headers(&messages[i], &headers, NULL);                  // checked before
        if (i > 0 && is_full(&sending, &outgoing[i], headers.len)) break; // needs another op
        add_message(&sending, i, buf_bytes(&headers));
    }
    bool one = sending.count == len;
    send_end(&sending.payload, 0, sending.count);
    bool fits = one && !sending.payload.bad && sending.payload.len <= OP_BYTES_MAX * 2;
    if (fits) buf_put(payload, buf_bytes(&sending.payload));
    buf_done(&sending.payload);
    memory_free(sending.members);
    memory_free(outgoing);
    return fits;
}

enum sluice_code send_concluded(struct open_queue *q, uint32_t shard, struct bytes op, size_t len,
                                enum err err, const struct runner_answer *a,
                                struct sluice_sent *sent, struct sluice_error *error)
{
    struct sending s = {
        .queue = q, .concluded = op, .sent = sent, .error = error, .count = (uint32_t)len};
    s.members = memory_zeroed(len, sizeof *s.members);
    for (size_t i = 0; i < len; i++)
        s.members[i] = i;
    conclude_send(&s, shard, err, a);
    memory_free(s.members);
    return s.code;
}
