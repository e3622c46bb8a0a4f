// SPDX-License-Identifier: Apache-2.0
// Builds and sends answers. Clients must not cache them, because the content of a queue changes all
// the time. The memory of an answer is counted until it was sent. An answer with messages is built
// only when there is memory for it.
#include "server/inside.h"
#include "server/owners.h"

#include <string.h>

#define TIMES_WIRE 2 // copies of a message's bytes in memory: the message and the answer
#define TIMES_JSON 3 // the JSON is longer by a third, and exists twice for a moment
#define WAIT_MS    500

static unsigned times(const struct exchange *x)
{
    return x->wire_out ? TIMES_WIRE : TIMES_JSON;
}

static bool take_for(struct answer_budget *budget, uint64_t bytes, int64_t wait_ms)
{
    struct exchange *x = (struct exchange *)((char *)budget - offsetof(struct exchange, budget));
    return budget_take(&x->server->budget, &x->budget_part, bytes * times(x), wait_ms);
}

static bool take_budget(struct answer_budget *budget, uint64_t bytes, bool waits)
{
    return take_for(budget, bytes, waits ? WAIT_MS : 0);
}

// Reads share a few threads of the pool. A read that waited for memory would hold one that other
// requests, which need no memory, could use.
static bool take_budget_now(struct answer_budget *budget, uint64_t bytes, bool waits)
{
    (void)waits;
    return take_for(budget, bytes, 0);
}

struct answer_budget *answer_budget_of(struct exchange *x)
{
    x->budget = (struct answer_budget){budget_share(&x->server->budget) / times(x),
                                       x->route->row->repeat == REPEAT_READ ? take_budget_now
                                                                            : take_budget};
    return &x->budget;
}

static void act_done(struct async_call *async, const struct async_answer *a)
{
    struct exchange *x = (struct exchange *)async;
    struct server *s = x->server;
    x->answer(x, a); // the exchange may be gone after it
    call_end(s);
}

struct request_origin act(struct exchange *x, size_t result_len, answer_fn *answer)
{
    x->answer = answer;
    x->result = kept_new(&x->kept, result_len + 1);
    memset(x->result, 0, result_len);
    x->async.done = act_done;
    x->async.token = auth_secret(x);
    call_begin(x->server);
    return (struct request_origin){.engine = x->server->engine,
                                   .async = &x->async,
                                   .request = x->has_request ? &x->request : NULL,
                                   .token = x->async.token};
}

void answer_with(struct exchange *x, struct httpd_answer *a, struct buf *body)
{
    struct metrics *m = &x->server->metrics;
    struct httpd_pair headers[OWNERS_HEADERS_MAX];
    METRICS_ADD(m, bytes_out, body ? body->len : 0);
    // Only the body counts from here on; what it was built from is freed.
    budget_set(&x->server->budget, &x->budget_part, body ? body->len : 0);
    x->status = a->status;
    if (body) {
        a->body = buf_take(body);
        a->owned = true;
    }
    owners_add(x, a, headers);
    httpd_answer(x->http, a);
}

void answer_bytes(struct exchange *x, int status, const char *type, struct buf *body)
{
    struct httpd_pair fresh = {"Cache-Control", "no-store"};
    struct httpd_answer a = {.status = status, .type = type, .headers = &fresh, .headers_len = 1};
    answer_with(x, &a, body);
}

void answer_json(struct exchange *x, int status, struct json *body)
{
    struct buf text;
    buf_init(&text, SIZE_MAX);
    json_write(body, &text);
    buf_put_u8(&text, '\n');
    answer_bytes(x, status, JSON_TYPE, &text);
}

void answer_empty(struct exchange *x, int status)
{
    struct httpd_answer a = {.status = status};
    answer_with(x, &a, NULL);
}
