// SPDX-License-Identifier: Apache-2.0
// Converts numbers, durations and times between text and milliseconds.
#include "cli/text.h"

#include "base/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND   INT64_C(1000)
#define MINUTE   (60 * SECOND)
#define HOUR     (60 * MINUTE)
#define DAY      (24 * HOUR)
#define YEAR_MAX 9999

bool text_to_number(const char *text, int64_t *out)
{
    return digits_take(&text, out) && *text == '\0';
}

const char *duration_text(int64_t ms, char out[static TEXT_MAX])
{
    if (ms < SECOND)
        (void)snprintf(out, TEXT_MAX, "%" PRId64 "ms", ms);
    else if (ms < 10 * SECOND)
        (void)snprintf(out, TEXT_MAX, "%" PRId64 ".%" PRId64 "s", ms / SECOND, ms % SECOND / 100);
    else if (ms < MINUTE)
        (void)snprintf(out, TEXT_MAX, "%" PRId64 "s", (ms + SECOND / 2) / SECOND);
    else if (ms < HOUR)
        (void)snprintf(out, TEXT_MAX, "%" PRId64 "m %" PRId64 "s", ms / MINUTE,
                       ms % MINUTE / SECOND);
    else if (ms < DAY)
        (void)snprintf(out, TEXT_MAX, "%" PRId64 "h %" PRId64 "m", ms / HOUR, ms % HOUR / MINUTE);
    else
        (void)snprintf(out, TEXT_MAX, "%" PRId64 "d %" PRId64 "h", ms / DAY, ms % DAY / HOUR);
    return out;
}

struct calendar_time {
    struct tm tm;
    int64_t thousandths;
    bool local; // no time zone was given
    int64_t zone_ms;
};

// "12:00", "12:00:05", "12:00:05.250"
static bool take_clock(const char **text, struct calendar_time *m)
{
    int hour, minute, used = 0;
    if (sscanf(*text, "%2d:%2d%n", &hour, &minute, &used) != 2 || used != 5) return false;
    *text += used;
    m->tm.tm_hour = hour;
    m->tm.tm_min = minute;
    if (**text == ':') {
        int second;
        used = 0;
        if (sscanf(*text, ":%2d%n", &second, &used) != 1 || used != 3) return false;
        *text += used;
        m->tm.tm_sec = second;
        if (second < 0 || !fraction_take(text, &m->thousandths)) return false;
    }
    return hour >= 0 && hour < 24 && minute >= 0 && minute < 60 && m->tm.tm_sec < 60;
}

// "", "Z", "+02:00"
static bool take_zone(const char **text, struct calendar_time *m)
{
    if (**text == '\0') {
        m->local = true;
        return true;
    }
    if (**text == 'Z' || **text == 'z') {
        ++*text;
        return true;
    }
    int hours, minutes, used = 0;
    char sign = **text;
    if (sign != '+' && sign != '-') return false;
    if (sscanf(*text + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 || used != 5) return false;
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) return false;
    *text += 1 + used;
    m->zone_ms = (sign == '-' ? -1 : 1) * (hours * HOUR + minutes * MINUTE);
    return true;
}

static bool moment_parse(const char *text, struct calendar_time *m)
{
    int year, month, day, used = 0;
    if (sscanf(text, "%4d-%2d-%2d%n", &year, &month, &day, &used) != 3 || used != 10) return false;
    text += used;
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31) return false;
    m->tm.tm_year = year - 1900;
    m->tm.tm_mon = month - 1;
    m->tm.tm_mday = day;
    if (*text == '\0') { // a date alone means midnight, local time
        m->local = true;
        return true;
    }
    if (*text != 'T' && *text != 't' && *text != ' ') return false;
    text++;
    return take_clock(&text, m) && take_zone(&text, m) && *text == '\0';
}

bool text_to_moment(const char *text, int64_t *out)
{
    struct calendar_time m = {0};
    if (text_to_number(text, out)) return *out > 0;
    if (!moment_parse(text, &m)) return false;
    int day = m.tm.tm_mday;
    m.tm.tm_isdst = -1;
    time_t seconds = m.local ? mktime(&m.tm) : timegm(&m.tm);
    *out = (int64_t)seconds * SECOND + m.thousandths - m.zone_ms;
    return m.tm.tm_mday == day && *out > 0; // the 31st of a shorter month rolls over
}

const char *moment_text(int64_t ms, char out[static TEXT_MAX])
{
    struct tm tm;
    char seconds[32];
    time_t t = (time_t)(ms / SECOND);
    if (ms <= 0 || !localtime_r(&t, &tm) || tm.tm_year + 1900 > YEAR_MAX) {
        (void)snprintf(out, TEXT_MAX, "-");
        return out;
    }
    (void)strftime(seconds, sizeof seconds, "%Y-%m-%d %H:%M:%S", &tm);
    (void)snprintf(out, TEXT_MAX, "%s.%03d", seconds, (int)(ms % SECOND));
    return out;
}

const char *number_text(uint64_t n, char out[static TEXT_MAX])
{
    char digits[TEXT_MAX];
    size_t len = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

const char *bytes_text(uint64_t n, char out[static TEXT_MAX])
{
    static const char *const sizes[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    double v = (double)n;
    for (; v >= 1024 && unit + 1 < sizeof sizes / sizeof *sizes; unit++)
        v /= 1024;
    (void)snprintf(out, TEXT_MAX, unit == 0 ? "%.0f %s" : "%.1f %s", v, sizes[unit]);
    return out;
}

size_t text_columns(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        if (((uint8_t)*text & 0xc0) != 0x80) n++;
    return n;
}
