// SPDX-License-Identifier: Apache-2.0
// Messages as bytes: u32 length of the rest, u16 with a bit per present field, the fields in the
// order of the bits, then the body. With the length a reader can skip messages.
#include "queue/codec/send_codec.h"

#include "base/check.h"
#include "queue/codec/body_name.h"
#include "queue/codec/labels.h"

enum message_field {
    FIELD_GROUP = 1,
    FIELD_PRIORITY = 2,
    FIELD_DELAY = 4,
    FIELD_DUE = 8,
    FIELD_DEDUP = 16,
    FIELD_CONTENT_TYPE = 32,
    FIELD_WORKFLOW = 64,
    FIELD_HEADERS = 128,
    FIELD_REFERENCE = 256,
    FIELD_REQUIRES = 512,
    FIELD_LAST = 1024, // the bit is the value
    FIELD_ALL = 2047
};

static unsigned fields_of(const struct message *m)
{
    unsigned fields = 0;
    if (m->group.len > 0) fields |= FIELD_GROUP;
    if (m->priority > 0) fields |= FIELD_PRIORITY;
    if (m->when == WHEN_DELAY) fields |= FIELD_DELAY;
    if (m->when == WHEN_DUE) fields |= FIELD_DUE;
    if (m->dedup.len > 0) fields |= FIELD_DEDUP;
    if (m->content_type.len > 0) fields |= FIELD_CONTENT_TYPE;
    if (m->workflow.len > 0) fields |= FIELD_WORKFLOW;
    if (m->headers.len > 0) fields |= FIELD_HEADERS;
    if (m->reference.name.len > 0) fields |= FIELD_REFERENCE;
    if (m->requires.len > 0) fields |= FIELD_REQUIRES;
    if (m->workflow_last) fields |= FIELD_LAST;
    return fields;
}

static void check_limits(const struct message *m)
{
    CHECK(m->group.len <= MESSAGE_GROUP_MAX);
    CHECK(m->priority <= MESSAGE_PRIORITY_MAX);
    CHECK(m->when != WHEN_DELAY || (m->when_ms >= 0 && m->when_ms <= DELAY_MAX_MS));
    CHECK(m->dedup.len <= MESSAGE_DEDUP_MAX);
    CHECK(m->content_type.len <= MESSAGE_CONTENT_TYPE_MAX);
    CHECK(m->workflow.len <= MESSAGE_WORKFLOW_MAX);
    CHECK(m->headers.len <= MESSAGE_HEADERS_MAX);
    CHECK(m->reference.name.len == 0 || m->reference.name.len == BODY_NAME_LEN);
    CHECK(m->body.len <= MESSAGE_BODY_MAX);
    CHECK(m->reference.name.len == 0 || m->body.len == 0);
    CHECK(m->requires.len == 0 || labels_are_canonical(m->requires));
}

static void put_fields(struct buf *out, const struct message *m)
{
    if (m->group.len > 0) buf_put_sized(out, m->group);
    if (m->priority > 0) buf_put_u8(out, m->priority);
    if (m->when != WHEN_NOW) buf_put_i64(out, m->when_ms);
    if (m->dedup.len > 0) buf_put_sized(out, m->dedup);
    if (m->content_type.len > 0) buf_put_sized(out, m->content_type);
    if (m->workflow.len > 0) buf_put_sized(out, m->workflow);
    if (m->headers.len > 0) buf_put_sized(out, m->headers);
    if (m->reference.name.len > 0) {
        buf_put_sized(out, m->reference.name);
        buf_put_u64(out, m->reference.len);
        buf_put_i64(out, m->reference.uploaded_at);
    }
    if (m->requires.len > 0) buf_put_sized(out, m->requires);
}

void send_add(struct buf *out, const struct message *m)
{
    check_limits(m);
    size_t start = out->len;
    unsigned fields = fields_of(m);
    buf_put_u32(out, 0);
    buf_put_u16(out, (uint16_t)fields);
    if (fields) put_fields(out, m);
    buf_put(out, m->body);
    buf_set_u32(out, start, (uint32_t)(out->len - start - 4));
}

static struct bytes read_named(struct reader *r, size_t max)
{
    struct bytes name = read_sized(r, max);
    if (name.len == 0) r->bad = true;
    return name;
}

static void read_when(struct reader *r, unsigned fields, struct message *out)
{
    out->when = fields & FIELD_DELAY ? WHEN_DELAY : WHEN_DUE;
    out->when_ms = read_i64(r);
    if ((fields & FIELD_DELAY) && (fields & FIELD_DUE)) r->bad = true;
    if (out->when_ms < 0 || (out->when == WHEN_DELAY && out->when_ms > DELAY_MAX_MS)) r->bad = true;
}

static void read_reference(struct reader *r, struct body_reference *out)
{
    out->name = read_named(r, BODY_NAME_LEN);
    out->len = read_u64(r);
    out->uploaded_at = read_i64(r);
    struct body_name name;
    if (!body_name_parse(out->name, &name) || name.uploaded_at != out->uploaded_at) r->bad = true;
}

static void read_fields(struct reader *r, unsigned fields, struct message *out)
{
    if (fields & FIELD_GROUP) out->group = read_named(r, MESSAGE_GROUP_MAX);
    if (fields & FIELD_PRIORITY) {
        out->priority = read_u8(r);
        if (out->priority == 0 || out->priority > MESSAGE_PRIORITY_MAX) r->bad = true;
    }
    if (fields & (FIELD_DELAY | FIELD_DUE)) read_when(r, fields, out);
    if (fields & FIELD_DEDUP) out->dedup = read_named(r, MESSAGE_DEDUP_MAX);
    if (fields & FIELD_CONTENT_TYPE) out->content_type = read_named(r, MESSAGE_CONTENT_TYPE_MAX);
    if (fields & FIELD_WORKFLOW) out->workflow = read_named(r, MESSAGE_WORKFLOW_MAX);
    if (fields & FIELD_HEADERS) {
        out->headers = read_named(r, MESSAGE_HEADERS_MAX);
        if (!headers_ok(out->headers)) r->bad = true;
    }
    if (fields & FIELD_REFERENCE) read_reference(r, &out->reference);
    if (fields & FIELD_REQUIRES) {
        out->requires = read_named(r, LABELS_TEXT_MAX);
        if (!labels_are_canonical(out->requires)) r->bad = true;
    }
    out->workflow_last = (fields & FIELD_LAST) != 0;
    if ((fields & FIELD_REFERENCE) && r->left > 0) r->bad = true; // either a body or a reference
    if (fields > FIELD_ALL) r->bad = true;
}

static uint32_t load_u32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

// Most messages have only a body, so a fast path reads them. False: read it field by field.
static bool read_plain(struct reader *r, struct bytes *body)
{
    if (r->bad || r->left < 6 || r->at[4] != 0 || r->at[5] != 0) return false;
    uint32_t len = load_u32(r->at);
    if (len < 2 || len > r->left - 4 || len - 2 > MESSAGE_BODY_MAX) return false;
    *body = bytes_of(r->at + 6, len - 2);
    r->at += 4 + len;
    r->left -= 4 + len;
    return true;
}

bool message_read(struct reader *r, struct message *out)
{
    *out = (struct message){0};
    if (read_plain(r, &out->body)) return true;
    uint32_t len = read_u32(r);
    struct reader own = reader_of(read_bytes(r, len));
    unsigned fields = read_u16(&own);
    if (fields) read_fields(&own, fields, out);
    if (own.left > MESSAGE_BODY_MAX) own.bad = true;
    out->body = read_bytes(&own, own.left);
    if (own.bad) r->bad = true;
    return reader_ok(r);
}

void send_begin(struct buf *out, const struct request_id *request)
{
    op_head_put(out, request);
    buf_put_u32(out, 0);
}

#define SEND_COUNT_AT (1 + sizeof(struct request_id))

void send_end(struct buf *out, size_t start, uint32_t count)
{
    CHECK(count <= SEND_COUNT_MAX);
    CHECK(out->bad || out->len >= start + SEND_COUNT_AT + sizeof count);
    buf_set_u32(out, start + SEND_COUNT_AT, count);
}

static bool send_head(struct bytes payload, struct op_send *out)
{
    struct reader r = reader_of(payload);
    op_head_read(&r, &out->request);
    out->count = read_u32(&r);
    out->messages = r;
    return reader_ok(&r) && out->count <= SEND_COUNT_MAX;
}

enum err send_open(struct bytes payload, struct op_send *out)
{
    if (!send_head(payload, out)) return ERR_INVALID;
    struct reader r = out->messages;
    for (uint32_t i = 0; i < out->count; i++) {
        struct message m;
        struct bytes body;
        if (read_plain(&r, &body)) continue;
        if (!message_read(&r, &m)) return ERR_INVALID;
    }
    return reader_end(&r) ? ERR_OK : ERR_INVALID;
}

void send_next(struct op_send *s, struct message *out)
{
    CHECK(message_read(&s->messages, out)); // send_open has checked it
}

uint32_t ops_messages(const struct op *ops, size_t ops_len)
{
    uint32_t count = 0;
    for (size_t i = 0; i < ops_len; i++) {
        struct op_send send;
        struct op_arrive arrive;
        if (ops[i].kind == OP_SEND && send_open(ops[i].payload, &send) == ERR_OK)
            count += send.count;
        if (ops[i].kind == OP_ARRIVE && arrive_decode(ops[i].payload, &arrive) == ERR_OK) count++;
    }
    return count;
}

static void send_pick(const struct op_send *send, uint32_t index, struct message *out)
{
    struct reader r = send->messages;
    for (uint32_t i = 0; i < index; i++)
        (void)read_bytes(&r, read_u32(&r));
    CHECK(message_read(&r, out));
}

bool ops_message_at(const struct op *ops, size_t ops_len, uint32_t skip, struct message *out,
                    size_t *op_index)
{
    for (size_t i = 0; i < ops_len; i++) {
        struct op_send send;
        struct op_arrive arrive;
        uint32_t count = ops_messages(&ops[i], 1);
        *op_index = i;
        if (skip >= count) {
            skip -= count;
        } else if (ops[i].kind == OP_SEND) {
            CHECK(send_open(ops[i].payload, &send) == ERR_OK);
            send_pick(&send, skip, out);
            return true;
        } else {
            CHECK(arrive_decode(ops[i].payload, &arrive) == ERR_OK);
            *out = arrive.message;
            return true;
        }
    }
    return false;
}
