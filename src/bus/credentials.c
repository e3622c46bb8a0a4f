// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // explicit_bzero
#include "bus/credentials.h"

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
        e = secret_text_read((char *)c + sources[i].field, sources[i].name, sources[i].file, why,
                             BUS_WHY_MAX);
    if (!e) e = check(c, why);
    if (e) bus_credentials_done(c);
    return e;
}

void bus_credentials_done(struct bus_credentials *c)
{
    explicit_bzero(c, sizeof *c);
}
