// SPDX-License-Identifier: Apache-2.0
// Answers. Nobody keeps them: what a queue holds changes all the time.
#include "server/inside.h"

// Takes the body.
void answer_with(struct exchange *x, struct httpd_answer *a, struct buf *body)
{
    struct metrics *m = &x->server->metrics;
    METRICS_ADD(m, bytes_out, body ? body->len : 0);
    x->status = a->status;
    if (body) {
        a->body = buf_take(body);
        a->owned = true;
    }
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
