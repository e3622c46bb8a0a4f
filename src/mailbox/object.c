// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes mailbox objects and their names. Every length is checked before it is used.
// One flipped bit anywhere gives ERR_CORRUPT.
#include "mailbox/object.h"

#include "base/check.h"
#include "base/digits.h"

#include <stdio.h>
#include <string.h>

#define HEADER_BYTES   56 // up to the worker's name
#define CHECKSUM_BYTES 16

void mailbox_row_put(struct buf *rows, const struct mailbox_row *row)
{
    CHECK(row->kind >= MAILBOX_OP && row->kind <= MAILBOX_SIGNALS);
    buf_put_u16(rows, (uint16_t)row->kind);
    buf_put_u16(rows, row->code);
    buf_put_sized(rows, row->body);
}

void mailbox_encode(struct buf *out, const struct mailbox_object *o)
{
    CHECK(out->len == 0);
    CHECK(o->way == MAILBOX_OUT || o->way == MAILBOX_IN);
    CHECK(o->number > 0 && o->instance > 0);
    CHECK(o->worker.len > 0 && o->worker.len <= WORKER_NAME_MAX);
    CHECK(o->count <= MAILBOX_ROWS_MAX);
    buf_put_u32(out, MAILBOX_MAGIC);
    buf_put_u16(out, MAILBOX_FORMAT);
    buf_put_u8(out, (uint8_t)o->way);
    buf_put_u8(out, (uint8_t)o->flags);
    buf_put_u32(out, 0); // the length, set at the end
    buf_put_u32(out, o->shard);
    buf_put(out, bytes_of(o->queue.bytes, sizeof o->queue.bytes));
    buf_put_u64(out, o->instance);
    buf_put_u64(out, o->number);
    buf_put_u64(out, o->seen);
    CHECK(out->bad || out->len == HEADER_BYTES);
    buf_put_sized(out, o->worker);
    buf_put_u32(out, o->count);
    buf_put(out, o->rows);
    buf_set_u32(out, 8, (uint32_t)(out->len + CHECKSUM_BYTES));
    buf_put_hash128(out, hash128_of(buf_bytes(out)));
}

static enum err check_frame(struct bytes from)
{
    struct reader r = reader_of(from);
    if (from.len < HEADER_BYTES + 8 + CHECKSUM_BYTES || from.len > MAILBOX_OBJECT_MAX)
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
    struct reader r = reader_of(bytes_of(from.data, from.len - CHECKSUM_BYTES));
    (void)read_bytes(&r, 6); // checked by check_frame
    uint8_t way = read_u8(&r);
    out->flags = read_u8(&r);
    (void)read_u32(&r);
    out->shard = read_u32(&r);
    struct bytes queue = read_bytes(&r, sizeof out->queue.bytes);
    if (reader_ok(&r)) memcpy(out->queue.bytes, queue.data, queue.len);
    out->instance = read_u64(&r);
    out->number = read_u64(&r);
    out->seen = read_u64(&r);
    out->worker = read_sized(&r, WORKER_NAME_MAX);
    out->count = read_u32(&r);
    if (!reader_ok(&r)) return ERR_CORRUPT;
    out->rows = bytes_of(r.at, r.left);
    bool known_way = way == MAILBOX_OUT || way == MAILBOX_IN;
    bool known_flags = out->flags == 0 || (way == MAILBOX_IN && out->flags == 1);
    if (!known_way || !known_flags || out->number == 0 || out->instance == 0) return ERR_CORRUPT;
    if (out->worker.len == 0 || out->count > MAILBOX_ROWS_MAX) return ERR_CORRUPT;
    out->way = (enum mailbox_way)way;
    return rows_fit(out) ? ERR_OK : ERR_CORRUPT;
}

bool mailbox_row_next(struct reader *rows, struct mailbox_row *out)
{
    uint16_t kind = read_u16(rows);
    *out = (struct mailbox_row){.code = read_u16(rows)};
    out->body = read_sized(rows, MAILBOX_OBJECT_MAX);
    if (!reader_ok(rows) || kind < MAILBOX_OP || kind > MAILBOX_SIGNALS) return false;
    out->kind = (enum mailbox_row_kind)kind;
    return true;
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
    buf_put(rows, bytes_of(a->request.bytes, sizeof a->request.bytes));
    buf_put(rows, a->result);
    row_end(rows, at);
}

bool mailbox_answer_read(const struct mailbox_row *row, struct mailbox_answer *out)
{
    struct reader r = reader_of(row->body);
    struct bytes request = read_bytes(&r, sizeof out->request.bytes);
    if (!reader_ok(&r) || row->kind != MAILBOX_ANSWER || row->code >= ERR_COUNT) return false;
    memcpy(out->request.bytes, request.data, request.len);
    out->err = (enum err)row->code;
    out->result = bytes_of(r.at, r.left);
    return request_id_set(&out->request);
}

#define SIGNAL_ROW_BYTES 8

void mailbox_signal_put(struct buf *rows, uint32_t index, uint32_t waiting)
{
    CHECK(waiting > 0);
    buf_put_u32(rows, index);
    buf_put_u32(rows, waiting);
}

bool mailbox_signal_next(struct reader *rows, uint32_t *index, uint32_t *waiting)
{
    *index = read_u32(rows);
    *waiting = read_u32(rows);
    return reader_ok(rows);
}

void mailbox_signals_put(struct buf *rows, const struct mailbox_signals *s)
{
    CHECK(request_id_set(&s->request) && s->rows.len % SIGNAL_ROW_BYTES == 0);
    size_t at = row_begin(rows, MAILBOX_SIGNALS, 0);
    buf_put(rows, bytes_of(s->request.bytes, sizeof s->request.bytes));
    buf_put(rows, s->rows);
    row_end(rows, at);
}

bool mailbox_signals_read(const struct mailbox_row *row, struct mailbox_signals *out)
{
    struct reader r = reader_of(row->body);
    struct bytes request = read_bytes(&r, sizeof out->request.bytes);
    if (!reader_ok(&r) || row->kind != MAILBOX_SIGNALS || row->code != 0) return false;
    if (r.left == 0 || r.left % SIGNAL_ROW_BYTES != 0) return false;
    memcpy(out->request.bytes, request.data, request.len);
    out->rows = bytes_of(r.at, r.left);
    return request_id_set(&out->request);
}

void mailbox_ticket_put(struct buf *rows, const struct mailbox_ticket *t)
{
    CHECK(t->ref.seq > 0);
    size_t at = row_begin(rows, MAILBOX_TICKET, 0);
    lock_ref_put(rows, &t->ref);
    buf_put_i64(rows, t->deadline);
    buf_put(rows, t->message);
    row_end(rows, at);
}

bool mailbox_ticket_read(const struct mailbox_row *row, struct mailbox_ticket *out)
{
    struct reader r = reader_of(row->body);
    out->ref.seq = read_u64(&r);
    out->ref.token = read_hash128(&r);
    out->deadline = read_i64(&r);
    if (!reader_ok(&r) || row->kind != MAILBOX_TICKET || row->code != 0) return false;
    out->message = bytes_of(r.at, r.left);
    return out->ref.seq > 0 && out->deadline >= 0;
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
