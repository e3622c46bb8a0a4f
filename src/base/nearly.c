// SPDX-License-Identifier: Apache-2.0
// Compares names for one typing mistake or other capitals.
#include "base/nearly.h"

#include <string.h>

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool same_letters(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

bool nearly_same(const char *a, const char *b)
{
    size_t i = 0, a_len = strlen(a), b_len = strlen(b);
    while (a[i] && a[i] == b[i])
        i++;
    if (a_len < 3 || b_len < 3) return false;
    if (same_letters(a, b)) return true;
    if (a_len == b_len + 1) return strcmp(a + i + 1, b + i) == 0;
    if (b_len == a_len + 1) return strcmp(a + i, b + i + 1) == 0;
    if (a_len != b_len) return false;
    if (strcmp(a + i + 1, b + i + 1) == 0) return true;
    return a[i] == b[i + 1] && a[i + 1] == b[i] && strcmp(a + i + 2, b + i + 2) == 0;
}
