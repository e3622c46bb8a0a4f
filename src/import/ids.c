// SPDX-License-Identifier: Apache-2.0
// Ranges of numbers in order. A number that comes after all others, which is the usual case, takes
// constant time.
#include "import/ids.h"

#include "base/array.h"
#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "import/answer.h"

#include <string.h>

void ids_done(struct ids *s)
{
    memory_free(s->ranges);
    *s = (struct ids){0};
}

// Returns the index of the first range that ends at `id` or later.
static size_t find(const struct ids *s, uint64_t id)
{
    size_t low = 0, high = s->len;
    if (high > 0 && s->ranges[high - 1].last < id) return high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->ranges[middle].last < id)
            low = middle + 1;
        else
            high = middle;
    }
    CHECK(low == s->len || s->ranges[low].last >= id);
    return low;
}

bool ids_has(const struct ids *s, uint64_t id)
{
    size_t at = find(s, id);
    return at < s->len && s->ranges[at].first <= id;
}

static void insert(struct ids *s, size_t at, uint64_t first, uint64_t last)
{
    CHECK(first <= last);
    *ARRAY_INSERT(s->ranges, s->len, s->cap, at) = (struct id_range){first, last};
}

static void remove_ranges(struct ids *s, size_t from, size_t to)
{
    CHECK(from <= to && to <= s->len);
    if (from == to) return; // the set may be empty
    memmove(s->ranges + from, s->ranges + to, (s->len - to) * sizeof *s->ranges);
    s->len -= to - from;
}

void ids_add_range(struct ids *s, uint64_t first, uint64_t last)
{
    CHECK(first <= last);
    // The first range that touches or follows the new one, and the first that lies behind it.
    size_t from = find(s, first > 0 ? first - 1 : 0), to = from;
    uint64_t low = first, high = last;
    while (to < s->len && (s->ranges[to].first <= last || s->ranges[to].first - 1 == last)) {
        if (s->ranges[to].first < low) low = s->ranges[to].first;
        if (s->ranges[to].last > high) high = s->ranges[to].last;
        s->count -= s->ranges[to].last - s->ranges[to].first + 1;
        to++;
    }
    if (to == from) {
        insert(s, from, low, high);
    } else {
        s->ranges[from] = (struct id_range){low, high};
        remove_ranges(s, from + 1, to);
    }
    s->count += high - low + 1;
}

void ids_add(struct ids *s, uint64_t id)
{
    ids_add_range(s, id, id);
}

void ids_cut(struct ids *s, uint64_t first, uint64_t last)
{
    CHECK(first <= last);
    size_t from = find(s, first), to = from;
    struct id_range left = {1, 0}, right = {1, 0}; // what remains of the ranges at both ends
    while (to < s->len && s->ranges[to].first <= last) {
        struct id_range old = s->ranges[to++];
        if (old.first < first) left = (struct id_range){old.first, first - 1};
        if (old.last > last) right = (struct id_range){last + 1, old.last};
        s->count -= old.last - old.first + 1;
    }
    remove_ranges(s, from, to);
    if (right.first <= right.last) insert(s, from, right.first, right.last);
    if (left.first <= left.last) insert(s, from, left.first, left.last);
    s->count += (right.first <= right.last ? right.last - right.first + 1 : 0) +
                (left.first <= left.last ? left.last - left.first + 1 : 0);
}

void ids_write(const struct ids *s, struct buf *to)
{
    if (s->len == 0) buf_put_u8(to, '-');
    for (size_t i = 0; i < s->len; i++) {
        char text[2 * DIGITS_MAX + 2], *at = text;
        if (i > 0) *at++ = ',';
        at = digits_put(at, s->ranges[i].first);
        if (s->ranges[i].last != s->ranges[i].first) {
            *at++ = '-';
            at = digits_put(at, s->ranges[i].last);
        }
        buf_put(to, bytes_of(text, (size_t)(at - text)));
    }
}

static bool read_range(struct ids *s, struct bytes text)
{
    const uint8_t *dash = text.len ? memchr(text.data, '-', text.len) : NULL;
    size_t head = dash ? (size_t)(dash - text.data) : text.len;
    uint64_t first, last;
    if (!answer_digits(bytes_of(text.data, head), &first)) return false;
    last = first;
    if (dash && !answer_digits(bytes_of(dash + 1, text.len - head - 1), &last)) return false;
    // The count of a set must fit, too.
    if (first > last || last == UINT64_MAX || last - first >= UINT64_MAX - s->count) return false;
    ids_add_range(s, first, last);
    return true;
}

bool ids_read(struct ids *s, struct bytes text)
{
    if (bytes_equal(text, bytes_str("-"))) return true;
    for (;;) {
        const uint8_t *comma = text.len ? memchr(text.data, ',', text.len) : NULL;
        size_t head = comma ? (size_t)(comma - text.data) : text.len;
        if (!read_range(s, bytes_of(text.data, head))) return false;
        if (!comma) return true;
        text = bytes_of(comma + 1, text.len - head - 1);
    }
}
