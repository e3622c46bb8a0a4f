// SPDX-License-Identifier: Apache-2.0
// OpenSSL's digests, fetched once because a fetch costs more than hashing a header, and the text
// form of bytes: hexadecimal.
#include "net/digest.h"

#include "base/check.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>

#define SHA256_BLOCK 64

// Immutable after the first fetch.
static struct {
    pthread_once_t once;
    EVP_MD *sha256;
    EVP_MD *md5;
} found = {.once = PTHREAD_ONCE_INIT};

static void find(void)
{
    found.sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    found.md5 = EVP_MD_fetch(NULL, "MD5", NULL);
    CHECK(found.sha256 != NULL);
}

static void digest(struct bytes of, const EVP_MD *by, uint8_t *out)
{
    CHECK(EVP_Digest(of.data, of.len, out, NULL, by, NULL) == 1);
}

void sha256(struct bytes of, uint8_t out[SHA256_LEN])
{
    (void)pthread_once(&found.once, find);
    digest(of, found.sha256, out);
}

void md5(struct bytes of, uint8_t out[MD5_LEN])
{
    (void)pthread_once(&found.once, find);
    CHECK(found.md5 != NULL); // a FIPS build of OpenSSL has none
    digest(of, found.md5, out);
}

bool ed25519_public(const uint8_t seed[ED25519_LEN], uint8_t out[ED25519_LEN])
{
    size_t len = ED25519_LEN;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, ED25519_LEN);
    bool good = key && EVP_PKEY_get_raw_public_key(key, out, &len) == 1 && len == ED25519_LEN;
    EVP_PKEY_free(key);
    return good;
}

static void context_free(EVP_MD_CTX **c)
{
    EVP_MD_CTX_free(*c);
}

// RFC 2104. It is written out here because OpenSSL 3's own HMAC fetches its parts at every call.
void sha256_hmac(struct bytes key, struct bytes of, uint8_t out[SHA256_LEN])
{
    (void)pthread_once(&found.once, find);
    uint8_t pad[SHA256_BLOCK] = {0};
    if (key.len > SHA256_BLOCK)
        sha256(key, pad);
    else if (key.len > 0)
        memcpy(pad, key.data, key.len);
    CLEANUP(context_free) EVP_MD_CTX *c = EVP_MD_CTX_new();
    CHECK(c != NULL);
    for (size_t i = 0; i < SHA256_BLOCK; i++)
        pad[i] ^= 0x36;
    CHECK(EVP_DigestInit_ex(c, found.sha256, NULL) == 1);
    CHECK(EVP_DigestUpdate(c, pad, SHA256_BLOCK) == 1);
    CHECK(EVP_DigestUpdate(c, of.data, of.len) == 1);
    CHECK(EVP_DigestFinal_ex(c, out, NULL) == 1);
    for (size_t i = 0; i < SHA256_BLOCK; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    CHECK(EVP_DigestInit_ex(c, found.sha256, NULL) == 1);
    CHECK(EVP_DigestUpdate(c, pad, SHA256_BLOCK) == 1);
    CHECK(EVP_DigestUpdate(c, out, SHA256_LEN) == 1);
    CHECK(EVP_DigestFinal_ex(c, out, NULL) == 1);
    explicit_bzero(pad, sizeof pad); // the key can be computed from it
}

bool digest_equal(const void *a, const void *b, size_t len)
{
    return CRYPTO_memcmp(a, b, len) == 0;
}

void hex_print(struct bytes of, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < of.len; i++) {
        *out++ = digits[of.data[i] >> 4];
        *out++ = digits[of.data[i] & 15];
    }
    *out = 0;
}
