// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // explicit_bzero
#include "coord/credentials.h"

#include "os/file.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err bad(char why[static COORD_WHY_MAX], const char *name, const char *what)
{
    (void)snprintf(why, COORD_WHY_MAX, "%s %s", name, what);
    return ERR_INVALID;
}

// A secret becomes part of a header or of JSON: control characters have no place in it.
static enum err take(char to[COORD_SECRET_MAX + 1], const char *text, size_t len, const char *name,
                     char why[static COORD_WHY_MAX])
{
    if (len > COORD_SECRET_MAX) return bad(why, name, "is longer than 1024 bytes");
    memcpy(to, text, len);
    to[len] = 0;
    if (strlen(to) == len && text_is_plain(to)) return ERR_OK;
    explicit_bzero(to, COORD_SECRET_MAX + 1);
    return bad(why, name, "has characters that are not printable");
}

static enum err read_variable(char to[COORD_SECRET_MAX + 1], const char *name,
                              char why[static COORD_WHY_MAX])
{
    const char *text = getenv(name);
    to[0] = 0;
    return text ? take(to, text, strlen(text), name, why) : ERR_OK;
}

static enum err read_secret_file(char to[COORD_SECRET_MAX + 1], const char *name, const char *path,
                                 char why[static COORD_WHY_MAX])
{
    struct buf text;
    buf_init(&text, COORD_SECRET_MAX + 2);
    int number = file_read(path, &text);
    size_t len = text.len;
    while (len > 0 && (text.data[len - 1] == '\n' || text.data[len - 1] == '\r'))
        len--;
    enum err e = ERR_OK;
    if (number) {
        (void)snprintf(why, COORD_WHY_MAX, "%s: cannot read %.120s: %s", name, path,
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

// From the variable, or from the file that another variable names.
static enum err read_secret(char to[COORD_SECRET_MAX + 1], const char *name, const char *file_name,
                            char why[static COORD_WHY_MAX])
{
    const char *path = getenv(file_name);
    enum err e = read_variable(to, name, why);
    if (e || !path || !path[0]) return e;
    if (to[0]) {
        (void)snprintf(why, COORD_WHY_MAX, "%s and %s are both set: set one of them", name,
                       file_name);
        return ERR_INVALID;
    }
    return read_secret_file(to, file_name, path, why);
}

enum err coord_credentials_read(struct coord_credentials *c, char why[static COORD_WHY_MAX])
{
    *c = (struct coord_credentials){0};
    enum err e = read_variable(c->user, "SLUICE_COORD_USER", why);
    if (!e)
        e = read_secret(c->password, "SLUICE_COORD_PASSWORD", "SLUICE_COORD_PASSWORD_FILE", why);
    if (!e) e = read_secret(c->token, "SLUICE_COORD_TOKEN", "SLUICE_COORD_TOKEN_FILE", why);
    if (!e) e = read_variable(c->ca_file, "SLUICE_COORD_CA_FILE", why);
    if (!e && c->password[0] && !c->user[0])
        e = bad(why, "SLUICE_COORD_PASSWORD", "is set without SLUICE_COORD_USER");
    if (e) coord_credentials_done(c);
    return e;
}

void coord_credentials_done(struct coord_credentials *c)
{
    explicit_bzero(c, sizeof *c);
}

void coord_credentials_use(const struct coord_credentials *c, struct coord_config *config)
{
    config->user = c->user[0] ? c->user : NULL;
    config->password = c->user[0] ? c->password : NULL;
    config->token = c->token[0] ? c->token : NULL;
    config->ca_file = c->ca_file[0] ? c->ca_file : NULL;
}
