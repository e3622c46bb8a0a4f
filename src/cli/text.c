// SPDX-License-Identifier: Apache-2.0
// Converts numbers, durations and times between text and milliseconds.
#include "cli/text.h"

#include "base/duration.h"
#include "base/moment.h"

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

bool text_to_moment(const char *text, int64_t *out)
{
    bool local;
    struct tm tm;
    if (text_to_number(text, out)) return *out > 0;
    if (!moment_read(text, out, &local)) return false;
    time_t seconds = (time_t)(*out / SECOND);
    if (local && gmtime_r(&seconds, &tm)) {
        tm.tm_isdst = -1;
        *out = (int64_t)mktime(&tm) * SECOND + *out % SECOND;
    }
    return *out > 0;
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
