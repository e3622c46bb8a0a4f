// SPDX-License-Identifier: Apache-2.0
// A message that a worker holds, a sender, and the signals between them.
#pragma once

#include "rig.h"

#include <stdio.h>
#include <string.h>

#define WAIT_MS  1000
#define TICKET   77
#define LEASE_MS (INT64_C(30) * 1000)

__attribute__((unused)) static uint64_t signal_send(struct rig *r, const struct request_id *id,
                                                    enum signal_kind kind, uint64_t seq,
                                                    const char *text)
{
    static uint64_t tickets = 1000;
    CLEANUP(buf_done) struct buf payload, seqs;
    buf_init(&payload, 1 << 17);
    buf_init(&seqs, 8);
    buf_put_u64(&seqs, seq);
    bool interrupt = kind == SIGNAL_INTERRUPT;
    struct op_signal op = {.request = *id,
                           .kind = kind,
                           .flags = kind == SIGNAL_ASK ? SIGNAL_ONCE : 0,
                           .ttl_ms = interrupt ? 0 : SIGNAL_TTL_DEFAULT_MS,
                           .grace_ms = interrupt ? 5000 : 0,
                           .payload = interrupt ? BYTES_EMPTY : bytes_str(text),
                           .reason = interrupt ? bytes_str(text) : BYTES_EMPTY,
                           .count = 1,
                           .seqs = buf_bytes(&seqs)};
    signal_encode(&payload, &op);
    shard_submit(r->shard, ++tickets, (struct op){OP_SIGNAL, buf_bytes(&payload)}, TIME_NEVER,
                 rig_time(r));
    return tickets;
}

// One signal to many messages.
__attribute__((unused)) static void steer_all(struct rig *r, const struct listen_ask *asks,
                                              size_t len)
{
    static uint64_t tickets = 700000;
    CLEANUP(buf_done) struct buf payload, seqs;
    buf_init(&payload, 1 << 17);
    buf_init(&seqs, 1 << 16);
    for (size_t i = 0; i < len; i++)
        buf_put_u64(&seqs, asks[i].ref.seq);
    struct op_signal op = {.request = rig_request(),
                           .kind = SIGNAL_STEER,
                           .ttl_ms = SIGNAL_TTL_DEFAULT_MS,
                           .payload = bytes_str("{}"),
                           .count = (uint32_t)len,
                           .seqs = buf_bytes(&seqs)};
    signal_encode(&payload, &op);
    shard_submit(r->shard, ++tickets, (struct op){OP_SIGNAL, buf_bytes(&payload)}, TIME_NEVER,
                 rig_time(r));
    rig_does(r, tickets);
}

__attribute__((unused)) static struct request_id steer(struct rig *r, uint64_t seq,
                                                       const char *text)
{
    struct request_id id = rig_request();
    rig_does(r, signal_send(r, &id, SIGNAL_STEER, seq, text));
    return id;
}

__attribute__((unused)) static uint64_t settle_send(struct rig *r, const struct rig_answer *held,
                                                    uint32_t number, const char *answer)
{
    static uint64_t tickets = 500000;
    CLEANUP(buf_done) struct buf payload, rows;
    buf_init(&payload, 1 << 12);
    buf_init(&rows, 1 << 12);
    signal_answer_put(&rows, &(struct signal_answer){.ref = {held->seqs[0], held->tokens[0]},
                                                     .number = number,
                                                     .answer = bytes_str(answer)});
    struct op_signal_settle op = {.request = rig_request(),
                                  .arrived_at = rig_time(r).lo,
                                  .count = 1,
                                  .rows = buf_bytes(&rows)};
    signal_settle_encode(&payload, &op);
    shard_submit(r->shard, ++tickets, (struct op){OP_SIGNAL_SETTLE, buf_bytes(&payload)},
                 TIME_NEVER, rig_time(r));
    return tickets;
}

struct stage {
    struct store *store;
    struct rig sender, worker;
    struct rig_answer held;
};

__attribute__((unused)) static struct stage stage_with(const struct shard_config *config)
{
    struct stage s = {.store = store_mem_new()};
    s.sender = rig_on(s.store, config);
    rig_sent(&s.sender, "job");
    s.worker = rig_on(s.store, config);
    s.held = rig_claimed(&s.worker, "w", 1);
    rig_look(&s.sender);
    return s;
}

__attribute__((unused)) static struct stage stage_new(void)
{
    struct shard_config config = rig_config();
    return stage_with(&config);
}

__attribute__((unused)) static void stage_done(struct stage *s)
{
    rig_done(&s->sender);
    rig_done(&s->worker);
    store_free(s->store);
}

__attribute__((unused)) static void listen_for(struct rig *r, const struct rig_answer *held,
                                               uint32_t after, int64_t wait_ms)
{
    struct listen_ask asks[16];
    for (size_t i = 0; i < held->count; i++)
        asks[i] = (struct listen_ask){{held->seqs[i], held->tokens[i]}, after};
    struct shard_listen what = {.asks = asks, .len = held->count};
    int64_t until = rig_time(r).lo + wait_ms;
    shard_listen(r->shard, TICKET, &what, until, until + LEASE_MS, r->now);
}

__attribute__((unused)) static void wait_for_end(struct rig *r, const struct request_id *id,
                                                 uint64_t seq, int64_t wait_ms)
{
    struct shard_listen what = {.signal = *id, .seq = seq};
    int64_t until = rig_time(r).lo + wait_ms;
    shard_listen(r->shard, TICKET, &what, until, until + LEASE_MS, r->now);
}

// The answer must be there; its views are valid until the next call.
__attribute__((unused)) static struct shard_reply told(struct rig *r)
{
    struct shard_reply reply;
    assert_true(shard_next_reply(r->shard, &reply));
    assert_int_equal(reply.ticket, TICKET);
    return reply;
}

__attribute__((unused)) static void assert_row(const struct shard_reply *reply, size_t i,
                                               uint32_t number, const char *text)
{
    assert_true(i < reply->signals_len);
    const struct signal_delivery *row = &reply->signals[i];
    assert_int_equal(row->reason, REASON_NONE);
    assert_int_equal(row->view.number, number);
    assert_true(row->kept);
    assert_true(bytes_equal(row->text, bytes_str(text)));
}
