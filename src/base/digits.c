// SPDX-License-Identifier: Apache-2.0
// Digits, with one table for each direction.
#include "base/digits.h"

static const char hex[] = "0123456789abcdef";

char *digits_put(char *at, uint64_t n)
{
    char backwards[DIGITS_MAX];
    size_t len = 0;
    do {
        backwards[len++] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    while (len > 0)
        *at++ = backwards[--len];
    return at;
}

char *digits_put_hex(char *at, const void *bytes, size_t len)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < len; i++) {
        *at++ = hex[b[i] >> 4];
        *at++ = hex[b[i] & 15];
    }
    return at;
}

char *digits_put_hex64(char *at, uint64_t n)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = hex[n >> shift & 15];
    return at;
}

int digits_hex_value(int c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool digits_read_hex(const char *text, void *to, size_t len)
{
    uint8_t *out = to;
    for (size_t i = 0; i < len; i++) {
        int high = digits_hex_value(text[2 * i]);
        // If the text ends here, the next byte must not be read.
        int low = high < 0 ? -1 : digits_hex_value(text[2 * i + 1]);
        if (low < 0) return false;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return text[2 * len] == '\0';
}
