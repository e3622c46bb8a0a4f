// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes mailbox objects and their names. Every length is checked before it is used.
// One flipped bit anywhere gives ERR_CORRUPT.
#include "mailbox/object.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/layout.h"

#include <stdio.h>
#include <string.h>

#define CHECKSUM_BYTES 16
#define LENGTH_AT      8

#define LAYOUT_OF      struct mailbox_row
static const struct layout_field mailbox_row_fields[] = {
    U16(kind, .min = MAILBOX_OP, .max = MAILBOX_SIGNALS),
    U16(code),
    BYTES(body, .max = MAILBOX_OBJECT_MAX),
};
const struct layout mailbox_row_layout = LAYOUT(mailbox_row_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct mailbox_object
static const struct layout_field mailbox_object_fields[] = {
    MARK(4, "magic", MAILBOX_MAGIC),
    MARK(2, "format", MAILBOX_FORMAT),
    U8(way, .min = MAILBOX_OUT, .max = MAILBOX_IN),
    U8(flags, .max = MAILBOX_UNKNOWN_WORKER),
    U32(length),
    U32(shard),
    FIXED(queue),
    U64(instance, .min = 1),
    U64(number, .min = 1),
    U64(seen, .max = MAILBOX_SEEN_MAX),
    BYTES(worker, .min = 1, .max = WORKER_NAME_MAX),
    ROWS(rows, count, mailbox_row_layout, .max = MAILBOX_ROWS_MAX),
};
const struct layout mailbox_object_layout = LAYOUT(mailbox_object_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct mailbox_answer
static const struct layout_field mailbox_answer_fields[] = {FIXED(request), REST(result)};
const struct layout mailbox_answer_layout = LAYOUT(mailbox_answer_fields);
#undef LAYOUT_OF

struct mailbox_signal {
    uint32_t index, waiting;
};

#define LAYOUT_OF struct mailbox_signal
static const struct layout_field mailbox_signal_fields[] = {U32(index), U32(waiting)};
const struct layout mailbox_signal_layout = LAYOUT(mailbox_signal_fields, .fixed = 8);
#undef LAYOUT_OF

#define LAYOUT_OF struct mailbox_signals
static const struct layout_field mailbox_signals_fields[] = {FIXED(request), REST(rows)};
const struct layout mailbox_signals_layout = LAYOUT(mailbox_signals_fields);
#undef LAYOUT_OF

#define LAYOUT_OF struct mailbox_ticket
static const struct layout_field mailbox_ticket_fields[] = {
    U64(ref.seq, .min = 1),
    HASH(ref.token),
    I64(deadline, .max = INT64_MAX),
    REST(message),
};
const struct layout mailbox_ticket_layout = LAYOUT(mailbox_ticket_fields);
#undef LAYOUT_OF

void mailbox_row_put(struct buf *rows, const struct mailbox_row *row)
{
    layout_put(&mailbox_row_layout, rows, row);
}

void mailbox_encode(struct buf *out, const struct mailbox_object *o)
{
    CHECK(out->len == 0);
    layout_put(&mailbox_object_layout, out, o);
    buf_set_u32(out, LENGTH_AT, (uint32_t)(out->len + CHECKSUM_BYTES));
    buf_put_hash128(out, hash128_of(buf_bytes(out)));
}

static enum err check_frame(struct bytes from)
{
    struct reader r = reader_of(from);
    if (from.len < LENGTH_AT + 4 + CHECKSUM_BYTES || from.len > MAILBOX_OBJECT_MAX)
        return ERR_CORRUPT;
    if (read_u32(&r) != MAILBOX_MAGIC) return ERR_CORRUPT;
    uint16_t format = read_u16(&r);
    (void)read_u16(&r);
    if (read_u32(&r) != from.len) return ERR_CORRUPT;
    size_t len = from.len - CHECKSUM_BYTES;
    struct reader end = reader_of(bytes_of(from.data + len, CHECKSUM_BYTES));
    if (!hash128_equal(read_hash128(&end), hash128_of(bytes_of(from.data, len))))
        return ERR_CORRUPT;
    if (format == 0) return ERR_CORRUPT;
    return format > MAILBOX_FORMAT ? ERR_UNAVAILABLE : ERR_OK;
}

static bool row_fits(const struct mailbox_row *row, enum mailbox_way way)
{
    if (way == MAILBOX_OUT) return row->kind == MAILBOX_OP && row->code >= OP_KIND_MACHINE;
    struct mailbox_answer answer;
    struct mailbox_signals signals;
    struct mailbox_ticket ticket;
    if (row->kind == MAILBOX_ANSWER) return mailbox_answer_read(row, &answer);
    if (row->kind == MAILBOX_SIGNALS) return mailbox_signals_read(row, &signals);
    return mailbox_ticket_read(row, &ticket);
}

static bool rows_fit(const struct mailbox_object *o)
{
    struct reader rows = reader_of(o->rows);
    for (uint32_t i = 0; i < o->count; i++) {
        struct mailbox_row row;
        if (!mailbox_row_next(&rows, &row) || !row_fits(&row, o->way)) return false;
    }
    return reader_end(&rows);
}

enum err mailbox_decode(struct bytes from, struct mailbox_object *out)
{
    *out = (struct mailbox_object){0};
    enum err err = check_frame(from);
    if (err) return err;
    struct bytes inside = bytes_of(from.data, from.len - CHECKSUM_BYTES);
    if (!layout_read_all(&mailbox_object_layout, inside, out)) return ERR_CORRUPT;
    bool known_flags = out->flags == 0 || out->way == MAILBOX_IN;
    return known_flags && rows_fit(out) ? ERR_OK : ERR_CORRUPT;
}

bool mailbox_row_next(struct reader *rows, struct mailbox_row *out)
{
    return layout_next(&mailbox_row_layout, rows, out);
}

// Begins a row whose body is written after it; row_end sets its length.
static size_t row_begin(struct buf *rows, enum mailbox_row_kind kind, uint16_t code)
{
    mailbox_row_put(rows, &(struct mailbox_row){.kind = kind, .code = code});
    return rows->len;
}

static void row_end(struct buf *rows, size_t body_at)
{
    CHECK(rows->bad || rows->len >= body_at);
    if (!rows->bad) buf_set_u32(rows, body_at - 4, (uint32_t)(rows->len - body_at));
}

void mailbox_answer_put(struct buf *rows, const struct mailbox_answer *a)
{
    CHECK(request_id_set(&a->request));
    size_t at = row_begin(rows, MAILBOX_ANSWER, (uint16_t)a->err);
    layout_put(&mailbox_answer_layout, rows, a);
    row_end(rows, at);
}

bool mailbox_answer_read(const struct mailbox_row *row, struct mailbox_answer *out)
{
    if (row->kind != MAILBOX_ANSWER || row->code >= ERR_COUNT) return false;
    out->err = (enum err)row->code;
    return layout_read_all(&mailbox_answer_layout, row->body, out) && request_id_set(&out->request);
}

void mailbox_signal_put(struct buf *rows, uint32_t index, uint32_t waiting)
{
    CHECK(waiting > 0);
    layout_put(&mailbox_signal_layout, rows, &(struct mailbox_signal){index, waiting});
}

bool mailbox_signal_next(struct reader *rows, uint32_t *index, uint32_t *waiting)
{
    struct mailbox_signal row = {0};
    bool read = layout_next(&mailbox_signal_layout, rows, &row);
    *index = row.index;
    *waiting = row.waiting;
    return read;
}

static bool are_signals(struct bytes rows)
{
    return rows.len > 0 && rows.len % mailbox_signal_layout.fixed == 0;
}

void mailbox_signals_put(struct buf *rows, const struct mailbox_signals *s)
{
    CHECK(request_id_set(&s->request) && (s->rows.len == 0 || are_signals(s->rows)));
    size_t at = row_begin(rows, MAILBOX_SIGNALS, 0);
    layout_put(&mailbox_signals_layout, rows, s);
    row_end(rows, at);
}

bool mailbox_signals_read(const struct mailbox_row *row, struct mailbox_signals *out)
{
    if (row->kind != MAILBOX_SIGNALS || row->code != 0) return false;
    return layout_read_all(&mailbox_signals_layout, row->body, out) && are_signals(out->rows) &&
           request_id_set(&out->request);
}

void mailbox_ticket_put(struct buf *rows, const struct mailbox_ticket *t)
{
    size_t at = row_begin(rows, MAILBOX_TICKET, 0);
    layout_put(&mailbox_ticket_layout, rows, t);
    row_end(rows, at);
}

bool mailbox_ticket_read(const struct mailbox_row *row, struct mailbox_ticket *out)
{
    return row->kind == MAILBOX_TICKET && row->code == 0 &&
           layout_read_all(&mailbox_ticket_layout, row->body, out);
}

static bool is_plain(uint8_t c)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
}

void mailbox_box(char out[static MAILBOX_BOX_MAX + 1], uint64_t instance, struct bytes worker)
{
    CHECK(instance > 0 && worker.len > 0);
    char *at = digits_put_hex64(out, instance);
    *at++ = '.';
    for (size_t i = 0; i < worker.len && i < MAILBOX_NAME_MAX; i++)
        *at++ = is_plain(worker.data[i]) ? (char)worker.data[i] : '_';
    *at = 0;
}

static const char *folder_name(enum mailbox_way way)
{
    CHECK(way == MAILBOX_OUT || way == MAILBOX_IN);
    return way == MAILBOX_OUT ? "out" : "in";
}

void mailbox_folder(char out[static MAILBOX_KEY_MAX], const char *prefix, enum mailbox_way way)
{
    int len = snprintf(out, MAILBOX_KEY_MAX, "%s/box/%s/", prefix, folder_name(way));
    CHECK(len > 0 && len < MAILBOX_KEY_MAX);
}

void mailbox_mark_key(char out[static MAILBOX_KEY_MAX], const char *prefix)
{
    int len = snprintf(out, MAILBOX_KEY_MAX, "%s/box/mark", prefix);
    CHECK(len > 0 && len < MAILBOX_KEY_MAX);
}

void mailbox_key(char out[static MAILBOX_KEY_MAX], const char *prefix, enum mailbox_way way,
                 const char *box, uint64_t number)
{
    CHECK(number > 0);
    int len = snprintf(out, MAILBOX_KEY_MAX, "%s/box/%s/%s/%020llu", prefix, folder_name(way), box,
                       (unsigned long long)number);
    CHECK(len > 0 && len < MAILBOX_KEY_MAX);
}

static bool read_number(const char *text, uint64_t *number)
{
    if (strlen(text) != DIGITS_MAX || *text > '0') return false; // at most 10^19 - 1
    *number = 0;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        *number = *number * 10 + (uint64_t)(*text - '0');
    }
    return *number > 0;
}

bool mailbox_key_read(const char *key, const char *prefix, enum mailbox_way way,
                      char box[static MAILBOX_BOX_MAX + 1], uint64_t *number)
{
    char folder[MAILBOX_KEY_MAX];
    mailbox_folder(folder, prefix, way);
    size_t folder_len = strlen(folder);
    if (strncmp(key, folder, folder_len) != 0) return false;
    const char *end = strchr(key + folder_len, '/');
    if (!end) return false;
    size_t len = (size_t)(end - (key + folder_len));
    if (len < 18 || len > MAILBOX_BOX_MAX || key[folder_len + 16] != '.') return false;
    memcpy(box, key + folder_len, len);
    box[len] = 0;
    return read_number(end + 1, number);
}
