// SPDX-License-Identifier: Apache-2.0
// The texts of a reply are copied in one piece.
#include "shard/kept_reply.h"

#include "base/memory.h"

#include <string.h>

void kept_reply_init(struct kept_reply *a)
{
    *a = (struct kept_reply){0};
    buf_init(&a->body, SIZE_MAX);
    buf_init(&a->text, SIZE_MAX);
}

static void free_rows(struct kept_reply *a)
{
    memory_free(a->deliveries);
    memory_free(a->reasons);
    memory_free(a->why);
    a->deliveries = NULL;
    a->reasons = NULL;
    a->why = NULL;
    a->deliveries_len = a->reasons_len = 0;
}

void kept_reply_done(struct kept_reply *a)
{
    buf_done(&a->body);
    buf_done(&a->text);
    free_rows(a);
}

void kept_reply_clear(struct kept_reply *a)
{
    buf_clear(&a->body);
    buf_clear(&a->text);
    free_rows(a);
}

static struct bytes *view(struct message *m, int i)
{
    struct bytes *views[] = {&m->group,    &m->dedup,   &m->content_type, &m->workflow,
                             &m->requires, &m->headers, &m->body,         &m->reference.name};
    return i < (int)(sizeof views / sizeof *views) ? views[i] : NULL;
}

static size_t text_len(const struct shard_reply *r)
{
    size_t len = 0;
    for (size_t i = 0; i < r->deliveries_len; i++) {
        struct message m = r->deliveries[i].message;
        for (int v = 0; view(&m, v); v++)
            len += view(&m, v)->len;
    }
    for (size_t i = 0; i < r->reasons_len; i++)
        len += r->reasons[i].text.len;
    for (size_t i = 0; i < r->signals_len; i++)
        len += r->signals[i].text.len;
    return len;
}

static void keep_text(uint8_t **at, struct bytes *b)
{
    if (b->len == 0) return;
    memcpy(*at, b->data, b->len);
    b->data = *at;
    *at += b->len;
}

struct kept_signals *kept_signals_new(size_t len)
{
    struct kept_signals *s = memory_zeroed(1, sizeof *s + len * sizeof *s->rows);
    s->len = len;
    return s;
}

// The text is reserved in one piece, so that the views into it stay valid.
void kept_reply_keep(struct kept_reply *a, const struct shard_reply *r)
{
    uint8_t *at = buf_grow(&a->text, text_len(r));
    a->deliveries = memory_zeroed(r->deliveries_len, sizeof *a->deliveries);
    a->deliveries_len = r->deliveries_len;
    for (size_t i = 0; i < r->deliveries_len; i++) {
        a->deliveries[i] = r->deliveries[i];
        struct message *m = &a->deliveries[i].message;
        for (int v = 0; view(m, v); v++)
            keep_text(&at, view(m, v));
    }
    if (r->reasons_len > 0) a->reasons = memory_zeroed(r->reasons_len, sizeof *a->reasons);
    a->reasons_len = r->reasons_len;
    for (size_t i = 0; i < r->reasons_len; i++) {
        a->reasons[i] = r->reasons[i];
        keep_text(&at, &a->reasons[i].text);
    }
    if (r->signals_len > 0) a->signals = kept_signals_new(r->signals_len);
    for (size_t i = 0; i < r->signals_len; i++) {
        a->signals->rows[i] = r->signals[i];
        keep_text(&at, &a->signals->rows[i].text);
    }
}
