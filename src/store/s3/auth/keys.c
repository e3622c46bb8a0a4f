// SPDX-License-Identifier: Apache-2.0
// The JSON answer of a service that has keys. Its values are read where they stand in the text.
// jansson would copy them to memory that it does not wipe.
#define _GNU_SOURCE // explicit_bzero
#include "store/s3/auth/keys.h"

#include "store/s3/auth/times.h"
#include "json/raw.h"

#include <stdio.h>
#include <string.h>

struct key_field {
    const char *name;
    char *to; // receives a text, unescaped, or a number as it is written
    size_t size;
    bool found; // false for null
};

static const char *read_field(struct bytes value, struct key_field *field)
{
    bool text = value.data[0] == '"';
    if (text) value = bytes_of(value.data + 1, value.len - 2);
    if (!text && bytes_equal(value, bytes_str("null"))) return NULL;
    if (!text && memchr("{[tf", value.data[0], 4)) return "a field is neither text nor a number";
    field->found = json_raw_unescape(value, field->to, field->size);
    return field->found ? NULL : "a value is too long or holds a zero";
}

// Skips other fields. Returns NULL, or what is wrong without quoting the text.
static const char *read_fields(struct bytes text, struct key_field *fields, size_t count)
{
    struct bytes key, value;
    struct json_walk w = json_walk_of(text);
    if (!w.object || !json_raw_ok(text)) return "expected one object";
    while (json_walk_next(&w, &key, &value))
        for (size_t i = 0; i < count; i++) {
            if (!bytes_equal(key, bytes_str(fields[i].name))) continue;
            const char *problem = read_field(value, &fields[i]);
            if (problem) return problem;
        }
    return NULL;
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

enum err s3_keys_read(struct bytes text, bool process, struct s3_source_answer *out, char *why,
                      size_t why_len)
{
    CLEANUP(wipe_code) char code[S3_KEY_MAX];
    char version[16] = "", expires[64] = "";
    struct s3_keys *k = &out->keys;
    *code = *k->access_key = *k->secret_key = *k->session_token = 0;
    struct key_field fields[] = {
        {"Code", code, sizeof code, false},
        {"Version", version, sizeof version, false},
        {"AccessKeyId", k->access_key, sizeof k->access_key, false},
        {"SecretAccessKey", k->secret_key, sizeof k->secret_key, false},
        {process ? "SessionToken" : "Token", k->session_token, sizeof k->session_token, false},
        {"Expiration", expires, sizeof expires, false},
    };
    const char *problem = read_fields(text, fields, sizeof fields / sizeof *fields);
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
