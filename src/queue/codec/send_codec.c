// SPDX-License-Identifier: Apache-2.0
// Messages as bytes: u32 length of the rest, then the list of fields, which are there if their bits
// are set. With the length a reader can skip messages.
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

struct stored_message {
    uint32_t fields;
    struct message m;
};

#define NAMED(member, most, bit) BYTES(m.member, .min = 1, .max = (most), WHEN(fields, bit))
#define LAYOUT_OF                struct stored_message
static const struct layout_field message_fields[] = {
    U16(fields, .max = FIELD_ALL),
    NAMED(group, MESSAGE_GROUP_MAX, FIELD_GROUP),
    U8(m.priority, .min = 1, .max = MESSAGE_PRIORITY_MAX, WHEN(fields, FIELD_PRIORITY)),
    I64(m.when_ms, WHEN(fields, FIELD_DELAY | FIELD_DUE)),
    NAMED(dedup, MESSAGE_DEDUP_MAX, FIELD_DEDUP),
    NAMED(content_type, MESSAGE_CONTENT_TYPE_MAX, FIELD_CONTENT_TYPE),
    NAMED(workflow, MESSAGE_WORKFLOW_MAX, FIELD_WORKFLOW),
    NAMED(headers, MESSAGE_HEADERS_MAX, FIELD_HEADERS),
    NAMED(reference.name, BODY_NAME_LEN, FIELD_REFERENCE),
    U64(m.reference.len, WHEN(fields, FIELD_REFERENCE)),
    I64(m.reference.uploaded_at, WHEN(fields, FIELD_REFERENCE)),
    NAMED(requires, LABELS_TEXT_MAX, FIELD_REQUIRES),
    REST(m.body),
};
const struct layout message_layout = LAYOUT(message_fields); // after u32 length of it
#undef LAYOUT_OF

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

// What the fields alone do not say.
static bool reference_ok(const struct message *m)
{
    struct body_name name;
    return m->body.len == 0 && body_name_parse(m->reference.name, &name) &&
           name.uploaded_at == m->reference.uploaded_at;
}

void send_add(struct buf *out, const struct message *m)
{
    unsigned fields = fields_of(m);
    CHECK(m->when != WHEN_DELAY || (m->when_ms >= 0 && m->when_ms <= DELAY_MAX_MS));
    CHECK(m->body.len <= MESSAGE_BODY_MAX);
    CHECK(m->reference.name.len == 0 ||
          (m->reference.name.len == BODY_NAME_LEN && m->body.len == 0));
    CHECK(m->requires.len == 0 || labels_are_canonical(m->requires));
    size_t start = out->len;
    buf_put_u32(out, 0);
    if (fields) {
        layout_put(&message_layout, out, &(struct stored_message){fields, *m});
    } else { // most messages: only a body
        buf_put_u16(out, 0);
        buf_put(out, m->body);
    }
    buf_set_u32(out, start, (uint32_t)(out->len - start - 4));
}

static bool read_stored(struct reader *r, struct message *out)
{
    struct stored_message stored;
    if (!layout_read(&message_layout, r, &stored)) return false;
    unsigned fields = stored.fields;
    *out = stored.m;
    bool delay = fields & FIELD_DELAY, due = fields & FIELD_DUE;
    out->when = delay ? WHEN_DELAY : due ? WHEN_DUE : WHEN_NOW;
    out->workflow_last = (fields & FIELD_LAST) != 0;
    if ((delay && due) || out->when_ms < 0 || (delay && out->when_ms > DELAY_MAX_MS)) return false;
    if ((fields & FIELD_REFERENCE) && !reference_ok(out)) return false;
    return headers_ok(out->headers) && out->body.len <= MESSAGE_BODY_MAX &&
           (!(fields & FIELD_REQUIRES) || labels_are_canonical(out->requires));
}

// Most messages have only a body, so a fast path reads them. False: read it field by field.
static bool read_plain(struct reader *r, struct bytes *body)
{
    if (r->bad || r->left < 6 || r->at[4] != 0 || r->at[5] != 0) return false;
    uint32_t len = (uint32_t)le_get(r->at, 4);
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
    struct reader own = reader_of(read_bytes(r, read_u32(r)));
    if (!reader_ok(r) || !read_stored(&own, out)) r->bad = true;
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
    (void)op_head_read(&r, &out->request);
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
