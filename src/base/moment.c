// SPDX-License-Identifier: Apache-2.0
// Pure code has no gmtime, so the calendar is computed here.
#include "base/moment.h"

#include "base/check.h"
#include "base/duration.h"

#include <stddef.h>
#include <string.h>

#define MS_A_DAY INT64_C(86400000)

static char *put_padded(char *at, uint64_t n, size_t len)
{
    for (size_t i = len; i > 0; i--, n /= 10)
        at[i - 1] = (char)('0' + n % 10);
    CHECK(n == 0);
    return at + len;
}

// The day of the proleptic Gregorian calendar. The era of 400 years begins on 1 March, so that the
// leap day is the last one of its year.
static void day_split(int64_t days, uint64_t *year, uint64_t *month, uint64_t *day)
{
    uint64_t from_era = (uint64_t)days + 719468; // since 0000-03-01
    uint64_t era = from_era / 146097, of_era = from_era % 146097;
    uint64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * y + y / 4 - y / 100);
    uint64_t m = (5 * of_year + 2) / 153;
    *day = of_year - (153 * m + 2) / 5 + 1;
    *month = m < 10 ? m + 3 : m - 9;
    *year = y + era * 400 + (*month <= 2);
}

static int64_t day_join(uint64_t year, uint64_t month, uint64_t day)
{
    uint64_t y = month <= 2 ? year - 1 : year;
    uint64_t era = y / 400, of_era_year = y % 400;
    uint64_t of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    uint64_t of_era = of_era_year * 365 + of_era_year / 4 - of_era_year / 100 + of_year;
    return (int64_t)(era * 146097 + of_era) - 719468;
}

char *moment_put(char *at, int64_t ms)
{
    uint64_t year, month, day;
    ms = ms < 0 ? 0 : ms > MOMENT_LAST ? MOMENT_LAST : ms;
    uint64_t of_day = (uint64_t)(ms % MS_A_DAY);
    day_split(ms / MS_A_DAY, &year, &month, &day);
    at = put_padded(at, year, 4);
    *at++ = '-';
    at = put_padded(at, month, 2);
    *at++ = '-';
    at = put_padded(at, day, 2);
    *at++ = 'T';
    at = put_padded(at, of_day / 3600000, 2);
    *at++ = ':';
    at = put_padded(at, of_day / 60000 % 60, 2);
    *at++ = ':';
    at = put_padded(at, of_day / 1000 % 60, 2);
    *at++ = '.';
    at = put_padded(at, of_day % 1000, 3);
    *at++ = 'Z';
    return at;
}

static bool take_digits(const char **text, size_t len, int64_t *out)
{
    for (*out = 0; len > 0; len--, ++*text) {
        if (**text < '0' || **text > '9') return false;
        *out = *out * 10 + (**text - '0');
    }
    return true;
}

static bool take_one_of(const char **text, const char *set)
{
    bool found = **text && strchr(set, **text);
    *text += found;
    return found;
}

static bool take_date(const char **text, int64_t *days)
{
    int64_t year, month, day;
    uint64_t same_year, same_month, same_day;
    if (!take_digits(text, 4, &year) || !take_one_of(text, "-") || !take_digits(text, 2, &month) ||
        !take_one_of(text, "-") || !take_digits(text, 2, &day))
        return false;
    if (year < 1970 || month < 1 || month > 12 || day < 1) return false;
    *days = day_join((uint64_t)year, (uint64_t)month, (uint64_t)day);
    day_split(*days, &same_year, &same_month, &same_day);
    return same_day == (uint64_t)day; // 31 April is 1 May
}

// "12:00", "12:00:05", "12:00:05.250"
static bool take_clock(const char **text, int64_t *of_day)
{
    int64_t hour, minute, second = 0, rest = 0;
    if (!take_digits(text, 2, &hour) || !take_one_of(text, ":") || !take_digits(text, 2, &minute))
        return false;
    if (take_one_of(text, ":") && (!take_digits(text, 2, &second) || !fraction_take(text, &rest)))
        return false;
    *of_day = ((hour * 60 + minute) * 60 + second) * 1000 + rest;
    return hour < 24 && minute < 60 && second < 60;
}

// "Z", "+02:00"
static bool take_zone(const char **text, int64_t *ahead)
{
    int64_t hours, minutes, sign = **text == '-' ? -1 : 1;
    *ahead = 0;
    if (take_one_of(text, "Zz")) return true;
    if (!take_one_of(text, "+-") || !take_digits(text, 2, &hours) || !take_one_of(text, ":") ||
        !take_digits(text, 2, &minutes))
        return false;
    *ahead = sign * (hours * 60 + minutes) * 60000;
    return hours < 24 && minutes < 60;
}

bool moment_read(const char *text, int64_t *ms, bool *local)
{
    int64_t days, of_day = 0, ahead = 0;
    if (!take_date(&text, &days)) return false;
    bool clock = take_one_of(&text, "Tt ");
    if (clock && !take_clock(&text, &of_day)) return false;
    bool zoned = clock && *text;
    if (zoned && !take_zone(&text, &ahead)) return false;
    if (*text) return false;
    if (!zoned && !local) return false;
    if (local) *local = !zoned;
    *ms = days * MS_A_DAY + of_day - ahead;
    return *ms >= 0;
}

bool moment_read_exact(struct bytes text, int64_t *ms)
{
    char given[MOMENT_LEN + 1] = "", again[MOMENT_LEN];
    if (text.len != MOMENT_LEN) return false;
    memcpy(given, text.data, MOMENT_LEN);
    if (!moment_read(given, ms, NULL)) return false;
    moment_put(again, *ms);
    return bytes_equal(bytes_of(again, MOMENT_LEN), text);
}
