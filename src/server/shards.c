// SPDX-License-Identifier: Apache-2.0
// Ops of other processes on shards that this node owns (ops/served.h). Such a process can read the
// store, which it proves before its body is read. It also has the token of its own client, whose
// scope must allow the op.
#include "base/memory.h"
#include "ops/served.h"
#include "protocol/routes.h"
#include "queues/queues.h"
#include "server/inside.h"

#include <stdio.h>
#include <string.h>

// The node of the client counts only what it does itself.
static void count(struct exchange *x, const struct served_call *g)
{
    static const enum settle_kind kinds[] = {[OP_ACK] = SETTLE_ACK,
                                             [OP_FAIL] = SETTLE_FAIL,
                                             [OP_RELEASE] = SETTLE_RELEASE,
                                             [OP_RENEW] = SETTLE_RENEW};
    struct metrics *m = &x->server->metrics;
    METRICS_ADD(m, received, served_deliveries(g));
    METRICS_ADD(m, sent, served_sent(g));
    struct async_answer a = {0};
    struct sluice_outcome *outcomes = served_outcomes(g, &a.len);
    a.outcomes = outcomes;
    if (a.len > 0) x->outcome = kinds[x->served_op];
    if (a.len > 0) metrics_settled(x, &a);
    memory_free(outcomes);
}

static void answered(struct served_call *g, void *ctx)
{
    struct exchange *x = ctx;
    struct server *s = x->server;
    struct buf body;
    wait_end(x);
    count(x, g);
    if (httpd_gone(x->http)) { // release now, because the answer cannot arrive
        served_lost(g);
        x->served_lost = true;
    }
    buf_init(&body, SIZE_MAX);
    served_answer(g, &body);
    answer_bytes(x, 200, SHARD_TYPE, &body);
    call_end(s);
}

// An order of an operator among the rows needs more than the signs of life.
static enum token_scope scope_of_workers(struct bytes payload)
{
    struct op_workers op;
    struct worker_change row;
    enum token_scope scope = SCOPE_WORK;
    if (workers_decode(payload, &op)) return SCOPE_NONE;
    struct reader rows = reader_of(op.rows);
    for (uint32_t i = 0; i < op.count && worker_change_next(&rows, &row); i++)
        if (row.act >= WORKER_PAUSE) scope = SCOPE_ADMIN;
    return scope;
}

// Returns the scope that the op needs; SCOPE_NONE: no process may ask for it.
static enum token_scope scope_of(const struct shard_ask *ask)
{
    if (ask->kind == SHARD_CLAIM || ask->kind == SHARD_AWAIT) return SCOPE_WORK;
    if (ask->kind == SHARD_LISTEN) return ask->tokens_len > 0 ? SCOPE_WORK : SCOPE_READ;
    switch (ask->op.kind) {
    case OP_SEND:
        return ask->kind == SHARD_SUBMIT ? SCOPE_SEND : SCOPE_NONE;
    case OP_ACK:
    case OP_FAIL:
    case OP_RELEASE:
    case OP_RENEW:
        return SCOPE_WORK;
    case OP_CANCEL:
    case OP_SIGNAL:
    case OP_SIGNAL_WITHDRAW:
        return ask->kind == SHARD_SUBMIT ? SCOPE_SIGNAL : SCOPE_NONE;
    case OP_SIGNAL_SETTLE:
        return ask->kind == SHARD_SUBMIT ? SCOPE_WORK : SCOPE_NONE;
    case OP_WORKERS:
        return ask->kind == SHARD_SUBMIT ? scope_of_workers(ask->op.payload) : SCOPE_NONE;
    case OP_CONFIGURE:
    case OP_PAUSE:
    case OP_RESUME:
    case OP_PURGE:
    case OP_REDRIVE:
    case OP_LOCK: // of a redrive
    case OP_RAISE:
    case OP_DELETE:
        return ask->kind == SHARD_SUBMIT ? SCOPE_ADMIN : SCOPE_NONE;
    default:
        return SCOPE_NONE;
    }
}

// Setting a dead-letter queue needs the scope admin for that queue, too, as in queues.c. The op has
// all settings, so the queue that is set already needs no scope.
static bool may_use_letters(struct exchange *x, const struct shard_ask *ask)
{
    struct op_configure op;
    struct queue_config now = {.dead_letter_queue = ""};
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    if (ask->kind != SHARD_SUBMIT || ask->op.kind != OP_CONFIGURE) return true;
    if (configure_decode(ask->op.payload, &op))
        return refuse_request(x, SLUICE_INVALID, "malformed", "body",
                              "the settings in the op cannot be read");
    q = queue_if_known(x->server->engine, x->queue);
    bool known = q && queue_known_config(q, &now);
    const char *letters = op.config.dead_letter_queue;
    if (!*letters || (known && strcmp(letters, now.dead_letter_queue) == 0)) return true;
    return auth_allow(x, SCOPE_ADMIN, letters);
}

static bool read_ask(struct exchange *x, struct shard_ask *ask)
{
    if (!shard_ask_read(httpd_body(x->http), ask) || ask->wait_ms > SHARD_WAIT_MAX_MS)
        return refuse_request(x, SLUICE_INVALID, "malformed", "body",
                              "the body is not a request in the encoding %s", SHARD_TYPE);
    enum token_scope scope = scope_of(ask);
    if (scope == SCOPE_NONE)
        return refuse_request(x, SLUICE_INVALID, "", "body",
                              "an op of kind %u is not sent to the owner of a shard", ask->op.kind);
    return auth_allow(x, scope, x->queue) && may_use_letters(x, ask);
}

void handle_shards(struct exchange *x)
{
    struct server *s = x->server;
    struct shard_ask ask;
    char worker[WORKER_NAME_MAX + 1];
    if (!read_ask(x, &ask)) return;
    struct bytes name = ask.kind == SHARD_AWAIT ? ask.worker : ask.claim.worker;
    (void)snprintf(worker, sizeof worker, "%.*s", (int)name.len, (const char *)name.data);
    if (ask.wait_ms > 0 && !wait_begin(x, worker)) { // the caller waits on its own
        (void)refuse_request(x, SLUICE_UNAVAILABLE, "too-many-waiting", "wait",
                             "no receive can wait here now");
        return;
    }
    // The polls of a node are for all its workers, which that node lists.
    bool is_worker = ask.kind == SHARD_AWAIT ? strcmp(worker, AWAIT_NODE) != 0 : *worker;
    if (is_worker) present_begin(x, worker);
    struct httpd_request *http = x->http;
    httpd_keep(http); // it may be answered before served_start returns
    bool waits = x->waits;
    call_begin(s);
    x->served_op = ask.op.kind;
    x->served = served_new(s->engine, x->queue, &ask, answer_budget_of(x), answered, x);
    if (waits) httpd_watch(http, receive_client_gone);
    served_start(x->served);
    if (waits) wait_begun(x);
    httpd_drop(http);
}
