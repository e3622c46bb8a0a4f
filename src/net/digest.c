// SPDX-License-Identifier: Apache-2.0
// OpenSSL's digests, fetched once because a fetch costs more than hashing a header, and the two
// text forms of bytes: hexadecimal and base64.
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

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_put(struct buf *to, struct bytes of)
{
    uint8_t *at = buf_grow(to, (of.len + 2) / 3 * 4);
    for (size_t i = 0; at && i < of.len; i += 3) {
        size_t left = of.len - i;
        uint32_t three = (uint32_t)of.data[i] << 16;
        if (left > 1) three |= (uint32_t)of.data[i + 1] << 8;
        if (left > 2) three |= of.data[i + 2];
        *at++ = (uint8_t)base64_digits[three >> 18];
        *at++ = (uint8_t)base64_digits[three >> 12 & 63];
        *at++ = left > 1 ? (uint8_t)base64_digits[three >> 6 & 63] : '=';
        *at++ = left > 2 ? (uint8_t)base64_digits[three & 63] : '=';
    }
}

// The value of a digit; -1 for any other character.
static int base64_value(uint8_t c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

// Four characters, of which `digits` are digits and the rest padding.
static bool read_four(const uint8_t *four, size_t digits, struct buf *to)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i < digits ? base64_value(four[i]) : 0;
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
    }
    // Unused bits must be 0, so that each value has exactly one text.
    if ((digits == 2 && (bits & 0xffff) != 0) || (digits == 3 && (bits & 0xff) != 0)) return false;
    for (size_t i = 0; i + 1 < digits; i++)
        buf_put_u8(to, (uint8_t)(bits >> (16 - 8 * i)));
    return true;
}

bool base64_read(struct bytes text, struct buf *to)
{
    if (text.len % 4 != 0) return false;
    for (size_t i = 0; i < text.len; i += 4) {
        const uint8_t *four = text.data + i;
        size_t digits = 4;
        if (i + 4 == text.len && four[3] == '=') digits = four[2] == '=' ? 2 : 3;
        if (!read_four(four, digits, to)) return false;
    }
    return !to->bad;
}
