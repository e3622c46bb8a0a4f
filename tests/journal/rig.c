// SPDX-License-Identifier: Apache-2.0
// One or two handles on a store in memory.
#include "rig.h"

#include <stdio.h>
#include <string.h>

const struct journal_rules rig_rules = {.session_ttl_ms = 86400000,
                                        .sessions_max = 16,
                                        .digest_every = 4,
                                        .verify_ms = 60000,
                                        .retain_ms = 300000,
                                        .retain_tight_ms = 90000,
                                        .floor_every_ms = 0,
                                        .snapshot_every = 4,
                                        .sweep_every_ms = 600000,
                                        .orphan_ms = 1200000};

enum fold_hold (*rig_holds)(void *ctx, struct bytes name);
bool rig_tight;
bool (*rig_grows)(void *ctx, const struct op *op);
uint64_t rig_tickets; // also makes request ids, which are unique among all handles

struct interval rig_store_time(struct rig *r)
{
    struct request ask = {.kind = REQUEST_GET, .key = "clock"};
    r->now = perform(r->store, &ask, &r->performance).time;
    return r->now;
}

struct rig rig_on(struct store *s)
{
    struct rig r = {.store = s, .registers = registers_new(600000)};
    struct journal_config c;
    journal_config_defaults(&c);
    (void)snprintf(c.prefix, sizeof c.prefix, "q/test/0");
    static uint64_t writers; // each handle is another writer
    c.writer = (struct hash128){++writers, 1};
    c.seed = writers;
    c.rules = rig_rules;
    struct fold fold = registers_fold(r.registers);
    fold.holds = rig_holds;
    fold.grows = rig_grows;
    r.journal = journal_new(&c, &fold);
    r.collector = collector_new(r.journal);
    perform_buffer_init(&r.performance);
    journal_start(r.journal, rig_store_time(&r));
    return r;
}

void rig_done(struct rig *r)
{
    collector_free(r->collector);
    journal_free(r->journal);
    registers_free(r->registers);
    perform_buffer_done(&r->performance);
}

bool rig_take(struct rig *r, struct request *out)
{
    return journal_next_request(r->journal, out) || collector_next_request(r->collector, out);
}

static void respond(struct rig *r, const struct response *response)
{
    struct interval now = response->time.hi > r->now.hi ? response->time : r->now;
    r->now = now;
    journal_respond(r->journal, response, now);
    collector_respond(r->collector, response, now);
}

void rig_serve(struct rig *r, const struct request *request, enum fate fate)
{
    struct response response = {.id = request->id, .time = rig_store_time(r)};
    if (fate == FATE_OK || fate == FATE_UNKNOWN_APPLIED)
        response = perform(r->store, request, &r->performance);
    if (fate == FATE_UNAVAILABLE) response.err = ERR_UNAVAILABLE;
    if (fate == FATE_UNKNOWN || fate == FATE_UNKNOWN_APPLIED) response.err = ERR_UNKNOWN;
    response.tight = rig_tight;
    respond(r, &response);
}

void rig_refuse(struct rig *r, const struct request *request, enum err err)
{
    struct response response = {.id = request->id, .err = err, .time = rig_store_time(r)};
    respond(r, &response);
}

// Lets the handle's time reach the moment it waits for.
bool rig_wait_for_retry(struct rig *r)
{
    int64_t at = journal_wake_at(r->journal);
    if (at == TIME_NEVER) return false;
    store_mem_step(r->store, at - r->now.lo > 0 ? at - r->now.lo : 0);
    journal_tick(r->journal, rig_store_time(r));
    return true;
}

// Everything that is asked is performed, until nothing is asked any more.
void rig_settle(struct rig *r)
{
    struct request request;
    for (int i = 0; i < RIG_LIMIT; i++) {
        if (!rig_take(r, &request)) return;
        rig_serve(r, &request, FATE_OK);
    }
    fail_msg("the dialogue does not end");
}

// Performs requests until an append is asked for, and hands that one out unperformed.
struct request rig_until_append(struct rig *r)
{
    struct request request;
    for (int i = 0; i < RIG_LIMIT; i++) {
        if (!rig_take(r, &request)) {
            assert_true(rig_wait_for_retry(r));
            continue;
        }
        if (request.kind == REQUEST_APPEND) return request;
        rig_serve(r, &request, FATE_OK);
    }
    fail_msg("no append was asked for");
    return request;
}

static uint64_t submit(struct rig *r, struct register_ask ask, uint8_t name, int64_t deadline)
{
    uint64_t ticket = ++rig_tickets;
    memcpy(ask.request, &ticket, sizeof ticket);
    ask.request[15] = name;
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 256);
    journal_submit(r->journal, ticket, register_op(&ask, &payload), deadline, rig_store_time(r));
    return ticket;
}

uint64_t rig_add_until(struct rig *r, uint8_t name, int64_t by, int64_t deadline)
{
    struct register_ask ask = {.verb = REGISTER_ADD, .name = {(char)name}, .a = by};
    return submit(r, ask, name, deadline);
}

uint64_t rig_add(struct rig *r, uint8_t name, int64_t by)
{
    return rig_add_until(r, name, by, TIME_NEVER);
}

enum err rig_answer_to(struct rig *r, uint64_t ticket, int64_t *value)
{
    struct journal_reply reply;
    assert_true(journal_next_reply(r->journal, &reply));
    assert_int_equal(reply.ticket, ticket);
    struct reader body = reader_of(reply.body);
    if (value) *value = reply.body.len >= 8 ? read_i64(&body) : 0;
    return reply.err;
}

void rig_no_answer_yet(struct rig *r)
{
    struct journal_reply reply;
    assert_false(journal_next_reply(r->journal, &reply));
}

void rig_commit(struct rig *r, uint8_t name)
{
    uint64_t ticket = rig_add(r, name, 1);
    rig_settle(r);
    assert_int_equal(rig_answer_to(r, ticket, NULL), ERR_OK);
}

void rig_end(struct rig *r)
{
    struct register_ask ask = {.verb = REGISTER_END, .name = "x"};
    uint64_t ticket = submit(r, ask, 'x', TIME_NEVER);
    rig_settle(r);
    assert_int_equal(rig_answer_to(r, ticket, NULL), ERR_OK);
}

int64_t rig_value_seen_by_a_newcomer(struct store *s, uint8_t name)
{
    struct rig r = rig_on(s);
    int64_t value = 0;
    rig_settle(&r);
    // Damaged bytes are read again.
    for (int i = 0; i < RIG_LIMIT && !journal_is_ready(r.journal) && rig_wait_for_retry(&r); i++)
        rig_settle(&r);
    uint64_t ticket = rig_add(&r, name, 0);
    rig_settle(&r);
    assert_int_equal(rig_answer_to(&r, ticket, &value), ERR_OK);
    rig_done(&r);
    return value;
}

void rig_overwrite(struct store *s, const char *key, struct bytes body)
{
    struct store_answer answer;
    store_answer_init(&answer);
    assert_int_equal(store_put(s, key, body, &answer), ERR_OK);
    store_answer_done(&answer);
}
