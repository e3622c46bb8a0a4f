// SPDX-License-Identifier: Apache-2.0
// The values of settings by their kind: as a number in the struct, and as text.
#include "queue/codec/settings.h"

#include "base/check.h"
#include "base/duration.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const struct setting queue_settings[QUEUE_SETTINGS_LEN] = {QUEUE_SETTINGS(SETTING_ROW)};

const struct setting *setting_find(const char *key)
{
    for (size_t i = 0; i < QUEUE_SETTINGS_LEN; i++)
        if (strcmp(queue_settings[i].key, key) == 0) return &queue_settings[i];
    return NULL;
}

uint64_t setting_get(const struct setting *s, const struct queue_config *c)
{
    CHECK(s->offset + s->size <= sizeof *c);
    const char *at = (const char *)c + s->offset;
    uint64_t wide = 0;
    uint32_t narrow = 0;
    if (s->kind == SETTING_NAME) return 0;
    if (s->size == sizeof wide) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (s->size == sizeof(bool)) return *at != 0;
    CHECK(s->size == sizeof narrow);
    memcpy(&narrow, at, sizeof narrow);
    return narrow;
}

void setting_put(const struct setting *s, struct queue_config *c, uint64_t v)
{
    char *at = (char *)c + s->offset;
    uint32_t narrow = (uint32_t)v;
    bool flag = v == 1;
    CHECK(s->kind != SETTING_NAME);
    CHECK(s->size == sizeof v || s->size == sizeof narrow || s->size == sizeof flag);
    CHECK(s->size != sizeof flag || v <= 1);
    memcpy(at,
           s->size == sizeof v      ? (void *)&v
           : s->size == sizeof flag ? (void *)&flag
                                    : (void *)&narrow,
           s->size);
}

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit byte_units[] = {{"", 1},         {"B", 1},         {"KB", 1000},
                                         {"MB", 1000000}, {"KiB", 1 << 10}, {"MiB", 1 << 20},
                                         {"GiB", 1 << 30}};
static const struct unit no_units[] = {{"", 1}};

// Parses digits and a unit. False: another text, or a number above every limit.
static bool parse_number(const char *text, const struct unit *units, size_t units_len,
                         uint64_t *out)
{
    uint64_t v = 0;
    size_t digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9'; digits++) {
        if (digits > 14) return false;
        v = v * 10 + (uint64_t)(text[digits] - '0');
    }
    CHECK(units_len > 0 && units[0].factor > 0);
    if (digits == 0) return false;
    for (size_t i = 0; i < units_len; i++) {
        if (strcmp(text + digits, units[i].name) != 0) continue;
        *out = v * units[i].factor;
        return v <= UINT64_MAX / units[i].factor;
    }
    return false;
}

static bool parse_time(const char *text, uint64_t *out)
{
    int64_t ms;
    if (!duration_read(text, &ms)) return false;
    CHECK(ms >= 0);
    *out = (uint64_t)ms;
    return true;
}

// Parses "2", "1.5", "0.25" in thousandths.
static bool parse_fraction(const char *text, uint64_t *out)
{
    uint64_t v = 0, scale = 1000;
    size_t i = 0;
    for (; text[i] >= '0' && text[i] <= '9' && i < 8; i++)
        v = v * 10 + (uint64_t)(text[i] - '0');
    if (i == 0) return false;
    v *= 1000;
    if (text[i] == '.') {
        size_t start = ++i;
        for (; text[i] >= '0' && text[i] <= '9' && scale > 1; i++) {
            scale /= 10;
            v += (uint64_t)(text[i] - '0') * scale;
        }
        if (i == start) return false;
    }
    *out = v;
    return text[i] == '\0';
}

static bool parse_word(const char *text, const char *words, uint64_t *out)
{
    CHECK(words && words[0]);
    size_t len = strlen(text);
    *out = 0;
    for (const char *at = words; len > 0;) {
        const char *comma = strchr(at, ',');
        size_t word = comma ? (size_t)(comma - at) : strlen(at);
        if (word == len && memcmp(at, text, len) == 0) return true;
        if (!comma) return false;
        at = comma + 2;
        ++*out;
    }
    return false;
}

bool setting_parse(const struct setting *s, const char *text, uint64_t *v)
{
    switch (s->kind) {
    case SETTING_CHOICE:
    case SETTING_FLAG:
        return parse_word(text, s->choices, v);
    case SETTING_DURATION:
        return parse_time(text, v);
    case SETTING_BYTES:
        return parse_number(text, byte_units, sizeof byte_units / sizeof *byte_units, v);
    case SETTING_RATIO:
        return parse_fraction(text, v);
    case SETTING_NUMBER:
        return parse_number(text, no_units, 1, v);
    default:
        return false;
    }
}

static void print_choice(const char *at, uint64_t v, char *out)
{
    const char *comma = strchr(at, ',');
    for (; v > 0; v--) {
        CHECK(comma); // the table has a word for each value up to its max
        at = comma + 2;
        comma = strchr(at, ',');
    }
    (void)snprintf(out, SETTING_TEXT_MAX, "%.*s", (int)(comma ? (size_t)(comma - at) : strlen(at)),
                   at);
}

static void print_ratio(unsigned long long v, bool people, char *out)
{
    int len = snprintf(out, SETTING_TEXT_MAX, "%llu.%03llu", v / 1000, v % 1000);
    CHECK(len > 4 && len < SETTING_TEXT_MAX);
    while (people && out[len - 1] == '0')
        out[--len] = '\0';
    if (out[len - 1] == '.') out[len - 1] = '\0';
}

void setting_print(const struct setting *s, uint64_t v, bool people,
                   char out[static SETTING_TEXT_MAX])
{
    static const char *const sizes[] = {"B", "KiB", "MiB", "GiB"};
    static_assert(SETTING_TEXT_MAX == DURATION_TEXT_MAX, "one size fits all texts");
    CHECK(s->kind != SETTING_NAME);
    size_t size = 0;
    const char *unit = "";
    if (s->choices && v <= s->max) {
        print_choice(s->choices, v, out);
    } else if (s->kind == SETTING_RATIO) {
        print_ratio(v, people, out);
    } else if (s->kind == SETTING_DURATION) {
        (void)duration_exact((int64_t)v, out);
    } else {
        for (; s->kind == SETTING_BYTES && people && v > 0 && v % 1024 == 0 &&
               size + 1 < sizeof sizes / sizeof *sizes;
             size++)
            v /= 1024;
        if (s->kind == SETTING_BYTES && people) unit = sizes[size];
        (void)snprintf(out, SETTING_TEXT_MAX, "%llu%s", (unsigned long long)v, unit);
    }
}
