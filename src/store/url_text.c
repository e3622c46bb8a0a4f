// SPDX-License-Identifier: Apache-2.0
#include "store/url_text.h"

#include "base/digits.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN 64

bool url_wrong(struct url_complaint c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c.why, c.why_len, format, args);
    va_end(args);
    return false;
}

bool url_decode(const char *from, size_t len, char *to, size_t to_len, const char *what,
                struct url_complaint c)
{
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        int ch = (unsigned char)from[i];
        if (ch == '%') {
            int hi = i + 2 < len ? digits_hex_value(from[i + 1]) : -1;
            int lo = hi >= 0 ? digits_hex_value(from[i + 2]) : -1;
            if (lo < 0)
                return url_wrong(c, "%s: %% must be followed by two hexadecimal digits", what);
            ch = hi * 16 + lo;
            i += 2;
        }
        if (ch < 0x20 || ch == 0x7f) return url_wrong(c, "%s has a control character", what);
        if (at + 1 >= to_len) return url_wrong(c, "%s is longer than %zu bytes", what, to_len - 1);
        to[at++] = (char)ch;
    }
    to[at] = 0;
    return true;
}

bool url_host(const char *from, size_t len, const char *what, uint16_t port, struct authority *out,
              struct url_complaint c)
{
    char named[8];
    int64_t number = port;
    bool split = authority_split(bytes_of(from, len), out);
    if (!authority_has_host(out) || (!split && !out->port.data))
        return url_wrong(c, "\"%.*s\" is not %s", (int)(len < 80 ? len : 80), from, what);
    (void)text_copy_len(named, sizeof named, (const char *)out->port.data, out->port.len);
    if (out->port.data && !url_number("port", named, 1, UINT16_MAX, &number, c)) return false;
    out->number = (uint16_t)number;
    return true;
}

bool url_take(char *to, size_t to_len, const char *name, const char *value, struct url_complaint c)
{
    if (value[0] == 0) return url_wrong(c, "%s is empty", name);
    if (strlen(value) >= to_len)
        return url_wrong(c, "%s is longer than %zu bytes", name, to_len - 1);
    memcpy(to, value, strlen(value) + 1);
    return true;
}

bool url_number(const char *name, const char *value, int64_t lo, int64_t hi, int64_t *out,
                struct url_complaint c)
{
    char *end = NULL;
    long long n = strtoll(value, &end, 10);
    if (value[0] >= '0' && value[0] <= '9' && *end == 0 && n >= lo && n <= hi) {
        *out = n;
        return true;
    }
    return url_wrong(c, "%s \"%.40s\" is not a whole number from %lld to %lld", name, value,
                     (long long)lo, (long long)hi);
}

bool url_settings(const char *query, const char *secret, url_setting_fn *read, void *out,
                  struct url_complaint c)
{
    char name[NAME_MAX_LEN] = "", value[URL_SETTING_MAX] = "";
    while (query[0]) {
        size_t len = strcspn(query, "&");
        size_t name_len = strcspn(query, "=&");
        const char *at = query + name_len + (name_len < len ? 1 : 0);
        if (!url_decode(query, name_len, name, sizeof name, "a setting's name", c)) return false;
        if ((!secret || strcmp(name, secret) != 0) &&
            !url_decode(at, (size_t)(query + len - at), value, sizeof value, name, c))
            return false;
        if (len > 0 && !read(name, value, out, c)) return false;
        query += len + (query[len] == '&' ? 1 : 0);
    }
    return true;
}
