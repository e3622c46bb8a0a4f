// SPDX-License-Identifier: Apache-2.0
// One random stream: a configuration, then entries of a few ops each, applied to the machine, to a
// second machine that was loaded from a snapshot on the way, and to the model. After every entry
// all three must agree.
#include "stream_parts.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static void random_config(struct stream *s, struct queue_config *c)
{
    config_defaults(c);
    c->ordering_mode = chance(s, 50) ? ORDERING_FIFO : ORDERING_LIFO;
    c->ordering_guarantee = chance(s, 50);
    c->visibility_timeout_ms = 1 + (int64_t)below(s, 100);
    c->failure_mode = (enum failure_mode)below(s, 3);
    c->retries_max = (uint32_t)below(s, 4);
    if (c->failure_mode != FAILURE_RETRY || chance(s, 30)) strcpy(c->dead_letter_queue, "dlq");
    c->backoff = (struct backoff_config){(int64_t)below(s, 40), 1500, 60, 0};
    c->dedup_window_ms = (int64_t)below(s, 3) * 100;
    c->message_bytes_max = 64;
    c->deliveries_max = chance(s, 30) ? 1 + (uint32_t)below(s, 4) : 0;
    c->capacity = chance(s, 30) ? 5 : 200;
}

// Mostly none; else one of a few, so that they repeat, also across kinds.
struct request_id stream_request(struct stream *s)
{
    struct request_id id = {0};
    if (chance(s, 80)) return id;
    id.bytes[0] = (uint8_t)(1 + below(s, 40));
    id.bytes[15] = (uint8_t)below(s, 8);
    return id;
}

static struct bytes random_name(struct stream *s, const char *prefix, uint64_t n, char out[16])
{
    (void)snprintf(out, 16, "%s%llu", prefix, (unsigned long long)below(s, n));
    return bytes_str(out);
}

// An object that was uploaded now, or so long ago that it is about to be refused, or was; now and
// then one that was sent before.
static void refer(struct stream *s, struct message *m)
{
    bool again = s->uploads_len > 0 && chance(s, 20);
    size_t at = again ? below(s, s->uploads_len) : below(s, UPLOADS_KEPT);
    if (!again && s->uploads_len < UPLOADS_KEPT) at = s->uploads_len++;
    struct upload *u = &s->uploads[at];
    if (!again) {
        const int64_t ages[] = {0, BODY_AGE_MAX_MS - (int64_t)below(s, 300), 2 * BODY_AGE_MAX_MS};
        struct body_name name = {.uploaded_at = s->rig.time.lo - ages[below(s, 3)],
                                 .random = {rng_next(&s->rng), 7}};
        *u = (struct upload){.uploaded_at = name.uploaded_at};
        body_name_print(&name, u->name);
    }
    m->body = BYTES_EMPTY;
    m->reference = (struct body_reference){bytes_str(u->name), 10, u->uploaded_at};
}

static void add_message(struct stream *s, struct buf *b, bool odd)
{
    char body[80], group[16], dedup[16];
    memset(body, 'x', sizeof body);
    int len = snprintf(body, sizeof body, "%llu", (unsigned long long)++s->bodies);
    struct message m = {.body = bytes_of(body, (size_t)len)};
    if (chance(s, odd ? 60 : 5)) m.group = random_name(s, "g", 4, group);
    if (chance(s, odd ? 20 : 2)) m.priority = (uint8_t)below(s, 10);
    if (chance(s, odd ? 20 : 2)) {
        m.when = chance(s, 50) ? WHEN_DELAY : WHEN_DUE;
        m.when_ms = (int64_t)below(s, 100);
        if (m.when == WHEN_DUE) m.when_ms += s->rig.time.lo - 30;
        if (chance(s, 3) && m.when == WHEN_DUE) m.when_ms += 2 * DELAY_MAX_MS;
    }
    if (chance(s, 15)) m.dedup = random_name(s, "d", 12, dedup);
    if (chance(s, 2)) m.body.len = sizeof body; // too large
    if (chance(s, 8)) refer(s, &m);
    char workflow[16];
    if (chance(s, odd ? 60 : 20)) {
        if (chance(s, 90)) m.workflow = random_name(s, "f", 5, workflow);
        m.workflow_last = chance(s, 15);
        if (chance(s, 80)) m.group = BYTES_EMPTY;
    }
    send_add(b, &m);
}

static void ask_send(struct stream *s, struct buf *b)
{
    struct request_id id = stream_request(s);
    uint32_t count = (uint32_t)below(s, chance(s, 20) ? 12 : 4);
    bool odd = chance(s, 40);
    send_begin(b, &id);
    for (uint32_t i = 0; i < count; i++)
        add_message(s, b, odd);
    send_end(b, 0, count);
}

static void ask_claim(struct stream *s, struct buf *b)
{
    char name[16];
    struct op_claim op = {.request = stream_request(s),
                          .worker = random_name(s, "w", 4, name),
                          .max = (uint32_t)below(s, 6),
                          .lease_ms = chance(s, 50) ? 0 : 1 + (int64_t)below(s, 80)};
    uint64_t seed = rng_next(&s->rng);
    memcpy(op.seed, &seed, sizeof seed);
    claim_encode(b, &op);
}

static void ask_word(struct stream *s, uint16_t kind, struct buf *b)
{
    struct buf refs = payload();
    uint32_t count = (uint32_t)below(s, 4);
    for (uint32_t i = 0; i < count; i++) {
        struct lock_ref ref = {.seq = below(s, s->model->sent + 3), .token = {1, 2}};
        if (s->grants_len > 0 && chance(s, 90)) {
            const struct grant *g = &s->grants[below(s, s->grants_len)];
            ref = (struct lock_ref){g->seq, g->token};
            if (chance(s, 5)) ref.token.hi++;
        }
        lock_ref_put(&refs, &ref);
    }
    struct op_outcome op = {.request = stream_request(s),
                            .queue = s->rig.queue,
                            .shard = chance(s, 98) ? RIG_SHARD : 9,
                            .arrived_at = s->rig.time.lo - (int64_t)below(s, 60),
                            .count = count,
                            .refs = buf_bytes(&refs)};
    if (kind == OP_RENEW || kind == OP_RELEASE) op.wait_ms = (int64_t)below(s, 3) * 30;
    if (kind == OP_FAIL) op.reason = bytes_str("it did not work");
    if (chance(s, 2)) op.queue.bytes[3] ^= 1;
    struct buf extras = payload();
    op.extras = stream_extras(s, kind, count, &extras);
    outcome_encode(b, &op);
    buf_done(&refs);
    buf_done(&extras);
}

static void ask_publish(struct stream *s, struct buf *b)
{
    struct buf rows = payload();
    struct op_publish op = {.request = stream_request(s), .ticket_ms = stream_ticket_ms(s)};
    op.count = 1 + (uint32_t)below(s, 3);
    for (uint32_t i = 0; i < op.count; i++) {
        char name[16];
        ticket_row_put(&rows,
                       &(struct ticket_row){random_name(s, "w", 4, name), (uint32_t)below(s, 5)});
    }
    uint64_t seed = rng_next(&s->rng);
    memcpy(op.seed, &seed, sizeof seed);
    op.rows = buf_bytes(&rows);
    publish_encode(b, &op);
    buf_done(&rows);
}

// From none to an hour: the time of a stream passes by seconds and minutes.
static int64_t random_retention(struct stream *s)
{
    static const int64_t some[] = {0, 1, 500, 20000, 600000, 3600000};
    return some[below(s, sizeof some / sizeof *some)];
}

static void random_publish(struct stream *s, struct queue_config *c)
{
    c->publish = (enum publish)below(s, 3);
    if (c->ordering_guarantee && chance(s, 40)) c->workflow_order = WORKFLOW_ORDER_ON;
    if (chance(s, 70)) c->publish_keep_ms = 1000 + (int64_t)below(s, 600000);
    if (chance(s, 70)) c->publish_keep_bytes = UINT64_C(1) << (20 + below(s, 6));
}

static void ask_configure(struct stream *s, struct buf *b)
{
    struct op_configure op = {.request = stream_request(s), .expected = below(s, 4)};
    random_config(s, &op.config);
    if (chance(s, 90)) op.config.ordering_guarantee = s->model->config.ordering_guarantee;
    if (chance(s, 5)) op.config.shards = 2;
    if (chance(s, 5)) op.config.dead_letter_queue[0] = '\0';
    if (chance(s, 60)) op.config.consume = CONSUME_OWNER;
    if (chance(s, 30)) op.config.retention_ms = random_retention(s);
    op.config.retain_body = chance(s, 30);
    if (chance(s, 50)) random_publish(s, &op.config);
    configure_encode(b, &op);
}

// Mostly what a publisher reports, now and then something else.
static void ask_published(struct stream *s)
{
    struct buf b = payload();
    uint64_t slot = s->model->slot, events = s->model->event_count;
    uint64_t left = slot > s->model->cursor_slot ? slot - s->model->cursor_slot : 0;
    struct op_published op = {.request = stream_request(s), .slot = slot, .sequence = events};
    if (chance(s, 50)) {
        op.slot = s->model->cursor_slot + below(s, left + 1);
        op.sequence = s->model->cursor_sequence + below(s, 3);
    }
    if (chance(s, 5)) op.slot = below(s, slot + 3);
    if (chance(s, 5)) op.sequence = below(s, events + 3);
    if (chance(s, 3)) op.flags = PUBLISHED_STOP;
    published_encode(&b, &op);
    if (chance(s, 1)) b.len -= 1 + below(s, b.len);
    rig_op(&s->rig, OP_PUBLISHED, &b);
}

static void ask_redrive(struct stream *s, struct buf *b)
{
    struct buf seqs = payload();
    struct op_redrive op = {.request = stream_request(s), .max = (uint32_t)below(s, 3)};
    if (chance(s, 40)) op.count = 1 + (uint32_t)below(s, 3);
    for (uint32_t i = 0; i < op.count; i++)
        buf_put_u64(&seqs, below(s, s->model->sent + 2));
    op.seqs = buf_bytes(&seqs);
    redrive_encode(b, &op);
    buf_done(&seqs);
}

static void ask_arrive(struct stream *s, struct buf *b)
{
    char body[24], group[16];
    (void)snprintf(body, sizeof body, "%llu", (unsigned long long)++s->bodies);
    if (chance(s, 60)) s->arrivals++;
    struct op_arrive op = {.request = stream_request(s),
                           .source = {"somewhere else "},
                           .number = 1 + s->arrivals,
                           .origin = bytes_str("orders"),
                           .cause = DEAD_EXPIRED,
                           .reason = bytes_str("late"),
                           .message = {.body = bytes_str(body)}};
    if (chance(s, 30)) op.message.group = random_name(s, "g", 4, group);
    if (chance(s, 20)) op.message.priority = (uint8_t)below(s, 10);
    if (chance(s, 30)) refer(s, &op.message);
    char workflow[16];
    if (chance(s, 30)) op.message.workflow = random_name(s, "f", 5, workflow);
    arrive_encode(b, &op);
}

static void ask_rest(struct stream *s, uint16_t kind, struct buf *b)
{
    struct request_id id = stream_request(s);
    switch (kind) {
    case OP_PURGE:
        purge_encode(b, &(struct op_purge){id, chance(s, 50)});
        break;
    case OP_OUTBOX:
        outbox_encode(b, &(struct op_outbox){id, below(s, s->model->deaths + 2)});
        break;
    case OP_SPENT:
        spent_encode(b, &(struct op_spent){id, {below(s, 9), below(s, 9), below(s, 9)}});
        break;
    default:
        plain_encode(b, &(struct op_plain){id});
        break;
    }
}

static uint16_t random_kind(struct stream *s)
{
    static const struct {
        uint16_t kind;
        uint8_t weight;
    } table[] = {{OP_SEND, 60},    {OP_CLAIM, 60},    {OP_TAKE, 10},     {OP_RENEW, 15},
                 {OP_ACK, 40},     {OP_FAIL, 25},     {OP_RELEASE, 8},   {OP_PUBLISH, 15},
                 {OP_WORKERS, 20}, {OP_DISPATCH, 15}, {OP_CONFIGURE, 3}, {OP_PAUSE, 1},
                 {OP_RESUME, 4},   {OP_PURGE, 1},     {OP_REDRIVE, 6},   {OP_ARRIVE, 6},
                 {OP_OUTBOX, 6},   {OP_SPENT, 4},     {OP_KIND_END, 1}};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        sum += table[i].weight;
    uint64_t pick = below(s, sum);
    size_t i = 0;
    for (; pick >= table[i].weight; i++)
        pick -= table[i].weight;
    return table[i].kind;
}

static void ask(struct stream *s)
{
    struct buf b = payload();
    uint16_t kind = random_kind(s);
    if (kind == OP_PURGE && chance(s, 2)) kind = OP_DELETE;
    switch (kind) {
    case OP_SEND:
        ask_send(s, &b);
        break;
    case OP_CLAIM:
    case OP_TAKE:
        ask_claim(s, &b);
        break;
    case OP_RENEW:
    case OP_ACK:
    case OP_FAIL:
    case OP_RELEASE:
        ask_word(s, kind, &b);
        break;
    case OP_PUBLISH:
        ask_publish(s, &b);
        break;
    case OP_WORKERS:
        stream_ask_workers(s, &b);
        break;
    case OP_DISPATCH:
        stream_ask_dispatch(s, &b);
        break;
    case OP_CONFIGURE:
        ask_configure(s, &b);
        break;
    case OP_REDRIVE:
        ask_redrive(s, &b);
        break;
    case OP_ARRIVE:
        ask_arrive(s, &b);
        break;
    default:
        ask_rest(s, kind, &b);
        break;
    }
    if (chance(s, 1) && b.len > 0) b.len -= 1 + below(s, b.len); // damaged
    rig_op(&s->rig, kind, &b);
}

static void ask_raise(struct stream *s)
{
    struct buf b = payload();
    struct op_raise op = {stream_request(s), (uint16_t)(1 + below(s, RULES_KNOWN + 2))};
    raise_encode(&b, &op);
    if (chance(s, 5)) b.len -= 1 + below(s, b.len);
    rig_op(&s->rig, OP_RAISE, &b);
}

static bool step(struct stream *s)
{
    int64_t pass = chance(s, 60) ? (int64_t)below(s, 12) : (int64_t)below(s, 120);
    if (chance(s, 1)) pass = REQUEST_KEEP_MS / 2;
    if (chance(s, 2)) // registrations end
        pass = (int64_t)below(s, 2 * WORKER_TTL_MIN_MS);
    if (chance(s, 3)) pass = -(int64_t)below(s, 50); // the store's clock seems to step back
    s->rig.time.lo += pass;
    s->rig.time.hi = s->rig.time.lo + (int64_t)below(s, 20);
    s->rig.epoch = chance(s, 80);
    size_t ops = below(s, chance(s, 90) ? 4 : RIG_OPS_MAX);
    for (size_t i = 0; i < ops; i++)
        ask(s);
    if (s->rig.next.ops_len < RIG_OPS_MAX && chance(s, 4)) ask_raise(s);
    s->rig.entry_bytes = below(s, UINT64_C(1) << (10 + below(s, 16)));
    if (s->rig.next.ops_len < RIG_OPS_MAX && chance(s, 15)) ask_published(s);
    stream_ask_signals(s);
    if (chance(s, 3)) {
        rig_commit_void(&s->rig);
        return true;
    }
    struct machine_entry e = rig_entry(&s->rig);
    struct bytes bodies[RIG_OPS_MAX];
    struct rig_entry kept = s->rig.next;
    model_apply(s->model, &e, bodies);
    machine_apply(s->other, &e, NULL, NULL, NULL);
    rig_commit(&s->rig);
    machine_check(s->rig.m);
    bool good = stream_agrees(s, &kept, bodies);
    for (size_t i = 0; i < kept.ops_len; i++)
        bytes_free(bodies[i]);
    return good;
}

static bool run(uint64_t seed, size_t entries, uint64_t *print, char *trouble)
{
    struct stream *s = NEW(struct stream);
    s->trouble = trouble;
    rng_init(&s->rng, seed);
    struct queue_config config;
    random_config(s, &config);
    if (chance(s, 20)) config.consume = CONSUME_OWNER;
    if (chance(s, 30)) config.retention_ms = random_retention(s);
    if (chance(s, 30)) random_publish(s, &config);
    config.retain_body = chance(s, 20);
    rig_init(&s->rig, &config);
    s->model = NEW(struct model);
    model_init(s->model, &s->rig.queue, RIG_SHARD, &config);
    s->other = machine_new(&s->rig.queue, RIG_SHARD, &config);
    bool good = true;
    for (size_t i = 0; good && i < entries; i++)
        good = step(s);
    if (print) *print = s->fingerprint;
    machine_free(s->other);
    model_done(s->model);
    memory_free(s->model);
    rig_done(&s->rig);
    memory_free(s);
    return good;
}

bool stream_run(uint64_t seed, size_t entries, char trouble[STREAM_TROUBLE_MAX])
{
    return run(seed, entries, NULL, trouble);
}

uint64_t stream_fingerprint(uint64_t seed, size_t entries)
{
    char trouble[STREAM_TROUBLE_MAX];
    uint64_t fingerprint = 0;
    CHECK(run(seed, entries, &fingerprint, trouble));
    return fingerprint;
}
