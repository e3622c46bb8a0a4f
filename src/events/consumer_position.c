// SPDX-License-Identifier: Apache-2.0
// The position of a consumer as text: the number of the first message that it needs, and the next
// sequence of each shard.
//
//   sluice-position 1
//   resume 123
//   shard <id of the queue> <shard> <next sequence>
//   check <hash of the lines before>
#include "base/digits.h"
#include "events/consumer_inside.h"

#include <stdio.h>
#include <string.h>

#define HEAD      "sluice-position 1\n"
#define CHECK_LEN 16

static void put_line(struct buf *to, const char *text)
{
    buf_put(to, bytes_str(text));
}

void consumer_position_put(const struct consumer *c, struct buf *to)
{
    char line[128], *at;
    size_t start = to->len;
    put_line(to, HEAD);
    (void)snprintf(line, sizeof line, "resume %llu\n", (unsigned long long)consumer_resume(c));
    put_line(to, line);
    for (size_t i = 0; i < c->rows_len; i++) {
        const struct place_row *row = &c->rows[i];
        uint64_t next = c->config.filtered && row->high >= row->next ? row->high + 1 : row->next;
        if (next == 0) continue;
        (void)snprintf(line, sizeof line, "shard %s %u %llu\n", row->life, row->shard,
                       (unsigned long long)next);
        put_line(to, line);
    }
    if (to->bad) return;
    at = line + snprintf(line, sizeof line, "check ");
    at = digits_put_hex64(at, hash64_of(bytes_of(to->data + start, to->len - start), 0));
    *at++ = '\n';
    buf_put(to, bytes_of(line, (size_t)(at - line)));
}

// Takes a line from the front of the text, without its end.
static bool take_line(struct bytes *rest, struct bytes *line)
{
    const uint8_t *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
    if (!end) return false;
    *line = bytes_of(rest->data, (size_t)(end - rest->data));
    *rest = bytes_of(end + 1, rest->len - line->len - 1);
    return true;
}

// Takes a word up to a space or the end of the line.
static struct bytes take_word(struct bytes *line)
{
    const uint8_t *end = line->len > 0 ? memchr(line->data, ' ', line->len) : NULL;
    size_t len = end ? (size_t)(end - line->data) : line->len;
    struct bytes word = bytes_of(line->data, len);
    *line = end ? bytes_of(end + 1, line->len - len - 1) : BYTES_EMPTY;
    return word;
}

static bool read_number(struct bytes word, uint64_t max, uint64_t *out)
{
    *out = 0;
    if (word.len == 0 || word.len > DIGITS_MAX) return false;
    for (size_t i = 0; i < word.len; i++) {
        if (word.data[i] < '0' || word.data[i] > '9') return false;
        uint64_t digit = (uint64_t)(word.data[i] - '0');
        if (*out > (max - digit) / 10) return false;
        *out = *out * 10 + digit;
    }
    return true;
}

// Reads a line of the position. With a consumer it is stored, without one only checked.
static bool take_row(struct consumer *c, struct bytes line)
{
    uint64_t shard, next;
    struct bytes kind = take_word(&line), life;
    if (bytes_equal(kind, bytes_str("resume"))) {
        if (!read_number(take_word(&line), INT64_MAX, &next) || line.len > 0 || next == 0)
            return false;
        if (c) c->read = next - 1;
        return true;
    }
    if (!bytes_equal(kind, bytes_str("shard"))) return false;
    life = take_word(&line);
    if (!consumer_is_life(life) || !read_number(take_word(&line), UINT32_MAX, &shard)) return false;
    if (!read_number(take_word(&line), INT64_MAX, &next) || line.len > 0 || next == 0) return false;
    if (c) consumer_row(c, (const char *)life.data, (uint32_t)shard)->next = next;
    return true;
}

static bool take_rows(struct consumer *c, struct bytes body)
{
    struct bytes line;
    bool good = take_line(&body, &line);
    for (bool first = true; good && take_line(&body, &line); first = false) {
        bool resume = line.len > 0 && line.data[0] == 'r';
        good = resume == first && take_row(c, line);
    }
    return good;
}

static enum err refuse(char why[ENVELOPE_WHY_MAX], const char *text)
{
    (void)snprintf(why, ENVELOPE_WHY_MAX, "the position %s", text);
    return ERR_CORRUPT;
}

enum err consumer_position_take(struct consumer *c, struct bytes text, char why[ENVELOPE_WHY_MAX])
{
    static const size_t check_len = sizeof "check \n" - 1 + CHECK_LEN;
    char right[CHECK_LEN + 8], *at;
    if (text.len > CONSUMER_POSITION_MAX) return refuse(why, "is too large");
    if (text.len < sizeof HEAD - 1 || memcmp(text.data, HEAD, sizeof HEAD - 1) != 0)
        return refuse(why, "does not begin with \"sluice-position 1\"");
    if (text.len < sizeof HEAD - 1 + check_len) return refuse(why, "is cut off");
    struct bytes body = bytes_of(text.data, text.len - check_len);
    at = right + snprintf(right, sizeof right, "check ");
    at = digits_put_hex64(at, hash64_of(body, 0));
    *at++ = '\n';
    if (memcmp(right, text.data + body.len, check_len) != 0)
        return refuse(why, "is damaged: its checksum does not fit");
    if (!take_rows(NULL, body)) return refuse(why, "has a line that is none of resume and shard");
    (void)take_rows(c, body);
    return ERR_OK;
}
