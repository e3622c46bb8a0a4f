// SPDX-License-Identifier: Apache-2.0
#include "base/authority.h"

#include <string.h>

#define PORT_DIGITS_MAX 5

static bool read_port(struct bytes text, uint16_t *out)
{
    uint32_t number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || i == PORT_DIGITS_MAX) return false;
        number = number * 10 + text.data[i] - '0';
    }
    *out = (uint16_t)number;
    return text.len > 0 && number <= UINT16_MAX;
}

bool authority_split(struct bytes text, struct authority *out)
{
    *out = (struct authority){.bracketed = text.len > 0 && text.data[0] == '['};
    if (text.len == 0) return true;
    const uint8_t *end = memchr(text.data, out->bracketed ? ']' : ':', text.len);
    if (out->bracketed && !end) return false;
    size_t host = end ? (size_t)(end - text.data) : text.len, rest = host + out->bracketed;
    out->host = bytes_of(text.data + out->bracketed, host - out->bracketed);
    if (rest == text.len) return true;
    if (text.data[rest] != ':') return false;
    out->port = bytes_of(text.data + rest + 1, text.len - rest - 1);
    return read_port(out->port, &out->number);
}

bool authority_has_host(const struct authority *a)
{
    for (size_t i = 0; i < a->host.len; i++) {
        uint8_t c = a->host.data[i];
        bool word =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
        bool other = a->bracketed ? c == ':' || c == '%' : c == '-' || c == '_';
        if (!word && !other) return false;
    }
    return a->host.len > 0;
}

struct bytes authority_of(const char *url)
{
    const char *scheme = strstr(url, "://"), *from = scheme ? scheme + 3 : url;
    const char *end = from + strcspn(from, "/?#");
    for (const char *at = end; at > from; at--)
        if (at[-1] == '@') return bytes_of(at, (size_t)(end - at));
    return bytes_of(from, (size_t)(end - from));
}
