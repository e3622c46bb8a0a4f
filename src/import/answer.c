// SPDX-License-Identifier: Apache-2.0
// Reads the answers of beanstalkd: a line of words, and for some words a body whose length the line
// tells.
#include "import/answer.h"

#include "base/check.h"

#include <string.h>

enum shape { PLAIN, WITH_TEXT, WITH_ID, WITH_SIZE, WITH_ID_AND_SIZE };

static const struct {
    const char *name;
    enum answer_word word;
    enum shape shape;
} words[] = {
    {"DEADLINE_SOON", ANSWER_DEADLINE_SOON, PLAIN},
    {"DELETED", ANSWER_DELETED, PLAIN},
    {"DRAINING", ANSWER_DRAINING, PLAIN},
    {"FOUND", ANSWER_FOUND, WITH_ID_AND_SIZE},
    {"INSERTED", ANSWER_INSERTED, WITH_ID},
    {"NOT_FOUND", ANSWER_NOT_FOUND, PLAIN},
    {"NOT_IGNORED", ANSWER_NOT_IGNORED, PLAIN},
    {"OK", ANSWER_OK, WITH_SIZE},
    {"RESERVED", ANSWER_RESERVED, WITH_ID_AND_SIZE},
    {"TIMED_OUT", ANSWER_TIMED_OUT, PLAIN},
    {"USING", ANSWER_USING, WITH_TEXT},
    {"WATCHING", ANSWER_WATCHING, WITH_TEXT},
    // What a server answers to a command that it cannot do.
    {"BAD_FORMAT", ANSWER_OTHER, PLAIN},
    {"BURIED", ANSWER_OTHER, WITH_TEXT},
    {"EXPECTED_CRLF", ANSWER_OTHER, PLAIN},
    {"INTERNAL_ERROR", ANSWER_OTHER, PLAIN},
    {"JOB_TOO_BIG", ANSWER_OTHER, PLAIN},
    {"OUT_OF_MEMORY", ANSWER_OTHER, PLAIN},
    {"UNKNOWN_COMMAND", ANSWER_OTHER, PLAIN},
};

struct bytes answer_next_word(struct bytes *rest)
{
    const uint8_t *space = rest->len ? memchr(rest->data, ' ', rest->len) : NULL;
    struct bytes word = bytes_of(rest->data, space ? (size_t)(space - rest->data) : rest->len);
    size_t cut = word.len + (space ? 1 : 0);
    CHECK(cut <= rest->len);
    *rest = bytes_of(rest->data + cut, rest->len - cut);
    return word;
}

bool answer_digits(struct bytes text, uint64_t *out)
{
    uint64_t n = 0;
    if (text.len == 0) return false;
    for (size_t i = 0; i < text.len; i++) {
        uint64_t digit = (uint64_t)text.data[i] - '0';
        if (digit > 9 || n > (UINT64_MAX - digit) / 10) return false;
        n = n * 10 + digit;
    }
    *out = n;
    return true;
}

// Reads what follows the first word. *size is the length of the body.
static bool read_rest(struct bytes rest, enum shape shape, struct beanstalk_answer *out,
                      uint64_t *size)
{
    *size = 0;
    if (shape == PLAIN) return rest.len == 0;
    if (shape == WITH_TEXT) return true;
    bool ok = true;
    if (shape != WITH_SIZE) ok = answer_digits(answer_next_word(&rest), &out->id);
    if (shape != WITH_ID) ok = ok && answer_digits(answer_next_word(&rest), size);
    return ok && rest.len == 0 && *size <= ANSWER_BODY_MAX;
}

static bool read_line(struct beanstalk_answer *out, enum shape *shape, uint64_t *size)
{
    struct bytes rest = out->line, first = answer_next_word(&rest);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!bytes_equal(first, bytes_str(words[i].name))) continue;
        out->word = words[i].word;
        *shape = words[i].shape;
        return read_rest(rest, *shape, out, size);
    }
    return false;
}

enum answer_step answer_read(struct bytes from, struct beanstalk_answer *out, size_t *used)
{
    size_t looked = from.len < ANSWER_LINE_MAX ? from.len : ANSWER_LINE_MAX;
    const uint8_t *end = looked ? memchr(from.data, '\n', looked) : NULL;
    *out = (struct beanstalk_answer){.line = bytes_of(from.data, looked)};
    *used = 0;
    if (!end) return looked < ANSWER_LINE_MAX ? ANSWER_MORE : ANSWER_BAD;
    size_t line = (size_t)(end - from.data) + 1;
    out->line.len = line > 1 && end[-1] == '\r' ? line - 2 : line - 1;
    enum shape shape = PLAIN;
    uint64_t size = 0;
    if (out->line.len + 2 != line || !read_line(out, &shape, &size)) return ANSWER_BAD;
    *used = line;
    if (shape != WITH_SIZE && shape != WITH_ID_AND_SIZE) return ANSWER_ONE;
    size_t whole = line + (size_t)size + 2;
    if (from.len < whole) return ANSWER_MORE;
    if (memcmp(from.data + line + size, "\r\n", 2) != 0) return ANSWER_BAD;
    out->body = bytes_of(from.data + line, (size_t)size);
    *used = whole;
    CHECK(*used <= from.len);
    return ANSWER_ONE;
}

// Returns the line that begins at *at, without its end, and moves *at behind it.
static bool next_line(struct bytes body, size_t *at, struct bytes *out)
{
    if (*at >= body.len) return false;
    const uint8_t *from = body.data + *at, *end = memchr(from, '\n', body.len - *at);
    *out = bytes_of(from, end ? (size_t)(end - from) : body.len - *at);
    *at += out->len + 1;
    return true;
}

static bool begins_with(struct bytes text, struct bytes with)
{
    return text.len >= with.len && bytes_equal(bytes_of(text.data, with.len), with);
}

bool answer_value(struct bytes body, const char *name, struct bytes *out)
{
    struct bytes line, wanted = bytes_str(name);
    for (size_t at = 0; next_line(body, &at, &line);) {
        size_t head = wanted.len + 2;
        if (!begins_with(line, wanted) || line.len < head) continue;
        if (memcmp(line.data + wanted.len, ": ", 2) != 0) continue;
        *out = bytes_of(line.data + head, line.len - head);
        return true;
    }
    return false;
}

bool answer_number(struct bytes body, const char *name, uint64_t *out)
{
    struct bytes value;
    return answer_value(body, name, &value) && answer_digits(value, out);
}

bool answer_item(struct bytes body, size_t *at, struct bytes *out)
{
    struct bytes line;
    while (next_line(body, at, &line)) {
        if (!begins_with(line, bytes_str("- "))) continue;
        *out = bytes_of(line.data + 2, line.len - 2);
        return true;
    }
    return false;
}
