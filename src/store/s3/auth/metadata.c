// SPDX-License-Identifier: Apache-2.0
// The container's service needs one GET. The instance's service first needs a PUT for a session
// token (version 2). The GETs go without a token in two cases: the service speaks only version 1,
// or the token's answer does not pass a container's extra network hop.
#define _GNU_SOURCE // explicit_bzero
#include "store/s3/auth/metadata.h"

#include "base/authority.h"
#include "store/s3/auth/keys.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TRIES                2
#define INSTANCE_TIMEOUT_MS  1000 // it is one hop away, or this machine has none
#define CONTAINER_TIMEOUT_MS 5000 // its agent may have to call another service
#define ROLE_MAX             129
#define SESSION_TOKEN_MAX    1024 // of the instance's service

#define TASK_HOST            "http://169.254.170.2"
#define INSTANCE_HOST        "http://169.254.169.254"
#define INSTANCE_IPV6        "http://[fd00:ec2::254]"
#define ROLES_PATH           "/latest/meta-data/iam/security-credentials/"

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static bool setting_is_true(const char *name)
{
    const char *value = setting(name);
    return value && strcasecmp(value, "true") == 0;
}

static enum err too_long(const char *name, char *why, size_t why_len)
{
    (void)snprintf(why, why_len, "%s is too long", name);
    return ERR_INVALID;
}

static bool host_may_be_plain(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (strcasecmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127 || strcmp(host, "169.254.170.2") == 0 ||
               strcmp(host, "169.254.170.23") == 0;
    struct in6_addr pods;
    (void)inet_pton(AF_INET6, "fd00:ec2::23", &pods);
    return inet_pton(AF_INET6, host, &six) == 1 &&
           (IN6_IS_ADDR_LOOPBACK(&six) || memcmp(&six, &pods, sizeof six) == 0);
}

bool s3_container_url_ok(const char *url)
{
    static const char plain[] = "http://", safe[] = "https://";
    if (strncasecmp(url, safe, sizeof safe - 1) == 0) return url[sizeof safe - 1] != 0;
    if (strncasecmp(url, plain, sizeof plain - 1) != 0) return false;
    // user:password@host would hide the real host.
    if (strpbrk(url, "@\\")) return false;
    char host[64];
    struct authority at;
    return authority_split(authority_of(url), &at) && secret_copy(host, sizeof host, at.host) &&
           host_may_be_plain(host);
}

enum err s3_container_find(struct s3_container *to, char *why, size_t why_len)
{
    const char *relative = setting("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = setting("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *token = setting("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    const char *file = setting("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    *to = (struct s3_container){0};
    if (!relative && !full) return ERR_OK;
    if (relative && *relative != '/') {
        (void)snprintf(why, why_len,
                       "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI does not begin with /");
        return ERR_INVALID;
    }
    int len = snprintf(to->url, sizeof to->url, "%s%s", relative ? TASK_HOST : "",
                       relative ? relative : full);
    if (len < 0 || (size_t)len >= sizeof to->url)
        return too_long("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI", why, why_len);
    if (!s3_container_url_ok(to->url)) {
        (void)snprintf(why, why_len,
                       "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or http to this machine, "
                       "169.254.170.2, 169.254.170.23 or fd00:ec2::23");
        return ERR_INVALID;
    }
    if (file && !secret_copy(to->token_file, sizeof to->token_file, bytes_str(file)))
        return too_long("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", why, why_len);
    if (!file && token && !secret_copy(to->token, sizeof to->token, bytes_str(token)))
        return too_long("AWS_CONTAINER_AUTHORIZATION_TOKEN", why, why_len);
    return ERR_OK;
}

enum err s3_instance_find(struct s3_instance *to, char *why, size_t why_len)
{
    *to = (struct s3_instance){.v1_off = setting_is_true("AWS_EC2_METADATA_V1_DISABLED")};
    if (setting_is_true("AWS_EC2_METADATA_DISABLED")) return ERR_OK;
    const char *endpoint = setting("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *mode = setting("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    if (!endpoint) endpoint = mode && strcasecmp(mode, "ipv6") == 0 ? INSTANCE_IPV6 : INSTANCE_HOST;
    struct bytes text = bytes_str(endpoint);
    while (text.len && text.data[text.len - 1] == '/')
        text.len--;
    if (!secret_copy(to->endpoint, sizeof to->endpoint, text))
        return too_long("AWS_EC2_METADATA_SERVICE_ENDPOINT", why, why_len);
    if (strncmp(to->endpoint, "http://", 7) == 0 || strncmp(to->endpoint, "https://", 8) == 0)
        return ERR_OK;
    (void)snprintf(why, why_len, "AWS_EC2_METADATA_SERVICE_ENDPOINT is not an http URL");
    return ERR_INVALID;
}

static void ask(struct http *client, struct http_call *call, const char *header, int64_t timeout_ms)
{
    const char *const headers[] = {header};
    call->headers = headers;
    call->headers_len = header ? 1 : 0;
    call->timeout_ms = timeout_ms;
    for (int i = 0; i < TRIES; i++) {
        http_do(client, call);
        if (call->end == HTTP_ANSWERED && call->status < 500) break;
    }
    call->headers = NULL; // the array goes out of scope
    call->headers_len = 0;
}

// Classifies an answer other than 200.
static enum err refused(const struct http_call *call, const char *service, char *why,
                        size_t why_len)
{
    if (call->end != HTTP_ANSWERED) {
        (void)snprintf(why, why_len, "%s does not answer: %s", service, call->why);
        return ERR_UNAVAILABLE;
    }
    (void)snprintf(why, why_len, "%s answers with status %d", service, call->status);
    return call->status >= 500 || call->status == 429 ? ERR_UNAVAILABLE : ERR_DENIED;
}

static bool answered(const struct http_call *call, int status)
{
    return call->end == HTTP_ANSWERED && call->status == status;
}

static enum err keys_of(const struct http_call *call, const char *service,
                        struct s3_source_answer *out, char *why, size_t why_len)
{
    char inner[160] = "";
    if (!answered(call, 200)) return refused(call, service, why, why_len);
    enum err err = s3_keys_read(buf_bytes(&call->body_in), false, out, inner, sizeof inner);
    if (err) (void)snprintf(why, why_len, "%s: %s", service, inner);
    return err;
}

// Builds "Authorization: <token>". A line break at the end of a file comes from an editor and is
// removed. A line break inside would begin another header and is refused.
static const char *authorization(const struct s3_container *from, struct buf *line)
{
    buf_put(line, bytes_str("Authorization: "));
    size_t start = line->len;
    if (*from->token_file) {
        if (secret_read_file(from->token_file, line) != 0)
            return "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read";
    } else {
        buf_put(line, bytes_str(from->token));
    }
    while (line->len > start && isspace(line->data[line->len - 1]))
        line->len--;
    for (size_t i = start; i < line->len; i++)
        if (line->data[i] < ' ' || line->data[i] == 0x7f)
            return "the container's authorization token holds a line break";
    buf_put_u8(line, 0);
    return line->bad ? "the container's authorization token is too long" : NULL;
}

enum err s3_container_fetch(struct http *direct, const struct s3_container *from,
                            struct s3_source_answer *out, char *why, size_t why_len)
{
    CLEANUP(secret_done) struct buf line;
    secret_init(&line, S3_TOKEN_MAX + 64);
    bool has_token = *from->token || *from->token_file;
    const char *problem = has_token ? authorization(from, &line) : NULL;
    if (problem) {
        (void)snprintf(why, why_len, "%s", problem);
        return ERR_UNAVAILABLE;
    }
    CLEANUP(secret_call_done) struct http_call call;
    secret_call_init(&call, "GET", from->url);
    ask(direct, &call, has_token ? (const char *)line.data : NULL, CONTAINER_TIMEOUT_MS);
    return keys_of(&call, "the container's credentials service", out, why, why_len);
}

static const char instance_name[] = "the instance metadata service";

// Gets the header that carries a session token; "" if version 1 is to be used.
static enum err instance_token(struct http *direct, const struct s3_instance *from, char *header,
                               size_t size, char *why, size_t why_len)
{
    char url[S3_URL_MAX + 64];
    (void)snprintf(url, sizeof url, "%s/latest/api/token", from->endpoint);
    CLEANUP(secret_call_done) struct http_call call;
    secret_call_init(&call, "PUT", url);
    ask(direct, &call, "X-aws-ec2-metadata-token-ttl-seconds: 21600", INSTANCE_TIMEOUT_MS);
    header[0] = 0;
    if (answered(&call, 200)) {
        struct bytes token = buf_bytes(&call.body_in);
        bool good = token.len > 0 && token.len <= SESSION_TOKEN_MAX;
        for (size_t i = 0; i < token.len; i++)
            good = good && token.data[i] > ' ' && token.data[i] <= '~';
        if (good) {
            (void)snprintf(header, size, "X-aws-ec2-metadata-token: %.*s", (int)token.len,
                           (const char *)token.data);
            return ERR_OK;
        }
        (void)snprintf(why, why_len, "%s answers with a malformed token", instance_name);
        return ERR_UNAVAILABLE;
    }
    if (call.end == HTTP_NOT_SENT) {
        (void)snprintf(why, why_len, "%s: %s", instance_name, call.why);
        return ERR_NOT_FOUND;
    }
    bool old =
        call.end == HTTP_LOST || call.status == 403 || call.status == 404 || call.status == 405;
    if (old && !from->v1_off) return ERR_OK;
    return refused(&call, instance_name, why, why_len);
}

static bool role_name(struct bytes text, char *to, size_t size)
{
    const uint8_t *end = text.len ? memchr(text.data, '\n', text.len) : NULL;
    if (end) text.len = (size_t)(end - text.data);
    while (text.len && isspace(text.data[text.len - 1]))
        text.len--;
    for (size_t i = 0; i < text.len; i++)
        if (!isalnum(text.data[i]) && !memchr("+=,.@_-", text.data[i], 7)) return false;
    return text.len > 0 && secret_copy(to, size, text);
}

static enum err instance_role(struct http *direct, const struct s3_instance *from,
                              const char *header, char *role, size_t size, char *why,
                              size_t why_len)
{
    char url[S3_URL_MAX + 64];
    (void)snprintf(url, sizeof url, "%s" ROLES_PATH, from->endpoint);
    CLEANUP(secret_call_done) struct http_call call;
    secret_call_init(&call, "GET", url);
    ask(direct, &call, *header ? header : NULL, INSTANCE_TIMEOUT_MS);
    if (answered(&call, 404)) {
        (void)snprintf(why, why_len, "%s: this instance has no role", instance_name);
        return ERR_NOT_FOUND;
    }
    if (!answered(&call, 200)) return refused(&call, instance_name, why, why_len);
    if (role_name(buf_bytes(&call.body_in), role, size)) return ERR_OK;
    (void)snprintf(why, why_len, "%s answers with a malformed role name", instance_name);
    return ERR_UNAVAILABLE;
}

static void header_wipe(char (*header)[SESSION_TOKEN_MAX + 64])
{
    explicit_bzero(header, sizeof *header);
}

enum err s3_instance_fetch(struct http *direct, const struct s3_instance *from,
                           struct s3_source_answer *out, char *why, size_t why_len)
{
    CLEANUP(header_wipe) char header[SESSION_TOKEN_MAX + 64];
    char role[ROLE_MAX], url[S3_URL_MAX + 64 + ROLE_MAX];
    enum err err = instance_token(direct, from, header, sizeof header, why, why_len);
    if (err) return err;
    err = instance_role(direct, from, header, role, sizeof role, why, why_len);
    if (err) return err;
    (void)snprintf(url, sizeof url, "%s" ROLES_PATH "%s", from->endpoint, role);
    CLEANUP(secret_call_done) struct http_call call;
    secret_call_init(&call, "GET", url);
    ask(direct, &call, *header ? header : NULL, INSTANCE_TIMEOUT_MS);
    err = keys_of(&call, instance_name, out, why, why_len);
    (void)snprintf(out->role, sizeof out->role, "%s", role);
    return err;
}
