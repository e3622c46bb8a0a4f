// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // explicit_bzero
#include "store/secret_text.h"

#include "base/bytes.h"
#include "base/text.h"
#include "os/file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct complaint {
    const char *name;
    char *why;
    size_t why_len;
};

static enum err bad(const struct complaint *c, const char *what)
{
    (void)snprintf(c->why, c->why_len, "%s %s", c->name, what);
    return ERR_INVALID;
}

// A secret becomes part of a header or of JSON: control characters have no place in it.
static enum err take(char *to, const char *text, size_t len, const struct complaint *c)
{
    if (len > SECRET_TEXT_MAX) return bad(c, "is longer than 1024 bytes");
    memcpy(to, text, len);
    to[len] = 0;
    if (strlen(to) == len && text_is_plain(to)) return ERR_OK;
    explicit_bzero(to, SECRET_TEXT_MAX + 1);
    return bad(c, "has characters that are not printable");
}

static enum err take_file(char *to, const char *path, const struct complaint *c)
{
    LOCAL(buf, text, SECRET_TEXT_MAX + 2);
    int number = file_read(path, &text);
    size_t len = text.len;
    enum err e = ERR_OK;
    while (len > 0 && (text.data[len - 1] == '\n' || text.data[len - 1] == '\r'))
        len--;
    if (number) {
        (void)snprintf(c->why, c->why_len, "%s: cannot read %.120s: %s", c->name, path,
                       strerror(number)); // NOLINT(concurrency-mt-unsafe): glibc's is safe
        e = ERR_INVALID;
    } else if (len == 0) {
        e = bad(c, "names an empty file");
    } else {
        e = take(to, (const char *)text.data, len, c);
    }
    if (text.data) explicit_bzero(text.data, text.len);
    return e;
}

enum err secret_text_read(char to[static SECRET_TEXT_MAX + 1], const char *name,
                          const char *file_name, char *why, size_t why_len)
{
    struct complaint c = {.name = name, .why = why, .why_len = why_len};
    const char *text = getenv(name), *path = file_name ? getenv(file_name) : NULL;
    bool has_text = text && text[0], has_path = path && path[0];
    to[0] = 0;
    if (has_text && has_path) {
        (void)snprintf(why, why_len, "%s and %s are both set: set one of them", name, file_name);
        return ERR_INVALID;
    }
    if (has_text) return take(to, text, strlen(text), &c);
    c.name = file_name;
    return has_path ? take_file(to, path, &c) : ERR_OK;
}
