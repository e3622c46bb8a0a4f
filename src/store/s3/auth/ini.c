// SPDX-License-Identifier: Apache-2.0
// Reads one line at a time. A line that is indented deeper than the property before it belongs to
// that property, as in Python's configparser, the parser of the AWS CLI.
#include "store/s3/auth/ini.h"

#include <string.h>
#include <strings.h>

struct ini_walk {
    struct bytes left;
    struct bytes section;
    bool in_section;
    struct bytes property; // the last property; empty: none in this section yet
    bool property_open;    // it had no value: deeper lines are nested properties
    size_t indent;         // of that property
};

static bool blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct bytes trimmed(struct bytes b)
{
    while (b.len && blank(b.data[0])) {
        b.data++;
        b.len--;
    }
    while (b.len && blank(b.data[b.len - 1]))
        b.len--;
    return b;
}

static struct bytes next_line(struct bytes *left)
{
    const uint8_t *end = memchr(left->data, '\n', left->len);
    size_t len = end ? (size_t)(end - left->data) : left->len;
    struct bytes line = bytes_of(left->data, len);
    size_t used = end ? len + 1 : len;
    *left = bytes_of(left->data + used, left->len - used);
    return line;
}

static size_t indent_of(struct bytes line)
{
    size_t n = 0;
    while (n < line.len && blank(line.data[n]))
        n++;
    return n;
}

// A '#' or ';' begins a comment only after a blank: secrets and URLs can contain both.
static struct bytes without_comment(struct bytes text)
{
    for (size_t i = 1; i < text.len; i++)
        if ((text.data[i] == '#' || text.data[i] == ';') && blank(text.data[i - 1]))
            return trimmed(bytes_of(text.data, i));
    return text;
}

static bool split_pair(struct bytes text, struct bytes *name, struct bytes *value)
{
    const uint8_t *equals = text.len ? memchr(text.data, '=', text.len) : NULL;
    if (!equals) return false;
    size_t at = (size_t)(equals - text.data);
    *name = trimmed(bytes_of(text.data, at));
    struct bytes rest = bytes_of(equals + 1, text.len - at - 1);
    *value = trimmed(without_comment(rest)); // "a = # b": the blank before '#' counts
    return name->len > 0;
}

static const char *read_section(struct ini_walk *w, struct bytes text, struct ini_item *item)
{
    const uint8_t *end = memchr(text.data, ']', text.len);
    if (!end) return "the section's name has no closing ]";
    struct bytes name = trimmed(bytes_of(text.data + 1, (size_t)(end - text.data) - 1));
    struct bytes rest = trimmed(bytes_of(end + 1, (size_t)(text.data + text.len - end) - 1));
    if (!name.len) return "the section has no name";
    if (rest.len && rest.data[0] != '#' && rest.data[0] != ';')
        return "something follows the section's closing ]";
    w->section = name;
    w->in_section = true;
    w->property = BYTES_EMPTY;
    item->section = name;
    return NULL;
}

static const char *read_deeper(const struct ini_walk *w, struct bytes text, struct ini_item *item)
{
    item->section = w->section;
    item->name = w->property;
    if (!w->property_open) {
        item->continued = true;
        item->value = without_comment(text);
        return NULL;
    }
    if (!split_pair(text, &item->nested, &item->value)) return "expected name = value";
    return NULL;
}

static const char *read_property(struct ini_walk *w, struct bytes text, size_t indent,
                                 struct ini_item *item)
{
    if (!w->in_section) return "expected a section such as [default] before the first property";
    if (!split_pair(text, &item->name, &item->value)) return "expected name = value";
    item->section = w->section;
    w->property = item->name;
    w->property_open = item->value.len == 0;
    w->indent = indent;
    return NULL;
}

static const char *read_line(struct ini_walk *w, struct bytes line, struct ini_item *item)
{
    size_t indent = indent_of(line);
    struct bytes text = trimmed(line);
    if (text.data[0] == '[' && indent == 0) return read_section(w, text, item);
    if (w->property.len && indent > w->indent) return read_deeper(w, text, item);
    if (text.data[0] == '[') return read_section(w, text, item);
    return read_property(w, text, indent, item);
}

bool ini_walk(struct bytes text, ini_visit *visit, void *ctx, struct ini_problem *problem)
{
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf}; // byte order mark: some editors write it
    if (text.len >= sizeof mark && memcmp(text.data, mark, sizeof mark) == 0)
        text = bytes_of(text.data + sizeof mark, text.len - sizeof mark);
    struct ini_walk w = {.left = text};
    for (int number = 1; w.left.len; number++) {
        struct bytes line = next_line(&w.left);
        struct bytes inside = trimmed(line);
        if (!inside.len || inside.data[0] == '#' || inside.data[0] == ';') continue;
        struct ini_item item = {.line = number};
        const char *wrong = read_line(&w, line, &item);
        if (!wrong) wrong = visit(ctx, &item);
        if (wrong) {
            *problem = (struct ini_problem){.line = number, .text = wrong};
            return false;
        }
    }
    return true;
}

bool ini_is(struct bytes name, const char *expected)
{
    return name.len == strlen(expected) &&
           strncasecmp((const char *)name.data, expected, name.len) == 0;
}
