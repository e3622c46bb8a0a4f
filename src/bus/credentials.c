// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // explicit_bzero
#include "bus/credentials.h"

#include "os/file.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A field, and the variables that set it: with the text, or with the name of a file that has it.
struct source {
    size_t field;
    const char *name;
    const char *file; // may be NULL
};

#define SOURCE(field, name, file)                                                                  \
    {                                                                                              \
        offsetof(struct bus_credentials, field), "SLUICE_NATS_" name, file                         \
    }
static const struct source sources[] = {
    SOURCE(user, "USER", NULL),
    SOURCE(password, "PASSWORD", "SLUICE_NATS_PASSWORD_FILE"),
    SOURCE(token, "TOKEN", "SLUICE_NATS_TOKEN_FILE"),
    SOURCE(nkey_file, "NKEY_FILE", NULL),
    SOURCE(creds_file, "CREDS_FILE", NULL),
    SOURCE(ca_file, "CA_FILE", NULL),
    SOURCE(cert_file, "CERT_FILE", NULL),
    SOURCE(key_file, "KEY_FILE", NULL),
};
#define SOURCES (sizeof sources / sizeof sources[0])

static enum err bad(char why[static BUS_WHY_MAX], const char *name, const char *what)
{
    (void)snprintf(why, BUS_WHY_MAX, "%s %s", name, what);
    return ERR_INVALID;
}

static enum err take(char *to, const char *text, size_t len, const char *name,
                     char why[static BUS_WHY_MAX])
{
    if (len > BUS_SECRET_MAX) return bad(why, name, "is longer than 1024 bytes");
    memcpy(to, text, len);
    to[len] = 0;
    if (strlen(to) == len && text_is_plain(to)) return ERR_OK;
    explicit_bzero(to, BUS_SECRET_MAX + 1);
    return bad(why, name, "has characters that are not printable");
}

static enum err take_file(char *to, const char *name, const char *path,
                          char why[static BUS_WHY_MAX])
{
    struct buf text;
    buf_init(&text, BUS_SECRET_MAX + 2);
    int number = file_read(path, &text);
    size_t len = text.len;
    enum err e = ERR_OK;
    while (len > 0 && (text.data[len - 1] == '\n' || text.data[len - 1] == '\r'))
        len--;
    if (number) {
        (void)snprintf(why, BUS_WHY_MAX, "%s: cannot read %.120s: %s", name, path,
                       strerror(number)); // NOLINT(concurrency-mt-unsafe): glibc's is safe
        e = ERR_INVALID;
    } else if (len == 0) {
        e = bad(why, name, "names an empty file");
    } else {
        e = take(to, (const char *)text.data, len, name, why);
    }
    if (text.data) explicit_bzero(text.data, text.len);
    buf_done(&text);
    return e;
}

static enum err read_source(struct bus_credentials *c, const struct source *s,
                            char why[static BUS_WHY_MAX])
{
    char *to = (char *)c + s->field;
    const char *text = getenv(s->name), *path = s->file ? getenv(s->file) : NULL;
    bool has_text = text && text[0], has_path = path && path[0];
    if (has_text && has_path) {
        (void)snprintf(why, BUS_WHY_MAX, "%s and %s are both set: set one of them", s->name,
                       s->file);
        return ERR_INVALID;
    }
    if (has_text) return take(to, text, strlen(text), s->name, why);
    return has_path ? take_file(to, s->file, path, why) : ERR_OK;
}

static enum err check(const struct bus_credentials *c, char why[static BUS_WHY_MAX])
{
    int ways =
        (c->user[0] != 0) + (c->token[0] != 0) + (c->nkey_file[0] != 0) + (c->creds_file[0] != 0);
    if (c->password[0] && !c->user[0])
        return bad(why, "SLUICE_NATS_PASSWORD", "is set without SLUICE_NATS_USER");
    if ((c->cert_file[0] != 0) != (c->key_file[0] != 0))
        return bad(why, "SLUICE_NATS_CERT_FILE and SLUICE_NATS_KEY_FILE", "belong together");
    if (ways > 1)
        return bad(why, "SLUICE_NATS_USER, _TOKEN, _NKEY_FILE and _CREDS_FILE",
                   "exclude one another: set one of them");
    return ERR_OK;
}

enum err bus_credentials_read(struct bus_credentials *c, char why[static BUS_WHY_MAX])
{
    enum err e = ERR_OK;
    *c = (struct bus_credentials){0};
    for (size_t i = 0; !e && i < SOURCES; i++)
        e = read_source(c, &sources[i], why);
    if (!e) e = check(c, why);
    if (e) bus_credentials_done(c);
    return e;
}

void bus_credentials_done(struct bus_credentials *c)
{
    explicit_bzero(c, sizeof *c);
}
