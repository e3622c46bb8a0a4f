// SPDX-License-Identifier: Apache-2.0
// The bench that the tests of the queue share.
#include "rig.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rig_init(struct rig *r, const struct queue_config *config)
{
    *r = (struct rig){.queue = {"0123456789abcde"}, .config = *config};
    r->m = machine_new(&r->queue, RIG_SHARD, config);
    r->next.slot = 1;
    r->time = (struct interval){RIG_TIME, RIG_TIME};
    r->epoch = 1;
    buf_init(&r->text, (size_t)64 << 20);
    events_init(&r->events);
}

static void entry_done(struct rig_entry *e)
{
    for (size_t i = 0; i < e->ops_len; i++)
        bytes_free(e->ops[i].payload);
}

void rig_raise(struct rig *r, uint16_t to)
{
    while (machine_rules(r->m) < to) {
        struct buf b;
        buf_init(&b, 64);
        raise_encode(&b, &(struct op_raise){.to = (uint16_t)(machine_rules(r->m) + 1)});
        rig_op(r, OP_RAISE, &b);
        rig_commit(r);
    }
}

void rig_done(struct rig *r)
{
    for (size_t i = 0; i < r->log_len; i++)
        entry_done(&r->log[i]);
    entry_done(&r->next);
    memory_free(r->log);
    machine_free(r->m);
    buf_done(&r->text);
    events_done(&r->events);
}

void rig_op(struct rig *r, uint16_t kind, struct buf *payload)
{
    CHECK(r->next.ops_len < RIG_OPS_MAX);
    CHECK(!payload->bad);
    r->next.ops[r->next.ops_len++] = (struct op){kind, buf_take(payload)};
    buf_done(payload);
}

struct machine_entry rig_entry(const struct rig *r)
{
    return (struct machine_entry){.slot = r->next.slot,
                                  .time = r->time,
                                  .now = r->time.lo,
                                  .epoch = r->epoch,
                                  .bytes = {NULL, r->entry_bytes}, // only its size counts
                                  .ops = r->next.ops,
                                  .ops_len = r->next.ops_len};
}

static void keep(struct rig *r)
{
    if (r->log_len == r->log_cap) {
        r->log_cap = r->log_cap < 64 ? 64 : r->log_cap * 2;
        r->log = memory_resize(r->log, r->log_cap * sizeof *r->log);
    }
    r->log[r->log_len++] = r->next;
    r->next = (struct rig_entry){.slot = r->next.slot + 1};
}

void rig_commit(struct rig *r)
{
    struct machine_entry e = rig_entry(r);
    buf_clear(&r->text);
    events_clear(&r->events);
    machine_apply(r->m, &e, r->results, &r->text, &r->events);
    keep(r);
}

void rig_commit_void(struct rig *r)
{
    r->next.is_void = true;
    keep(r);
}

void rig_tick(struct rig *r, int64_t ms)
{
    r->time.lo += ms;
    r->time.hi += ms;
    rig_commit(r);
}

struct bytes rig_body(const struct rig *r, size_t op)
{
    return bytes_of(r->text.data + r->results[op].body_at, r->results[op].body_len);
}

enum reason rig_reason(const struct rig *r, size_t op)
{
    struct bytes body = rig_body(r, op);
    CHECK(body.len > 0);
    CHECK(r->results[op].err == reason_err((enum reason)body.data[0]));
    return (enum reason)body.data[0];
}

struct message rig_message(const struct rig *r, struct place place)
{
    uint32_t skip = place.skip;
    for (uint64_t slot = place.slot; slot < place.slot + PLACE_SPAN; slot++) {
        CHECK(slot >= 1 && slot <= r->log_len);
        const struct rig_entry *e = &r->log[slot - 1];
        CHECK(!e->is_void);
        uint32_t count = ops_messages(e->ops, e->ops_len);
        struct message found;
        size_t op;
        if (ops_message_at(e->ops, e->ops_len, skip, &found, &op)) return found;
        skip -= count;
    }
    fprintf(stderr, "no message at slot %llu after %u others\n", (unsigned long long)place.slot,
            place.skip);
    abort();
}

const struct event *rig_event(const struct rig *r, enum event_kind kind, size_t nth)
{
    for (size_t i = 0; i < r->events.len; i++)
        if (r->events.rows[i].kind == kind && nth-- == 0) return &r->events.rows[i];
    return NULL;
}

size_t rig_events(const struct rig *r, enum event_kind kind)
{
    size_t count = 0;
    while (rig_event(r, kind, count))
        count++;
    return count;
}

uint64_t rig_count(const struct rig *r, enum message_state state)
{
    struct machine_stats stats;
    machine_stats(r->m, machine_now(r->m), &stats);
    return stats.counts[state];
}

uint32_t rig_grants(const struct rig *r, size_t op, struct grant *out, uint32_t max)
{
    struct result result;
    CHECK(result_open(rig_body(r, op), OP_CLAIM, &result) == ERR_OK);
    uint32_t count = 0;
    while (count < max && grant_next(&result, &out[count]))
        count++;
    CHECK(count == result.count);
    return count;
}

struct outcome_row rig_outcome(const struct rig *r, size_t op)
{
    struct result result;
    struct outcome_row row = {0};
    CHECK(result_open(rig_body(r, op), OP_ACK, &result) == ERR_OK);
    if (!outcome_row_next(&result, &row)) row.reason = result.reason;
    return row;
}

static struct buf payload(void)
{
    struct buf b;
    buf_init(&b, (size_t)16 << 20);
    return b;
}

static void fresh_seed(struct rig *r, uint8_t seed[16])
{
    r->seed++;
    memset(seed, 0, 16);
    memcpy(seed, &r->seed, sizeof r->seed);
}

struct send_row rig_send_message(struct rig *r, const struct message *m)
{
    struct buf b = payload();
    send_begin(&b, &(struct request_id){0});
    send_add(&b, m);
    send_end(&b, 0, 1);
    rig_op(r, OP_SEND, &b);
    rig_commit(r);
    struct result result;
    struct send_row row = {0};
    CHECK(result_open(rig_body(r, 0), OP_SEND, &result) == ERR_OK);
    if (!send_row_next(&result, &row)) row.reason = result.reason;
    return row;
}

struct send_row rig_send(struct rig *r, const char *body, const char *group)
{
    struct message m = {.body = bytes_str(body)};
    if (group) m.group = bytes_str(group);
    return rig_send_message(r, &m);
}

void rig_put_claim(struct rig *r, uint16_t kind, const char *worker, uint32_t max, int64_t lease)
{
    struct buf b = payload();
    struct op_claim op = {.worker = bytes_str(worker), .max = max, .lease_ms = lease};
    fresh_seed(r, op.seed);
    claim_encode(&b, &op);
    rig_op(r, kind, &b);
}

uint32_t rig_claim_lease(struct rig *r, const char *worker, uint32_t max, int64_t lease,
                         struct grant *out)
{
    rig_put_claim(r, OP_CLAIM, worker, max, lease);
    rig_commit(r);
    return rig_grants(r, 0, out, max);
}

uint32_t rig_claim(struct rig *r, const char *worker, uint32_t max, struct grant *out)
{
    return rig_claim_lease(r, worker, max, 0, out);
}

void rig_put_word(struct rig *r, uint16_t kind, const struct grant *g, int64_t arrived_at)
{
    struct buf b = payload(), refs = payload();
    lock_ref_put(&refs, &(struct lock_ref){g->seq, g->token});
    outcome_encode(&b, &(struct op_outcome){.queue = r->queue,
                                            .shard = RIG_SHARD,
                                            .arrived_at = arrived_at,
                                            .reason = bytes_str(kind == OP_FAIL ? "boom" : ""),
                                            .count = 1,
                                            .refs = buf_bytes(&refs)});
    buf_done(&refs);
    rig_op(r, kind, &b);
}

struct outcome_row rig_word(struct rig *r, uint16_t kind, const struct grant *g)
{
    rig_put_word(r, kind, g, r->time.lo);
    rig_commit(r);
    return rig_outcome(r, 0);
}

void rig_put_worker(struct rig *r, const char *worker, uint32_t capacity, int64_t ttl)
{
    struct buf b = payload(), rows = payload();
    worker_change_put(&rows, &(struct worker_change){.act = WORKER_JOIN,
                                                     .name = bytes_str(worker),
                                                     .instance = RIG_INSTANCE,
                                                     .capacity = capacity,
                                                     .ttl_ms = ttl,
                                                     .flags = WORKER_MAILBOX});
    workers_encode(&b, &(struct op_workers){.count = 1, .rows = buf_bytes(&rows)});
    buf_done(&rows);
    rig_op(r, OP_WORKERS, &b);
}

void rig_put_publish(struct rig *r, const char *worker, uint32_t max, int64_t ticket_ms)
{
    struct buf b = payload(), rows = payload();
    struct op_publish op = {.ticket_ms = ticket_ms, .count = 1};
    ticket_row_put(&rows, &(struct ticket_row){.worker = bytes_str(worker), .max = max});
    fresh_seed(r, op.seed);
    op.rows = buf_bytes(&rows);
    publish_encode(&b, &op);
    buf_done(&rows);
    rig_op(r, OP_PUBLISH, &b);
}

void rig_put_plain(struct rig *r, uint16_t kind)
{
    struct buf b = payload();
    plain_encode(&b, &(struct op_plain){0});
    if (kind == OP_PURGE) buf_put_u8(&b, 0);
    rig_op(r, kind, &b);
}

void rig_put_configure(struct rig *r, const struct queue_config *config)
{
    struct buf b = payload();
    configure_encode(&b, &(struct op_configure){.config = *config});
    rig_op(r, OP_CONFIGURE, &b);
}

void rig_put_redrive(struct rig *r, uint32_t max)
{
    struct buf b = payload();
    redrive_encode(&b, &(struct op_redrive){.max = max});
    rig_op(r, OP_REDRIVE, &b);
}

void rig_put_arrive(struct rig *r, uint64_t number, const char *body)
{
    struct buf b = payload();
    arrive_encode(&b, &(struct op_arrive){.source = {"another queue id"},
                                          .number = number,
                                          .origin = bytes_str("orders"),
                                          .message = {.body = bytes_str(body)}});
    rig_op(r, OP_ARRIVE, &b);
}

void rig_put_outbox(struct rig *r, uint64_t upto)
{
    struct buf b = payload();
    outbox_encode(&b, &(struct op_outbox){.upto = upto});
    rig_op(r, OP_OUTBOX, &b);
}
