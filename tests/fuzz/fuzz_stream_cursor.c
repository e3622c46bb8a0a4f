// SPDX-License-Identifier: Apache-2.0
// Any bytes as the place that a client of /v1/stream comes back with.
#include "base/check.h"
#include "base/memory.h"
#include "events/stream_cursor.h"
#include "fuzz.h"

#include <string.h>

static void read_again(const struct stream_cursor *c)
{
    struct stream_cursor again;
    struct buf text;
    buf_init(&text, SIZE_MAX);
    for (size_t i = 0; i < c->len; i++)
        stream_cursor_put(&text, i == 0, c->rows[i].life, &c->places[c->rows[i].first],
                          c->rows[i].shards);
    buf_put_u8(&text, 0);
    CHECK(stream_cursor_read((const char *)text.data, &again));
    CHECK(again.len == c->len && again.places_len == c->places_len);
    for (size_t i = 0; i < c->places_len; i++)
        CHECK(stream_place_compare(&again.places[i], &c->places[i]) == 0);
    stream_cursor_done(&again);
    buf_done(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stream_cursor c;
    char *text = memory_new(size + 1);
    if (size > 0) memcpy(text, data, size);
    text[size] = '\0';
    if (stream_cursor_read(text, &c)) {
        CHECK(c.len > 0 && c.places_len >= c.len);
        for (size_t i = 0; i < c.len; i++)
            CHECK(stream_cursor_find(&c, c.rows[i].life, c.rows[i].shards));
        read_again(&c);
    }
    stream_cursor_done(&c);
    memory_free(text);
    return 0;
}
