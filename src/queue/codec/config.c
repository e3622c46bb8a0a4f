// SPDX-License-Identifier: Apache-2.0
// The configuration of a queue: every loop here runs over the table of settings.
#include "queue/codec/config.h"

#include "base/check.h"
#include "base/duration.h"
#include "base/nearly.h"
#include "queue/core/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CONFIG_VERSION 1

void config_defaults(struct queue_config *c)
{
    *c = (struct queue_config){.rules = RULES_FIRST};
    for (size_t i = 0; i < QUEUE_SETTINGS_LEN; i++) {
        const struct setting *s = &queue_settings[i];
        if (s->kind == SETTING_NAME) continue;
        CHECK(s->min <= s->initial && s->initial <= s->max);
        setting_put(s, c, s->initial);
    }
}

static char *name_in(const struct queue_config *c, const struct setting *s)
{
    CHECK(s->kind == SETTING_NAME && s->size == QUEUE_NAME_MAX + 1);
    return (char *)(uintptr_t)c + s->offset;
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

static const char *kind_words(enum setting_kind kind)
{
    CHECK(kind != SETTING_NAME && kind != SETTING_CHOICE && kind != SETTING_FLAG);
    switch (kind) {
    case SETTING_DURATION:
        return "a duration such as 1500ms, 30s or 5m";
    case SETTING_BYTES:
        return "a size such as 4096 or 256KiB";
    case SETTING_RATIO:
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
    CHECK(len <= QUEUE_NAME_MAX);
    return len > 0;
}

static bool in_range(const struct setting *s, uint64_t v)
{
    CHECK(s->min <= s->max);
    return v >= s->min && v <= s->max;
}

// Names the setting, its value and what is allowed. `read`: the value has the right form.
static enum err refuse_value(const struct setting *s, const char *value, bool read,
                             struct config_error *error)
{
    char low[SETTING_TEXT_MAX], high[SETTING_TEXT_MAX];
    if (s->kind == SETTING_NAME)
        return refuse(error,
                      "%s \"%.100s\" is not a queue name: 1 to %d of A-Z a-z 0-9 _ . -, "
                      "starting with a letter or digit",
                      s->key, value, QUEUE_NAME_MAX);
    if (s->choices)
        return refuse(error, "%s \"%.100s\" is not one of %s", s->key, value, s->choices);
    if (s->kind == SETTING_DURATION && duration_lacks_unit(value))
        return refuse(error, "%s " DURATION_NO_UNIT, s->key, value, value, value, value);
    setting_print(s, s->min, true, low);
    setting_print(s, s->max, true, high);
    return refuse(error, "%s \"%.100s\" %s%s%s between %s and %s", s->key, value,
                  read ? "must be" : "is not ", read ? "" : kind_words(s->kind), read ? "" : ",",
                  low, high);
}

#define PREFIX_MIN 5

// The only key that begins so: "visibility" is visibilityTimeout.
static const char *begun_key(const char *key, size_t len)
{
    const char *found = NULL;
    for (size_t i = 0; len >= PREFIX_MIN && i < QUEUE_SETTINGS_LEN; i++) {
        if (strncmp(queue_settings[i].key, key, len) != 0) continue;
        if (found) return NULL;
        found = queue_settings[i].key;
    }
    return found;
}

// Returns the key that is probably meant: mistyped, without its leading parts, or not complete.
static const char *near_key(const char *key)
{
    size_t len = strlen(key);
    for (size_t i = 0; i < QUEUE_SETTINGS_LEN; i++) {
        const char *known = queue_settings[i].key;
        size_t known_len = strlen(known), before = known_len > len ? known_len - len : 0;
        bool tail = before > 0 && known[before - 1] == '.' && strcmp(known + before, key) == 0;
        if (tail || nearly_same(known, key)) return known;
    }
    return begun_key(key, len);
}

static enum err unknown_key(const char *key, struct config_error *error)
{
    static const char group[] = "failureStrategy.";
    CHECK(!setting_find(key));
    const char *near = near_key(key);
    if (near) return refuse(error, "\"%.80s\" is not a setting; did you mean %s?", key, near);
    bool inside = strncmp(key, group, sizeof group - 1) == 0;
    char list[320] = "";
    size_t len = 0;
    for (size_t i = 0; i < QUEUE_SETTINGS_LEN && len < sizeof list; i++) {
        bool member = strncmp(queue_settings[i].key, group, sizeof group - 1) == 0;
        if (member != inside) continue;
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len > 0 ? ", " : "",
                                queue_settings[i].key + (inside ? sizeof group - 1 : 0));
    }
    return refuse(error,
                  inside ? "\"%.80s\": failureStrategy has %s"
                         : "\"%.80s\" is not one of %s, failureStrategy.*",
                  key, list);
}

enum err config_set(struct queue_config *c, const char *key, const char *value,
                    struct config_error *error)
{
    const struct setting *s = setting_find(key);
    if (!s) return unknown_key(key, error);
    uint64_t v = 0;
    bool name = s->kind == SETTING_NAME;
    bool read = name ? !*value || queue_name_ok(value) : setting_parse(s, value, &v);
    if (!read || !in_range(s, v)) return refuse_value(s, value, read, error);
    if (name)
        memcpy(name_in(c, s), value, strlen(value) + 1);
    else
        setting_put(s, c, v);
    CHECK(name || setting_get(s, c) == v); // the field holds every allowed value
    return ERR_OK;
}

enum err config_check(const struct queue_config *c, const char *name, struct config_error *error)
{
    struct config_pair pair;
    for (size_t i = 0; config_show(c, i, &pair); i++) {
        const struct setting *s = &queue_settings[i];
        bool right = s->kind == SETTING_NAME ? !*pair.value || queue_name_ok(pair.value)
                                             : in_range(s, setting_get(s, c));
        if (!right) return refuse_value(s, pair.value, true, error);
    }
    const char *dead = c->dead_letter_queue;
    char texts[2][SETTING_TEXT_MAX];
    CHECK(setting_find("failureStrategy.mode"));
    setting_print(setting_find("failureStrategy.mode"), c->failure_mode, true, texts[0]);
    if (dead[0] == '\0' && c->failure_mode != FAILURE_RETRY)
        return refuse(error,
                      "failureStrategy.mode \"%s\" needs failureStrategy.deadLetterQueue, the "
                      "name of a queue",
                      texts[0]);
    if (name && dead[0] != '\0' && strcmp(dead, name) == 0)
        return refuse(error,
                      "failureStrategy.deadLetterQueue \"%s\" is the queue itself; name another "
                      "queue",
                      dead);
    if (c->backoff.initial_ms > c->backoff.max_ms)
        return refuse(error,
                      "failureStrategy.backoff.initial %s is more than "
                      "failureStrategy.backoff.max %s",
                      duration_exact(c->backoff.initial_ms, texts[0]),
                      duration_exact(c->backoff.max_ms, texts[1]));
    if (c->dispatch == DISPATCH_AFFINITY && !c->ordering_guarantee)
        return refuse(error,
                      "dispatch \"affinity\" needs orderingGuarantee \"true\": only then is a "
                      "group one worker's at a time");
    if (c->workflow_order && !c->ordering_guarantee)
        return refuse(error,
                      "workflowOrder \"on\" needs orderingGuarantee \"true\": the workflow is then "
                      "the scope of the order");
    return ERR_OK;
}

#define CYCLE_MAX 64 // longer chains of dead-letter queues are refused as well

enum err config_check_cycle(const struct queue_config *c, const char *name, config_next_fn *next,
                            void *ctx, struct config_error *error)
{
    const char *at = c->dead_letter_queue;
    for (int i = 0; at && at[0] != '\0'; i++) {
        CHECK(i <= CYCLE_MAX);
        if (strcmp(at, name) == 0 || i == CYCLE_MAX)
            return refuse(error,
                          "failureStrategy.deadLetterQueue \"%s\" leads back to \"%.80s\"; dead "
                          "letters must end in a queue of their own",
                          c->dead_letter_queue, name);
        at = next(ctx, at);
    }
    return ERR_OK;
}

static bool print(const struct queue_config *c, size_t index, bool people, struct config_pair *out)
{
    if (index >= QUEUE_SETTINGS_LEN) return false;
    const struct setting *s = &queue_settings[index];
    CHECK(s->offset + s->size <= sizeof *c);
    out->key = s->key;
    if (s->kind == SETTING_NAME)
        memcpy(out->value, name_in(c, s), sizeof out->value);
    else
        setting_print(s, setting_get(s, c), people, out->value);
    return true;
}

bool config_print(const struct queue_config *c, size_t index, struct config_pair *out)
{
    return print(c, index, false, out);
}

bool config_show(const struct queue_config *c, size_t index, struct config_pair *out)
{
    return print(c, index, true, out);
}

void config_encode(const struct queue_config *c, struct buf *out)
{
    CHECK(c->rules > 0);
    buf_put_u8(out, CONFIG_VERSION);
    buf_put_u16(out, c->rules);
    for (size_t i = 0; i < QUEUE_SETTINGS_LEN; i++)
        if (queue_settings[i].kind == SETTING_NAME)
            buf_put_sized(out, bytes_str(name_in(c, &queue_settings[i])));
        else
            buf_put_u64(out, setting_get(&queue_settings[i], c));
}

static bool decode_name(struct reader *r, char *out)
{
    struct bytes name = read_sized(r, QUEUE_NAME_MAX);
    if (name.len > 0) memcpy(out, name.data, name.len);
    return strlen(out) == name.len && (name.len == 0 || queue_name_ok(out));
}

static bool decode_number(struct reader *r, const struct setting *s, struct queue_config *out)
{
    uint64_t v = read_u64(r);
    if (!in_range(s, v)) return false;
    setting_put(s, out, v);
    CHECK(setting_get(s, out) == v);
    return true;
}

enum err config_decode(struct reader *r, struct queue_config *out)
{
    uint8_t version = read_u8(r);
    config_defaults(out);
    out->rules = read_u16(r);
    if (!reader_ok(r) || version == 0 || out->rules == 0) return ERR_INVALID;
    if (version > CONFIG_VERSION || out->rules > rules_newest()) return ERR_UNAVAILABLE;
    for (size_t i = 0; i < QUEUE_SETTINGS_LEN; i++) {
        const struct setting *s = &queue_settings[i];
        if (s->kind == SETTING_NAME ? !decode_name(r, name_in(out, s)) : !decode_number(r, s, out))
            return ERR_INVALID;
    }
    return reader_ok(r) ? ERR_OK : ERR_INVALID;
}
