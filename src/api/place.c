// SPDX-License-Identifier: Apache-2.0
// The schemes of a store's URL. A URL that looks like a mistyped scheme is refused. Otherwise a
// typo would create a directory named "s3:", and the messages would be there.
#include "api/place.h"

#include "base/check.h"
#include "queues/queues.h"
#include "store/file/file.h"
#include "store/mem.h"
#include "store/redis/redis.h"
#include "store/s3/s3.h"

#include <stdio.h>
#include <string.h>

struct scheme {
    const char *prefix; // "": the URL is a path
    unsigned traits;
    enum err (*check)(const char *url, char *why, size_t why_len);
    enum err (*open)(const char *url, struct store **out, char *why, size_t why_len);
};

static enum err check_path(const char *url, char *why, size_t why_len)
{
    if (place_path(url)) return ERR_OK;
    (void)snprintf(why, why_len, "%s needs an absolute path: file:///path", url);
    return ERR_INVALID;
}

static enum err check_memory(const char *url, char *why, size_t why_len)
{
    if (strcmp(url, "mem:") == 0) return ERR_OK;
    (void)snprintf(why, why_len, "\"%.150s\" is not a store: did you mean mem:?", url);
    return ERR_INVALID;
}

static enum err check_node(const char *url, char *why, size_t why_len)
{
    (void)snprintf(why, why_len, "%.200s is a node already; serve needs a store", url);
    return ERR_INVALID;
}

static enum err open_directory(const char *url, struct store **out, char *why, size_t why_len)
{
    return store_file_open(place_path(url), NULL, out, why, why_len);
}

static enum err open_memory(const char *url, struct store **out, char *why, size_t why_len)
{
    (void)url, (void)why, (void)why_len;
    *out = store_mem_new();
    return ERR_OK;
}

#define SCHEME(prefix, form, traits, check, open) {prefix, traits, check, open},
static const struct scheme schemes[] = {PLACE_LIST(SCHEME)};

static bool has_scheme(const char *url, const struct scheme *s)
{
    if (!*s->prefix) return url[strcspn(url, ":/")] != ':';
    return strncmp(url, s->prefix, strlen(s->prefix)) == 0;
}

// Returns NULL if no scheme matches.
static const struct scheme *scheme_of(const char *url)
{
    for (size_t i = 0; url && i < sizeof schemes / sizeof *schemes; i++)
        if (has_scheme(url, &schemes[i])) return &schemes[i];
    return NULL;
}

bool place_is(const char *url, enum place_trait trait)
{
    const struct scheme *s = scheme_of(url);
    return s && s->traits & trait;
}

const char *place_path(const char *url)
{
    const struct scheme *s = scheme_of(url);
    if (!s || !(s->traits & PLACE_PATH)) return NULL;
    const char *path = url + strlen(s->prefix);
    return *s->prefix && *path != '/' ? NULL : path;
}

// Refuses a URL that has a colon but no "://".
static enum sluice_code refuse_scheme(const char *url, struct sluice_error *error)
{
    const char *after = strchr(url, ':') + 1;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
        const struct scheme *s = &schemes[i];
        if (*s->prefix && strncmp(url, s->prefix, strcspn(s->prefix, "/")) == 0)
            return refuse(error, ERR_INVALID, "store",
                          "\"%.150s\" is not a store: did you mean %s%s%.150s?", url, s->prefix,
                          s->traits & PLACE_PATH ? "/" : "", after + strspn(after, "/"));
    }
    // "localhost:7401" is a valid name of a directory, but is meant as a node.
    size_t port = strspn(after, "0123456789");
    if (port > 0 && (after[port] == '\0' || after[port] == '/'))
        return refuse(error, ERR_INVALID, "store",
                      "\"%.150s\" is not a store: did you mean http://%.150s? A directory of that "
                      "name is ./%.150s",
                      url, url, url);
    return refuse(error, ERR_INVALID, "store",
                  "\"%.100s\" is not a store: use " PLACE_FORMS
                  ". A directory of that name is ./%.100s",
                  url, url);
}

enum sluice_code place_check(const char *url, struct sluice_error *error)
{
    if (!url || url[0] == 0)
        return refuse(error, ERR_INVALID, "store", "the store's URL is empty; use " PLACE_FORMS);
    const struct scheme *s = scheme_of(url);
    char why[STORE_WHY_MAX] = "";
    if (s) {
        enum err err = s->check(url, why, sizeof why);
        return err ? refuse(error, err, "store", "%s", why) : SLUICE_OK;
    }
    if (!strstr(url, "://")) return refuse_scheme(url, error);
    return refuse(error, ERR_INVALID, "store",
                  "%s is not a store this version can open: use " PLACE_FORMS, url);
}

enum sluice_code place_open(const char *url, struct store **out, struct sluice_error *error)
{
    char why[STORE_WHY_MAX] = "";
    enum sluice_code code = place_check(url, error);
    if (code) return code;
    const struct scheme *s = scheme_of(url);
    CHECK(s && s->open);
    enum err err = s->open(url, out, why, sizeof why);
    return err ? refuse(error, err, "store", "%s", why) : SLUICE_OK;
}
