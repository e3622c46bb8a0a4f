// SPDX-License-Identifier: Apache-2.0
// Moments as RFC 3339 text. Pure code has no gmtime, so the calendar is computed here.
#include "events/envelope.h"

#include "base/check.h"

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

char *envelope_time_put(char *at, int64_t ms)
{
    uint64_t year, month, day;
    ms = ms < 0 ? 0 : ms > ENVELOPE_TIME_LAST ? ENVELOPE_TIME_LAST : ms;
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

static bool take_digits(struct bytes text, size_t at, size_t len, uint64_t *out)
{
    *out = 0;
    for (size_t i = at; i < at + len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        *out = *out * 10 + (uint64_t)(text.data[i] - '0');
    }
    return true;
}

// Only the form that envelope_time_put writes. It prints what it read and compares, so a day such
// as 31 April is refused.
bool envelope_time_read(struct bytes text, int64_t *ms)
{
    static const char form[] = "0000-00-00T00:00:00.000Z";
    uint64_t year, month, day, hour, minute, second, rest;
    char again[ENVELOPE_TIME_MAX];
    if (text.len != sizeof form - 1) return false;
    bool digits = take_digits(text, 0, 4, &year) && take_digits(text, 5, 2, &month) &&
                  take_digits(text, 8, 2, &day) && take_digits(text, 11, 2, &hour) &&
                  take_digits(text, 14, 2, &minute) && take_digits(text, 17, 2, &second) &&
                  take_digits(text, 20, 3, &rest);
    if (!digits || year < 1970 || month < 1 || month > 12 || day < 1 || day > 31) return false;
    if (hour > 23 || minute > 59 || second > 59) return false;
    uint64_t of_day = ((hour * 60 + minute) * 60 + second) * 1000 + rest;
    *ms = day_join(year, month, day) * MS_A_DAY + (int64_t)of_day;
    char *end = envelope_time_put(again, *ms);
    return bytes_equal(bytes_of(again, (size_t)(end - again)), text);
}
