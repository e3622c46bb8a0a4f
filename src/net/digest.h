// SPDX-License-Identifier: Apache-2.0
// SHA-256, HMAC and MD5 by OpenSSL, for protocols of others. Our own formats use base/hash.h.
#pragma once

#include "base/bytes.h"

#define SHA256_LEN 32
#define MD5_LEN    16

void sha256(struct bytes of, uint8_t out[SHA256_LEN]);
void sha256_hmac(struct bytes key, struct bytes of, uint8_t out[SHA256_LEN]);
void md5(struct bytes of, uint8_t out[MD5_LEN]);
// Compares in a time that depends on the length alone.
bool digest_equal(const void *a, const void *b, size_t len);
// The public key of an Ed25519 seed. False: the library refuses.
#define ED25519_LEN 32
bool ed25519_public(const uint8_t seed[ED25519_LEN], uint8_t out[ED25519_LEN]);
void hex_print(struct bytes of, char *out); // lower case; twice the length and a 0
