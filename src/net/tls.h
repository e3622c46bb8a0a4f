// SPDX-License-Identifier: Apache-2.0
// The server's side of TLS: its certificate, which can be replaced while it serves, and the
// authorities of its clients' certificates. The oldest version is TLS 1.2.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct tls;

// TLS 1.2 without RSA key exchange, which has no forward secrecy, and without CBC, whose padding
// has been attacked repeatedly.
#define TLS_PRIORITIES                                                                             \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:" \
    "+AES-128-GCM"

// Reads PEM files: the certificate with its chain, its key, and the authorities that sign clients'
// certificates (NULL: clients need no certificate). Returns NULL with the reason in `why`.
struct tls *tls_new(const char *cert_file, const char *key_file, const char *client_ca_file,
                    char *why, size_t why_len);
void tls_free(struct tls *t); // NULL is fine; no handshake may be under way
// Later handshakes use the files' present content. Returns false with the reason in `why` if that
// fails; the old certificate then stays.
bool tls_reload(struct tls *t, const char *cert_file, const char *key_file, char *why,
                size_t why_len);
// The authorities in PEM, or NULL. They never change.
const char *tls_client_ca(const struct tls *t);

// The callback of each handshake: a gnutls_certificate_retrieve_function2.
typedef void tls_callback_fn(void);
tls_callback_fn *tls_callback(void);
struct tls *httpd_connection_tls(void *connection); // in httpd.c: the tls of this connection
