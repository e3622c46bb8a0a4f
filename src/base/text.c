// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include "base/check.h"

#include <string.h>

bool text_copy(char *to, size_t size, const char *from)
{
    return text_copy_len(to, size, from, from ? strlen(from) : 0);
}

bool text_copy_len(char *to, size_t size, const char *from, size_t len)
{
    CHECK(size > 0);
    size_t fits = len < size ? len : size - 1;
    if (fits > 0) memcpy(to, from, fits);
    to[fits] = '\0';
    return fits == len;
}

// Returns the length of the UTF-8 sequence at p, or 0 if it is invalid (RFC 3629: shortest form, no
// surrogates).
static size_t utf8_sequence(const uint8_t *p, size_t len)
{
    uint8_t a = p[0];
    if (a < 0x80) return 1;
    if (a < 0xc2 || a > 0xf4) return 0;
    size_t n = a < 0xe0 ? 2 : a < 0xf0 ? 3 : 4;
    if (n > len) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((a == 0xe0 && p[1] < 0xa0) || (a == 0xed && p[1] > 0x9f)) return 0;
    if ((a == 0xf0 && p[1] < 0x90) || (a == 0xf4 && p[1] > 0x8f)) return 0;
    return n;
}

static bool ascii_word(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return (word & UINT64_C(0x8080808080808080)) == 0;
}

bool utf8_ok(const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    for (size_t i = 0; i < len;) {
        if (len - i >= sizeof(uint64_t) && ascii_word(p + i)) { // most text is ASCII
            i += sizeof(uint64_t);
            continue;
        }
        size_t n = utf8_sequence(p + i, len - i);
        if (n == 0) return false;
        i += n;
    }
    return true;
}

bool text_is_plain(const char *text)
{
    size_t len = strlen(text);
    const uint8_t *p = (const uint8_t *)text;
    for (size_t i = 0; i < len; i++) {
        // U+0080 to U+009F; p[i + 1] may be the final zero
        bool c1 = p[i] == 0xc2 && p[i + 1] < 0xa0;
        if (p[i] < ' ' || p[i] == 0x7f || c1) return false;
    }
    return utf8_ok(text, len);
}

bool token_has_plain(uint8_t c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

char *token_put(char *at, struct bytes name)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];
        if (token_has_plain(c)) {
            *at++ = (char)c;
            continue;
        }
        *at++ = '=';
        *at++ = digits[c >> 4];
        *at++ = digits[c & 15];
    }
    return at;
}
