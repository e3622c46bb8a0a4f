// SPDX-License-Identifier: Apache-2.0
// ~/.aws/config has a section [profile x] (or [default]) for a profile; ~/.aws/credentials has [x].
// The config file is read first; values of the credentials file replace its values.
#define _GNU_SOURCE // explicit_bzero
#include "store/s3/auth/profile.h"

#include "store/s3/auth/ini.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The state while one file is read for one profile.
struct profile_reader {
    const char *profile;
    bool prefixed;                // sections are named "profile x", else "x"
    bool plain_default_is_hidden; // [profile default] exists and replaces [default]
    bool found;
    struct s3_section *out;
    struct s3_keys keys;
    bool ignore_endpoints;
    bool endpoint_is_s3; // a general endpoint_url does not replace s3's endpoint_url
    char services[S3_KEY_MAX];
};

static bool word_is(struct bytes b, const char *text)
{
    return bytes_equal(b, bytes_str(text));
}

// Returns x of a section "profile x", without quotes. Empty: the section is of another kind.
static struct bytes name_after(struct bytes section, const char *kind)
{
    size_t len = strlen(kind);
    if (section.len <= len || memcmp(section.data, kind, len) != 0) return BYTES_EMPTY;
    struct bytes rest = bytes_of(section.data + len, section.len - len);
    if (rest.data[0] != ' ' && rest.data[0] != '\t') return BYTES_EMPTY;
    while (rest.len && (rest.data[0] == ' ' || rest.data[0] == '\t'))
        rest = bytes_of(rest.data + 1, rest.len - 1);
    bool quoted = rest.len > 2 && (rest.data[0] == '"' || rest.data[0] == '\'') &&
                  rest.data[rest.len - 1] == rest.data[0];
    return quoted ? bytes_of(rest.data + 1, rest.len - 2) : rest;
}

static bool is_ours(const struct profile_reader *t, struct bytes section)
{
    if (!t->prefixed) return word_is(section, t->profile);
    if (word_is(name_after(section, "profile"), t->profile)) return true;
    return strcmp(t->profile, "default") == 0 && word_is(section, "default") &&
           !t->plain_default_is_hidden;
}

static const char *look_for_default(void *ctx, const struct ini_item *item)
{
    struct profile_reader *t = ctx;
    if (word_is(name_after(item->section, "profile"), "default")) t->plain_default_is_hidden = true;
    return NULL;
}

static bool yes(struct bytes value)
{
    return ini_is(value, "true");
}

static const char *take_endpoint(struct profile_reader *t, struct bytes value, bool s3)
{
    if (t->endpoint_is_s3 && !s3) return NULL;
    t->endpoint_is_s3 = s3;
    return secret_copy(t->out->plain.endpoint, S3_URL_MAX, value) ? NULL
                                                                  : "endpoint_url is too long";
}

// The properties that are plain text.
static const char *take_text(struct profile_reader *t, const struct ini_item *item)
{
    struct s3_section *out = t->out;
    const struct {
        const char *name;
        char *to;
        size_t size;
    } rows[] = {
        {"aws_access_key_id", t->keys.access_key, sizeof t->keys.access_key},
        {"aws_secret_access_key", t->keys.secret_key, sizeof t->keys.secret_key},
        {"aws_session_token", t->keys.session_token, sizeof t->keys.session_token},
        {"region", out->plain.region, sizeof out->plain.region},
        {"ca_bundle", out->plain.ca_bundle, sizeof out->plain.ca_bundle},
        {"credential_process", out->process, sizeof out->process},
        {"role_arn", out->role_arn, sizeof out->role_arn},
        {"role_session_name", out->role_session, sizeof out->role_session},
        {"web_identity_token_file", out->token_file, sizeof out->token_file},
        {"services", t->services, sizeof t->services},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!ini_is(item->name, rows[i].name)) continue;
        if (item->continued) return "the value of this property cannot span lines";
        if (!item->nested.len && !secret_copy(rows[i].to, rows[i].size, item->value))
            return "the value is too long or holds a zero";
    }
    return NULL;
}

static void notice_unsupported(struct s3_section *out, struct bytes name)
{
    static const char *const names[] = {"source_profile", "credential_source", "sso_session",
                                        "sso_start_url", "login_session"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ini_is(name, names[i])) out->unsupported = names[i];
}

static const char *take_item(void *ctx, const struct ini_item *item)
{
    struct profile_reader *t = ctx;
    if (!is_ours(t, item->section)) return NULL;
    t->found = true;
    if (!item->name.len) return NULL;
    notice_unsupported(t->out, item->name);
    if (ini_is(item->name, "ignore_configured_endpoint_urls"))
        t->ignore_endpoints = yes(item->value);
    if (ini_is(item->name, "endpoint_url") && !item->continued && !item->nested.len)
        return take_endpoint(t, item->value, false);
    if (ini_is(item->name, "s3") && ini_is(item->nested, "endpoint_url"))
        return take_endpoint(t, item->value, true);
    return take_text(t, item);
}

static const char *take_service(void *ctx, const struct ini_item *item)
{
    struct profile_reader *t = ctx;
    if (!word_is(name_after(item->section, "services"), t->services)) return NULL;
    if (ini_is(item->name, "s3") && ini_is(item->nested, "endpoint_url"))
        return take_endpoint(t, item->value, true);
    return NULL;
}

static bool walk(struct bytes text, ini_visit *visit, struct profile_reader *t,
                 const struct s3_file *file, char *why, size_t why_len)
{
    struct ini_problem problem;
    if (ini_walk(text, visit, t, &problem)) return true;
    (void)snprintf(why, why_len, "%s:%d: %s", file->shown, problem.line, problem.text);
    return false;
}

static bool keep_keys(const struct profile_reader *t, const struct s3_file *file, char *why,
                      size_t why_len)
{
    const struct s3_keys *k = &t->keys;
    if (!*k->access_key && !*k->secret_key) return true;
    const char *missing = !*k->access_key   ? "aws_access_key_id"
                          : !*k->secret_key ? "aws_secret_access_key"
                                            : NULL;
    const char *problem = s3_keys_problem(k);
    if (missing)
        (void)snprintf(why, why_len,
                       "%s: profile \"%s\" has only one of its two keys: %s is missing",
                       file->shown, t->profile, missing);
    else if (problem)
        (void)snprintf(why, why_len, "%s: in profile \"%s\" %s", file->shown, t->profile, problem);
    if (problem) return false;
    t->out->keys = *k;
    t->out->keys_in = file->shown;
    return true;
}

static void take_wipe(struct profile_reader *t)
{
    explicit_bzero(t, sizeof *t);
}

enum err s3_section_parse(struct bytes config, struct bytes credentials,
                          const struct s3_files *files, const char *profile, struct s3_section *out,
                          char *why, size_t why_len)
{
    CLEANUP(take_wipe) struct profile_reader t = {.profile = profile, .prefixed = true, .out = out};
    *out = (struct s3_section){0};
    if (!walk(config, look_for_default, &t, &files->config, why, why_len) ||
        !walk(config, take_item, &t, &files->config, why, why_len) ||
        !keep_keys(&t, &files->config, why, why_len))
        return ERR_INVALID;
    explicit_bzero(&t.keys, sizeof t.keys);
    t.prefixed = false;
    if (!walk(credentials, take_item, &t, &files->credentials, why, why_len) ||
        !keep_keys(&t, &files->credentials, why, why_len))
        return ERR_INVALID;
    if (*t.services && !walk(config, take_service, &t, &files->config, why, why_len))
        return ERR_INVALID;
    if (t.ignore_endpoints) out->plain.endpoint[0] = 0;
    out->found = t.found;
    return ERR_OK;
}

// A default file without read permission is not an error: a container's user often cannot enter its
// home directory.
static bool read_shared(const struct s3_file *file, struct buf *to, char *why, size_t why_len)
{
    int failed = *file->path ? secret_read_file(file->path, to) : ENOENT;
    if (failed == 0 || failed == ENOENT || failed == ENOTDIR) return true;
    if (failed == EACCES && !file->chosen) return true;
    (void)snprintf(why, why_len, "cannot read %s: %s", file->shown,
                   failed == EFBIG ? "it is too large" : strerrordesc_np(failed));
    return false;
}

enum err s3_section_read(const struct s3_files *files, const char *profile, struct s3_section *out,
                         char *why, size_t why_len)
{
    CLEANUP(secret_done) struct buf config, credentials;
    secret_init(&config, S3_FILES_MAX);
    secret_init(&credentials, S3_FILES_MAX);
    if (!read_shared(&files->config, &config, why, why_len) ||
        !read_shared(&files->credentials, &credentials, why, why_len))
        return ERR_INVALID;
    return s3_section_parse(buf_bytes(&config), buf_bytes(&credentials), files, profile, out, why,
                            why_len);
}

void s3_section_wipe(struct s3_section *s)
{
    explicit_bzero(s, sizeof *s);
}

static bool home(char *to, size_t size)
{
    const char *from = getenv("HOME");
    struct passwd entry, *found = NULL;
    char room[4096];
    if ((!from || !*from) && getpwuid_r(getuid(), &entry, room, sizeof room, &found) == 0 && found)
        from = found->pw_dir;
    return from && *from && secret_copy(to, size, bytes_str(from));
}

static bool find_one(struct s3_file *file, const char *variable, const char *usual, char *why,
                     size_t why_len)
{
    const char *named = getenv(variable);
    file->chosen = named && *named;
    const char *name = file->chosen ? named : usual;
    char from[S3_URL_MAX / 2] = "";
    bool at_home = strncmp(name, "~/", 2) == 0;
    if (at_home && !home(from, sizeof from)) return true; // no home directory: no file
    int len = snprintf(file->path, sizeof file->path, "%s%s", from, at_home ? name + 1 : name);
    if (len >= 0 && (size_t)len < sizeof file->path &&
        secret_copy(file->shown, sizeof file->shown, bytes_str(name)))
        return true;
    (void)snprintf(why, why_len, "%s names a path longer than %zu bytes", variable,
                   sizeof file->path - 1);
    return false;
}

bool s3_files_find(struct s3_files *files, char *why, size_t why_len)
{
    *files = (struct s3_files){.config.shown = "~/.aws/config",
                               .credentials.shown = "~/.aws/credentials"};
    return find_one(&files->config, "AWS_CONFIG_FILE", "~/.aws/config", why, why_len) &&
           find_one(&files->credentials, "AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", why,
                    why_len);
}
