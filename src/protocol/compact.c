// SPDX-License-Identifier: Apache-2.0
// One function for each direction and one case for each kind of field. A text is used in place: the
// zero after it makes it a C string. A text that contains a zero is refused, because strlen and the
// stored length would differ.
#include "protocol/compact.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "protocol/batch.h"

#include <string.h>

#define TEXT_BYTES 5   // the smallest encoding of a text
#define BYTE_NEVER 255 // out of range, so the node refuses it

static void put_body(struct buf *to, struct bytes body)
{
    CHECK(body.len < UINT32_MAX - TEXT_BYTES);
    uint8_t *room = buf_grow(to, body.len + TEXT_BYTES);
    if (!room) return;
    le_put(room, body.len, 4);
    if (body.len > 0) memcpy(room + 4, body.data, body.len);
    room[4 + body.len] = 0;
}

static void put_text(struct buf *to, const char *text)
{
    put_body(to, bytes_of(text, text && *text ? strlen(text) : 0));
}

static struct bytes read_body(struct reader *r)
{
    struct bytes body = read_sized(r, UINT32_MAX);
    if (read_u8(r) != 0) r->bad = true;
    return body;
}

static const char *read_text(struct reader *r)
{
    // Most texts are empty.
    if (!r->bad && r->left >= TEXT_BYTES && le_get(r->at, TEXT_BYTES) == 0)
        return (const char *)read_bytes(r, TEXT_BYTES).data;
    struct bytes text = read_body(r);
    if (r->bad) return "";
    if (text.len > 0 && memchr(text.data, 0, text.len)) r->bad = true;
    return (const char *)text.data;
}

static void read_chars(struct reader *r, char *to, size_t to_len)
{
    const char *text = read_text(r);
    size_t len = strlen(text);
    if (len >= to_len)
        r->bad = true;
    else
        memcpy(to, text, len + 1);
}

static uint8_t read_flag(struct reader *r)
{
    uint8_t flag = read_u8(r);
    if (flag > 1) r->bad = true;
    return flag;
}

// Returns a constant string: the library promises that a status is one.
static const char *read_status(struct reader *r)
{
    static const char *const known[] = {"",         "processed", "retrying",  "dead-lettered",
                                        "released", "renewed",   "cancelled", "purged"};
    const char *text = read_text(r);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i]) == 0) return known[i];
    r->bad = true;
    return "";
}

// The same for the words of a signal: its kind and its state.
static const char *read_word(struct reader *r)
{
    static const char *const known[] = {"",        "steer",     "ask",      "interrupt",
                                        "pending", "acked",     "declined", "expired",
                                        "missed",  "withdrawn", "applied"};
    const char *text = read_text(r);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(text, known[i]) == 0) return known[i];
    r->bad = true;
    return "";
}

static const char *read_kept_text(struct reader *r)
{
    bool kept = read_flag(r);
    const char *text = read_text(r);
    if (!kept && *text) r->bad = true;
    return kept ? text : NULL;
}

// NULL is not the same as no bytes.
static struct bytes read_data(struct reader *r)
{
    bool given = read_flag(r);
    struct bytes data = read_body(r);
    if (!given && data.len > 0) r->bad = true;
    if (given && !data.data) return bytes_str("");
    return given ? data : BYTES_EMPTY;
}

static void put_headers(struct buf *to, const void *at)
{
    struct field_headers h;
    memcpy(&h, at, sizeof h);
    // The reader refuses a message with this many headers.
    buf_put_u16(to, (uint16_t)(h.len < UINT16_MAX ? h.len : UINT16_MAX));
    for (size_t i = 0; i < h.len; i++) {
        put_text(to, h.rows[i].name);
        put_text(to, h.rows[i].value);
    }
}

static void read_headers(struct reader *r, void *to, struct compact_headers *all)
{
    size_t len = read_u16(r);
    if (len > ROUTE_HEADERS_MAX || len > r->left / ((size_t)2 * TEXT_BYTES)) r->bad = true;
    struct field_headers h = {.len = r->bad ? 0 : len};
    memcpy(to, &h, sizeof h);
    (void)ARRAY_ROOM(all->rows, all->len, all->cap, h.len);
    for (size_t i = 0; i < h.len; i++) {
        const char *name = read_text(r);
        all->rows[all->len++] = (struct sluice_header){name, read_text(r)};
    }
}

static void put_texts(struct buf *to, const struct field_texts *t)
{
    CHECK(t->len <= UINT32_MAX);
    buf_put_u32(to, (uint32_t)t->len);
    for (size_t i = 0; i < t->len; i++)
        put_text(to, t->rows[i]);
}

static void read_texts(struct reader *r, const struct field *f, struct field_texts *to)
{
    size_t count = read_u32(r);
    *to = (struct field_texts){NULL, 0};
    if (count > (uint64_t)f->max || count > r->left / TEXT_BYTES) r->bad = true;
    if (r->bad || count == 0) return;
    const char **rows = memory_zeroed(count, sizeof *rows);
    *to = (struct field_texts){rows, count};
    for (size_t i = 0; i < count; i++)
        rows[i] = read_text(r);
}

void compact_texts_done(struct field_texts *t)
{
    memory_free((void *)(uintptr_t)t->rows);
    *t = (struct field_texts){NULL, 0};
}

static void put_origin(struct buf *to, const struct sluice_origin *from)
{
    bool letter = from->queue && *from->queue;
    buf_put_u8(to, letter);
    if (letter) compact_put(to, &compact_origin, from);
}

static void read_origin(struct reader *r, struct sluice_origin *from)
{
    *from = (struct sluice_origin){.queue = "", .id = "", .reason = "", .worker = ""};
    if (!read_flag(r)) return;
    compact_read(r, &compact_origin, from, NULL);
    if (!*from->queue) r->bad = true;
}

// How many bytes the number of a kind has; 0: it is not a number.
static const uint8_t number_len[FIELD_KIND_COUNT] = {
    [FIELD_NUMBER] = 8, [FIELD_DURATION] = 8, [FIELD_COUNT] = 8, [FIELD_MOMENT] = 8,
    [FIELD_SMALL] = 4,  [FIELD_INT] = 1,      [FIELD_FLAG] = 1,  [FIELD_CODE] = 1,
    [FIELD_BOOL] = 1,   [FIELD_PERCENT] = 1};

static void put_number(struct buf *to, size_t len, int64_t value)
{
    if (len == 8)
        buf_put_i64(to, value);
    else if (len == 4)
        buf_put_u32(to, (uint32_t)value);
    else
        buf_put_u8(to, value < 0 || value > BYTE_NEVER ? BYTE_NEVER : (uint8_t)value);
}

static int64_t read_number(struct reader *r, size_t len, enum field_kind kind)
{
    int64_t value = len == 8 ? read_i64(r) : len == 4 ? (int64_t)read_u32(r) : read_u8(r);
    bool flag = kind == FIELD_FLAG || kind == FIELD_BOOL;
    if ((flag && value > 1) || (kind == FIELD_CODE && value > SLUICE_DENIED)) r->bad = true;
    if (kind != FIELD_PERCENT) return value;
    if (value > PROGRESS_PERCENT_MAX && value != BYTE_NEVER) r->bad = true;
    if (value == BYTE_NEVER) return -1;
    return value;
}

static void put_field(struct buf *to, const struct field *f, const void *at)
{
    const char *text = f->kind == FIELD_CHARS ? at : *(const char *const *)at;
    struct bytes body;
    switch (f->kind) {
    case FIELD_KEPT_TEXT:
        buf_put_u8(to, text != NULL);
        put_text(to, text);
        break;
    case FIELD_TEXT:
    case FIELD_STATUS:
    case FIELD_WORD:
    case FIELD_CHARS:
        put_text(to, text);
        break;
    case FIELD_FAILURE_KIND:
        buf_put_u8(to, strcmp(text, failure_kind_name(FAILURE_EXPIRED)) == 0);
        break;
    case FIELD_DATA:
        buf_put_u8(to, text != NULL);
        memcpy(&body, at, sizeof body);
        put_body(to, body);
        break;
    case FIELD_BASE64:
    case FIELD_BODY:
        memcpy(&body, at, sizeof body);
        put_body(to, body);
        break;
    case FIELD_HEADERS:
        put_headers(to, at);
        break;
    case FIELD_TEXTS:
        put_texts(to, at);
        break;
    case FIELD_ORIGIN:
        put_origin(to, at);
        break;
    default:
        CHECK(false); // the compact encoding has no such field
    }
}

void compact_put(struct buf *to, const struct compact_form *table, const void *in)
{
    for (size_t i = 0; i < table->len; i++) {
        const struct field *f = &table->rows[table->order[i]];
        const void *at = (const char *)in + f->at;
        size_t number = number_len[f->kind];
        if (number > 0)
            put_number(to, number, field_load(f, at));
        else
            put_field(to, f, at);
    }
}

static void read_field(struct reader *r, const struct field *f, void *to,
                       struct compact_headers *headers)
{
    const char **text = to;
    struct bytes body;
    switch (f->kind) {
    case FIELD_TEXT:
        *text = read_text(r);
        break;
    case FIELD_STATUS:
        *text = read_status(r);
        break;
    case FIELD_WORD:
        *text = read_word(r);
        break;
    case FIELD_DATA:
        body = read_data(r);
        memcpy(to, &body, sizeof body);
        break;
    case FIELD_KEPT_TEXT:
        *text = read_kept_text(r);
        break;
    case FIELD_FAILURE_KIND:
        *text = failure_kind_name(read_flag(r) ? FAILURE_EXPIRED : FAILURE_FAILED);
        break;
    case FIELD_CHARS:
        read_chars(r, to, f->size);
        break;
    case FIELD_BASE64:
    case FIELD_BODY:
        body = read_body(r);
        memcpy(to, &body, sizeof body);
        break;
    case FIELD_HEADERS:
        read_headers(r, to, headers);
        break;
    case FIELD_TEXTS:
        read_texts(r, f, to);
        break;
    case FIELD_ORIGIN:
        read_origin(r, to);
        break;
    default:
        CHECK(false); // the compact encoding has no such field
    }
}

void compact_read(struct reader *r, const struct compact_form *table, void *out,
                  struct compact_headers *headers)
{
    for (size_t i = 0; i < table->len; i++) {
        const struct field *f = &table->rows[table->order[i]];
        void *to = (char *)out + f->at;
        size_t number = number_len[f->kind];
        if (number > 0)
            field_store(f, to, read_number(r, number, f->kind));
        else
            read_field(r, f, to, headers);
    }
}

size_t compact_min(const struct compact_form *table)
{
    size_t len = 0;
    for (size_t i = 0; i < table->len; i++) {
        enum field_kind kind = table->rows[table->order[i]].kind;
        bool text = kind != FIELD_ORIGIN && kind != FIELD_HEADERS && kind != FIELD_FAILURE_KIND;
        size_t number = kind == FIELD_TEXTS ? sizeof(uint32_t) : number_len[kind];
        len += number > 0 ? number : text ? TEXT_BYTES : 1;
    }
    return len;
}
