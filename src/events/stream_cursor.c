// SPDX-License-Identifier: Apache-2.0
// Reads and writes the cursor of a stream.
#include "events/stream_cursor.h"

#include "base/check.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void put_row(struct stream_cursor *c, const char *life)
{
    c->rows = memory_resize(c->rows, (c->len + 1) * sizeof *c->rows);
    struct cursor_row *row = &c->rows[c->len++];
    *row = (struct cursor_row){.first = (uint32_t)c->places_len};
    memcpy(row->life, life, CURSOR_LIFE);
}

static void put_place(struct stream_cursor *c, const struct stream_position *place)
{
    c->places = memory_resize(c->places, (c->places_len + 1) * sizeof *c->places);
    c->places[c->places_len++] = *place;
    c->rows[c->len - 1].shards++;
}

int stream_place_compare(const struct stream_position *a, const struct stream_position *b)
{
    if (a->slot != b->slot) return a->slot < b->slot ? -1 : 1;
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    return 0;
}

// Returns what follows the number. NULL: there is none, or it has more than 64 bits.
static const char *read_number(const char *text, uint64_t *out)
{
    size_t digits = strspn(text, "0123456789");
    *out = 0;
    for (size_t i = 0; i < digits; i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (*out > (UINT64_MAX - digit) / 10) return NULL;
        *out = *out * 10 + digit;
    }
    return digits > 0 ? text + digits : NULL;
}

static const char *read_place(const char *text, struct stream_position *out)
{
    text = read_number(text, &out->slot);
    return text && *text == '_' ? read_number(text + 1, &out->n) : NULL;
}

static const char *read_row(struct stream_cursor *c, const char *text)
{
    if (strspn(text, "0123456789abcdef") != CURSOR_LIFE) return NULL;
    if (text[CURSOR_LIFE] != '.') return NULL;
    put_row(c, text);
    text += CURSOR_LIFE;
    while (text && *text == '.') {
        struct stream_position place;
        text = read_place(text + 1, &place);
        if (text) put_place(c, &place);
    }
    return text;
}

bool stream_cursor_read(const char *text, struct stream_cursor *out)
{
    *out = (struct stream_cursor){0};
    do
        text = read_row(out, text);
    while (text && *text++ == '-');
    return text && text[-1] == '\0';
}

void stream_cursor_done(struct stream_cursor *c)
{
    memory_free(c->rows);
    memory_free(c->places);
    *c = (struct stream_cursor){0};
}

const struct stream_position *stream_cursor_find(const struct stream_cursor *c, const char *life,
                                                 uint32_t shards)
{
    for (size_t i = 0; i < c->len; i++)
        if (strncmp(c->rows[i].life, life, CURSOR_LIFE) == 0 && c->rows[i].shards == shards)
            return &c->places[c->rows[i].first];
    return NULL;
}

static void put_number(struct buf *to, char before, uint64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%c%" PRIu64, before, number);
    buf_put(to, bytes_str(text));
}

void stream_cursor_put(struct buf *to, bool first, const char *life,
                       const struct stream_position *places, uint32_t shards)
{
    CHECK(strlen(life) >= CURSOR_LIFE);
    if (!first) buf_put(to, bytes_str("-"));
    buf_put(to, bytes_of(life, CURSOR_LIFE));
    for (uint32_t i = 0; i < shards; i++) {
        put_number(to, '.', places[i].slot);
        put_number(to, '_', places[i].n);
    }
}
