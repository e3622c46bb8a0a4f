// SPDX-License-Identifier: Apache-2.0
// Certificates by GnuTLS, which asks for one in each handshake. A replaced certificate may still be
// in use by a handshake. It is small, so it is kept until tls_free.
#include "net/tls.h"

#include "base/bytes.h"
#include "base/memory.h"
#include "os/file.h"
#include "os/lock.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CHAIN_MAX      16
#define FILE_BYTES_MAX ((size_t)1 << 20)

struct pair {
    struct pair *older;
    gnutls_pcert_st chain[CHAIN_MAX];
    unsigned chain_len;
    gnutls_privkey_t key;
};

struct tls {
    pthread_mutex_t lock;
    struct pair *pair; // the newest
    char *client_ca;
};

static void pair_free(struct pair *p)
{
    for (unsigned i = 0; i < p->chain_len; i++)
        gnutls_pcert_deinit(&p->chain[i]);
    if (p->key) gnutls_privkey_deinit(p->key);
    memory_free(p);
}

static bool read_file(const char *path, struct buf *to, char *why, size_t why_len)
{
    buf_init(to, FILE_BYTES_MAX);
    int failed = file_read(path, to);
    if (failed) (void)snprintf(why, why_len, "%.200s: cannot be read: %s", path, strerror(failed));
    return !failed;
}

static gnutls_datum_t datum_of(const struct buf *b)
{
    return (gnutls_datum_t){.data = b->data, .size = (unsigned)b->len};
}

static bool load_chain(struct pair *p, const char *path, char *why, size_t why_len)
{
    CLEANUP(buf_done) struct buf text;
    if (!read_file(path, &text, why, why_len)) return false;
    gnutls_datum_t pem = datum_of(&text);
    unsigned len = CHAIN_MAX;
    int result = gnutls_pcert_list_import_x509_raw(p->chain, &len, &pem, GNUTLS_X509_FMT_PEM, 0);
    if (result < 0) {
        (void)snprintf(why, why_len, "%.200s: is not a certificate: %s", path,
                       gnutls_strerror(result));
        return false;
    }
    p->chain_len = len;
    return true;
}

static bool load_key(struct pair *p, const char *path, char *why, size_t why_len)
{
    CLEANUP(buf_done) struct buf text;
    if (!read_file(path, &text, why, why_len)) return false;
    gnutls_datum_t pem = datum_of(&text);
    int result = gnutls_privkey_init(&p->key);
    if (result >= 0)
        result = gnutls_privkey_import_x509_raw(p->key, &pem, GNUTLS_X509_FMT_PEM, NULL, 0);
    if (text.len > 0) gnutls_memset(text.data, 0, text.len);
    if (result < 0)
        (void)snprintf(why, why_len, "%.200s: is not a private key: %s", path,
                       gnutls_strerror(result));
    return result >= 0;
}

// Signs a text with the key and verifies the signature with the certificate.
static bool belong_together(const struct pair *p)
{
    gnutls_datum_t text = {.data = (unsigned char *)(uintptr_t) "sluice", .size = 6}, signature;
    int scheme = gnutls_privkey_get_pk_algorithm(p->key, NULL);
    gnutls_sign_algorithm_t sign =
        gnutls_pk_to_sign((gnutls_pk_algorithm_t)scheme, GNUTLS_DIG_SHA256);
    if (scheme == GNUTLS_PK_EDDSA_ED25519) sign = GNUTLS_SIGN_EDDSA_ED25519;
    if (scheme == GNUTLS_PK_EDDSA_ED448) sign = GNUTLS_SIGN_EDDSA_ED448;
    if (gnutls_privkey_sign_data2(p->key, sign, 0, &text, &signature) < 0) return false;
    int result = gnutls_pubkey_verify_data2(p->chain[0].pubkey, sign, 0, &text, &signature);
    gnutls_free(signature.data);
    return result >= 0;
}

bool tls_reload(struct tls *t, const char *cert_file, const char *key_file, char *why,
                size_t why_len)
{
    struct pair *p = NEW(struct pair);
    bool good = load_chain(p, cert_file, why, why_len) && load_key(p, key_file, why, why_len);
    if (good && !belong_together(p)) {
        (void)snprintf(why, why_len, "%.200s is not the key of %.200s", key_file, cert_file);
        good = false;
    }
    if (!good) {
        pair_free(p);
        return false;
    }
    LOCKED(&t->lock);
    p->older = t->pair;
    t->pair = p;
    return true;
}

static bool load_client_ca(struct tls *t, const char *path, char *why, size_t why_len)
{
    CLEANUP(buf_done) struct buf text;
    if (!read_file(path, &text, why, why_len)) return false;
    gnutls_datum_t pem = datum_of(&text);
    gnutls_certificate_credentials_t trial;
    int found = gnutls_certificate_allocate_credentials(&trial);
    if (found >= 0) {
        found = gnutls_certificate_set_x509_trust_mem(trial, &pem, GNUTLS_X509_FMT_PEM);
        gnutls_certificate_free_credentials(trial);
    }
    if (found <= 0) {
        (void)snprintf(why, why_len, "%.200s: has no certificate of an authority", path);
        return false;
    }
    t->client_ca = memory_zeroed(1, text.len + 1);
    memcpy(t->client_ca, text.data, text.len);
    return true;
}

struct tls *tls_new(const char *cert_file, const char *key_file, const char *client_ca_file,
                    char *why, size_t why_len)
{
    struct tls *t = NEW(struct tls);
    (void)pthread_mutex_init(&t->lock, NULL);
    if (tls_reload(t, cert_file, key_file, why, why_len) &&
        (!client_ca_file || load_client_ca(t, client_ca_file, why, why_len)))
        return t;
    tls_free(t);
    return NULL;
}

void tls_free(struct tls *t)
{
    if (!t) return;
    for (struct pair *p = t->pair, *older; p; p = older) {
        older = p->older;
        pair_free(p);
    }
    (void)pthread_mutex_destroy(&t->lock);
    memory_free(t->client_ca);
    memory_free(t);
}

const char *tls_client_ca(const struct tls *t)
{
    return t->client_ca;
}

// GnuTLS calls this early in each handshake. So this is also the place to require a client's
// certificate: libmicrohttpd would only request one.
static int choose(gnutls_session_t session, const gnutls_datum_t *authorities, int authorities_len,
                  const gnutls_pk_algorithm_t *algorithms, int algorithms_len,
                  gnutls_pcert_st **chain, unsigned *chain_len, gnutls_privkey_t *key)
{
    (void)authorities;
    (void)authorities_len;
    (void)algorithms;
    (void)algorithms_len;
    struct tls *t = httpd_connection_tls(gnutls_session_get_ptr(session));
    if (t->client_ca) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_cert(session, NULL, 0);
    }
    LOCKED(&t->lock);
    *chain = t->pair->chain;
    *chain_len = t->pair->chain_len;
    *key = t->pair->key;
    return 0;
}

tls_callback_fn *tls_callback(void)
{
    return (tls_callback_fn *)choose;
}
