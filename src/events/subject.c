// SPDX-License-Identifier: Apache-2.0
// A subject is a list of tokens. One table has the tokens of each kind, and both directions read
// it.
#include "events/subject.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PREFIX        "sluice"
#define STREAM_PREFIX "SLUICE_"
#define SHARD_PREFIX  "SLUICE-"
#define TOKENS_MAX    6
#define SHARD_DIGITS  10
#define SHOWN_LEN     60 // bytes of a wrong text that a reason shows

enum part { PART_NONE, PART_QUEUE, PART_SHARD, PART_WORKFLOW, PART_EVENT };

static const struct kind {
    const char *name;
    enum part parts[3]; // what follows the name
} kinds[SUBJECT_KINDS] = {
    [SUBJECT_TASK] = {"task", {PART_QUEUE, PART_SHARD, PART_EVENT}},
    [SUBJECT_WORKFLOW] = {"workflow", {PART_QUEUE, PART_WORKFLOW, PART_EVENT}},
    [SUBJECT_CLUSTER] = {"cluster", {PART_EVENT, PART_NONE, PART_NONE}},
};

static char *put_text(char *at, const char *text)
{
    size_t len = strlen(text);
    memcpy(at, text, len);
    return at + len;
}

static char *put_head(char *at, uint32_t version, const char *kind)
{
    at = put_text(at, PREFIX ".v");
    at = digits_put(at, version > 0 ? version : SUBJECT_VERSION);
    *at++ = '.';
    return put_text(at, kind);
}

static struct bytes name_of(const struct subject *s, enum part part)
{
    CHECK(part == PART_QUEUE || part == PART_WORKFLOW || part == PART_EVENT);
    return part == PART_QUEUE ? s->queue : part == PART_WORKFLOW ? s->workflow : s->event;
}

static enum err check_name(struct bytes name)
{
    if (name.len > SUBJECT_NAME_MAX) return ERR_LIMIT;
    return name.len > 0 ? ERR_OK : ERR_INVALID;
}

enum err subject_print(const struct subject *s, char out[SUBJECT_MAX])
{
    CHECK(s->kind < SUBJECT_KINDS);
    char *at = put_head(out, s->version, kinds[s->kind].name);
    for (size_t i = 0; i < 3 && kinds[s->kind].parts[i] != PART_NONE; i++) {
        enum part part = kinds[s->kind].parts[i];
        *at++ = '.';
        if (part == PART_SHARD) {
            at = digits_put(at, s->shard);
            continue;
        }
        enum err err = check_name(name_of(s, part));
        if (err) return err;
        at = token_put(at, name_of(s, part));
    }
    *at = '\0';
    CHECK(at < out + SUBJECT_MAX);
    return ERR_OK;
}

enum err subject_stream(struct bytes queue, char out[SUBJECT_STREAM_MAX])
{
    enum err err = check_name(queue);
    if (err) return err;
    char *at = put_text(out, STREAM_PREFIX);
    at = token_put(at, queue);
    *at = '\0';
    CHECK(at < out + SUBJECT_STREAM_MAX);
    return ERR_OK;
}

enum err subject_shard_stream(struct bytes queue, uint32_t shard, char out[SUBJECT_STREAM_MAX])
{
    enum err err = check_name(queue);
    if (err) return err;
    char *at = put_text(out, SHARD_PREFIX);
    at = digits_put(at, shard);
    *at++ = '_';
    at = token_put(at, queue);
    *at = '\0';
    CHECK(at < out + SUBJECT_STREAM_MAX);
    return ERR_OK;
}

// Returns the number of tokens, and at most `max` + 1.
static size_t split(struct bytes text, struct bytes *tokens, size_t max)
{
    size_t len = 0, start = 0;
    for (size_t i = 0; i <= text.len && len <= max; i++) {
        if (i < text.len && text.data[i] != '.') continue;
        if (len < max) tokens[len] = bytes_of(text.data + start, i - start);
        len++;
        start = i + 1;
    }
    return len;
}

__attribute__((format(printf, 2, 3))) static enum err refuse(char why[SUBJECT_WHY_MAX],
                                                             const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    (void)vsnprintf(why, SUBJECT_WHY_MAX, format, rest);
    va_end(rest);
    return ERR_INVALID;
}

// A text from outside, with every byte that is not printable as "?".
static const char *shown(struct bytes text, char out[SHOWN_LEN + 1])
{
    size_t len = text.len < SHOWN_LEN ? text.len : SHOWN_LEN;
    for (size_t i = 0; i < len; i++)
        out[i] = text.data[i] >= ' ' && text.data[i] < 0x7f ? (char)text.data[i] : '?';
    out[len] = '\0';
    return out;
}

// Only the shortest form of a number is accepted.
static bool read_number(struct bytes text, uint32_t *out)
{
    uint64_t value = 0;
    if (text.len == 0 || text.len > SHARD_DIGITS) return false;
    if (text.data[0] == '0' && text.len > 1) return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    *out = (uint32_t)value;
    return value <= UINT32_MAX;
}

static int upper_hex(uint8_t c)
{
    return c >= 'a' && c <= 'f' ? -1 : digits_hex_value(c);
}

// Decodes a token at *room and moves *room behind the name. A byte that needs no "=HH" must not
// have it, so that each name has one token.
static bool read_token(struct bytes token, char **room, struct bytes *out)
{
    char *at = *room;
    for (size_t i = 0; i < token.len; i++) {
        uint8_t c = token.data[i];
        if (token_has_plain(c)) {
            *at++ = (char)c;
            continue;
        }
        if (c != '=' || token.len - i < 3) return false;
        int high = upper_hex(token.data[i + 1]), low = upper_hex(token.data[i + 2]);
        if (high < 0 || low < 0 || token_has_plain((uint8_t)(high << 4 | low))) return false;
        *at++ = (char)(high << 4 | low);
        i += 2;
    }
    *out = bytes_of(*room, (size_t)(at - *room));
    *room = at;
    return out->len > 0 && out->len <= SUBJECT_NAME_MAX;
}

static enum err read_head(const struct bytes *tokens, size_t len, struct subject *s,
                          char why[SUBJECT_WHY_MAX])
{
    char text[SHOWN_LEN + 1];
    if (len < 4 || !bytes_equal(tokens[0], bytes_str(PREFIX)))
        return refuse(why, "the subject does not begin with \"" PREFIX ".v%d.\" and a kind",
                      SUBJECT_VERSION);
    struct bytes version = tokens[1];
    bool is_number = version.len > 1 && version.data[0] == 'v' &&
                     read_number(bytes_of(version.data + 1, version.len - 1), &s->version);
    if (!is_number || s->version == 0)
        return refuse(why, "\"%s\" is not a version, such as v%d", shown(version, text),
                      SUBJECT_VERSION);
    for (int kind = 0; kind < SUBJECT_KINDS; kind++) {
        if (!bytes_equal(tokens[2], bytes_str(kinds[kind].name))) continue;
        s->kind = (enum subject_kind)kind;
        return ERR_OK;
    }
    return refuse(why, "\"%s\" is not one of task, workflow, cluster", shown(tokens[2], text));
}

static enum err read_part(enum part part, struct bytes token, char **room, struct subject *s,
                          char why[SUBJECT_WHY_MAX])
{
    char text[SHOWN_LEN + 1];
    struct bytes name = BYTES_EMPTY;
    if (part == PART_SHARD) {
        if (read_number(token, &s->shard)) return ERR_OK;
        return refuse(why, "\"%s\" is not the number of a shard", shown(token, text));
    }
    if (!read_token(token, room, &name))
        return refuse(why,
                      "\"%s\" is not a token: 1 to %d bytes, [A-Za-z0-9_-] as they are and every "
                      "other byte as =HH",
                      shown(token, text), SUBJECT_NAME_MAX);
    if (part == PART_QUEUE) s->queue = name;
    if (part == PART_WORKFLOW) s->workflow = name;
    if (part == PART_EVENT) s->event = name;
    return ERR_OK;
}

static enum err read_tokens(const struct bytes *tokens, size_t len, char *room, struct subject *s,
                            char why[SUBJECT_WHY_MAX])
{
    enum err err = read_head(tokens, len, s, why);
    if (err) return err;
    size_t wanted = 3;
    while (wanted < TOKENS_MAX && kinds[s->kind].parts[wanted - 3] != PART_NONE)
        wanted++;
    if (len != wanted)
        return refuse(why, "a %s subject has %zu tokens", kinds[s->kind].name, wanted);
    for (size_t i = 3; !err && i < wanted; i++)
        err = read_part(kinds[s->kind].parts[i - 3], tokens[i], &room, s, why);
    return err;
}

enum err subject_read(struct bytes text, char room[SUBJECT_MAX], struct subject *out,
                      char why[SUBJECT_WHY_MAX])
{
    struct bytes tokens[TOKENS_MAX];
    *out = (struct subject){0};
    if (text.len == 0) return refuse(why, "the subject is empty");
    if (text.len >= SUBJECT_MAX)
        return refuse(why, "the subject has %zu bytes; at most %d are allowed", text.len,
                      SUBJECT_MAX - 1);
    enum err err = read_tokens(tokens, split(text, tokens, TOKENS_MAX), room, out, why);
    if (err) *out = (struct subject){0};
    return err;
}

// Puts the token of a name, or a wildcard.
static enum err put_match(char **at, struct bytes name)
{
    *(*at)++ = '.';
    if (name.len > SUBJECT_NAME_MAX) return ERR_LIMIT;
    if (name.len > 0)
        *at = token_put(*at, name);
    else
        *(*at)++ = '*';
    return ERR_OK;
}

enum err subject_filter_print(const struct subject_filter *f, char out[SUBJECT_MAX])
{
    CHECK(f->kind < SUBJECT_KINDS);
    bool cluster = !f->every_kind && f->kind == SUBJECT_CLUSTER;
    bool task = !f->every_kind && f->kind == SUBJECT_TASK;
    char *at = put_head(out, f->version, f->every_kind ? "*" : kinds[f->kind].name);
    if ((f->every_kind || task || cluster) && f->workflow.len > 0) return ERR_INVALID;
    if (cluster && f->queue.len > 0) return ERR_INVALID;
    enum err err = cluster ? ERR_OK : put_match(&at, f->queue);
    if (!err && task && !f->every_shard) {
        *at++ = '.';
        at = digits_put(at, f->shard);
    } else if (!err && !cluster) {
        err = put_match(&at, f->workflow);
    }
    if (!err) err = put_match(&at, f->event);
    *at = '\0';
    CHECK(at < out + SUBJECT_MAX);
    return err;
}
