// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

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
