// SPDX-License-Identifier: Apache-2.0
// The credentials of a coordination service, from the environment or from files. They are never in
// the URL, which process lists and logs show.
//
//   SLUICE_COORD_USER           etcd's user
//   SLUICE_COORD_PASSWORD       its password, or
//   SLUICE_COORD_PASSWORD_FILE  a file that has it
//   SLUICE_COORD_TOKEN          Consul's ACL token, or
//   SLUICE_COORD_TOKEN_FILE     a file that has it
//   SLUICE_COORD_CA_FILE        the authorities that the server's certificate needs, in PEM
#pragma once

#include "coord/coord.h"
#include "store/secret_text.h"

struct coord_credentials {
    char user[SECRET_TEXT_MAX + 1]; // empty: none
    char password[SECRET_TEXT_MAX + 1];
    char token[SECRET_TEXT_MAX + 1];
    char ca_file[SECRET_TEXT_MAX + 1];
};

// Reads them all. ERR_INVALID: why has one sentence, without a secret.
MUST_USE enum err coord_credentials_read(struct coord_credentials *c,
                                         char why[static COORD_WHY_MAX]);
void coord_credentials_done(struct coord_credentials *c); // clears the secrets
// Sets the config's pointers. They point into *c.
void coord_credentials_use(const struct coord_credentials *c, struct coord_config *config);
