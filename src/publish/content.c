// SPDX-License-Identifier: Apache-2.0
#include "publish/content.h"

#include "base/check.h"

static void put_text(struct buf *to, const char *text)
{
    buf_put(to, bytes_of(text, strlen(text) + 1));
}

struct headers {
    struct buf *to;
    size_t len;
};

static void put_header(void *ctx, const char *name, const char *value)
{
    struct headers *h = ctx;
    CHECK(h->len < BUS_HEADERS_MAX);
    h->len++;
    put_text(h->to, name);
    put_text(h->to, value);
}

enum err content_write(const struct envelope *e, bool by_shard, struct buf *to)
{
    char text[SUBJECT_MAX], id[ENVELOPE_ID_MAX];
    struct subject subject = envelope_subject(e);
    if (by_shard && subject.kind == SUBJECT_WORKFLOW) {
        subject.kind = SUBJECT_TASK;
        subject.workflow = BYTES_EMPTY;
    }
    enum err err = subject_print(&subject, text);
    if (err) return err;
    struct headers h = {.to = to};
    size_t count = to->len;
    buf_put_u8(to, 0);
    put_text(to, text);
    envelope_message_id(e, id);
    put_text(to, id);
    envelope_headers(e, put_header, &h);
    if (!to->bad) to->data[count] = (uint8_t)h.len;
    envelope_print(e, to);
    return to->bad ? ERR_LIMIT : ERR_OK;
}

// The content is our own, so it needs no check of its form.
static const char *take_text(struct bytes *from)
{
    const char *text = (const char *)from->data;
    size_t len = strlen(text) + 1;
    CHECK(len <= from->len);
    *from = bytes_of(from->data + len, from->len - len);
    return text;
}

void content_read(struct bytes from, struct content *out)
{
    CHECK(from.len > 0 && from.data[0] <= BUS_HEADERS_MAX);
    out->headers_len = from.data[0];
    from = bytes_of(from.data + 1, from.len - 1);
    out->subject = take_text(&from);
    out->id = take_text(&from);
    for (size_t i = 0; i < out->headers_len; i++) {
        out->headers[i].name = take_text(&from);
        out->headers[i].value = take_text(&from);
    }
    out->body = from;
}
