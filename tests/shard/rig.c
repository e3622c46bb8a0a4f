// SPDX-License-Identifier: Apache-2.0
// Tickets and request ids are unique among all handles of a test program.
#include "rig.h"

#include "journal/snapshot.h"

#include <stdio.h>
#include <string.h>

static uint64_t numbers;

struct shard_config rig_config(void)
{
    struct shard_config c = {.queue = "tasks"};
    journal_config_defaults(&c.journal);
    (void)snprintf(c.journal.prefix, sizeof c.journal.prefix, "q/test/0");
    config_defaults(&c.birth);
    return c;
}

struct interval rig_time(struct rig *r)
{
    struct request ask = {.kind = REQUEST_GET, .key = "clock"};
    struct interval now = perform(r->store, &ask, &r->performance).time;
    if (now.hi > r->now.hi) r->now = now;
    return r->now;
}

struct rig rig_start(struct store *s, const struct shard_config *config)
{
    struct rig r = {.store = s};
    struct shard_config c = *config;
    c.journal.writer = (struct hash128){++numbers, 1}; // each handle is another writer
    c.journal.seed = numbers;
    r.shard = shard_new(&c);
    perform_buffer_init(&r.performance);
    shard_start(r.shard, rig_time(&r));
    return r;
}

struct rig rig_on(struct store *s, const struct shard_config *config)
{
    struct rig r = rig_start(s, config);
    rig_settle(&r);
    return r;
}

void rig_done(struct rig *r)
{
    shard_free(r->shard);
    perform_buffer_done(&r->performance);
}

void rig_pass(struct rig *r, int64_t ms)
{
    store_mem_step(r->store, ms);
    shard_tick(r->shard, rig_time(r));
}

bool rig_is_body_read(struct rig *r, const struct request *request)
{
    return request->kind == REQUEST_READ_LOG && request->first <= rig_slot(r);
}

bool rig_take(struct rig *r, struct request *out)
{
    if (!shard_next_request(r->shard, out)) return false;
    if (rig_is_body_read(r, out)) r->body_reads++;
    return true;
}

static struct cost cost_of_request(const struct request *request)
{
    bool reads = request->kind == REQUEST_GET || request->kind == REQUEST_READ_LOG;
    bool deletes = request->kind == REQUEST_DROP || request->kind == REQUEST_DELETE;
    return (struct cost){.writes = !reads && !deletes, .reads = reads, .deletes = deletes};
}

void rig_serve(struct rig *r, const struct request *request, enum fate fate)
{
    struct response response = {.id = request->id, .time = rig_time(r)};
    if (fate == FATE_OK) response = perform(r->store, request, &r->performance);
    if (fate == FATE_UNAVAILABLE) response.err = ERR_UNAVAILABLE;
    if (fate == FATE_NOT_FOUND) response.err = ERR_NOT_FOUND;
    if (response.time.hi > r->now.hi) r->now = response.time;
    if (r->charges) response.cost = cost_of_request(request);
    cost_add(&r->charged, &response.cost);
    shard_respond(r->shard, &response, r->now);
}

void rig_settle(struct rig *r)
{
    struct request request;
    for (int i = 0; i < RIG_LIMIT; i++) {
        if (!rig_take(r, &request)) return;
        rig_serve(r, &request, FATE_OK);
    }
    fail_msg("the dialogue does not end");
}

static struct request until(struct rig *r, bool body_read)
{
    struct request request;
    for (int i = 0; i < RIG_LIMIT && rig_take(r, &request); i++) {
        bool found = body_read ? rig_is_body_read(r, &request) : request.kind == REQUEST_APPEND;
        if (found) return request;
        rig_serve(r, &request, FATE_OK);
    }
    fail_msg("no such request was made");
    return request;
}

struct request rig_until_append(struct rig *r)
{
    return until(r, false);
}

struct request rig_until_body_read(struct rig *r)
{
    return until(r, true);
}

size_t rig_ops_in(const struct request *append, uint16_t kind)
{
    struct entry e;
    const char *why;
    size_t count = 0;
    assert_int_equal(append->kind, REQUEST_APPEND);
    assert_int_equal(entry_decode(append->body, &e, &why), ERR_OK);
    for (size_t i = 0; i < e.ops_len; i++)
        count += e.ops[i].kind == kind;
    entry_done(&e);
    return count;
}

void rig_look(struct rig *r)
{
    shard_catch_up(r->shard, rig_time(r));
    rig_settle(r);
}

static void do_request(struct rig *r, const struct request *request)
{
    assert_int_equal(perform(r->store, request, &r->performance).err, ERR_OK);
}

void rig_floor(struct rig *r, uint64_t slot)
{
    CLEANUP(buf_done) struct buf body;
    buf_init(&body, FLOOR_LEN);
    struct floor f = {.index = 1, .slot = slot, .time = rig_time(r).lo};
    floor_encode(&f, &body);
    do_request(r, &(struct request){.kind = REQUEST_PUT_NEW,
                                    .key = "q/test/0/floor/00000000000000000001",
                                    .body = buf_bytes(&body)});
}

void rig_create_again(struct rig *r, uint64_t slot, const char *body)
{
    CLEANUP(buf_done) struct buf payload, entry;
    buf_init(&payload, 1 << 12);
    buf_init(&entry, 1 << 12);
    send_begin(&payload, &(struct request_id){{0}});
    send_add(&payload, &(struct message){.body = bytes_str(body)});
    send_end(&payload, 0, 1);
    struct op op = {.kind = OP_SEND, .payload = buf_bytes(&payload)};
    struct entry e = {.slot = slot,
                      .writer = {.hi = 99},
                      .sequence = 1,
                      .time = rig_time(r),
                      .ops = &op,
                      .ops_len = 1};
    entry_encode(&e, &entry);
    struct request drop = {
        .kind = REQUEST_DROP, .key = "q/test/0/log", .first = slot, .last = slot};
    do_request(r, &drop);
    do_request(r, &(struct request){.kind = REQUEST_APPEND,
                                    .key = "q/test/0/log",
                                    .first = slot,
                                    .body = buf_bytes(&entry)});
}

uint64_t rig_slot(struct rig *r)
{
    return journal_slot(shard_journal(r->shard));
}

static void keep_delivery(struct rig_answer *out, size_t i, const struct delivery *d)
{
    out->seqs[i] = d->grant.seq;
    out->tokens[i] = d->grant.token;
    (void)snprintf(out->bodies[i], RIG_TEXT, "%.*s", (int)d->message.body.len,
                   (const char *)d->message.body.data);
}

bool rig_answered(struct rig *r, uint64_t ticket, struct rig_answer *out)
{
    struct shard_reply reply;
    *out = (struct rig_answer){0};
    if (!shard_next_reply(r->shard, &reply)) return false;
    assert_int_equal(reply.ticket, ticket);
    out->err = reply.err;
    out->count = reply.deliveries_len;
    for (size_t i = 0; i < reply.deliveries_len && i < 16; i++)
        keep_delivery(out, i, &reply.deliveries[i]);
    struct result result;
    struct send_row row;
    if (reply.body.len > 0) out->reason = (enum reason)reply.body.data[0];
    bool sent = reply.deliveries_len == 0 && result_open(reply.body, OP_SEND, &result) == ERR_OK;
    if (sent && send_row_next(&result, &row)) out->seq = row.seq;
    return true;
}

struct rig_answer rig_answer(struct rig *r, uint64_t ticket)
{
    struct rig_answer answer;
    assert_true(rig_answered(r, ticket, &answer));
    return answer;
}

void rig_no_answer(struct rig *r)
{
    struct shard_reply reply;
    assert_false(shard_next_reply(r->shard, &reply));
}

struct request_id rig_request(void)
{
    struct request_id id = {{0}};
    uint64_t n = ++numbers;
    memcpy(id.bytes, &n, sizeof n);
    return id;
}

static uint64_t submit(struct rig *r, uint16_t kind, struct buf *payload)
{
    assert_false(payload->bad);
    uint64_t ticket = ++numbers;
    struct op op = {.kind = kind, .payload = buf_bytes(payload)};
    shard_submit(r->shard, ticket, op, TIME_NEVER, rig_time(r));
    return ticket;
}

uint64_t rig_send_as(struct rig *r, const struct request_id *request, const char *const *bodies,
                     uint32_t count, const char *dedup)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 16);
    send_begin(&payload, request);
    for (uint32_t i = 0; i < count; i++)
        send_add(&payload,
                 &(struct message){.body = bytes_str(bodies[i]), .dedup = bytes_str(dedup)});
    send_end(&payload, 0, count);
    return submit(r, OP_SEND, &payload);
}

uint64_t rig_send(struct rig *r, const char *body)
{
    struct request_id request = rig_request();
    return rig_send_as(r, &request, &body, 1, "");
}

uint64_t rig_send_delayed(struct rig *r, const char *body, int64_t delay_ms)
{
    struct request_id request = rig_request();
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 12);
    send_begin(&payload, &request);
    send_add(&payload,
             &(struct message){.body = bytes_str(body), .when = WHEN_DELAY, .when_ms = delay_ms});
    send_end(&payload, 0, 1);
    return submit(r, OP_SEND, &payload);
}

uint64_t rig_receive_as(struct rig *r, const struct request_id *request, const char *worker,
                        uint32_t max, int64_t wait_ms, int64_t patience_ms)
{
    uint64_t ticket = ++numbers;
    struct op_claim claim = {.request = *request, .worker = bytes_str(worker), .max = max};
    memcpy(claim.seed, &ticket, sizeof ticket);
    int64_t wait_until = rig_time(r).lo + wait_ms;
    shard_receive(r->shard, ticket, &claim, wait_until, wait_until + patience_ms, r->now);
    return ticket;
}

uint64_t rig_receive(struct rig *r, const char *worker, uint32_t max, int64_t wait_ms)
{
    struct request_id request = rig_request();
    return rig_receive_as(r, &request, worker, max, wait_ms, 60000);
}

uint64_t rig_fetch(struct rig *r, struct place place)
{
    uint64_t ticket = ++numbers;
    int64_t deadline = rig_time(r).lo + 60000;
    shard_fetch(r->shard, ticket, &place, 1, deadline, r->now);
    return ticket;
}

uint64_t rig_letters(struct rig *r)
{
    uint64_t ticket = ++numbers;
    int64_t deadline = rig_time(r).lo + 60000;
    shard_dead_letters(r->shard, ticket, deadline, r->now);
    return ticket;
}

static void word_put(struct rig *r, const struct rig_answer *held, const char *why,
                     struct buf *payload)
{
    CLEANUP(buf_done) struct buf refs;
    buf_init(&refs, 16 * LOCK_REF_BYTES);
    for (size_t i = 0; i < held->count; i++)
        lock_ref_put(&refs, &(struct lock_ref){held->seqs[i], held->tokens[i]});
    struct op_outcome op = {.request = rig_request(),
                            .arrived_at = rig_time(r).lo,
                            .reason = bytes_str(why),
                            .count = (uint32_t)held->count,
                            .refs = buf_bytes(&refs)};
    outcome_encode(payload, &op);
}

uint64_t rig_word(struct rig *r, uint16_t kind, const struct rig_answer *held, const char *why)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 12);
    word_put(r, held, why, &payload);
    return submit(r, kind, &payload);
}

uint64_t rig_receive_acking(struct rig *r, const struct rig_answer *held, int64_t wait_ms)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 12);
    word_put(r, held, "", &payload);
    uint64_t ack = ++numbers, ticket = ++numbers;
    struct op_claim claim = {.request = rig_request(), .worker = bytes_str("one"), .max = 1};
    memcpy(claim.seed, &ticket, sizeof ticket);
    int64_t wait_until = rig_time(r).lo + wait_ms;
    shard_receive_after(r->shard, ack, (struct op){OP_ACK, buf_bytes(&payload)}, ticket, &claim,
                        wait_until, r->now.hi + 60000, wait_until + 60000, r->now);
    return ticket;
}

uint64_t rig_worker(struct rig *r, const char *name, uint32_t capacity, int64_t ttl_ms)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 12);
    CLEANUP(buf_done) struct buf rows;
    buf_init(&rows, 1 << 12);
    worker_change_put(&rows, &(struct worker_change){.act = WORKER_JOIN,
                                                     .name = bytes_str(name),
                                                     .instance = 1,
                                                     .capacity = capacity,
                                                     .ttl_ms = ttl_ms});
    workers_encode(&payload, &(struct op_workers){rig_request(), 1, buf_bytes(&rows)});
    return submit(r, OP_WORKERS, &payload);
}

uint64_t rig_plain(struct rig *r, uint16_t kind)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 12);
    plain_encode(&payload, &(struct op_plain){.request = rig_request()});
    return submit(r, kind, &payload);
}

uint64_t rig_purge(struct rig *r)
{
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 1 << 12);
    purge_encode(&payload, &(struct op_purge){.request = rig_request()});
    return submit(r, OP_PURGE, &payload);
}

uint64_t rig_own(struct rig *r, uint64_t token)
{
    uint64_t ticket = ++numbers;
    struct journal_owner owner = {.coord = "steps", .token = token};
    shard_own(r->shard, ticket, token - 1, &owner, TIME_NEVER, rig_time(r));
    return ticket;
}

void rig_does(struct rig *r, uint64_t ticket)
{
    rig_settle(r);
    assert_int_equal(rig_answer(r, ticket).err, ERR_OK);
}

uint64_t rig_sent(struct rig *r, const char *body)
{
    uint64_t ticket = rig_send(r, body);
    rig_settle(r);
    struct rig_answer answer = rig_answer(r, ticket);
    assert_int_equal(answer.err, ERR_OK);
    return answer.seq;
}

struct rig_answer rig_claimed(struct rig *r, const char *worker, uint32_t max)
{
    uint64_t ticket = rig_receive(r, worker, max, 0);
    rig_settle(r);
    struct rig_answer answer = rig_answer(r, ticket);
    assert_int_equal(answer.err, ERR_OK);
    return answer;
}
