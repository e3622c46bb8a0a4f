// SPDX-License-Identifier: Apache-2.0
// ack, fail, release and renew: settles locks by their tokens.
#include "server/inside.h"
#include "wire/wire.h"

#include <string.h>

struct json *outcomes_json(const struct async_answer *a)
{
    struct json *list = json_list_new();
    for (size_t i = 0; i < a->len; i++)
        json_list_take(list, fields_json(&outcome_answer, &a->outcomes[i]));
    return list;
}

// Returns whether the store, or a reused request id, failed all tokens alike, or the call got to
// none of them.
static bool failed_whole(const struct exchange *x, const struct async_answer *a)
{
    if (x->single || a->len == 0) return a->code != SLUICE_OK;
    bool reused = strcmp(a->error->reason, "request-reused") == 0;
    if (a->code != SLUICE_UNAVAILABLE && a->code != SLUICE_UNKNOWN && a->code != SLUICE_CORRUPT &&
        !reused)
        return false;
    for (size_t i = 0; i < a->len; i++)
        if (a->outcomes[i].code != a->code) return false;
    return true;
}

static void answer_outcomes(struct exchange *x, const struct async_answer *a)
{
    if (x->wire_out) {
        struct buf body;
        buf_init(&body, SIZE_MAX);
        wire_put_outcomes(&body, a->outcomes, a->len, a->error);
        answer_bytes(x, 200, WIRE_TYPE, &body);
        return;
    }
    if (x->single) {
        answer_json(x, 200, fields_json(&outcome_answer, &a->outcomes[0]));
        return;
    }
    struct json *o = json_new();
    json_take(o, "outcomes", outcomes_json(a));
    answer_json(x, 200, o);
}

static void settled(struct async_call *l, const struct async_answer *a)
{
    struct exchange *x = (struct exchange *)l;
    struct server *s = x->server;
    metrics_settled(x, a);
    if (failed_whole(x, a))
        answer_error(x, a->error);
    else
        answer_outcomes(x, a);
    call_end(s);
}

static void settle(struct exchange *x, const char *const *tokens, size_t len, int64_t wait,
                   const char *reason)
{
    struct settle what = {.kind = x->outcome,
                          .tokens = tokens,
                          .len = len,
                          .wait_ms = wait,
                          .reason = reason,
                          .request = x->has_request ? &x->request : NULL};
    x->async.done = settled;
    x->async.token = auth_secret(x);
    call_begin(x->server);
    async_settle(x->server->store, x->queue, &what, &x->async);
}

static bool check_tokens(struct exchange *x, const struct settle_in *in)
{
    bool one = in->token && !in->tokens.rows, many = in->tokens.rows && !in->token;
    if (one || (many && in->tokens.len <= CALL_ITEMS_MAX)) return true;
    return refuse_request(x, SLUICE_INVALID, "", one || many ? "tokens" : "token",
                          "give one token, or tokens: a list of at most %d", CALL_ITEMS_MAX);
}

static void settle_json(struct exchange *x)
{
    struct settle_in in = {0};
    if (!read_request(x, &in) || !check_tokens(x, &in)) return;
    x->single = in.token != NULL;
    settle(x, x->single ? &in.token : (const char *const *)in.tokens.rows,
           x->single ? 1 : in.tokens.len, in.wait, in.reason);
}

static void settle_wire(struct exchange *x)
{
    struct wire_settle in;
    if (!read_query(x, &no_fields, NULL)) return;
    if (!wire_read_settle(httpd_body(x->http), &in)) {
        (void)refuse_request(x, SLUICE_INVALID, "malformed", "body",
                             "the body is not a list of tokens in the encoding %s", WIRE_TYPE);
        return;
    }
    settle(x, (const char *const *)in.tokens, in.len, in.wait_ms, in.reason);
    wire_settle_done(&in);
}

void handle_settle(struct exchange *x)
{
    static const enum settle_kind kinds[CALL_COUNT] = {[CALL_ACK] = SETTLE_ACK,
                                                       [CALL_FAIL] = SETTLE_FAIL,
                                                       [CALL_RELEASE] = SETTLE_RELEASE,
                                                       [CALL_RENEW] = SETTLE_RENEW};
    x->outcome = kinds[x->route->call - call_table];
    if (x->wire_in)
        settle_wire(x);
    else
        settle_json(x);
}
