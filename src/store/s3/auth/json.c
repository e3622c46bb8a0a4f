// SPDX-License-Identifier: Apache-2.0
// A recursive descent parser for RFC 8259. It checks and skips the fields that the caller does not
// request.
#define _GNU_SOURCE // explicit_bzero
#include "store/s3/auth/json.h"

#include "store/s3/auth/times.h"

#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 16

struct json_text {
    const uint8_t *at;
    const uint8_t *end;
    const char *problem;
};

// Receives a string; to == NULL: the string is dropped.
struct sink {
    char *to;
    size_t size;
    size_t len;
};

static void fail(struct json_text *t, const char *problem)
{
    if (!t->problem) t->problem = problem;
    t->at = t->end;
}

static int peek(const struct json_text *t)
{
    return t->at < t->end ? *t->at : -1;
}

static void skip_space(struct json_text *t)
{
    while (t->at < t->end && memchr(" \t\r\n", *t->at, 4))
        t->at++;
}

static bool take(struct json_text *t, char c)
{
    skip_space(t);
    if (peek(t) != c) return false;
    t->at++;
    return true;
}

static void sink_put(struct json_text *t, struct sink *s, uint8_t c)
{
    if (!s->to) return;
    if (c == 0) {
        fail(t, "a value holds a zero");
    } else if (s->len + 1 >= s->size) {
        fail(t, "a value is too long");
    } else {
        s->to[s->len++] = (char)c;
        s->to[s->len] = 0;
    }
}

static unsigned read_hex4(struct json_text *t)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(t);
        unsigned digit;
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (unsigned)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (unsigned)(c - 'A') + 10;
        else {
            fail(t, "a \\u is not followed by four hexadecimal digits");
            return 0;
        }
        value = value * 16 + digit;
        t->at++;
    }
    return value;
}

static void put_utf8(struct json_text *t, struct sink *s, unsigned code)
{
    if (code < 0x80) {
        sink_put(t, s, (uint8_t)code);
        return;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t first[] = {0, 0xc0, 0xe0, 0xf0};
    sink_put(t, s, (uint8_t)(first[more] | code >> (6 * more)));
    while (more-- > 0)
        sink_put(t, s, (uint8_t)(0x80 | ((code >> (6 * more)) & 0x3f)));
}

static void read_unicode(struct json_text *t, struct sink *s)
{
    unsigned code = read_hex4(t);
    if (code >= 0xd800 && code <= 0xdbff) {
        bool second = t->end - t->at >= 2 && t->at[0] == '\\' && t->at[1] == 'u';
        if (second) t->at += 2;
        unsigned low = second ? read_hex4(t) : 0;
        if (low < 0xdc00 || low > 0xdfff) {
            fail(t, "half of a surrogate pair");
            return;
        }
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        fail(t, "half of a surrogate pair");
        return;
    }
    if (!t->problem) put_utf8(t, s, code);
}

static void read_escape(struct json_text *t, struct sink *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c = peek(t);
    if (c >= 0) t->at++;
    const char *known = c > 0 ? strchr(from, c) : NULL;
    if (known)
        sink_put(t, s, (uint8_t)to[known - from]);
    else if (c == 'u')
        read_unicode(t, s);
    else
        fail(t, "an unknown escape");
}

static void read_string(struct json_text *t, struct sink *s)
{
    if (s->to) s->to[0] = 0;
    if (!take(t, '"')) {
        fail(t, "expected a string");
        return;
    }
    while (!t->problem) {
        int c = peek(t);
        if (c < 0x20) {
            fail(t, c < 0 ? "a string has no end" : "a control character in a string");
            return;
        }
        t->at++;
        if (c == '"') return;
        if (c == '\\')
            read_escape(t, s);
        else
            sink_put(t, s, (uint8_t)c);
    }
}

static void read_digits(struct json_text *t, struct sink *s)
{
    if (peek(t) < '0' || peek(t) > '9') fail(t, "expected a digit");
    while (peek(t) >= '0' && peek(t) <= '9')
        sink_put(t, s, *t->at++);
}

static void read_number(struct json_text *t, struct sink *s)
{
    if (s->to) s->to[0] = 0;
    if (peek(t) == '-') sink_put(t, s, *t->at++);
    if (peek(t) == '0')
        sink_put(t, s, *t->at++);
    else
        read_digits(t, s);
    if (peek(t) == '.') {
        sink_put(t, s, *t->at++);
        read_digits(t, s);
    }
    if (peek(t) == 'e' || peek(t) == 'E') {
        sink_put(t, s, *t->at++);
        if (peek(t) == '+' || peek(t) == '-') sink_put(t, s, *t->at++);
        read_digits(t, s);
    }
}

static void read_word(struct json_text *t)
{
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t len = strlen(words[i]);
        if ((size_t)(t->end - t->at) < len || memcmp(t->at, words[i], len) != 0) continue;
        t->at += len;
        return;
    }
    fail(t, "expected a value");
}

static void skip_value(struct json_text *t, int depth);

static void skip_list(struct json_text *t, int depth, bool object)
{
    char close = object ? '}' : ']';
    t->at++;
    if (take(t, close)) return;
    while (!t->problem) {
        struct sink nowhere = {0};
        if (object) read_string(t, &nowhere);
        if (object && !take(t, ':')) fail(t, "expected a colon");
        skip_value(t, depth + 1);
        if (take(t, close)) return;
        if (!take(t, ',')) fail(t, "expected a comma or the end of the list");
    }
}

static void skip_value(struct json_text *t, int depth)
{
    struct sink nowhere = {0};
    skip_space(t);
    int c = peek(t);
    if (depth > DEPTH_MAX)
        fail(t, "nested too deeply");
    else if (c == '"')
        read_string(t, &nowhere);
    else if (c == '{' || c == '[')
        skip_list(t, depth, c == '{');
    else if (c == '-' || (c >= '0' && c <= '9'))
        read_number(t, &nowhere);
    else
        read_word(t);
}

static void read_value(struct json_text *t, struct s3_json_field *field)
{
    skip_space(t);
    int c = peek(t);
    struct sink s = {.to = field->to, .size = field->size};
    if (field->found)
        fail(t, "a field appears twice");
    else if (c == '"')
        read_string(t, &s);
    else if (c == '-' || (c >= '0' && c <= '9'))
        read_number(t, &s);
    else if (c == 'n')
        read_word(t);
    else
        fail(t, "a field is neither text nor a number");
    field->found = !t->problem && c != 'n';
}

static void read_member(struct json_text *t, struct s3_json_field *fields, size_t count)
{
    char name[64] = ""; // truncated if longer; no known name is
    skip_space(t);
    struct json_text again = *t;
    struct sink nowhere = {0}, s = {.to = name, .size = sizeof name};
    read_string(t, &nowhere);
    if (t->problem) return;
    read_string(&again, &s);
    if (!take(t, ':')) {
        fail(t, "expected a colon");
        return;
    }
    for (size_t i = 0; !again.problem && i < count; i++) {
        if (strcmp(fields[i].name, name) != 0) continue;
        read_value(t, &fields[i]);
        return;
    }
    skip_value(t, 1);
}

const char *s3_json_fields(struct bytes text, struct s3_json_field *fields, size_t count)
{
    struct json_text t = {.at = text.data, .end = text.data + text.len};
    for (size_t i = 0; i < count; i++) {
        fields[i].found = false;
        fields[i].to[0] = 0;
    }
    if (!text.len) return "nothing";
    if (!take(&t, '{')) return "expected an object";
    if (!take(&t, '}')) {
        do {
            read_member(&t, fields, count);
        } while (!t.problem && take(&t, ','));
        if (!take(&t, '}')) fail(&t, "expected a comma or the end of the object");
    }
    skip_space(&t);
    if (!t.problem && t.at != t.end) fail(&t, "something follows the object");
    return t.problem;
}

static void wipe_code(char (*code)[S3_KEY_MAX])
{
    explicit_bzero(code, sizeof *code);
}

// A code such as AssumeRoleUnauthorizedAccess may be shown. Any other text could be a secret.
static const char *shown(const char *code)
{
    for (const char *c = code; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z'))) return "a failure";
    return strlen(code) <= 64 ? code : "a failure";
}

enum err s3_json_keys(struct bytes text, bool process, struct s3_source_answer *out, char *why,
                      size_t why_len)
{
    CLEANUP(wipe_code) char code[S3_KEY_MAX];
    char version[16], expires[64];
    struct s3_keys *k = &out->keys;
    struct s3_json_field fields[] = {
        {"Code", code, sizeof code, false},
        {"Version", version, sizeof version, false},
        {"AccessKeyId", k->access_key, sizeof k->access_key, false},
        {"SecretAccessKey", k->secret_key, sizeof k->secret_key, false},
        {process ? "SessionToken" : "Token", k->session_token, sizeof k->session_token, false},
        {"Expiration", expires, sizeof expires, false},
    };
    const char *problem = s3_json_fields(text, fields, sizeof fields / sizeof *fields);
    if (problem) {
        (void)snprintf(why, why_len, "the answer is not the JSON expected: %s", problem);
        return ERR_UNAVAILABLE;
    }
    if (!process && fields[0].found && strcmp(code, "Success") != 0) {
        (void)snprintf(why, why_len, "it reports %s", shown(code));
        return ERR_DENIED;
    }
    if (process && strcmp(version, "1") != 0) problem = "Version is not 1";
    if (!problem) problem = s3_keys_problem(k);
    out->expires_ms = S3_NEVER;
    if (!problem && fields[5].found && !s3_time_iso(expires, &out->expires_ms))
        problem = "Expiration is not a time such as 2024-05-06T07:08:09Z";
    if (!problem) return ERR_OK;
    (void)snprintf(why, why_len, "in the answer, %s", problem);
    return ERR_UNAVAILABLE;
}
