// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE // explicit_bzero
#include "coord/credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum err read_secret(char to[static SECRET_TEXT_MAX + 1], const char *name,
                            const char *file_name, char why[static COORD_WHY_MAX])
{
    return secret_text_read(to, name, file_name, why, COORD_WHY_MAX);
}

enum err coord_credentials_read(struct coord_credentials *c, char why[static COORD_WHY_MAX])
{
    *c = (struct coord_credentials){0};
    enum err e = read_secret(c->user, "SLUICE_COORD_USER", NULL, why);
    if (!e)
        e = read_secret(c->password, "SLUICE_COORD_PASSWORD", "SLUICE_COORD_PASSWORD_FILE", why);
    if (!e) e = read_secret(c->token, "SLUICE_COORD_TOKEN", "SLUICE_COORD_TOKEN_FILE", why);
    if (!e) e = read_secret(c->ca_file, "SLUICE_COORD_CA_FILE", NULL, why);
    if (!e && c->password[0] && !c->user[0]) {
        (void)snprintf(why, COORD_WHY_MAX,
                       "SLUICE_COORD_PASSWORD is set without SLUICE_COORD_USER");
        e = ERR_INVALID;
    }
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
