// SPDX-License-Identifier: Apache-2.0
#include "store/url_text.h"

#include "base/digits.h"

#include <stdarg.h>
#include <stdio.h>

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
