// SPDX-License-Identifier: Apache-2.0
// The two time formats of S3: ISO 8601 in documents, the HTTP date in headers.
#include "store/s3/auth/times.h"

#include <string.h>

// Days since 1970 of a date in the Gregorian calendar. Years count from March, so that the leap day
// is the last day of a year.
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    if (month <= 2) year--;
    int64_t era = year / 400;
    int64_t of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

// Reads exactly `digits` digits.
static bool number(const char **at, const char *end, int digits, int64_t *out)
{
    int64_t n = 0;
    for (int i = 0; i < digits; i++) {
        if (*at == end || **at < '0' || **at > '9') return false;
        n = n * 10 + (*(*at)++ - '0');
    }
    *out = n;
    return true;
}

static bool sign(const char **at, const char *end, const char *text)
{
    size_t len = strlen(text);
    if ((size_t)(end - *at) < len || memcmp(*at, text, len) != 0) return false;
    *at += len;
    return true;
}

struct http_time {
    int64_t year, month, day, hour, minute, second;
};

static bool to_ms(const struct http_time *m, int64_t *out_ms)
{
    bool good = m->year >= 1970 && m->month >= 1 && m->month <= 12 && m->day >= 1 && m->day <= 31 &&
                m->hour < 24 && m->minute < 60 && m->second <= 60;
    if (!good) return false;
    int64_t days = days_of(m->year, m->month, m->day);
    *out_ms = ((days * 24 + m->hour) * 60 + m->minute) * 60000 + m->second * 1000;
    return true;
}

static bool time_of_day(const char **at, const char *end, struct http_time *m)
{
    return number(at, end, 2, &m->hour) && sign(at, end, ":") && number(at, end, 2, &m->minute) &&
           sign(at, end, ":") && number(at, end, 2, &m->second);
}

// Reads "Z", or the offset of local time that credential_process programs write.
static bool zone(const char *at, const char *end, int64_t *ms)
{
    if (sign(&at, end, "Z")) return at == end;
    int64_t ahead = sign(&at, end, "+") ? 1 : sign(&at, end, "-") ? -1 : 0, hours, minutes;
    if (!ahead || !number(&at, end, 2, &hours)) return false;
    (void)sign(&at, end, ":");
    if (!number(&at, end, 2, &minutes) || at != end || hours > 23 || minutes > 59) return false;
    *ms -= ahead * (hours * 60 + minutes) * 60000;
    return true;
}

bool s3_time_iso(const char *text, int64_t *out_ms)
{
    const char *at = text, *end = text + strlen(text);
    struct http_time m = {0};
    bool good = number(&at, end, 4, &m.year) && sign(&at, end, "-") &&
                number(&at, end, 2, &m.month) && sign(&at, end, "-") &&
                number(&at, end, 2, &m.day) && sign(&at, end, "T") && time_of_day(&at, end, &m);
    if (!good || !to_ms(&m, out_ms)) return false;
    int64_t scale = 100, digit;
    if (sign(&at, end, "."))
        for (; number(&at, end, 1, &digit); scale /= 10)
            *out_ms += digit * scale; // past the third digit the scale is 0
    return zone(at, end, out_ms);
}

bool s3_time_http(struct bytes text, int64_t *out_ms)
{
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    if (text.len != 29) return false;
    const char *at = (const char *)text.data + 5; // the day of the week is not needed
    const char *end = at + text.len - 5;
    struct http_time m = {0};
    if (!number(&at, end, 2, &m.day) || !sign(&at, end, " ")) return false;
    for (int i = 0; i < 12 && m.month == 0; i++)
        if (sign(&at, end, months[i])) m.month = i + 1;
    bool good = m.month > 0 && sign(&at, end, " ") && number(&at, end, 4, &m.year) &&
                sign(&at, end, " ") && time_of_day(&at, end, &m) && sign(&at, end, " GMT");
    return good && at == end && to_ms(&m, out_ms);
}
