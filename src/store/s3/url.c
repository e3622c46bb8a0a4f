// SPDX-License-Identifier: Apache-2.0
// Parses an s3:// URL. An unknown setting is an error: a typing error must not open another bucket
// than the intended one.
#include "store/s3/url.h"

#include "store/url_text.h"

#include <stdio.h>
#include <string.h>

#define SETTINGS "endpoint, region, pathStyle, profile, caBundle, maxPutsPerSecond, timeoutMs"

static bool lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool region_good(const char *region)
{
    if (region[0] == 0) return false;
    for (const char *c = region; *c; c++)
        if (!lower_or_digit(*c) && *c != '-' && *c != '_' && !(*c >= 'A' && *c <= 'Z'))
            return false;
    return true;
}

static bool read_bucket(const char *from, size_t len, struct s3_url *out, struct url_complaint c)
{
    bool good = len >= 3 && len <= S3_BUCKET_MAX;
    for (size_t i = 0; good && i < len; i++) {
        bool inner = i > 0 && i + 1 < len && (from[i] == '-' || from[i] == '.' || from[i] == '_');
        good = inner || lower_or_digit(from[i]) || (from[i] >= 'A' && from[i] <= 'Z');
    }
    if (memchr(from, '@', len))
        return url_wrong(c,
                         "keys must not be in the URL: set them in the environment or the profile");
    if (!good)
        return url_wrong(
            c,
            "\"%.*s\" is not a bucket's name: 3 to 63 letters, digits, dots and dashes, as "
            "in s3://bucket/prefix",
            (int)(len < 80 ? len : 80), from);
    memcpy(out->bucket, from, len);
    out->bucket[len] = 0;
    return true;
}

// Refuses empty parts, "." and "..". Servers, proxies and libraries normalise them, which breaks
// the signature.
static bool prefix_good(const char *prefix)
{
    if (prefix[0] == 0) return true;
    for (;;) {
        size_t len = strcspn(prefix, "/");
        bool dots =
            (len == 1 && prefix[0] == '.') || (len == 2 && prefix[0] == '.' && prefix[1] == '.');
        if (len == 0 || dots) return false;
        if (prefix[len] == 0) return true;
        prefix += len + 1;
    }
}

static bool read_prefix(const char *from, size_t len, struct s3_url *out, struct url_complaint c)
{
    if (len > 0 && from[0] == '/') from++, len--;
    while (len > 0 && from[len - 1] == '/')
        len--;
    if (!url_decode(from, len, out->prefix, sizeof out->prefix, "the prefix", c)) return false;
    if (prefix_good(out->prefix)) return true;
    return url_wrong(c, "prefix \"%.100s\" has an empty part, \".\" or \"..\"", out->prefix);
}

static bool read_style(const char *value, struct s3_url *out, struct url_complaint c)
{
    bool path = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
    bool host = strcmp(value, "0") == 0 || strcmp(value, "false") == 0;
    if (!path && !host) return url_wrong(c, "pathStyle \"%.40s\" is not one of 0, 1", value);
    out->style = path ? S3_STYLE_PATH : S3_STYLE_HOST;
    return true;
}

static bool read_setting(const char *name, const char *value, void *into, struct url_complaint c)
{
    struct s3_url *out = into;
    if (strcmp(name, "endpoint") == 0)
        return url_take(out->endpoint, sizeof out->endpoint, name, value, c);
    if (strcmp(name, "region") == 0) {
        if (region_good(value)) return url_take(out->region, sizeof out->region, name, value, c);
        return url_wrong(c, "region \"%.60s\" is not a region's name, such as eu-west-1", value);
    }
    if (strcmp(name, "profile") == 0)
        return url_take(out->profile, sizeof out->profile, name, value, c);
    if (strcmp(name, "caBundle") == 0)
        return url_take(out->ca_bundle, sizeof out->ca_bundle, name, value, c);
    if (strcmp(name, "pathStyle") == 0) return read_style(value, out, c);
    if (strcmp(name, "maxPutsPerSecond") == 0)
        return url_number(name, value, 0, S3_PUTS_MAX, &out->puts_per_second, c);
    if (strcmp(name, "timeoutMs") == 0)
        return url_number(name, value, 1, S3_TIMEOUT_MAX, &out->timeout_ms, c);
    return url_wrong(c, "\"%.60s\" is not a setting of an s3 URL: those are " SETTINGS, name);
}

enum err s3_url_parse(const char *url, struct s3_url *out, char *why, size_t why_len)
{
    struct url_complaint c = {why, why_len};
    *out = (struct s3_url){.timeout_ms = S3_TIMEOUT_MS};
    if (strncmp(url, "s3://", 5) != 0) {
        (void)url_wrong(c, "\"%.60s\" does not start with s3://", url);
        return ERR_INVALID;
    }
    const char *bucket = url + 5;
    size_t bucket_len = strcspn(bucket, "/?#");
    const char *prefix = bucket + bucket_len;
    size_t prefix_len = strcspn(prefix, "?#");
    const char *rest = prefix + prefix_len;
    if (strchr(rest, '#')) {
        (void)url_wrong(c, "write a '#' in an s3 URL as %%23");
        return ERR_INVALID;
    }
    bool good = read_bucket(bucket, bucket_len, out, c) &&
                read_prefix(prefix, prefix_len, out, c) &&
                url_settings(rest[0] == '?' ? rest + 1 : rest, NULL, read_setting, out, c);
    return good ? ERR_OK : ERR_INVALID;
}

static void host_of_region(struct s3_place *p)
{
    const char *tail = strncmp(p->region, "cn-", 3) == 0 ? ".cn" : "";
    if (p->path_style)
        (void)snprintf(p->host, sizeof p->host, "s3.%s.amazonaws.com%s", p->region, tail);
    else
        (void)snprintf(p->host, sizeof p->host, "%s.s3.%s.amazonaws.com%s", p->bucket, p->region,
                       tail);
}

static bool ends_with(const char *text, const char *tail)
{
    size_t len = strlen(text), tail_len = strlen(tail);
    return len >= tail_len && strcmp(text + len - tail_len, tail) == 0;
}

static bool host_char(char c)
{
    return lower_or_digit(c) || (c >= 'A' && c <= 'Z') || strchr(".-_:[]", c) != NULL;
}

// Parses "http://host:port", followed by nothing or by one slash.
static bool read_endpoint(const char *endpoint, char *host, size_t host_len, bool *https,
                          struct url_complaint c)
{
    *https = strncmp(endpoint, "https://", 8) == 0;
    bool http = strncmp(endpoint, "http://", 7) == 0;
    const char *at = endpoint + (*https ? 8 : 7);
    bool good = (http || *https) && at[0] != 0 && at[0] != '/';
    size_t len = good ? strcspn(at, "/?#") : 0;
    for (size_t i = 0; i < len; i++)
        good = good && host_char(at[i]);
    if (good && at[len] == '/')
        good = at[len + 1] == 0;
    else if (good)
        good = at[len] == 0;
    if (strchr(endpoint, '@'))
        return url_wrong(c, "endpoint: it must not contain a user or password");
    if (!good || len >= host_len)
        return url_wrong(c, "endpoint \"%.120s\" is not http://host:port or https://host:port",
                         endpoint);
    const char *own = *https ? ":443" : ":80";
    memcpy(host, at, len);
    host[len] = 0;
    if (ends_with(host, own)) host[len - strlen(own)] = 0;
    return true;
}

static bool is_aws(const char *host)
{
    return ends_with(host, ".amazonaws.com") || ends_with(host, ".amazonaws.com.cn");
}

enum err s3_place_find(const struct s3_url *url, const char *endpoint, const char *region,
                       struct s3_place *out, char *why, size_t why_len)
{
    struct url_complaint c = {why, why_len};
    char host[S3_HOST_MAX - S3_BUCKET_MAX - 1] = "";
    *out = (struct s3_place){.https = true, .aws = endpoint[0] == 0};
    memcpy(out->bucket, url->bucket, sizeof out->bucket);
    if (region[0] == 0) region = "us-east-1";
    if (!region_good(region) || strlen(region) >= sizeof out->region) {
        (void)url_wrong(c, "region \"%.60s\" is not a region's name, such as eu-west-1", region);
        return ERR_INVALID;
    }
    memcpy(out->region, region, strlen(region) + 1);
    if (!out->aws && !read_endpoint(endpoint, host, sizeof host, &out->https, c))
        return ERR_INVALID;
    // A dot in the bucket's name does not match the certificate of *.s3.amazonaws.com. An endpoint
    // that is not AWS seldom has a host name per bucket.
    bool path = (!out->aws && !is_aws(host)) || strchr(out->bucket, '.') != NULL;
    out->path_style = url->style == S3_STYLE_AUTO ? path : url->style == S3_STYLE_PATH;
    if (out->aws)
        host_of_region(out);
    else if (out->path_style)
        (void)snprintf(out->host, sizeof out->host, "%s", host);
    else
        (void)snprintf(out->host, sizeof out->host, "%s.%s", out->bucket, host);
    return ERR_OK;
}

bool s3_place_move(struct s3_place *p, const char *region)
{
    if (!region_good(region) || strlen(region) >= sizeof p->region) return false;
    if (strcmp(p->region, region) == 0) return false;
    memcpy(p->region, region, strlen(region) + 1);
    if (p->aws) host_of_region(p);
    return true;
}
