// SPDX-License-Identifier: Apache-2.0
// The journal's parts joined by the driver, with counters as the state.
#include "ledger.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/entropy.h"
#include "register.h"
#include "runner/driver.h"

#include <stdio.h>
#include <string.h>

struct ledger {
    struct registers *registers;
    struct journal *journal;
    struct collector *collector;
    struct driver *driver;
    int64_t patience_ms;
};

// A call in progress: its address is the ticket.
struct call {
    struct waiter waiter;
    enum err err;
    int64_t value;
};

static void respond(void *ctx, const struct response *r, struct interval now)
{
    struct ledger *l = ctx;
    journal_respond(l->journal, r, now);
    collector_respond(l->collector, r, now);
}

static void tick(void *ctx, struct interval now)
{
    struct ledger *l = ctx;
    journal_tick(l->journal, now);
}

static void release_journal(void *ctx, struct interval now)
{
    struct ledger *l = ctx;
    journal_release(l->journal, now);
}

static int64_t wake_at(void *ctx)
{
    const struct ledger *l = ctx;
    return journal_wake_at(l->journal);
}

static bool next_request(void *ctx, struct request *out)
{
    struct ledger *l = ctx;
    return journal_next_request(l->journal, out) || collector_next_request(l->collector, out);
}

static void deliver(void *ctx)
{
    struct ledger *l = ctx;
    struct journal_reply reply;
    while (journal_next_reply(l->journal, &reply)) {
        struct call *call = (struct call *)(uintptr_t)reply.ticket;
        call->err = reply.err;
        struct reader r = reader_of(reply.body);
        call->value = reply.body.len >= 8 ? read_i64(&r) : 0;
        driver_wake(l->driver, &call->waiter);
    }
}

enum err ledger_open(struct store *s, const char *prefix, const struct ledger_options *options,
                     struct ledger **out)
{
    struct ledger_options o = options ? *options : (struct ledger_options){0};
    struct ledger *l = NEW(struct ledger);
    struct journal_config config;
    journal_config_defaults(&config);
    (void)snprintf(config.prefix, sizeof config.prefix, "%s", prefix);
    memcpy(config.id.queue, "ledger", 6);
    entropy_fill(&config.writer, sizeof config.writer);
    config.seed = entropy_u64();
    if (o.rules.retain_ms != 0) config.rules = o.rules;
    l->patience_ms = o.patience_ms != 0 ? o.patience_ms : 30000;
    l->registers = registers_new(o.memory_ms != 0 ? o.memory_ms : 600000);
    struct fold fold = registers_fold(l->registers);
    l->journal = journal_new(&config, &fold);
    l->collector = collector_new(l->journal);
    struct step_functions steps = {.ctx = l,
                                   .respond = respond,
                                   .tick = tick,
                                   .wake_at = wake_at,
                                   .next_request = next_request,
                                   .deliver = deliver,
                                   .journal = l->journal,
                                   .release = release_journal};
    enum err err = driver_open(s, NULL, &steps, &l->driver);
    struct waiter w;
    if (!err) err = driver_enter(l->driver, &w);
    if (err) {
        ledger_close(l);
        return err;
    }
    journal_start(l->journal, driver_now(l->driver));
    driver_leave(l->driver, &w);
    *out = l;
    return ERR_OK;
}

void ledger_close(struct ledger *l)
{
    if (!l) return;
    driver_free(l->driver);
    collector_free(l->collector);
    journal_free(l->journal);
    registers_free(l->registers);
    memory_free(l);
}

static uint64_t ticket_of(struct call *call)
{
    return (uint64_t)(uintptr_t)call;
}

static enum err submit(struct ledger *l, const struct register_ask *ask, int64_t *value)
{
    struct call call = {0};
    CLEANUP(buf_done) struct buf payload;
    buf_init(&payload, 256);
    struct op op = register_op(ask, &payload);
    enum err err = driver_enter(l->driver, &call.waiter);
    if (err) return err;
    struct interval now = driver_now(l->driver);
    journal_submit(l->journal, ticket_of(&call), op, now.hi + l->patience_ms, now);
    driver_wait(l->driver, &call.waiter);
    if (value) *value = call.value;
    return call.err;
}

enum err ledger_add(struct ledger *l, const char *name, int64_t by, const uint8_t request[16],
                    int64_t *value)
{
    struct register_ask ask = {.verb = REGISTER_ADD, .a = by};
    memcpy(ask.request, request, sizeof ask.request);
    (void)snprintf(ask.name, sizeof ask.name, "%s", name);
    return submit(l, &ask, value);
}

enum err ledger_read(struct ledger *l, const char *name, int64_t *value)
{
    struct register_ask ask = {.verb = REGISTER_READ};
    entropy_fill(ask.request, sizeof ask.request);
    (void)snprintf(ask.name, sizeof ask.name, "%s", name);
    return submit(l, &ask, value);
}

enum err ledger_sync(struct ledger *l)
{
    struct call call = {0};
    enum err err = driver_enter(l->driver, &call.waiter);
    if (err) return err;
    struct interval now = driver_now(l->driver);
    journal_sync(l->journal, ticket_of(&call), now.hi + l->patience_ms, now);
    driver_wait(l->driver, &call.waiter);
    return call.err;
}

void ledger_collect(struct ledger *l)
{
    struct waiter w;
    if (driver_enter(l->driver, &w)) return;
    collector_start(l->collector, driver_now(l->driver));
    driver_leave(l->driver, &w);
}

uint64_t ledger_slot(struct ledger *l)
{
    struct waiter w;
    if (driver_enter(l->driver, &w)) return 0;
    uint64_t slot = journal_slot(l->journal);
    driver_leave(l->driver, &w);
    return slot;
}

uint64_t ledger_dropped(struct ledger *l)
{
    struct waiter w;
    if (driver_enter(l->driver, &w)) return 0;
    uint64_t dropped = collector_dropped(l->collector);
    driver_leave(l->driver, &w);
    return dropped;
}

uint64_t ledger_digest(struct ledger *l)
{
    struct waiter w;
    if (driver_enter(l->driver, &w)) return 0;
    uint64_t digest = journal_digest(l->journal);
    driver_leave(l->driver, &w);
    return digest;
}
