// SPDX-License-Identifier: Apache-2.0
// Any bytes as the life of a queue with registered workers, at version 4 of the rules: each two
// bytes are an op with its numbers. The state stays sound, saves and loads as itself, and the
// loaded machine goes on in the same way. The bytes are also read as the ops of workers.
#include "base/check.h"
#include "base/memory.h"
#include "fuzz.h"
#include "queue/core/machine.h"

#include <stdio.h>
#include <string.h>

#define STEPS_MAX   24 // a thousand inputs a second find more than long ones
#define CHECK_EVERY 8
#define HELD_MAX    16
#define BUFFER_MAX  ((size_t)4 << 20)

struct life {
    struct queue_id id;
    struct queue_config config;
    struct machine *m;
    struct machine *copy; // loaded from a snapshot on the way; NULL: none yet
    struct lock_ref held[HELD_MAX];
    size_t held_len;
    uint64_t slot;
    int64_t now;
};

static const char *const labels[] = {"", "a=1", "b=2", "a=1,b=2"};
static const char *const names[] = {"w0", "w1", "w2", "w3"};
static const char *const groups[] = {"", "g", "h", "i"};

static void keep_grants(struct life *l, uint16_t kind, struct bytes body)
{
    struct result r;
    struct grant g;
    CHECK(!result_open(body, kind, &r));
    bool grants = kind == OP_CLAIM || kind == OP_TAKE || kind == OP_DISPATCH;
    while (grants && grant_next(&r, &g))
        l->held[l->held_len++ % HELD_MAX] = (struct lock_ref){g.seq, g.token};
}

// A wrong state stays wrong, so it need not be checked after every entry.
static void check_both(const struct life *l)
{
    machine_check(l->m);
    if (!l->copy) return;
    machine_check(l->copy);
    CHECK(machine_digest(l->copy) == machine_digest(l->m));
}

static void apply(struct life *l, uint16_t kind, const struct buf *payload, uint64_t epoch)
{
    struct op op = {kind, buf_bytes(payload)};
    struct op_result result;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, BUFFER_MAX);
    struct machine_entry e = {.slot = ++l->slot,
                              .time = {l->now, l->now + 5},
                              .now = l->now,
                              .epoch = epoch,
                              .ops = &op,
                              .ops_len = 1};
    machine_apply(l->m, &e, &result, &text, NULL);
    keep_grants(l, kind, bytes_of(text.data + result.body_at, result.body_len));
    if (l->copy) machine_apply(l->copy, &e, NULL, NULL, NULL);
    if (l->slot % CHECK_EVERY == 0) check_both(l);
}

static void put_change(struct buf *out, uint8_t a, uint8_t b)
{
    CLEANUP(buf_done) struct buf rows;
    buf_init(&rows, BUFFER_MAX);
    struct worker_change c = {.act = (enum worker_act)(a % WORKER_ACT_COUNT),
                              .name = bytes_str(names[b & 3])};
    if (c.act < WORKER_PAUSE) c.instance = 1 + (b >> 2 & 1);
    if (c.act == WORKER_JOIN) {
        c.capacity = 1 + (b >> 3 & 3);
        c.ttl_ms = WORKER_TTL_MIN_MS + (b >> 5) * 4000;
        c.flags = a >> 4 & 1;
        c.labels = bytes_str(labels[a >> 5 & 3]);
    }
    worker_change_put(&rows, &c);
    workers_encode(out, &(struct op_workers){{{0}}, 1, buf_bytes(&rows)});
}

static void put_send(struct buf *out, const struct life *l, uint8_t b)
{
    struct message m = {.body = bytes_str("x"),
                        .group = bytes_str(groups[b & 3]),
                        .requires = bytes_str(labels[b >> 2 & 3])};
    if (!l->config.ordering_guarantee) m.priority = b >> 4 & 3;
    if (!l->config.ordering_guarantee && b >> 6 == 3) m.when = WHEN_DELAY, m.when_ms = 700;
    send_begin(out, &(struct request_id){{0}});
    send_add(out, &m);
    send_end(out, 0, 1);
}

static void put_outcome(struct buf *out, const struct life *l, uint8_t b)
{
    CLEANUP(buf_done) struct buf refs;
    buf_init(&refs, BUFFER_MAX);
    size_t kept = l->held_len < HELD_MAX ? l->held_len : HELD_MAX;
    if (kept > 0) lock_ref_put(&refs, &l->held[b % kept]);
    outcome_encode(out, &(struct op_outcome){.queue = l->id,
                                             .arrived_at = l->now,
                                             .count = kept > 0,
                                             .refs = buf_bytes(&refs)});
}

static void reload(struct life *l)
{
    CLEANUP(buf_done) struct buf saved;
    buf_init(&saved, BUFFER_MAX);
    machine_save(l->m, &saved);
    if (!l->copy) l->copy = machine_new(&l->id, 0, &l->config);
    CHECK(!machine_load(l->copy, buf_bytes(&saved)));
    CHECK(machine_digest(l->copy) == machine_digest(l->m));
}

static void configure(struct life *l, struct buf *out, uint8_t b)
{
    struct op_configure op = {.config = l->config};
    op.config.dispatch = (enum dispatch)(b % 3);
    op.config.ordering_mode = (enum ordering_mode)(b >> 2 & 1);
    configure_encode(out, &op);
}

static void step(struct life *l, uint8_t a, uint8_t b)
{
    CLEANUP(buf_done) struct buf out;
    buf_init(&out, BUFFER_MAX);
    uint16_t kind = OP_WORKERS;
    switch (a & 15) {
    case 0: // time passes
        l->now += (int64_t)b * 100;
        return;
    case 1:
        reload(l);
        return;
    case 2:
        configure(l, &out, b);
        kind = OP_CONFIGURE;
        break;
    case 3:
    case 4:
    case 5:
        put_send(&out, l, b);
        kind = OP_SEND;
        break;
    case 6:
    case 7:
        dispatch_encode(&out, &(struct op_dispatch){.max = 1 + (b & 7), .ticket_ms = b * 10});
        kind = OP_DISPATCH;
        break;
    case 8:
    case 9:
        claim_encode(&out, &(struct op_claim){.worker = bytes_str(names[b & 3]), .max = b >> 5});
        kind = a & 16 ? OP_TAKE : OP_CLAIM;
        break;
    case 10:
    case 11:
        put_outcome(&out, l, b);
        kind = (uint16_t)(OP_RENEW + (a >> 4 & 3));
        break;
    default:
        put_change(&out, a >> 4, b);
        break;
    }
    apply(l, kind, &out, a & 128 ? 0 : 1);
}

static void read_as_ops(struct bytes input)
{
    struct op_workers workers;
    struct op_dispatch dispatch;
    CLEANUP(buf_done) struct buf again;
    buf_init(&again, BUFFER_MAX);
    if (workers_decode(input, &workers) == ERR_OK) {
        workers_encode(&again, &workers);
        CHECK(bytes_equal(buf_bytes(&again), input)); // each op has one encoding
    } else if (dispatch_decode(input, &dispatch) == ERR_OK) {
        dispatch_encode(&again, &dispatch);
        CHECK(bytes_equal(buf_bytes(&again), input));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    read_as_ops(bytes_of(data, len));
    if (len < 1) return 0;
    struct life l = {.id = {"a fleet queue"}, .now = 1000};
    config_defaults(&l.config);
    l.config.ordering_guarantee = data[0] & 1;
    l.config.dispatch = data[0] & 1 ? DISPATCH_AFFINITY : DISPATCH_TICKETS;
    if (data[0] & 2) l.config.ordering_mode = ORDERING_LIFO;
    l.m = machine_new(&l.id, 0, &l.config);
    for (size_t i = 1; i + 1 < len && i < 2 * STEPS_MAX; i += 2)
        step(&l, data[i], data[i + 1]);
    check_both(&l);
    reload(&l);
    machine_free(l.m);
    machine_free(l.copy);
    return 0;
}
