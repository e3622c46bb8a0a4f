// SPDX-License-Identifier: Apache-2.0
// The credentials of a bus, from the environment or from files. They are never in the URL, which
// process lists and logs show.
//
//   SLUICE_NATS_USER           a user
//   SLUICE_NATS_PASSWORD       its password, or
//   SLUICE_NATS_PASSWORD_FILE  a file that has it
//   SLUICE_NATS_TOKEN          a token, or
//   SLUICE_NATS_TOKEN_FILE     a file that has it
//   SLUICE_NATS_NKEY_FILE      a file that has the seed of an nkey
//   SLUICE_NATS_CREDS_FILE     a file with a JWT and the seed of its key
//   SLUICE_NATS_CA_FILE        the authorities that the server's certificate needs, in PEM
//   SLUICE_NATS_CERT_FILE      a certificate of this client, in PEM, and
//   SLUICE_NATS_KEY_FILE       its key
#pragma once

#include "bus/bus.h"
#include "store/secret_text.h"

struct bus_credentials {
    char user[SECRET_TEXT_MAX + 1]; // "": none
    char password[SECRET_TEXT_MAX + 1];
    char token[SECRET_TEXT_MAX + 1];
    char nkey_file[SECRET_TEXT_MAX + 1];
    char creds_file[SECRET_TEXT_MAX + 1];
    char ca_file[SECRET_TEXT_MAX + 1];
    char cert_file[SECRET_TEXT_MAX + 1];
    char key_file[SECRET_TEXT_MAX + 1];
};

// Reads them all. ERR_INVALID: why has one sentence, without a secret.
MUST_USE enum err bus_credentials_read(struct bus_credentials *c, char why[static BUS_WHY_MAX]);
void bus_credentials_done(struct bus_credentials *c); // clears the secrets

// The public key of the seed ("SU...") in a file. The server knows the client by it.
#define BUS_NKEY_LEN 56
MUST_USE enum err bus_nkey_public(const char *file, char out[static BUS_NKEY_LEN + 1],
                                  char why[static BUS_WHY_MAX]);
