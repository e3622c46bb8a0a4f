// SPDX-License-Identifier: Apache-2.0
// AssumeRoleWithWebIdentity exchanges a token, which the platform wrote to a file, for keys. The
// request is not signed: the token in the body proves the identity.
#define _GNU_SOURCE // memmem
#include "store/s3/auth/metadata.h"
#include "store/s3/auth/times.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define STS_TIMEOUT_MS 10000
#define WEB_TOKEN_MAX  ((size_t)20000) // limit of STS

static void put_form(struct buf *to, const char *name, struct bytes value)
{
    static const char hex[] = "0123456789ABCDEF";
    if (to->len) buf_put_u8(to, '&');
    buf_put(to, bytes_str(name));
    buf_put_u8(to, '=');
    for (size_t i = 0; i < value.len; i++) {
        uint8_t c = value.data[i];
        if (isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
            buf_put_u8(to, c);
        } else {
            buf_put_u8(to, '%');
            buf_put_u8(to, (uint8_t)hex[c >> 4]);
            buf_put_u8(to, (uint8_t)hex[c & 15]);
        }
    }
}

// Returns the text of the first <name>. These answers have no attributes, and keys and times
// contain no characters that XML escapes.
static struct bytes element(struct bytes from, const char *name)
{
    char open[64], close[64];
    (void)snprintf(open, sizeof open, "<%s>", name);
    (void)snprintf(close, sizeof close, "</%s>", name);
    const uint8_t *start = from.len ? memmem(from.data, from.len, open, strlen(open)) : NULL;
    if (!start) return BYTES_EMPTY;
    start += strlen(open);
    size_t left = (size_t)(from.data + from.len - start);
    const uint8_t *end = memmem(start, left, close, strlen(close));
    if (!end) return BYTES_EMPTY;
    return bytes_of(start, (size_t)(end - start));
}

static const char *read_answer(struct bytes text, struct s3_source_answer *out)
{
    struct s3_keys *k = &out->keys;
    char expires[64];
    struct bytes inside = element(text, "Credentials");
    if (!inside.len) return "no Credentials";
    if (!secret_copy(k->access_key, sizeof k->access_key, element(inside, "AccessKeyId")) ||
        !secret_copy(k->secret_key, sizeof k->secret_key, element(inside, "SecretAccessKey")) ||
        !secret_copy(k->session_token, sizeof k->session_token, element(inside, "SessionToken")))
        return "a value is too long";
    if (!secret_copy(expires, sizeof expires, element(inside, "Expiration")) ||
        !s3_time_iso(expires, &out->expires_ms))
        return "Expiration is not a time";
    return s3_keys_problem(k);
}

static enum err refused(const struct http_call *call, char *why, size_t why_len)
{
    if (call->end != HTTP_ANSWERED) {
        (void)snprintf(why, why_len, "STS does not answer: %s", call->why);
        return ERR_UNAVAILABLE;
    }
    // Only the Code is shown: the Message of an error may quote the token.
    struct bytes code = element(buf_bytes(&call->body_in), "Code");
    bool plain = code.len > 0 && code.len <= 64;
    for (size_t i = 0; plain && i < code.len; i++)
        plain = isalnum(code.data[i]);
    (void)snprintf(why, why_len, "STS answers with status %d%s%.*s", call->status,
                   plain ? ", " : "", plain ? (int)code.len : 0,
                   plain ? (const char *)code.data : "");
    return call->status >= 500 || call->status == 429 ? ERR_UNAVAILABLE : ERR_DENIED;
}

static bool read_token(const struct s3_web_identity *from, struct buf *token)
{
    if (secret_read_file(from->token_file, token) != 0) return false;
    while (token->len && isspace(token->data[token->len - 1]))
        token->len--;
    return token->len > 0;
}

enum err s3_web_identity_fetch(struct http *client, const struct s3_web_identity *from,
                               struct s3_source_answer *out, char *why, size_t why_len)
{
    CLEANUP(secret_done) struct buf token, form;
    secret_init(&token, WEB_TOKEN_MAX);
    secret_init(&form, 3 * WEB_TOKEN_MAX + 3 * S3_URL_MAX + 3 * S3_KEY_MAX + 256);
    if (!read_token(from, &token)) {
        (void)snprintf(why, why_len, "the web identity token in %s cannot be read",
                       from->token_file);
        return ERR_UNAVAILABLE;
    }
    put_form(&form, "Action", bytes_str("AssumeRoleWithWebIdentity"));
    put_form(&form, "Version", bytes_str("2011-06-15"));
    put_form(&form, "RoleArn", bytes_str(from->role_arn));
    put_form(&form, "RoleSessionName", bytes_str(from->session));
    put_form(&form, "WebIdentityToken", buf_bytes(&token));
    static const char *const headers[] = {"Content-Type: application/x-www-form-urlencoded"};
    CLEANUP(secret_call_done) struct http_call call;
    secret_call_init(&call, "POST", from->endpoint);
    call.headers = headers;
    call.headers_len = 1;
    call.body = buf_bytes(&form);
    call.timeout_ms = STS_TIMEOUT_MS;
    http_do(client, &call);
    if (call.end != HTTP_ANSWERED || call.status != 200) return refused(&call, why, why_len);
    const char *problem = read_answer(buf_bytes(&call.body_in), out);
    if (!problem) return ERR_OK;
    (void)snprintf(why, why_len, "the answer of STS is not understood: %s", problem);
    return ERR_UNAVAILABLE;
}
