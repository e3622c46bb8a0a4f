// SPDX-License-Identifier: Apache-2.0
#include "fill.h"

#include "base/check.h"
#include "queue/core/machine.h"

#include <string.h>

void fill_init(struct fill *fill, struct bytes input)
{
    *fill = (struct fill){.in = reader_of(input)};
}

// The input's next byte; 0 after its end.
static uint8_t next(struct fill *fill)
{
    return fill->in.left > 0 ? read_u8(&fill->in) : 0;
}

static int64_t next_number(struct fill *fill)
{
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof value; i++)
        value = value << 8 | next(fill);
    return (int64_t)value;
}

static size_t next_len(struct fill *fill, const struct field *f, size_t most)
{
    size_t len = next(fill) % (most + 1);
    return f->max > 0 && len > (uint64_t)f->max ? (size_t)f->max : len;
}

static size_t put_letters(struct fill *fill, char *to, size_t len)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (char)(' ' + next(fill) % ('~' - ' ' + 1));
    to[len] = '\0';
    return len;
}

static const char *next_text(struct fill *fill, const struct field *f, size_t least)
{
    CHECK(fill->texts_len < FILL_TEXTS);
    char *text = fill->texts[fill->texts_len++];
    size_t len = next_len(fill, f, sizeof *fill->texts - 1);
    put_letters(fill, text, len < least ? least : len);
    return text;
}

// Answers have no range. A byte of the compact encoding has one value that means "out of range".
static int64_t in_range(const struct field *f, int64_t value)
{
    if (f->kind == FIELD_FLAG || f->kind == FIELD_BOOL) return value & 1;
    if (f->kind == FIELD_PERCENT) return (int64_t)((uint64_t)value % 102) - 1;
    if (f->kind == FIELD_CODE) return (int64_t)((uint64_t)value % (SLUICE_DENIED + 1));
    if (f->max > 0 && (value < f->min || value > f->max))
        return f->min + (int64_t)((uint64_t)value % ((uint64_t)f->max - (uint64_t)f->min + 1));
    if (f->kind == FIELD_INT) return value & INT8_MAX;
    return f->kind == FIELD_SMALL ? value & UINT32_MAX : value;
}

static const char *next_status(struct fill *fill)
{
    static const char *const known[] = {"", "processed", "retrying", "released", "renewed"};
    return known[next(fill) % (sizeof known / sizeof *known)];
}

static const char *next_word(struct fill *fill)
{
    static const char *const known[] = {"", "steer", "interrupt", "pending", "withdrawn"};
    return known[next(fill) % (sizeof known / sizeof *known)];
}

static struct field_headers next_headers(struct fill *fill, const struct field *f)
{
    size_t len = next(fill) % (FILL_ITEMS + 1);
    for (size_t i = 0; i < len; i++)
        fill->headers[i] = (struct sluice_header){next_text(fill, f, 1), next_text(fill, f, 0)};
    return (struct field_headers){fill->headers, len};
}

static struct field_texts next_texts(struct fill *fill, const struct field *f)
{
    size_t len = next_len(fill, f, FILL_ITEMS);
    for (size_t i = 0; i < len; i++)
        fill->items[i] = next_text(fill, f, 0);
    return (struct field_texts){fill->items, len};
}

static struct sluice_origin next_origin(struct fill *fill)
{
    static const struct field queue = {.kind = FIELD_TEXT};
    union any_struct any = {0};
    struct sluice_origin *from = (struct sluice_origin *)any.bytes;
    fill_struct(fill, &origin_answer, &any);
    if (next(fill) & 1)
        return (struct sluice_origin){.queue = "", .id = "", .reason = "", .worker = ""};
    from->queue = next_text(fill, &queue, 1);
    return *from;
}

static void fill_larger(struct fill *fill, const struct field *f, void *at)
{
    struct bytes body;
    struct sluice_origin from;
    struct field_headers headers;
    struct field_texts texts;
    switch (f->kind) {
    case FIELD_BASE64:
    case FIELD_BODY:
        body = bytes_str(next_text(fill, f, 0));
        memcpy(at, &body, sizeof body);
        break;
    case FIELD_DATA:
        if (next(fill) & 1) return;
        body = bytes_str(next_text(fill, f, 0));
        memcpy(at, &body, sizeof body);
        break;
    case FIELD_HEADERS:
        headers = next_headers(fill, f);
        memcpy(at, &headers, sizeof headers);
        break;
    case FIELD_TEXTS:
        texts = next_texts(fill, f);
        memcpy(at, &texts, sizeof texts);
        break;
    case FIELD_ORIGIN:
        from = next_origin(fill);
        memcpy(at, &from, sizeof from);
        break;
    case FIELD_CHARS:
        put_letters(fill, at, next(fill) % f->size);
        break;
    default:
        break;
    }
}

void fill_field(struct fill *fill, const struct field *f, union any_struct *out)
{
    void *at = out->bytes + f->at;
    const char **text = at;
    switch (f->kind) {
    case FIELD_TEXT:
        *text = next_text(fill, f, 0);
        break;
    case FIELD_STATUS:
        *text = next_status(fill);
        break;
    case FIELD_WORD:
        *text = next_word(fill);
        break;
    case FIELD_KEPT_TEXT:
        *text = next(fill) & 1 ? NULL : next_text(fill, f, 0);
        break;
    case FIELD_FAILURE_KIND:
        *text = failure_kind_name(next(fill) & 1 ? FAILURE_EXPIRED : FAILURE_FAILED);
        break;
    case FIELD_NUMBER:
    case FIELD_DURATION:
    case FIELD_COUNT:
    case FIELD_SMALL:
    case FIELD_INT:
    case FIELD_FLAG:
    case FIELD_BOOL:
    case FIELD_CODE:
    case FIELD_PERCENT:
        field_store(f, at, in_range(f, next_number(fill)));
        break;
    default:
        fill_larger(fill, f, at);
    }
}

void fill_struct(struct fill *fill, const struct fields *table, union any_struct *out)
{
    for (size_t i = 0; i < table->len; i++)
        fill_field(fill, &table->rows[i], out);
}
