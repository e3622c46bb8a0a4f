// SPDX-License-Identifier: Apache-2.0
// One random stream: a configuration, then entries of a few ops each, applied to the machine, to a
// second machine that was loaded from a snapshot on the way, and to the model. After every entry
// all three must agree.
#include "stream.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "model.h"
#include "queue/body_name.h"
#include "rig.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GRANTS_KEPT  48
#define UPLOADS_KEPT 24

// A body that was uploaded, and whether it was seen to be free.
struct upload {
    char name[BODY_NAME_LEN + 1];
    int64_t uploaded_at;
    bool freed;
};

struct stream {
    struct rng rng;
    struct rig rig;
    struct model *model;
    struct machine *other; // loaded from a snapshot, then fed the same tail
    struct grant grants[GRANTS_KEPT];
    size_t grants_len;
    uint64_t bodies;
    struct upload uploads[UPLOADS_KEPT];
    size_t uploads_len;
    uint64_t arrivals;
    uint16_t raises; // up to this version of the rules; 0: never
    uint64_t fingerprint;
    char *trouble;
};

static uint64_t below(struct stream *s, uint64_t n)
{
    return rng_below(&s->rng, n);
}

static bool chance(struct stream *s, uint32_t percent)
{
    return below(s, 100) < percent;
}

__attribute__((format(printf, 2, 3))) static bool differ(struct stream *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = snprintf(s->trouble, STREAM_TROUBLE_MAX,
                       "slot %llu: ", (unsigned long long)machine_slot(s->rig.m));
    (void)vsnprintf(s->trouble + len, STREAM_TROUBLE_MAX - (size_t)len, format, args);
    va_end(args);
    return false;
}

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

static struct buf payload(void)
{
    struct buf b;
    buf_init(&b, (size_t)1 << 20);
    return b;
}

// Mostly none; else one of a few, so that they repeat, also across kinds.
static struct request_id random_request(struct stream *s)
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
    send_add(b, &m);
}

static void ask_send(struct stream *s, struct buf *b)
{
    struct request_id id = random_request(s);
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
    struct op_claim op = {.request = random_request(s),
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
    struct op_outcome op = {.request = random_request(s),
                            .queue = s->rig.queue,
                            .shard = chance(s, 98) ? RIG_SHARD : 9,
                            .arrived_at = s->rig.time.lo - (int64_t)below(s, 60),
                            .count = count,
                            .refs = buf_bytes(&refs)};
    if (kind == OP_RENEW || kind == OP_RELEASE) op.wait_ms = (int64_t)below(s, 3) * 30;
    if (kind == OP_FAIL) op.reason = bytes_str("it did not work");
    if (chance(s, 2)) op.queue.bytes[3] ^= 1;
    outcome_encode(b, &op);
    buf_done(&refs);
}

static void ask_publish(struct stream *s, struct buf *b)
{
    struct buf rows = payload();
    struct op_publish op = {.request = random_request(s), .ticket_ms = (int64_t)below(s, 50)};
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

static void ask_configure(struct stream *s, struct buf *b)
{
    struct op_configure op = {.request = random_request(s), .expected = below(s, 4)};
    random_config(s, &op.config);
    if (chance(s, 90)) op.config.ordering_guarantee = s->model->config.ordering_guarantee;
    if (chance(s, 5)) op.config.shards = 2;
    if (chance(s, 5)) op.config.dead_letter_queue[0] = '\0';
    if (s->raises && chance(s, 60)) op.config.consume = CONSUME_OWNER;
    configure_encode(b, &op);
}

static void ask_redrive(struct stream *s, struct buf *b)
{
    struct buf seqs = payload();
    struct op_redrive op = {.request = random_request(s), .max = (uint32_t)below(s, 3)};
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
    struct op_arrive op = {.request = random_request(s),
                           .source = {"somewhere else "},
                           .number = 1 + s->arrivals,
                           .origin = bytes_str("orders"),
                           .cause = DEAD_EXPIRED,
                           .reason = bytes_str("late"),
                           .message = {.body = bytes_str(body)}};
    if (chance(s, 30)) op.message.group = random_name(s, "g", 4, group);
    if (chance(s, 20)) op.message.priority = (uint8_t)below(s, 10);
    if (chance(s, 30)) refer(s, &op.message);
    arrive_encode(b, &op);
}

static void ask_rest(struct stream *s, uint16_t kind, struct buf *b)
{
    char name[16];
    struct request_id id = random_request(s);
    switch (kind) {
    case OP_RECOVER:
        recover_encode(b, &(struct op_recover){id, random_name(s, "w", 4, name)});
        break;
    case OP_WORKER:
        worker_encode(b, &(struct op_worker){id, random_name(s, "w", 4, name),
                                             (uint32_t)below(s, 5), 20 + (int64_t)below(s, 300)});
        break;
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
    } table[] = {{OP_SEND, 60},   {OP_CLAIM, 60},  {OP_TAKE, 10},     {OP_RENEW, 15},
                 {OP_ACK, 40},    {OP_FAIL, 25},   {OP_RELEASE, 8},   {OP_PUBLISH, 15},
                 {OP_RECOVER, 4}, {OP_WORKER, 20}, {OP_CONFIGURE, 3}, {OP_PAUSE, 1},
                 {OP_RESUME, 4},  {OP_PURGE, 1},   {OP_REDRIVE, 6},   {OP_ARRIVE, 6},
                 {OP_OUTBOX, 6},  {OP_SPENT, 4},   {OP_KIND_END, 1}};
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

// Two places are the same if they lead to the same bytes.
static bool same_place(struct stream *s, struct place machine, struct place model)
{
    if (machine.slot == 0 || model.slot == 0) return machine.slot == model.slot;
    struct message a = rig_message(&s->rig, machine), b = rig_message(&s->rig, model);
    return a.body.data == b.body.data && a.reference.name.data == b.reference.name.data;
}

static bool same_grants(struct stream *s, size_t op, struct bytes expected)
{
    struct result a, b;
    struct grant x, y;
    if (result_open(rig_body(&s->rig, op), OP_CLAIM, &a) != ERR_OK) return false;
    if (result_open(expected, OP_CLAIM, &b) != ERR_OK) return false;
    if (a.reason != b.reason || a.count != b.count) return false;
    while (grant_next(&a, &x) && grant_next(&b, &y)) {
        if (!same_place(s, x.place, y.place)) return false;
        y.place = x.place;
        struct buf one = payload(), two = payload();
        grant_put(&one, &x);
        grant_put(&two, &y);
        bool same = bytes_equal(buf_bytes(&one), buf_bytes(&two));
        buf_done(&one);
        buf_done(&two);
        if (!same) return false;
        if (s->grants_len < GRANTS_KEPT) s->grants_len++;
        s->grants[s->grants_len < GRANTS_KEPT ? s->grants_len - 1 : below(s, GRANTS_KEPT)] = x;
    }
    return true;
}

static bool same_results(struct stream *s, const struct rig_entry *e, const struct bytes *bodies)
{
    for (size_t i = 0; i < e->ops_len; i++) {
        uint16_t kind = e->ops[i].kind;
        bool grants = kind == OP_CLAIM || kind == OP_TAKE || kind == OP_PUBLISH;
        bool same =
            grants ? same_grants(s, i, bodies[i]) : bytes_equal(rig_body(&s->rig, i), bodies[i]);
        if (!same)
            return differ(s, "op %zu of kind %u: machine says %s, model %s", i, kind,
                          reason_name((enum reason)rig_body(&s->rig, i).data[0]),
                          reason_name((enum reason)bodies[i].data[0]));
    }
    return true;
}

static bool same_event(struct stream *s, const struct event *x, const struct event *y)
{
    if (!bytes_equal(event_worker(&s->rig.events, x), event_worker(&s->model->events, y)))
        return false;
    if (!same_place(s, x->place, y->place)) return false;
    struct event a = *x, b = *y;
    a.place = b.place = (struct place){0, 0};
    a.worker_at = b.worker_at = 0;
    return a.slot == b.slot && a.op == b.op && a.n == b.n && a.kind == b.kind &&
           a.status == b.status && a.reason == b.reason && a.at == b.at && a.seq == b.seq &&
           a.deliveries == b.deliveries && a.retries == b.retries && a.fence == b.fence &&
           a.until == b.until && a.order == b.order && a.count == b.count && a.from == b.from &&
           a.sequence == b.sequence;
}

static bool same_events(struct stream *s)
{
    const struct events *a = &s->rig.events, *b = &s->model->events;
    for (size_t i = 0; i < a->len && i < b->len; i++)
        if (!same_event(s, &a->rows[i], &b->rows[i]))
            return differ(s, "event %zu: machine %s of %llu, model %s of %llu", i,
                          event_name(a->rows[i].kind), (unsigned long long)a->rows[i].seq,
                          event_name(b->rows[i].kind), (unsigned long long)b->rows[i].seq);
    return a->len == b->len ||
           differ(s, "%zu events in the machine, %zu in the model", a->len, b->len);
}

static bool same_message(struct stream *s, uint64_t seq)
{
    const struct model_message *x = &s->model->messages[seq - 1];
    struct message_view v;
    enum err err = machine_find(s->rig.m, seq, machine_now(s->rig.m), &v);
    bool gone = x->state == STATE_PROCESSED || x->state == STATE_MOVED ||
                x->state == STATE_REDRIVEN || x->state == STATE_PURGED;
    if (gone != (err == ERR_CONFLICT)) return differ(s, "message %llu", (unsigned long long)seq);
    if (gone) return true;
    if (!machine_needs(s->rig.m, x->slot, x->slot))
        return differ(s, "slot %llu is needed", (unsigned long long)x->slot);
    if (v.state == x->state && v.retries == x->retries && v.deliveries == x->deliveries &&
        v.priority == x->priority && same_place(s, v.place, (struct place){x->slot, x->ordinal}))
        return true;
    return differ(s, "message %llu is %s in the machine, %s in the model", (unsigned long long)seq,
                  message_state_name(v.state), message_state_name(x->state));
}

static bool same_costs(struct stream *s)
{
    struct machine_spent spent;
    machine_spent(s->rig.m, machine_now(s->rig.m), &spent);
    if (memcmp(&spent.total, &s->model->spent, sizeof spent.total) == 0) return true;
    return differ(s, "the books");
}

static bool same_state(struct stream *s)
{
    struct machine_stats stats;
    machine_stats(s->rig.m, machine_now(s->rig.m), &stats);
    if (stats.sent != s->model->sent) return differ(s, "sent");
    if (stats.refused != s->model->refused) return differ(s, "refused claims");
    uint64_t live = 0;
    for (size_t i = 0; i < STATE_COUNT; i++) {
        uint64_t expected = model_count(s->model, (enum message_state)i);
        if (i <= STATE_LOCKED || i == STATE_DEAD || i == STATE_OUTBOUND) live += expected;
        if (stats.counts[i] != expected)
            return differ(s, "%s: %llu in the machine, %llu in the model",
                          message_state_name((enum message_state)i),
                          (unsigned long long)stats.counts[i], (unsigned long long)expected);
    }
    if (live == 0 && machine_needs(s->rig.m, 1, machine_slot(s->rig.m)))
        return differ(s, "needless slots");
    if (machine_wake_at(s->rig.m) != model_wake_at(s->model)) return differ(s, "wake_at");
    if (!same_costs(s)) return false;
    if (machine_rules(s->rig.m) != s->model->rules) return differ(s, "the version of the rules");
    if (machine_event_count(s->rig.m) != s->model->event_count) return differ(s, "event count");
    for (uint64_t seq = 1; seq <= s->model->sent; seq++)
        if ((chance(s, 10) || seq + 8 > s->model->sent) && !same_message(s, seq)) return false;
    return true;
}

// They agree about which bodies are referred to, and a body that was free once stays free.
static bool same_bodies(struct stream *s)
{
    for (size_t i = 0; i < s->uploads_len; i++) {
        struct upload *u = &s->uploads[i];
        struct bytes name = bytes_str(u->name);
        enum body_hold mine = machine_holds(s->rig.m, name), model = model_holds(s->model, name);
        if (mine != model || machine_holds(s->other, name) != model)
            return differ(s, "body %s: hold %d in the machine, %d in the model", u->name, (int)mine,
                          (int)model);
        if (u->freed && mine != BODY_FREE) return differ(s, "body %s came back", u->name);
        u->freed = mine == BODY_FREE;
    }
    return true;
}

// Everything that another process can notice of the fold.
static void note_fingerprint(struct stream *s, struct bytes saved)
{
    uint64_t h = hash64_mix(s->fingerprint, machine_digest(s->rig.m));
    h = hash64_mix(h, hash64_of(saved, 0));
    for (size_t i = 0; i < s->rig.events.len; i++) {
        const struct event *e = &s->rig.events.rows[i];
        const uint64_t of[] = {e->slot,         e->op,      e->n,      e->kind,  e->seq,
                               e->deliveries,   e->retries, e->status, e->fence, (uint64_t)e->until,
                               (uint64_t)e->at, e->count};
        for (size_t k = 0; k < sizeof of / sizeof *of; k++)
            h = hash64_mix(h, of[k]);
    }
    s->fingerprint = h;
}

// fold(all) == fold(snapshot + tail), and a snapshot of either is the same bytes.
static bool same_snapshots(struct stream *s)
{
    struct buf saved, again;
    buf_init(&saved, (size_t)64 << 20);
    buf_init(&again, (size_t)64 << 20);
    machine_save(s->rig.m, &saved);
    machine_save(s->other, &again);
    bool same = bytes_equal(buf_bytes(&saved), buf_bytes(&again)) &&
                machine_digest(s->rig.m) == machine_digest(s->other);
    struct machine *loaded = machine_new(&s->rig.queue, RIG_SHARD, &s->rig.config);
    bool good = machine_load(loaded, buf_bytes(&saved)) == ERR_OK;
    if (good) machine_check(loaded);
    note_fingerprint(s, buf_bytes(&saved));
    if (chance(s, 20)) {
        struct machine *old = s->other;
        s->other = loaded;
        loaded = old;
    }
    machine_free(loaded);
    buf_done(&saved);
    buf_done(&again);
    return (same || differ(s, "the fold from a snapshot differs")) &&
           (good || differ(s, "a snapshot cannot be loaded"));
}

static void ask_raise(struct stream *s)
{
    struct buf b = payload();
    struct op_raise op = {random_request(s), (uint16_t)(1 + below(s, s->raises + 1))};
    if (op.to > s->raises) op.to = RULES_KNOWN + 1;
    raise_encode(&b, &op);
    if (chance(s, 5)) b.len -= 1 + below(s, b.len);
    rig_op(&s->rig, OP_RAISE, &b);
}

static bool step(struct stream *s)
{
    int64_t pass = chance(s, 60) ? (int64_t)below(s, 12) : (int64_t)below(s, 120);
    if (chance(s, 1)) pass = REQUEST_KEEP_MS / 2;
    if (chance(s, 3)) pass = -(int64_t)below(s, 50); // the store's clock seems to step back
    s->rig.time.lo += pass;
    s->rig.time.hi = s->rig.time.lo + (int64_t)below(s, 20);
    s->rig.epoch = chance(s, 80);
    size_t ops = below(s, chance(s, 90) ? 4 : RIG_OPS_MAX);
    for (size_t i = 0; i < ops; i++)
        ask(s);
    if (s->raises && s->rig.next.ops_len < RIG_OPS_MAX && chance(s, 4)) ask_raise(s);
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
    bool good = same_results(s, &kept, bodies) && same_events(s) && same_state(s) &&
                same_bodies(s) && same_snapshots(s);
    for (size_t i = 0; i < kept.ops_len; i++)
        bytes_free(bodies[i]);
    return good;
}

static bool run(uint64_t seed, size_t entries, uint16_t raises, uint64_t *print, char *trouble)
{
    struct stream *s = NEW(struct stream);
    s->trouble = trouble;
    s->raises = raises;
    rng_init(&s->rng, seed);
    struct queue_config config;
    random_config(s, &config);
    if (raises && chance(s, 20)) config.consume = CONSUME_OWNER;
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
    return run(seed, entries, 0, NULL, trouble);
}

bool stream_run_raised(uint64_t seed, size_t entries, char trouble[STREAM_TROUBLE_MAX])
{
    return run(seed, entries, RULES_KNOWN, NULL, trouble);
}

uint64_t stream_fingerprint(uint64_t seed, size_t entries, uint16_t raises)
{
    char trouble[STREAM_TROUBLE_MAX];
    uint64_t fingerprint = 0;
    CHECK(run(seed, entries, raises, &fingerprint, trouble));
    return fingerprint;
}
