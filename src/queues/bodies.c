// SPDX-License-Identifier: Apache-2.0
// Large bodies are objects under <shard>/data/. An object's name has the time of its upload and the
// hash of its content.
#include "queues/bodies.h"

#include "os/clock.h"
#include "os/entropy.h"
#include "os/parallel.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define PAUSE_MIN_MS   20
#define PAUSE_MAX_MS   1000
#define DELETE_ROWS    200
#define CLAIM_ANY_SIZE 100 // so many messages may be claimed whatever their size
#define ROW_BYTES      512 // of a message, besides its body and headers
// A dead letter that is moved again within this time gets the same name for its copy, and so finds
// the copy of the first attempt. It is much less than the age that a copy may have on arrival.
#define COPY_EVERY_MS  (BODY_AGE_MAX_MS / 4)

static_assert(BODY_INLINE_MAX < MESSAGE_BODY_MAX, "what is not uploaded fits into an entry");

void bodies_folder(const struct queue_id *queue, uint32_t shard, char out[BODY_KEY_MAX])
{
    char *at = out + snprintf(out, BODY_KEY_MAX, "q/");
    for (size_t i = 0; i < sizeof queue->bytes; i++)
        at += snprintf(at, 3, "%02x", queue->bytes[i]);
    (void)snprintf(at, 32, "/%u/data/", shard);
}

static void key_of(const struct queue_id *queue, uint32_t shard, struct bytes name,
                   char out[BODY_KEY_MAX])
{
    bodies_folder(queue, shard, out);
    size_t len = strlen(out);
    (void)snprintf(out + len, BODY_KEY_MAX - len, "%.*s", (int)name.len, (const char *)name.data);
}

struct retry_limit {
    int64_t until; // clock_boot_ms
    int64_t pause_ms;
};

static struct retry_limit retry_limit_of(const struct open_queue *q)
{
    return (struct retry_limit){
        clock_boot_ms() + store_patience_ms(q->engine->store, q->engine->timeout_ms), PAUSE_MIN_MS};
}

// If the error may be temporary and there is time left, pauses and returns true.
static bool try_again(struct retry_limit *p, enum err err)
{
    bool passing = err == ERR_UNAVAILABLE || err == ERR_UNKNOWN;
    if (!passing || clock_boot_ms() + p->pause_ms >= p->until) return false;
    clock_sleep(p->pause_ms);
    if (p->pause_ms < PAUSE_MAX_MS) p->pause_ms *= 2;
    return true;
}

// The name is unique: an object that exists under it is from an earlier try.
static enum err put_body(struct open_queue *q, struct shard_runner *r, const char *key,
                         struct bytes body, char why[STORE_WHY_MAX])
{
    LOCAL(store_answer, answer);
    struct retry_limit limit = retry_limit_of(q);
    enum err err;
    do {
        err = store_check_space(q->engine->store, body.len, &answer);
        if (!err) err = store_put_new(q->engine->store, key, body, &answer);
        runner_note_cost(r, &answer);
        if (err == ERR_CONFLICT) err = ERR_OK;
    } while (try_again(&limit, err));
    (void)snprintf(why, STORE_WHY_MAX, "%s", answer.why);
    return err == ERR_UNKNOWN ? ERR_UNAVAILABLE : err;
}

static void read_now(void *ctx, const struct machine *m, int64_t now)
{
    int64_t *out = ctx;
    *out = now > machine_now(m) ? now : machine_now(m);
}

// Not earlier than the shard's time. Otherwise a journal whose time is ahead of the store's would
// refuse the body as too old.
static int64_t upload_time(struct shard_runner *r)
{
    int64_t now = 0, store = runner_time(r).hi;
    runner_inspect(r, read_now, &now);
    return now > store ? now : store;
}

static void upload(struct open_queue *q, const struct upload_job *job)
{
    struct shard_runner *r;
    struct upload *out = job->out;
    *out = (struct upload){.err = (enum err)queue_runner(q, job->shard, &r, NULL)};
    if (out->err) return;
    struct body_name name = {.uploaded_at = upload_time(r), .hash = hash128_of(job->body)};
    entropy_fill(name.random, sizeof name.random);
    char text[BODY_NAME_LEN + 1], key[BODY_KEY_MAX];
    body_name_print(&name, text);
    key_of(&q->row.id, job->shard, bytes_str(text), key);
    out->err = put_body(q, r, key, job->body, out->why);
    if (out->err) return;
    memcpy(out->name, text, sizeof text);
    out->at = name.uploaded_at;
}

struct upload_context {
    struct open_queue *queue;
    const struct upload_job *jobs;
};

static void upload_nth(void *ctx, size_t i)
{
    struct upload_context *u = ctx;
    upload(u->queue, &u->jobs[i]);
}

void bodies_upload(struct open_queue *q, const struct upload_job *jobs, size_t len)
{
    struct upload_context u = {q, jobs};
    parallel_for(q->engine->parallel, queue_key(q), len, upload_nth, &u);
}

struct body_reference upload_reference(const struct upload *u, size_t body_len)
{
    return (struct body_reference){bytes_str(u->name), body_len, u->at};
}

void upload_forget(struct open_queue *q, uint32_t shard, const struct upload *u)
{
    char key[BODY_KEY_MAX];
    const char *keys[] = {key};
    if (u->name[0] == 0) return;
    key_of(&q->row.id, shard, bytes_str(u->name), key);
    LOCAL(store_answer, answer);
    enum err err = store_delete(q->engine->store, keys, 1, &answer);
    (void)err; // the sweep deletes what is left
}

static bool is_whole(struct bytes body, const struct body_reference *r)
{
    struct body_name name;
    return body.len == r->len && body_name_parse(r->name, &name) &&
           hash128_equal(name.hash, hash128_of(body));
}

// Reads a body into answer->body. ERR_NOT_FOUND: it is missing. ERR_CORRUPT: it is damaged.
static enum err get_body(struct open_queue *q, struct shard_runner *runner, const char *key,
                         const struct body_reference *r, struct store_answer *answer)
{
    struct retry_limit limit = retry_limit_of(q);
    enum err err;
    do {
        err = store_get(q->engine->store, key, 0, SIZE_MAX, answer);
        runner_note_cost(runner, answer);
    } while (try_again(&limit, err));
    if (!err && !is_whole(buf_bytes(&answer->body), r)) err = ERR_CORRUPT;
    return err;
}

struct fetch_context {
    struct open_queue *queue;
    struct shard_runner *runner;
    uint32_t shard;
    const struct delivery *deliveries;
    struct store_answer *answers;
    enum err *errs;
};

static void fetch_nth(void *ctx, size_t i)
{
    struct fetch_context *f = ctx;
    const struct body_reference *r = &f->deliveries[i].message.reference;
    char key[BODY_KEY_MAX];
    f->errs[i] = ERR_OK;
    if (r->name.len == 0) return;
    key_of(&f->queue->row.id, f->shard, r->name, key);
    f->errs[i] = get_body(f->queue, f->runner, key, r, &f->answers[i]);
}

// While a lock has not expired, no other worker can finish the message, so its body must exist.
static enum err body_error(enum err err, const struct delivery *d, bool locked, int64_t now)
{
    if (err != ERR_NOT_FOUND) return err;
    return locked && now >= d->grant.deadline ? ERR_NOT_FOUND : ERR_CORRUPT;
}

static void mark_body_lost(struct message *m, struct buf *headers)
{
    headers_put(headers, bytes_str(HEADER_BODY_LOST), m->reference.name);
    buf_put(headers, m->headers); // a dead letter's origin must stay at the end
    if (!headers->bad) m->headers = buf_bytes(headers);
    m->reference = (struct body_reference){0};
}

struct live_check {
    uint64_t seq;
    bool live;
};

static void check_live(void *ctx, const struct machine *m, int64_t now)
{
    struct live_check *f = ctx;
    struct message_view view;
    f->live = machine_find(m, f->seq, now, &view) == ERR_OK;
}

// A peek shows a message without its lost body, unless the message was finished meanwhile. If the
// store itself is lost, a missing body proves nothing.
static enum err add_without_body(struct batch_builder *b, struct fetch_context *f,
                                 struct delivery *d, const struct message_view *view, int64_t now)
{
    char why[STORE_WHY_MAX];
    struct live_check check = {.seq = view->seq};
    if (store_is_dead(f->queue->engine->store, why)) return ERR_CORRUPT;
    runner_inspect(f->runner, check_live, &check);
    if (!check.live) return ERR_NOT_FOUND;
    LOCAL(buf, headers, 2 * MESSAGE_HEADERS_MAX);
    mark_body_lost(&d->message, &headers);
    batch_add(b, queue_ref(f->queue), f->shard, d, view, now);
    return ERR_OK;
}

static void add_one(struct batch_builder *b, struct fetch_context *f, size_t i, struct delivery *d,
                    const struct message_view *view, int64_t now)
{
    if (d->message.reference.name.len > 0) d->message.body = buf_bytes(&f->answers[i].body);
    batch_add(b, queue_ref(f->queue), f->shard, d, view, now);
}

static void add_some(struct batch_builder *b, struct fetch_context *f,
                     const struct message_view *views, size_t len)
{
    int64_t now = runner_time(f->runner).hi;
    for (size_t i = 0; i < len; i++) {
        struct delivery d = f->deliveries[i];
        f->errs[i] = body_error(f->errs[i], &d, !views, now);
        if (f->errs[i] == ERR_CORRUPT && views)
            f->errs[i] = add_without_body(b, f, &d, &views[i], now);
        else if (!f->errs[i])
            add_one(b, f, i, &d, views ? &views[i] : NULL, now);
    }
}

void bodies_add(struct batch_builder *b, struct open_queue *q, uint32_t shard,
                struct shard_runner *r, const struct delivery *deliveries,
                const struct message_view *views, size_t len, enum err *errs)
{
    struct store_answer answers[PARALLEL_MAX];
    size_t used = 0; // of the answers; most messages have their body with them
    for (size_t at = 0, some; at < len; at += some) {
        some = len - at < PARALLEL_MAX ? len - at : PARALLEL_MAX;
        struct fetch_context f = {q, r, shard, deliveries + at, answers, errs + at};
        size_t large = 0;
        for (size_t i = 0; i < some; i++)
            large += f.deliveries[i].message.reference.name.len > 0;
        memset(f.errs, 0, some * sizeof *f.errs);
        for (; large > 0 && used < some; used++)
            store_answer_init(&answers[used]);
        if (large > 0) parallel_for(q->engine->parallel, queue_key(q), some, fetch_nth, &f);
        add_some(b, &f, views ? views + at : NULL, some);
    }
    for (size_t i = 0; i < used; i++)
        store_answer_done(&answers[i]);
}

uint64_t batch_weight(const struct delivery *deliveries, size_t len)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < len; i++) {
        const struct message *m = &deliveries[i].message;
        bytes += message_body_len(m) + m->headers.len + ROW_BYTES;
    }
    return bytes;
}

size_t batch_len_within(const struct delivery *deliveries, size_t len, uint64_t bytes_max)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < len; i++) {
        bytes += batch_weight(&deliveries[i], 1);
        if (i > 0 && bytes > bytes_max) return i;
    }
    return len;
}

static uint64_t batch_bytes_most(const struct answer_budget *budget)
{
    return budget && budget->most < BATCH_BYTES_MAX ? budget->most : BATCH_BYTES_MAX;
}

uint32_t batch_claim_max(struct open_queue *q, uint32_t max, const struct answer_budget *budget)
{
    uint64_t weight = q->weight;
    if (weight == 0 || max <= CLAIM_ANY_SIZE || max > CLAIM_COUNT_MAX) return max;
    uint64_t bound = 2 * (batch_bytes_most(budget) / weight) + 1; // they may be smaller
    if (bound < CLAIM_ANY_SIZE) bound = CLAIM_ANY_SIZE;
    return bound < max ? (uint32_t)bound : max;
}

size_t batch_reserve(struct open_queue *q, const struct delivery *deliveries, size_t len,
                     struct answer_budget *budget, bool waits)
{
    if (len > 0) q->weight = batch_weight(deliveries, len) / len;
    size_t some = batch_len_within(deliveries, len, batch_bytes_most(budget));
    if (some == 0 || !budget) return some;
    return budget->take(budget, batch_weight(deliveries, some), waits) ? some : 0;
}

bool batch_delivery_blocks(struct open_queue *q, const struct delivery *deliveries, size_t len,
                           struct answer_budget *budget)
{
    for (size_t i = 0; i < len; i++)
        if (deliveries[i].message.reference.name.len > 0) return true;
    return batch_reserve(q, deliveries, len, budget, false) < len;
}

enum sluice_code refuse_budget(struct sluice_error *error)
{
    enum sluice_code code =
        refuse(error, ERR_UNAVAILABLE, "",
               "the answers to other requests use all memory that this node has for answers; try "
               "again");
    if (error) (void)snprintf(error->reason, sizeof error->reason, "no-room");
    return code;
}

// Every process that moves the letter within COPY_EVERY_MS gets the same name.
static struct body_name copy_name(const struct op_arrive *a, int64_t now)
{
    struct body_name name = {.uploaded_at = now - now % COPY_EVERY_MS};
    LOCAL(buf, seed, 64);
    buf_put(&seed, bytes_of(a->source.bytes, sizeof a->source.bytes));
    buf_put_u32(&seed, a->source_shard);
    buf_put_u64(&seed, a->number);
    buf_put_i64(&seed, name.uploaded_at);
    struct hash128 random = hash128_of(buf_bytes(&seed));
    name.random[0] = random.hi;
    name.random[1] = random.lo;
    struct body_name source;
    if (body_name_parse(a->message.reference.name, &source)) name.hash = source.hash;
    return name;
}

enum err dead_letter_copy_body(struct open_queue *to, struct shard_runner *runner, struct op op,
                               struct buf *payload)
{
    struct op_arrive arrive;
    buf_clear(payload);
    if (arrive_decode(op.payload, &arrive)) return ERR_CORRUPT;
    struct body_reference *r = &arrive.message.reference;
    if (r->name.len == 0) {
        buf_put(payload, op.payload);
        return ERR_OK;
    }
    char key[BODY_KEY_MAX], name[BODY_NAME_LEN + 1], why[STORE_WHY_MAX];
    LOCAL(store_answer, answer);
    LOCAL(buf, headers, MESSAGE_HEADERS_MAX);
    key_of(&arrive.source, arrive.source_shard, r->name, key);
    enum err err = get_body(to, runner, key, r, &answer);
    bool lost = err == ERR_NOT_FOUND || err == ERR_CORRUPT;
    if (lost) {
        mark_body_lost(&arrive.message, &headers);
        err = ERR_OK;
    } else if (!err) {
        struct body_name copy = copy_name(&arrive, upload_time(runner));
        body_name_print(&copy, name);
        key_of(&to->row.id, 0, bytes_str(name), key);
        err = put_body(to, runner, key, buf_bytes(&answer.body), why);
        *r = (struct body_reference){bytes_str(name), r->len, copy.uploaded_at};
    }
    if (!err) arrive_encode(payload, &arrive);
    return err;
}

void bodies_delete_all(struct open_queue *q, uint32_t shard)
{
    char folder[BODY_KEY_MAX];
    bodies_folder(&q->row.id, shard, folder);
    struct store_answer page;
    store_answer_init(&page);
    LOCAL(store_answer, answer);
    enum err err = ERR_OK;
    do {
        const char *keys[DELETE_ROWS];
        err = store_list(q->engine->store, folder, NULL, DELETE_ROWS, &page);
        for (size_t i = 0; !err && i < page.rows_len; i++)
            keys[i] = store_row_key(&page, i);
        if (!err && page.rows_len > 0)
            err = store_delete(q->engine->store, keys, page.rows_len, &answer);
    } while (!err && page.more);
    store_answer_done(&page);
}
