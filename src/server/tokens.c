// SPDX-License-Identifier: Apache-2.0
// Parses the lines of a tokens file, and finds the token of a request.
#include "server/tokens.h"

#include "base/array.h"
#include "base/memory.h"
#include "net/digest.h"
#include "os/entropy.h"
#include "os/file.h"
#include "queue/codec/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)
#define SECRET_BYTES   32
#define HASH_PREFIX    "sha256:"
#define VALUE_MAX      2048

struct token_grant {
    unsigned scopes; // 1 << enum token_scope
    size_t queues_len;
    char queues[TOKEN_QUEUES_MAX][QUEUE_NAME_MAX + 2];
};

struct token {
    char name[TOKEN_NAME_MAX + 1];
    uint8_t hash[SHA256_LEN];
    int64_t expires_ms; // 0: never
    size_t grants_len;
    struct token_grant grants[TOKEN_GRANTS_MAX];
};

struct tokens {
    struct token *rows;
    size_t len;
    size_t cap;
};

struct tokens *tokens_new(void)
{
    return NEW(struct tokens);
}

void tokens_free(struct tokens *t)
{
    if (!t) return;
    memory_free(t->rows);
    memory_free(t);
}

size_t tokens_len(const struct tokens *t)
{
    return t ? t->len : 0;
}

// A pattern is a queue's name, a prefix and "*", or "*".
static bool queue_pattern_ok(const char *pattern)
{
    size_t len = strlen(pattern);
    if (strcmp(pattern, "*") == 0) return true;
    if (len == 0 || len > QUEUE_NAME_MAX + 1) return false;
    char name[QUEUE_NAME_MAX + 2];
    (void)snprintf(name, sizeof name, "%s", pattern);
    if (name[len - 1] == '*') name[len - 1] = '\0';
    return queue_name_ok(name);
}

static bool queue_pattern_matches(const char *pattern, const char *queue)
{
    size_t len = strlen(pattern);
    if (len > 0 && pattern[len - 1] == '*') return strncmp(pattern, queue, len - 1) == 0;
    return strcmp(pattern, queue) == 0;
}

bool say_wrong(char *why, size_t why_len, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    (void)vsnprintf(why, why_len, format, words);
    va_end(words);
    return false;
}

char *text_trimmed(char *text)
{
    text += strspn(text, " \t\r");
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1]))
        text[--len] = '\0';
    return text;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hash(struct token *t, const char *word)
{
    size_t prefix = strlen(HASH_PREFIX);
    if (strncmp(word, HASH_PREFIX, prefix) != 0) return false;
    word += prefix;
    if (strlen(word) != (size_t)2 * SHA256_LEN) return false;
    for (size_t i = 0; i < SHA256_LEN; i++) {
        int high = hex_digit(word[2 * i]), low = hex_digit(word[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        t->hash[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool read_scopes(struct token *t, char *words, char *why, size_t why_len)
{
    if (t->grants_len == TOKEN_GRANTS_MAX)
        return say_wrong(why, why_len, "a token has at most %d scope= entries", TOKEN_GRANTS_MAX);
    struct token_grant *g = &t->grants[t->grants_len++];
    char *rest = NULL;
    for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        unsigned scope = SCOPE_READ;
        while (scope <= SCOPE_ADMIN && strcmp(word, scope_name((enum token_scope)scope)) != 0)
            scope++;
        if (scope > SCOPE_ADMIN)
            return say_wrong(why, why_len,
                             "scope \"%.40s\" is not one of read, send, work, signal, admin", word);
        g->scopes |= 1U << scope;
    }
    if (g->scopes != 0) return true;
    return say_wrong(why, why_len, "scope= is empty; give some of read, send, work, signal, admin");
}

static bool read_queues(struct token *t, char *words, char *why, size_t why_len)
{
    if (t->grants_len == 0)
        return say_wrong(why, why_len, "queue= comes after the scope= it is for");
    struct token_grant *g = &t->grants[t->grants_len - 1];
    char *rest = NULL;
    for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (!queue_pattern_ok(word))
            return say_wrong(
                why, why_len,
                "queue \"%.80s\" is not a queue's name, nor the beginning of one and *", word);
        if (g->queues_len == TOKEN_QUEUES_MAX)
            return say_wrong(why, why_len, "a scope= has at most %d queues", TOKEN_QUEUES_MAX);
        (void)snprintf(g->queues[g->queues_len++], sizeof *g->queues, "%s", word);
    }
    return true;
}

static bool read_expires(struct token *t, const char *word, char *why, size_t why_len)
{
    struct tm tm = {0};
    int end = 0;
    bool read = sscanf(word, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                       &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &end) == 6 &&
                end > 0 && word[end] == '\0';
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    struct tm asked = tm;
    t->expires_ms = (int64_t)timegm(&tm) * 1000;
    // timegm turns 31 February into a day in March.
    if (read && tm.tm_mon == asked.tm_mon && tm.tm_mday == asked.tm_mday && t->expires_ms > 0)
        return true;
    return say_wrong(why, why_len, "expires=%.40s is not a time such as 2027-01-31T12:00:00Z",
                     word);
}

static bool read_word(struct token *t, char *word, char *why, size_t why_len)
{
    if (strncmp(word, "scope=", 6) == 0) return read_scopes(t, word + 6, why, why_len);
    if (strncmp(word, "queue=", 6) == 0) return read_queues(t, word + 6, why, why_len);
    if (strncmp(word, "expires=", 8) == 0) return read_expires(t, word + 8, why, why_len);
    return say_wrong(why, why_len, "\"%.20s\" is not one of scope=, queue=, expires=", word);
}

static bool read_token(struct token *t, const char *value, char *why, size_t why_len)
{
    char words[VALUE_MAX], *rest = NULL;
    if (strlen(value) >= sizeof words)
        return say_wrong(why, why_len, "it is longer than %d bytes", VALUE_MAX - 1);
    (void)snprintf(words, sizeof words, "%s", value);
    char *word = strtok_r(words, " \t", &rest);
    if (!word || !read_hash(t, word)) {
        // The text may be the secret itself, so the error does not repeat it.
        return say_wrong(why, why_len, "a token begins with sha256: and 64 lower case hex digits");
    }
    while ((word = strtok_r(NULL, " \t", &rest)))
        if (!read_word(t, word, why, why_len)) return false;
    for (size_t i = 0; i < t->grants_len; i++)
        if (t->grants[i].queues_len == 0)
            return say_wrong(why, why_len, "a scope= has no queue=; queue=* names all queues");
    if (t->grants_len > 0) return true;
    return say_wrong(why, why_len, "it has no scope=, so it would allow nothing");
}

static bool name_ok(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= TOKEN_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == len;
}

bool tokens_add(struct tokens *t, const char *name, const char *value, char *why, size_t why_len)
{
    struct token row = {0};
    if (!name_ok(name))
        return say_wrong(why, why_len,
                         "a token's name has letters, digits, '_', '.', '-', %d at most",
                         TOKEN_NAME_MAX);
    if (!read_token(&row, value, why, why_len)) return false;
    (void)snprintf(row.name, sizeof row.name, "%s", name);
    for (size_t i = 0; i < t->len; i++) {
        bool same = memcmp(t->rows[i].hash, row.hash, sizeof row.hash) == 0;
        if (!same && strcmp(t->rows[i].name, name) != 0) continue;
        return say_wrong(why, why_len, "%s %s is given twice", same ? "the hash of token" : "token",
                         name);
    }
    if (t->len == TOKENS_MAX)
        return say_wrong(why, why_len, "there are more than %d tokens", TOKENS_MAX);
    *ARRAY_ADD(t->rows, t->len, t->cap) = row;
    return true;
}

static bool add_line(struct tokens *t, char *line, char *why, size_t why_len)
{
    char *comment = strchr(line, '#');
    if (comment) *comment = '\0';
    line = text_trimmed(line);
    if (!*line) return true;
    char *equals = strchr(line, '=');
    char *end = line + strcspn(line, "= \t");
    if (!equals || (end < equals && strspn(end, " \t") != (size_t)(equals - end)))
        return say_wrong(why, why_len, "a line looks like: name = sha256:... scope=send queue=*");
    *end = '\0';
    return tokens_add(t, line, text_trimmed(equals + 1), why, why_len);
}

bool tokens_add_lines(struct tokens *t, struct bytes text, const char *where, char *why,
                      size_t why_len)
{
    char what[256] = "";
    bool good = text.len == 0 || !memchr(text.data, 0, text.len);
    char *copy = memory_new(text.len + 1), *rest = copy;
    if (!good)
        (void)snprintf(why, why_len, "%s: the file has a NUL byte, so it is not text", where);
    if (text.len > 0) memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    for (int number = 1; good && rest; number++) {
        char *line = strsep(&rest, "\n");
        good = add_line(t, line, what, sizeof what);
        if (!good) (void)snprintf(why, why_len, "%s:%d: %s", where, number, what);
    }
    memory_free(copy);
    return good;
}

bool tokens_add_file(struct tokens *t, const char *path, char *why, size_t why_len)
{
    LOCAL(buf, text, FILE_BYTES_MAX);
    int failed = file_read(path, &text);
    if (failed) return say_wrong(why, why_len, "%s: cannot be read: %s", path, strerror(failed));
    return tokens_add_lines(t, buf_bytes(&text), path, why, why_len);
}

const struct token *tokens_find(const struct tokens *t, const char *secret)
{
    uint8_t hash[SHA256_LEN];
    const struct token *found = NULL;
    sha256(bytes_str(secret), hash);
    for (size_t i = 0; i < t->len; i++)
        if (digest_equal(t->rows[i].hash, hash, sizeof hash)) found = &t->rows[i];
    return found;
}

const char *token_name(const struct token *t)
{
    return t->name;
}

bool token_expired(const struct token *t, int64_t now_ms)
{
    return t->expires_ms != 0 && t->expires_ms <= now_ms;
}

static bool grant_covers(const struct token_grant *g, const char *queue)
{
    for (size_t i = 0; i < g->queues_len; i++) {
        if (!queue && strcmp(g->queues[i], "*") == 0) return true;
        if (queue && (!*queue || queue_pattern_matches(g->queues[i], queue))) return true;
    }
    return false;
}

bool token_allows(const struct token *t, enum token_scope scope, const char *queue)
{
    if (scope == SCOPE_NONE) return true;
    for (size_t i = 0; i < t->grants_len; i++) {
        unsigned scopes = t->grants[i].scopes;
        bool has = scopes & (1U << scope | 1U << SCOPE_ADMIN); // admin includes the others
        if (has && grant_covers(&t->grants[i], queue)) return true;
    }
    return false;
}

void token_make(char secret[TOKEN_SECRET_MAX], char hash[TOKEN_HASH_MAX])
{
    uint8_t random[SECRET_BYTES], digest[SHA256_LEN];
    size_t prefix = strlen(TOKEN_PREFIX);
    entropy_fill(random, sizeof random);
    (void)snprintf(secret, TOKEN_SECRET_MAX, "%s", TOKEN_PREFIX);
    hex_print(bytes_of(random, sizeof random), secret + prefix);
    sha256(bytes_str(secret), digest);
    (void)snprintf(hash, TOKEN_HASH_MAX, "%s", HASH_PREFIX);
    hex_print(bytes_of(digest, sizeof digest), hash + strlen(HASH_PREFIX));
}
