// SPDX-License-Identifier: Apache-2.0
// One table of all settings: how each is parsed, how it is printed, and its allowed values.
#include "queue/config.h"

#include "base/check.h"
#include "base/duration.h"
#include "base/nearly.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_VERSION 1

enum setting_kind {
    KIND_WORD,
    KIND_BOOL,
    KIND_TIME,
    KIND_COUNT,
    KIND_BYTES,
    KIND_FRACTION,
    KIND_NAME
};

// The settings. Each has one number: for a word, its index in the list of words.
enum setting {
    ORDERING_MODE,
    ORDERING_GUARANTEE,
    VISIBILITY_TIMEOUT,
    FAILURE_MODE,
    MAX_RETRIES,
    DEAD_LETTER_QUEUE,
    BACKOFF_INITIAL,
    BACKOFF_MULTIPLIER,
    BACKOFF_MAX,
    BACKOFF_JITTER,
    DEDUP_WINDOW,
    MAX_MESSAGE_BYTES,
    MAX_DELIVERIES,
    CAPACITY,
    BACKPRESSURE,
    SHARDS,
    SETTING_COUNT
};

struct setting_row {
    const char *key;
    enum setting_kind kind;
    const char *words; // KIND_WORD: the words, as a sentence lists them
    uint64_t min;
    uint64_t max;
};

static const struct setting_row rows[SETTING_COUNT] = {
    [ORDERING_MODE] = {"orderingMode", KIND_WORD, "fifo, lifo", 0, 1},
    [ORDERING_GUARANTEE] = {"orderingGuarantee", KIND_BOOL, "false, true", 0, 1},
    [VISIBILITY_TIMEOUT] = {"visibilityTimeout", KIND_TIME, NULL, 1, 86400000},
    [FAILURE_MODE] = {"failureStrategy.mode", KIND_WORD, "retry, dead-letter, hybrid", 0, 2},
    [MAX_RETRIES] = {"failureStrategy.maxRetries", KIND_COUNT, NULL, 0, CONFIG_RETRIES_MAX},
    [DEAD_LETTER_QUEUE] = {"failureStrategy.deadLetterQueue", KIND_NAME, NULL, 0, 0},
    [BACKOFF_INITIAL] = {"failureStrategy.backoff.initial", KIND_TIME, NULL, 0, CONFIG_TIME_MAX_MS},
    [BACKOFF_MULTIPLIER] = {"failureStrategy.backoff.multiplier", KIND_FRACTION, NULL, 1000,
                            CONFIG_MULTIPLIER_MAX_1000},
    [BACKOFF_MAX] = {"failureStrategy.backoff.max", KIND_TIME, NULL, 0, CONFIG_TIME_MAX_MS},
    [BACKOFF_JITTER] = {"failureStrategy.backoff.jitter", KIND_FRACTION, NULL, 0, 1000},
    [DEDUP_WINDOW] = {"dedupWindow", KIND_TIME, NULL, 0, CONFIG_TIME_MAX_MS},
    [MAX_MESSAGE_BYTES] = {"maxMessageBytes", KIND_BYTES, NULL, 1, CONFIG_MESSAGE_BYTES_MAX},
    [MAX_DELIVERIES] = {"maxDeliveries", KIND_COUNT, NULL, 0, CONFIG_RETRIES_MAX},
    [CAPACITY] = {"capacity", KIND_COUNT, NULL, 1, CONFIG_CAPACITY_MAX},
    [BACKPRESSURE] = {"backpressure", KIND_WORD, "reject, block", 0, 1},
    [SHARDS] = {"shards", KIND_COUNT, NULL, 1, CONFIG_SHARDS_MAX},
};

void config_defaults(struct queue_config *c)
{
    *c = (struct queue_config){
        .ordering_mode = ORDERING_FIFO,
        .visibility_timeout_ms = 30000,
        .failure_mode = FAILURE_RETRY,
        .retries_max = 5,
        .backoff = {.initial_ms = 1000,
                    .multiplier_1000 = 2000,
                    .max_ms = 300000,
                    .jitter_1000 = 200},
        .dedup_window_ms = 300000,
        .message_bytes_max = 1 << 20,
        .capacity = 10000000,
        .backpressure = BACKPRESSURE_REJECT,
        .shards = 1,
    };
}

static uint64_t get(const struct queue_config *c, enum setting f)
{
    switch (f) {
    case ORDERING_MODE:
        return c->ordering_mode;
    case ORDERING_GUARANTEE:
        return c->ordering_guarantee;
    case VISIBILITY_TIMEOUT:
        return (uint64_t)c->visibility_timeout_ms;
    case FAILURE_MODE:
        return c->failure_mode;
    case MAX_RETRIES:
        return c->retries_max;
    case BACKOFF_INITIAL:
        return (uint64_t)c->backoff.initial_ms;
    case BACKOFF_MULTIPLIER:
        return c->backoff.multiplier_1000;
    case BACKOFF_MAX:
        return (uint64_t)c->backoff.max_ms;
    case BACKOFF_JITTER:
        return c->backoff.jitter_1000;
    case DEDUP_WINDOW:
        return (uint64_t)c->dedup_window_ms;
    case MAX_MESSAGE_BYTES:
        return c->message_bytes_max;
    case MAX_DELIVERIES:
        return c->deliveries_max;
    case CAPACITY:
        return c->capacity;
    case BACKPRESSURE:
        return c->backpressure;
    case SHARDS:
        return c->shards;
    default:
        return 0;
    }
}

static void put(struct queue_config *c, enum setting f, uint64_t v)
{
    switch (f) {
    case ORDERING_MODE:
        c->ordering_mode = (enum ordering_mode)v;
        break;
    case ORDERING_GUARANTEE:
        c->ordering_guarantee = v == 1;
        break;
    case VISIBILITY_TIMEOUT:
        c->visibility_timeout_ms = (int64_t)v;
        break;
    case FAILURE_MODE:
        c->failure_mode = (enum failure_mode)v;
        break;
    case MAX_RETRIES:
        c->retries_max = (uint32_t)v;
        break;
    case BACKOFF_INITIAL:
        c->backoff.initial_ms = (int64_t)v;
        break;
    case BACKOFF_MULTIPLIER:
        c->backoff.multiplier_1000 = (uint32_t)v;
        break;
    case BACKOFF_MAX:
        c->backoff.max_ms = (int64_t)v;
        break;
    case BACKOFF_JITTER:
        c->backoff.jitter_1000 = (uint32_t)v;
        break;
    case DEDUP_WINDOW:
        c->dedup_window_ms = (int64_t)v;
        break;
    case MAX_MESSAGE_BYTES:
        c->message_bytes_max = v;
        break;
    case MAX_DELIVERIES:
        c->deliveries_max = (uint32_t)v;
        break;
    case CAPACITY:
        c->capacity = v;
        break;
    case BACKPRESSURE:
        c->backpressure = (enum backpressure)v;
        break;
    case SHARDS:
        c->shards = (uint32_t)v;
        break;
    default:
        break;
    }
}

__attribute__((format(printf, 2, 3))) static enum err refuse(struct config_error *error,
                                                             const char *format, ...)
{
    if (!error) return ERR_INVALID;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error->text, sizeof error->text, format, args);
    va_end(args);
    return ERR_INVALID;
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
    if (!duration_read_ms(text, &ms)) return false;
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

static bool parse(const struct setting_row *row, const char *text, uint64_t *v)
{
    switch (row->kind) {
    case KIND_WORD:
    case KIND_BOOL:
        return parse_word(text, row->words, v);
    case KIND_TIME:
        return parse_time(text, v);
    case KIND_BYTES:
        return parse_number(text, byte_units, sizeof byte_units / sizeof *byte_units, v);
    case KIND_FRACTION:
        return parse_fraction(text, v);
    default:
        return parse_number(text, no_units, 1, v);
    }
}

// Prints a number in readable form: "30s", "64MiB", "1.5".
static void print_readable(enum setting_kind kind, unsigned long long v, char *out, size_t out_len)
{
    static const char *const sizes[] = {"B", "KiB", "MiB", "GiB"};
    char time[DURATION_TEXT_MAX];
    size_t size = 0, len = 0;
    switch (kind) {
    case KIND_TIME:
        (void)snprintf(out, out_len, "%s", duration_exact((int64_t)v, time));
        break;
    case KIND_BYTES:
        for (; v > 0 && v % 1024 == 0 && size + 1 < sizeof sizes / sizeof *sizes; size++)
            v /= 1024;
        (void)snprintf(out, out_len, "%llu%s", v, sizes[size]);
        break;
    case KIND_FRACTION:
        len = (size_t)snprintf(out, out_len, "%llu.%03llu", v / 1000, v % 1000);
        while (len > 0 && (out[len - 1] == '0' || out[len - 1] == '.')) {
            bool dot = out[--len] == '.';
            out[len] = '\0';
            if (dot) break;
        }
        break;
    default:
        (void)snprintf(out, out_len, "%llu", v);
        break;
    }
}

static const char *kind_words(enum setting_kind kind)
{
    switch (kind) {
    case KIND_TIME:
        return "a duration such as 1500ms, 30s or 5m";
    case KIND_BYTES:
        return "a size such as 4096 or 256KiB";
    case KIND_FRACTION:
        return "a number such as 1.5";
    default:
        return "a whole number";
    }
}

bool queue_name_ok(const char *name)
{
    size_t len = 0;
    for (; name[len] != '\0'; len++) {
        char c = name[len];
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        bool mark = c == '_' || c == '.' || c == '-';
        if (len == QUEUE_NAME_MAX || !(letter || (mark && len > 0))) return false;
    }
    return len > 0;
}

static enum err set_name(struct queue_config *c, const char *key, const char *value,
                         struct config_error *error)
{
    if (value[0] != '\0' && !queue_name_ok(value))
        return refuse(error,
                      "%s \"%.100s\" is not a queue name: 1 to %d of A-Z a-z 0-9 _ . -, "
                      "starting with a letter or digit",
                      key, value, QUEUE_NAME_MAX);
    memcpy(c->dead_letter_queue, value, strlen(value) + 1);
    return ERR_OK;
}

// Returns the key that is probably meant: mistyped, or without its leading parts.
static const char *near_key(const char *key)
{
    size_t len = strlen(key);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const char *known = rows[i].key;
        size_t known_len = strlen(known), before = known_len > len ? known_len - len : 0;
        bool tail = before > 0 && known[before - 1] == '.' && strcmp(known + before, key) == 0;
        if (tail || nearly_same(known, key)) return known;
    }
    return NULL;
}

static enum err unknown_key(const char *key, struct config_error *error)
{
    static const char group[] = "failureStrategy.";
    const char *near = near_key(key);
    if (near) return refuse(error, "\"%.80s\" is not a setting; did you mean %s?", key, near);
    bool inside = strncmp(key, group, sizeof group - 1) == 0;
    char list[200] = "";
    size_t len = 0;
    for (size_t i = 0; i < SETTING_COUNT && len < sizeof list; i++) {
        bool member = strncmp(rows[i].key, group, sizeof group - 1) == 0;
        if (member != inside) continue;
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len > 0 ? ", " : "",
                                rows[i].key + (inside ? sizeof group - 1 : 0));
    }
    return refuse(error,
                  inside ? "\"%.80s\": failureStrategy has %s"
                         : "\"%.80s\" is not one of %s, failureStrategy.*",
                  key, list);
}

enum err config_set(struct queue_config *c, const char *key, const char *value,
                    struct config_error *error)
{
    size_t f = 0;
    while (f < SETTING_COUNT && strcmp(rows[f].key, key) != 0)
        f++;
    if (f == SETTING_COUNT) return unknown_key(key, error);
    const struct setting_row *row = &rows[f];
    if (row->kind == KIND_NAME) return set_name(c, key, value, error);
    uint64_t v = 0;
    bool read = parse(row, value, &v);
    if (read && v >= row->min && v <= row->max) {
        put(c, (enum setting)f, v);
        return ERR_OK;
    }
    if (row->words) return refuse(error, "%s \"%.100s\" is not one of %s", key, value, row->words);
    char low[32], high[32];
    print_readable(row->kind, row->min, low, sizeof low);
    print_readable(row->kind, row->max, high, sizeof high);
    return refuse(error, "%s \"%.100s\" %s%s%s between %s and %s", key, value,
                  read ? "must be" : "is not ", read ? "" : kind_words(row->kind), read ? "" : ",",
                  low, high);
}

enum err config_check(const struct queue_config *c, const char *name, struct config_error *error)
{
    for (size_t f = 0; f < SETTING_COUNT; f++) {
        uint64_t v = get(c, (enum setting)f);
        char texts[3][32];
        if (v >= rows[f].min && v <= rows[f].max) continue;
        print_readable(rows[f].kind, v, texts[0], sizeof texts[0]);
        print_readable(rows[f].kind, rows[f].min, texts[1], sizeof texts[1]);
        print_readable(rows[f].kind, rows[f].max, texts[2], sizeof texts[2]);
        return refuse(error, "%s %s must be between %s and %s", rows[f].key, texts[0], texts[1],
                      texts[2]);
    }
    const char *dead = c->dead_letter_queue;
    static const char *const modes[] = {"retry", "dead-letter", "hybrid"};
    if (dead[0] == '\0' && c->failure_mode != FAILURE_RETRY)
        return refuse(error,
                      "failureStrategy.mode \"%s\" needs failureStrategy.deadLetterQueue, the "
                      "name of a queue",
                      modes[c->failure_mode]);
    if (dead[0] != '\0' && !queue_name_ok(dead))
        return refuse(error, "failureStrategy.deadLetterQueue \"%.80s\" is not a queue name", dead);
    if (name && dead[0] != '\0' && strcmp(dead, name) == 0)
        return refuse(error,
                      "failureStrategy.deadLetterQueue \"%s\" is the queue itself; name another "
                      "queue",
                      dead);
    char initial[DURATION_TEXT_MAX], max[DURATION_TEXT_MAX];
    if (c->backoff.initial_ms > c->backoff.max_ms)
        return refuse(error,
                      "failureStrategy.backoff.initial %s is more than "
                      "failureStrategy.backoff.max %s",
                      duration_exact(c->backoff.initial_ms, initial),
                      duration_exact(c->backoff.max_ms, max));
    return ERR_OK;
}

#define CYCLE_MAX 64 // longer chains of dead-letter queues are refused as well

enum err config_check_cycle(const struct queue_config *c, const char *name, config_next_fn *next,
                            void *ctx, struct config_error *error)
{
    const char *at = c->dead_letter_queue;
    for (int i = 0; at && at[0] != '\0'; i++) {
        if (strcmp(at, name) == 0 || i == CYCLE_MAX)
            return refuse(error,
                          "failureStrategy.deadLetterQueue \"%s\" leads back to \"%.80s\"; dead "
                          "letters must end in a queue of their own",
                          c->dead_letter_queue, name);
        at = next(ctx, at);
    }
    return ERR_OK;
}

static void print_word(const struct setting_row *row, uint64_t v, struct config_pair *out)
{
    const char *at = row->words;
    for (; v > 0; v--)
        at = strchr(at, ',') + 2;
    const char *comma = strchr(at, ',');
    (void)snprintf(out->value, sizeof out->value, "%.*s",
                   (int)(comma ? (size_t)(comma - at) : strlen(at)), at);
}

bool config_print(const struct queue_config *c, size_t index, struct config_pair *out)
{
    if (index >= SETTING_COUNT) return false;
    const struct setting_row *row = &rows[index];
    unsigned long long v = get(c, (enum setting)index);
    out->key = row->key;
    switch (row->kind) {
    case KIND_WORD:
    case KIND_BOOL:
        print_word(row, v, out);
        break;
    case KIND_TIME:
        (void)snprintf(out->value, sizeof out->value, "%llums", v);
        break;
    case KIND_FRACTION:
        (void)snprintf(out->value, sizeof out->value, "%llu.%03llu", v / 1000, v % 1000);
        break;
    case KIND_NAME:
        memcpy(out->value, c->dead_letter_queue, sizeof c->dead_letter_queue);
        break;
    default:
        (void)snprintf(out->value, sizeof out->value, "%llu", v);
        break;
    }
    return true;
}

bool config_show(const struct queue_config *c, size_t index, struct config_pair *out)
{
    if (!config_print(c, index, out)) return false;
    enum setting_kind kind = rows[index].kind;
    if (kind == KIND_TIME || kind == KIND_BYTES || kind == KIND_FRACTION)
        print_readable(kind, get(c, (enum setting)index), out->value, sizeof out->value);
    return true;
}

void config_encode(const struct queue_config *c, struct buf *out)
{
    buf_put_u8(out, CONFIG_VERSION);
    for (size_t f = 0; f < SETTING_COUNT; f++)
        if (rows[f].kind != KIND_NAME) buf_put_u64(out, get(c, (enum setting)f));
    buf_put_sized(out, bytes_str(c->dead_letter_queue));
}

enum err config_decode(struct reader *r, struct queue_config *out)
{
    *out = (struct queue_config){0};
    if (read_u8(r) != CONFIG_VERSION) return ERR_INVALID;
    for (size_t f = 0; f < SETTING_COUNT; f++) {
        if (rows[f].kind == KIND_NAME) continue;
        uint64_t v = read_u64(r);
        if (v < rows[f].min || v > rows[f].max) return ERR_INVALID;
        put(out, (enum setting)f, v);
    }
    struct bytes name = read_sized(r, QUEUE_NAME_MAX);
    if (name.len > 0) memcpy(out->dead_letter_queue, name.data, name.len);
    if (!reader_ok(r) || strlen(out->dead_letter_queue) != name.len) return ERR_INVALID;
    return name.len == 0 || queue_name_ok(out->dead_letter_queue) ? ERR_OK : ERR_INVALID;
}
