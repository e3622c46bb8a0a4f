// SPDX-License-Identifier: Apache-2.0
// The server's side of TLS: its certificate, which may be replaced while it serves, and whose
// clients it believes. 1.2 is the oldest version spoken.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct tls;

// TLS 1.2 without RSA key exchange, which has no forward secrecy, and without CBC, whose padding
// has been attacked again and again.
#define TLS_PRIORITIES                                                                             \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:" \
    "+AES-128-GCM"

// PEM files: the certificate with its chain, its key, and the authorities that sign clients'
// certificates (NULL: clients need none). NULL: why says what is wrong.
struct tls *tls_new(const char *cert_file, const char *key_file, const char *client_ca_file,
                    char *why, size_t why_len);
void tls_free(struct tls *t); // NULL is fine; no handshake may be under way
// Handshakes from here on use what is in these files now. False: nothing changed, and why says why.
bool tls_reload(struct tls *t, const char *cert_file, const char *key_file, char *why,
                size_t why_len);
// The authorities as a text, or NULL. They stay the same.
const char *tls_client_ca(const struct tls *t);

// What is called in each handshake: a gnutls_certificate_retrieve_function2.
typedef void tls_callback_fn(void);
tls_callback_fn *tls_callback(void);
struct tls *httpd_connection_tls(void *connection); // httpd.c's: the one of this connection
