// SPDX-License-Identifier: Apache-2.0
// A duration is a number and a unit, and nothing else.
#include "base/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const struct duration_unit duration_units[DURATION_UNITS] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool digits_take(const char **text, int64_t *out)
{
    const char *at = *text;
    int64_t v = 0;
    if (!is_digit(*at)) return false;
    for (; is_digit(*at); at++) {
        int digit = *at - '0';
        if (v > (INT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    *text = at;
    *out = v;
    return true;
}

bool fraction_take(const char **text, int64_t *thousandths)
{
    int64_t scale = 1000;
    *thousandths = 0;
    if (**text != '.') return true;
    const char *at = *text + 1;
    if (!is_digit(*at)) return false;
    for (; is_digit(*at); at++) {
        scale /= 10;
        if (scale == 0) return false;
        *thousandths += (*at - '0') * scale;
    }
    *text = at;
    return true;
}

bool duration_read(const char *text, int64_t *ms)
{
    int64_t whole, thousandths;
    if (!digits_take(&text, &whole)) return false;
    if (*text == '\0') { // zero needs no unit
        *ms = 0;
        return whole == 0;
    }
    if (!fraction_take(&text, &thousandths)) return false;
    for (int i = 0; i < DURATION_UNITS; i++) {
        int64_t unit = duration_units[i].ms;
        if (strcmp(text, duration_units[i].name) != 0) continue;
        if (whole > INT64_MAX / unit - 1 || thousandths * unit % 1000 != 0) return false;
        *ms = whole * unit + thousandths * unit / 1000;
        return true;
    }
    return false;
}

bool duration_lacks_unit(const char *text)
{
    int64_t number;
    const char *at = text;
    return digits_take(&at, &number) && fraction_take(&at, &number) && *at == '\0' &&
           !duration_read(text, &number);
}

const char *duration_exact(int64_t ms, char out[static DURATION_TEXT_MAX])
{
    const struct duration_unit *unit = &duration_units[DURATION_UNITS - 1];
    if (ms == unit->ms) unit--;
    while (unit > duration_units && (ms < unit->ms || ms % unit->ms != 0))
        unit--;
    (void)snprintf(out, DURATION_TEXT_MAX, "%" PRId64 "%s", ms / unit->ms, unit->name);
    return out;
}
