// SPDX-License-Identifier: Apache-2.0
// Receive, and the calls that need a lock: ack, fail, release and renew.
#include "base/memory.h"
#include "local/acks.h"
#include "local/async.h"
#include "local/deliver.h"
#include "local/multi_receive.h"
#include "os/entropy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MAX_MS (INT64_C(24) * 3600 * 1000)

static void default_worker(char name[WORKER_NAME_MAX + 1])
{
    char host[65] = "";
    if (gethostname(host, sizeof host - 1) != 0) (void)snprintf(host, sizeof host, "worker");
    (void)snprintf(name, WORKER_NAME_MAX + 1, "%s-%ld", host, (long)getpid());
}

struct receiving {
    struct open_queue *queue; // with a hold
    const struct sluice_receive *options;
    struct acks *acks; // committed in the claim's entry; NULL: none
    struct op_claim claim;
    bool named; // the caller gave the request id
    struct answer_budget *budget;
    struct runner_answer answer;
    struct sluice_batch **out;
    struct sluice_error *error;
};

static enum sluice_code conclude_claim(struct receiving *r, uint32_t shard, struct shard_runner *d,
                                       enum err err)
{
    enum sluice_code code = refuse_op(r->error, err, OP_CLAIM, &r->answer, r->queue->row.name);
    if (code == SLUICE_NOT_FOUND) {
        queue_stale(r->queue);
        code = refuse_reason(r->error, REASON_DELETED, r->queue->row.name);
    }
    if (code) return code;
    if (r->named) deliver_drop_stale(d, &r->answer);
    struct deliver h = {
        .queue = r->queue, .shard = shard, .runner = d, .named = r->named, .budget = r->budget};
    return r->answer.deliveries_len > 0 ? deliver_batch(&h, &r->answer, r->out, r->error)
                                        : SLUICE_OK;
}

static enum sluice_code receive_from(struct receiving *r, uint32_t shard, int64_t wait_ms)
{
    struct shard_runner *d;
    enum sluice_code code = queue_work_runner(r->queue, shard, &d, r->error);
    if (code) return code;
    enum err err;
    if (r->acks)
        err = acks_receive(r->acks, r->queue, d, &r->claim, wait_ms, r->options, &r->answer);
    else
        err = runner_receive(d, &r->claim, wait_ms, &r->answer);
    return conclude_claim(r, shard, d, err);
}

uint32_t queue_first_shard(struct open_queue *q)
{
    (void)pthread_mutex_lock(&q->handle->lock);
    uint32_t next_shard = q->next_shard++ % q->row.birth.shards;
    (void)pthread_mutex_unlock(&q->handle->lock);
    return next_shard;
}

// The result of a multi_receive, for the thread that waits for it.
struct wait_multi {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
    enum err err;
    uint32_t shard;
    struct runner_answer answer;
};

static void multi_receive_ended(void *ctx, enum err err, uint32_t shard, struct runner_answer *a)
{
    struct wait_multi *w = ctx;
    (void)pthread_mutex_lock(&w->lock);
    w->done = true;
    w->err = err;
    w->shard = shard;
    w->answer = *a; // taken
    runner_answer_init(a);
    (void)pthread_cond_signal(&w->ended);
    (void)pthread_mutex_unlock(&w->lock);
}

static void multi_receive_wait(struct receiving *r, struct shard_runner *const *runners,
                               int64_t wait_ms, struct wait_multi *w)
{
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->ended, NULL);
    struct multi_receive *q = multi_receive_begin(r->queue, runners, &r->claim, r->named, wait_ms,
                                                  multi_receive_ended, w);
    (void)pthread_mutex_lock(&w->lock);
    while (!w->done)
        (void)pthread_cond_wait(&w->ended, &w->lock);
    (void)pthread_mutex_unlock(&w->lock);
    multi_receive_release(q);
    (void)pthread_cond_destroy(&w->ended);
    (void)pthread_mutex_destroy(&w->lock);
}

static enum sluice_code receive_any(struct receiving *r, int64_t wait_ms)
{
    uint32_t shards = r->queue->row.birth.shards;
    if (shards == 1) return receive_from(r, 0, wait_ms);
    struct shard_runner **runners = memory_zeroed(shards, sizeof(struct shard_runner *));
    enum sluice_code code = SLUICE_OK;
    for (uint32_t i = 0; !code && i < shards; i++)
        code = queue_work_runner(r->queue, i, &runners[i], r->error);
    if (!code) {
        struct wait_multi w = {.done = false};
        multi_receive_wait(r, runners, wait_ms, &w);
        runner_answer_done(&r->answer);
        r->answer = w.answer;
        code = conclude_claim(r, w.shard, runners[w.shard], w.err);
    }
    memory_free(runners);
    return code;
}

// Checks the options and fills in r->claim. name: storage for the default name of the worker, which
// the claim refers to.
static enum sluice_code prepare(const struct sluice_receive *o, struct receiving *r,
                                char name[WORKER_NAME_MAX + 1])
{
    if (!o->worker) default_worker(name);
    r->claim = (struct op_claim){.worker = bytes_str(o->worker ? o->worker : name),
                                 .max = o->max > 0 ? o->max : 1,
                                 .lease_ms = o->visibility_ms};
    enum sluice_code code = worker_check(o->worker ? o->worker : name, r->error);
    if (code) return code;
    if (r->claim.max > CLAIM_COUNT_MAX || o->visibility_ms < 0 || o->visibility_ms > LEASE_MAX_MS)
        return refuse(r->error, ERR_INVALID, r->claim.max > CLAIM_COUNT_MAX ? "max" : "visibility",
                      "max must be 1 to %d and the visibility timeout at most 24 h",
                      CLAIM_COUNT_MAX);
    entropy_fill(r->claim.seed, sizeof r->claim.seed);
    r->named = o->request != NULL;
    if (r->named)
        memcpy(r->claim.request.bytes, o->request->bytes, sizeof o->request->bytes);
    else
        entropy_fill(r->claim.request.bytes, sizeof r->claim.request.bytes);
    return SLUICE_OK;
}

static int64_t wait_of(const struct sluice_receive *o)
{
    return o->wait_ms <= 0 ? 0 : o->wait_ms < WAIT_MAX_MS ? o->wait_ms : WAIT_MAX_MS;
}

// Prepares the acks for the claim's entry. If they cannot be in it, they are committed first. That
// may show that the queue was deleted and created again, so the queue is looked up again.
static enum sluice_code take_acks(struct receiving *r, const char *queue, struct acks *acks)
{
    struct sluice *s = r->queue->handle;
    struct shard_runner *d;
    bool one = r->queue->row.birth.shards == 1;
    enum sluice_code code = one ? queue_work_runner(r->queue, 0, &d, r->error) : SLUICE_OK;
    if (code) return code;
    if (one && acks_init(acks, r->queue, &d, r->options)) {
        r->acks = acks;
        return SLUICE_OK;
    }
    acks_first(s, queue, r->options);
    queue_let_go(&r->queue);
    return queue_get(s, queue, &r->queue, r->error);
}

static void receiving_done(struct receiving *r)
{
    if (r->acks) acks_done(r->acks);
    runner_answer_done(&r->answer);
    queue_let_go(&r->queue);
}

enum sluice_code direct_receive(struct sluice *s, const char *queue,
                                const struct sluice_receive *options, struct sluice_batch **out,
                                struct sluice_error *error)
{
    static const struct sluice_receive none = {0};
    struct acks acks;
    char name[WORKER_NAME_MAX + 1];
    CLEANUP(receiving_done)
    struct receiving r = {.options = options ? options : &none, .out = out, .error = error};
    runner_answer_init(&r.answer);
    *out = NULL;
    enum sluice_code code = queue_get(s, queue, &r.queue, error);
    if (!code) code = prepare(r.options, &r, name);
    if (!code && r.options->acks_len > 0) code = take_acks(&r, queue, &acks);
    if (code) return code;
    if (!r.named) r.claim.max = batch_claim_max(r.queue, r.claim.max, NULL);
    code = receive_any(&r, wait_of(r.options));
    if (!code && !*out) *out = batch_take(batch_new(0));
    return code;
}

bool receive_begin(struct shard_runner *d, const struct sluice_receive *o, struct runner_async *l)
{
    struct receiving r = {0};
    char name[WORKER_NAME_MAX + 1];
    if (prepare(o, &r, name)) return false;
    runner_receive_async(d, &r.claim, wait_of(o), l);
    return true;
}

bool receive_begin_after(struct shard_runner *d, struct op op, struct runner_async *done,
                         const struct sluice_receive *o, struct runner_async *l)
{
    struct receiving r = {0};
    char name[WORKER_NAME_MAX + 1];
    if (prepare(o, &r, name)) return false;
    runner_receive_after_async(d, op, done, &r.claim, wait_of(o), l);
    return true;
}

enum sluice_code receive_check(const struct sluice_receive *o, struct sluice_error *error)
{
    struct receiving r = {.error = error};
    char name[WORKER_NAME_MAX + 1];
    return prepare(o, &r, name);
}

struct multi_receive *receive_begin_multi(struct open_queue *q, struct shard_runner *const *runners,
                                          const struct sluice_receive *o, multi_receive_done *done,
                                          void *ctx)
{
    struct receiving r = {0};
    char name[WORKER_NAME_MAX + 1];
    if (prepare(o, &r, name)) return NULL;
    return multi_receive_begin(q, runners, &r.claim, r.named, wait_of(o), done, ctx);
}

enum sluice_code receive_concluded(struct open_queue *q, uint32_t shard, struct shard_runner *d,
                                   bool named, struct answer_budget *budget, enum err err,
                                   struct runner_answer *a, struct sluice_batch **out,
                                   struct sluice_error *error)
{
    struct receiving r = {
        .queue = q, .named = named, .budget = budget, .answer = *a, .out = out, .error = error};
    *out = NULL;
    enum sluice_code code = conclude_claim(&r, shard, d, err);
    if (!code && !*out) *out = batch_take(batch_new(0));
    return code;
}

struct settling {
    struct open_queue *queue;
    uint16_t kind;
    int64_t wait_ms;
    struct bytes reason;
    const struct lock_name *locks;
    size_t len;
    const struct sluice_request *request; // may be NULL
    uint32_t op_number;                   // part number of the next op's request id
    struct sluice_outcome *outcomes;      // may be NULL
    struct sluice_error *error;
    enum sluice_code code; // the first refusal
};

static const char *status_of(uint16_t kind, const struct outcome_row *row)
{
    if (row->reason != REASON_NONE) return "";
    if (kind == OP_RENEW) return "renewed";
    return kind == OP_RELEASE ? "released" : outcome_status_name(row->status);
}

static void note_outcome(struct settling *s, size_t index, const struct outcome_row *row)
{
    enum sluice_code code = (enum sluice_code)reason_err(row->reason);
    if (code && !s->code) s->code = refuse_reason(s->error, row->reason, s->queue->row.name);
    if (row->status == OUTCOME_DEAD_LETTERED) upkeep_wake(s->queue->handle);
    if (!s->outcomes) return;
    struct sluice_outcome *out = &s->outcomes[index];
    *out = (struct sluice_outcome){
        .code = code, .status = status_of(s->kind, row), .until = row->until};
    if (code) (void)snprintf(out->reason, sizeof out->reason, "%s", reason_name(row->reason));
}

static void note_failure(struct settling *s, size_t index, enum sluice_code code)
{
    if (!s->code) s->code = code;
    if (s->outcomes) s->outcomes[index] = (struct sluice_outcome){.code = code, .status = ""};
}

// Collects the locks of one shard for one op, starting at index `from`. Returns their number.
static size_t gather(const struct settling *s, uint32_t shard, size_t from, struct buf *refs,
                     size_t *members)
{
    size_t count = 0;
    for (size_t i = from; i < s->len && count < REFS_MAX; i++) {
        if (s->locks[i].shard != shard) continue;
        lock_ref_put(refs, &s->locks[i].ref);
        members[count++] = i;
    }
    return count;
}

static struct request_id next_request(struct settling *s)
{
    struct request_id id;
    if (s->request) return request_part(s->request->bytes, s->op_number++);
    entropy_fill(id.bytes, sizeof id.bytes);
    return id;
}

static void conclude_settle(struct settling *s, const size_t *members, size_t count, enum err err,
                            const struct runner_answer *a)
{
    struct result result = {0};
    struct outcome_row row;
    enum sluice_code code = SLUICE_OK;
    struct sluice_error *error = s->code ? NULL : s->error;
    bool answered = a->body.len > 0 && !result_open(buf_bytes(&a->body), s->kind, &result);
    if (!answered || result.count == 0)
        code = refuse_op(error, err ? err : ERR_CORRUPT, s->kind, a, s->queue->row.name);
    else if (result.count != count)
        code = refuse_reason(error, REASON_REQUEST_REUSED, s->queue->row.name);
    for (size_t i = 0; i < count; i++) {
        if (!code && outcome_row_next(&result, &row)) {
            note_outcome(s, members[i], &row);
        } else {
            note_failure(s, members[i], code ? code : SLUICE_CORRUPT);
        }
    }
}

static void encode_settle(struct settling *s, struct shard_runner *d, struct bytes refs,
                          size_t count, struct buf *payload)
{
    struct op_outcome op = {
        .wait_ms = s->wait_ms, .reason = s->reason, .count = (uint32_t)count, .refs = refs};
    op.request = next_request(s);
    runner_outcome_origin(d, &op);
    outcome_encode(payload, &op);
}

static void settle_op(struct settling *s, uint32_t shard, struct bytes refs, const size_t *members,
                      size_t count)
{
    struct shard_runner *d;
    enum sluice_code code = queue_work_runner(s->queue, shard, &d, s->code ? NULL : s->error);
    if (code) {
        for (size_t i = 0; i < count; i++)
            note_failure(s, members[i], code);
        return;
    }
    struct runner_answer answer;
    runner_answer_init(&answer);
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, JOURNAL_OP_MAX);
    encode_settle(s, d, refs, count, &payload);
    struct op op = {s->kind, buf_bytes(&payload)};
    enum err err = runner_do(d, op, &answer);
    // The library repeats the op with the same request id, so it cannot be applied twice. The
    // answer stays UNKNOWN only if the repeat has no rows either, because the first try may have
    // been applied. A send is not repeated by the library, because its caller can repeat it with
    // the same request id. sluice_ack, sluice_fail, sluice_release and sluice_renew take no id.
    if (err == ERR_UNKNOWN && runner_do(d, op, &answer) == ERR_OK) err = ERR_OK;
    conclude_settle(s, members, count, err, &answer);
    runner_answer_done(&answer);
}

static void settle_shard(struct settling *s, uint32_t shard)
{
    size_t *members = memory_zeroed(s->len < REFS_MAX ? s->len : REFS_MAX, sizeof *members);
    CLEANUP(buf_done) struct buf refs;
    buf_init(&refs, (size_t)REFS_MAX * LOCK_REF_BYTES);
    size_t count, from = 0;
    while ((count = gather(s, shard, from, &refs, members)) > 0) {
        settle_op(s, shard, buf_bytes(&refs), members, count);
        from = members[count - 1] + 1;
        buf_clear(&refs);
    }
    memory_free(members);
}

void settle_locks(struct open_queue *q, uint16_t kind, const char *reason,
                  const struct lock_name *locks, size_t len)
{
    struct settling s = {
        .queue = q, .kind = kind, .reason = bytes_str(reason), .locks = locks, .len = len};
    if (len > 0) settle_shard(&s, locks[0].shard);
}

#define NO_SHARD UINT32_MAX // of a token that cannot be parsed

// If a token is of another life of the queue, the open queue may be the old life. It is looked up
// again.
static enum sluice_code parse_all(struct sluice *s, const char *queue, const char *const *tokens,
                                  struct settling *what, struct lock_name *locks)
{
    bool foreign = false;
    struct lock_name ignored;
    for (size_t i = 0; i < what->len; i++)
        foreign =
            foreign || token_parse(what->queue, tokens[i], &ignored, NULL) == SLUICE_NOT_FOUND;
    if (foreign) queue_let_go(&what->queue);
    enum sluice_code code =
        foreign ? queue_get_fresh(s, queue, &what->queue, what->error) : SLUICE_OK;
    for (size_t i = 0; !code && i < what->len; i++) {
        struct sluice_error why = {.reason = ""};
        enum sluice_code bad = token_parse(what->queue, tokens[i], &locks[i], &why);
        if (!bad) continue;
        locks[i].shard = NO_SHARD;
        if (!what->code && what->error) *what->error = why;
        note_failure(what, i, bad);
        if (what->outcomes)
            (void)snprintf(what->outcomes[i].reason, sizeof why.reason, "%s", why.reason);
    }
    return code;
}

static enum sluice_code settle_all(struct sluice *s, const char *queue, const char *const *tokens,
                                   struct settling *what)
{
    enum sluice_code code = queue_get(s, queue, &what->queue, what->error);
    if (code || what->len == 0) {
        queue_let_go(&what->queue);
        return code;
    }
    struct lock_name *locks = memory_zeroed(what->len, sizeof *locks);
    code = parse_all(s, queue, tokens, what, locks);
    what->locks = locks;
    for (uint32_t shard = 0; !code && shard < what->queue->row.birth.shards; shard++)
        settle_shard(what, shard);
    memory_free(locks);
    queue_let_go(&what->queue);
    return code ? code : what->code;
}

static enum sluice_code check_wait(int64_t ms, const char *field, struct sluice_error *error)
{
    if (ms >= 0 && ms <= LEASE_MAX_MS) return SLUICE_OK;
    return refuse(error, ERR_INVALID, field, "%s of %lld ms is not in 0..24h", field,
                  (long long)ms);
}

static struct settling settling_of(const struct settle *what, struct sluice_outcome *outcomes,
                                   struct sluice_error *error)
{
    static const uint16_t kinds[] = {[SETTLE_ACK] = OP_ACK,
                                     [SETTLE_FAIL] = OP_FAIL,
                                     [SETTLE_RELEASE] = OP_RELEASE,
                                     [SETTLE_RENEW] = OP_RENEW};
    struct bytes reason = what->reason ? bytes_str(what->reason) : BYTES_EMPTY;
    if (reason.len > FAIL_REASON_MAX) reason.len = FAIL_REASON_MAX;
    return (struct settling){.kind = kinds[what->kind],
                             .wait_ms = what->wait_ms,
                             .reason = reason,
                             .len = what->len,
                             .request = what->request,
                             .outcomes = outcomes,
                             .error = error};
}

enum sluice_code direct_settle(struct sluice *s, const char *queue, const struct settle *what,
                               struct sluice_outcome *outcomes, struct sluice_error *error)
{
    struct settling settling = settling_of(what, outcomes, error);
    const char *field = what->kind == SETTLE_RENEW ? "visibility" : "delay";
    enum sluice_code code = check_wait(what->wait_ms, field, error);
    return code ? code : settle_all(s, queue, what->tokens, &settling);
}

bool settle_as_one_op(struct open_queue *q, const struct settle *what,
                      struct shard_runner *const *runners, uint32_t *shard, struct op *op,
                      struct buf *payload)
{
    if (what->len == 0 || what->len > REFS_MAX || check_wait(what->wait_ms, "", NULL)) return false;
    struct settling s = settling_of(what, NULL, NULL);
    CLEANUP(buf_done) struct buf refs;
    buf_init(&refs, (size_t)REFS_MAX * LOCK_REF_BYTES);
    for (size_t i = 0; i < what->len; i++) {
        struct lock_name lock;
        if (token_parse(q, what->tokens[i], &lock, NULL)) return false;
        if (i == 0) *shard = lock.shard;
        if (lock.shard != *shard) return false;
        lock_ref_put(&refs, &lock.ref);
    }
    s.queue = q;
    encode_settle(&s, runners[*shard], buf_bytes(&refs), what->len, payload);
    *op = (struct op){s.kind, buf_bytes(payload)};
    return !payload->bad;
}

enum sluice_code settle_concluded(struct open_queue *q, uint16_t kind, size_t len, enum err err,
                                  const struct runner_answer *a, struct sluice_outcome *outcomes,
                                  struct sluice_error *error)
{
    struct settling s = {
        .queue = q, .kind = kind, .len = len, .outcomes = outcomes, .error = error};
    size_t *members = memory_zeroed(len, sizeof *members);
    for (size_t i = 0; i < len; i++)
        members[i] = i;
    conclude_settle(&s, members, len, err, a);
    memory_free(members);
    return s.code;
}
