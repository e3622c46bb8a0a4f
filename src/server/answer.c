// SPDX-License-Identifier: Apache-2.0
// Answers. Nobody keeps them: what a queue holds changes all the time. What they take is counted
// until they have left, and those with messages are made only when there is room.
#include "server/inside.h"

#define TIMES_WIRE 2 // a message's bytes while its answer is made: the message, the answer
#define TIMES_JSON 3 // ... which is longer by a third, and exists twice for a moment
#define WAIT_MS    500

static unsigned times(const struct exchange *x)
{
    return x->wire_out ? TIMES_WIRE : TIMES_JSON;
}

static bool take_for(struct later_room *room, uint64_t bytes, int64_t wait_ms)
{
    struct exchange *x = (struct exchange *)((char *)room - offsetof(struct exchange, room));
    return room_take(&x->server->room, &x->room_part, bytes * times(x), wait_ms);
}

static bool take_room(struct later_room *room, uint64_t bytes, bool waits)
{
    return take_for(room, bytes, waits ? WAIT_MS : 0);
}

// Handlers that block share a few threads with all others: whoever waits there keeps them from
// requests that need no room.
static bool take_room_now(struct later_room *room, uint64_t bytes, bool waits)
{
    (void)waits;
    return take_for(room, bytes, 0);
}

struct later_room *answer_room(struct exchange *x)
{
    x->room = (struct later_room){room_share(&x->server->room) / times(x),
                                  x->route->blocks ? take_room_now : take_room};
    return &x->room;
}

// Takes the body.
void answer_with(struct exchange *x, struct httpd_answer *a, struct buf *body)
{
    struct metrics *m = &x->server->metrics;
    METRICS_ADD(m, bytes_out, body ? body->len : 0);
    room_set(&x->server->room, &x->room_part, body ? body->len : 0); // what it was made of goes
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
