// SPDX-License-Identifier: Apache-2.0
// Splits and decodes the path and the query of a request.
#include "server/target.h"

#include "base/digits.h"
#include "base/memory.h"

#include <string.h>

// Decodes in place.
static bool decode(char *text, bool plus)
{
    char *to = text;
    for (const char *at = text; *at; at++) {
        if (*at != '%') {
            *to++ = plus && *at == '+' ? ' ' : *at;
            continue;
        }
        int high = digits_hex_value(at[1]), low = high < 0 ? -1 : digits_hex_value(at[2]);
        if (low < 0 || (high == 0 && low == 0)) return false;
        *to++ = (char)(high << 4 | low);
        at += 2;
    }
    *to = '\0';
    return true;
}

static bool read_path(struct target *t, char *path)
{
    if (*path++ != '/') return false;
    for (char *at = path; *path;) {
        at = strchr(path, '/');
        if (at) *at = '\0';
        if (t->pieces_len == TARGET_PIECES_MAX || !decode(path, false)) return false;
        t->pieces[t->pieces_len++] = path;
        if (!at) break;
        path = at + 1;
        if (!*path) return t->pieces_len < TARGET_PIECES_MAX && (t->pieces[t->pieces_len++] = "");
    }
    return true;
}

static bool read_query(struct target *t, char *query)
{
    if (query) t->pairs = memory_new(TARGET_PAIRS_MAX * sizeof *t->pairs);
    for (char *next; query; query = next) {
        next = strchr(query, '&');
        if (next) *next++ = '\0';
        if (!*query) continue;
        char *value = strchr(query, '=');
        if (value) *value++ = '\0';
        if (t->pairs_len == TARGET_PAIRS_MAX) return false;
        if (!decode(query, true) || (value && !decode(value, true))) return false;
        t->pairs[t->pairs_len++] = (struct target_pair){query, value ? value : ""};
    }
    return true;
}

bool target_read(struct target *t, const char *text)
{
    size_t len = strlen(text) + 1;
    *t = (struct target){.text = memory_new(len)};
    memcpy(t->text, text, len);
    char *query = strchr(t->text, '?');
    if (query) *query++ = '\0';
    return read_path(t, t->text) && read_query(t, query);
}

void target_done(struct target *t)
{
    memory_free(t->text);
    memory_free(t->pairs);
    *t = (struct target){0};
}

const char *target_value(const struct target *t, const char *name)
{
    for (size_t i = 0; i < t->pairs_len; i++)
        if (strcmp(t->pairs[i].name, name) == 0) return t->pairs[i].value;
    return NULL;
}
