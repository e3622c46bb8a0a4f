// SPDX-License-Identifier: Apache-2.0
// The public key of an nkey seed. The client library signs with the seed, but wants to be told the
// public key. Text form, of both: base32 of prefix, key and CRC-16 (XMODEM, little-endian).
#define _GNU_SOURCE // explicit_bzero
#include "bus/credentials.h"

#include "net/digest.h"
#include "os/file.h"

#include <stdio.h>
#include <string.h>

#define SEED_LEN    58 // characters
#define SEED_BYTES  36 // two of prefix, 32 of seed, two of CRC
#define NKEY_BYTES  35 // one of prefix, 32 of key, two of CRC
#define PREFIX_SEED 0x90
#define PREFIX_USER 0xa0

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

static uint16_t crc16(const uint8_t *at, size_t len)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (uint32_t)at[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 0x8000) != 0 ? (crc << 1) ^ 0x1021 : crc << 1;
    }
    return (uint16_t)crc;
}

static bool base32_read(const char *text, size_t len, uint8_t *out)
{
    uint32_t bits = 0;
    int have = 0;
    for (size_t i = 0; i < len; i++) {
        const char *at = text[i] ? strchr(alphabet, text[i]) : NULL;
        if (!at) return false;
        bits = (bits << 5) | (uint32_t)(at - alphabet);
        have += 5;
        if (have < 8) continue;
        have -= 8;
        *out++ = (uint8_t)(bits >> have);
    }
    return true;
}

static void base32_print(const uint8_t *at, size_t len, char *out)
{
    uint32_t bits = 0;
    int have = 0;
    for (size_t i = 0; i < len; i++) {
        bits = (bits << 8) | at[i];
        for (have += 8; have >= 5; have -= 5)
            *out++ = alphabet[(bits >> (have - 5)) & 31];
    }
    if (have > 0) *out++ = alphabet[(bits << (5 - have)) & 31];
    *out = 0;
}

// The first line that is a seed. A seed file may have a header and a footer.
static const char *find_seed(const char *text)
{
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, "SU", 2) == 0 && strspn(at, alphabet) == SEED_LEN) return at;
    }
    return NULL;
}

static bool public_of(const char *seed, char out[static BUS_NKEY_LEN + 1])
{
    uint8_t raw[SEED_BYTES], key[NKEY_BYTES] = {PREFIX_USER};
    bool good = base32_read(seed, SEED_LEN, raw) && (raw[0] & 0xf8) == PREFIX_SEED &&
                crc16(raw, SEED_BYTES - 2) == (raw[SEED_BYTES - 2] | raw[SEED_BYTES - 1] << 8);
    if (good) good = ed25519_public(raw + 2, key + 1);
    uint16_t crc = crc16(key, NKEY_BYTES - 2);
    key[NKEY_BYTES - 2] = (uint8_t)crc;
    key[NKEY_BYTES - 1] = (uint8_t)(crc >> 8);
    base32_print(key, NKEY_BYTES, out);
    explicit_bzero(raw, sizeof raw);
    return good;
}

enum err bus_nkey_public(const char *file, char out[static BUS_NKEY_LEN + 1],
                         char why[static BUS_WHY_MAX])
{
    LOCAL(buf, text, 4096);
    int number = file_read(file, &text);
    buf_put_u8(&text, 0);
    const char *seed = number || text.bad ? NULL : find_seed((const char *)text.data);
    enum err e = seed && public_of(seed, out) ? ERR_OK : ERR_INVALID;
    if (number)
        (void)snprintf(why, BUS_WHY_MAX, "SLUICE_NATS_NKEY_FILE: cannot read %.120s: %s", file,
                       strerror(number)); // NOLINT(concurrency-mt-unsafe): glibc's is safe
    else if (e)
        (void)snprintf(why, BUS_WHY_MAX,
                       "SLUICE_NATS_NKEY_FILE: %.120s has no seed of a user (58 characters that "
                       "begin with SU)",
                       file);
    if (text.data) explicit_bzero(text.data, text.len);
    return e;
}
