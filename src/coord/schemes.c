// SPDX-License-Identifier: Apache-2.0
// The table of backends. A backend is its files and one row here.
#include "base/check.h"
#include "coord/backend.h"
#include "coord/consul.h"
#include "coord/etcd.h"
#include "coord/kv/endpoints.h"
#include "coord/store_coord.h"

#include <stdio.h>
#include <string.h>

struct scheme {
    const char *prefix;
    const char *form; // as errors list it
    bool hosts;       // a list of hosts follows
    enum err (*open)(const char *rest, const struct coord_config *config, struct coord **out,
                     char why[static COORD_WHY_MAX]);
};

static enum err open_store(const char *rest, const struct coord_config *config, struct coord **out,
                           char why[static COORD_WHY_MAX])
{
    (void)rest, (void)why;
    *out = coord_store_new(config);
    return ERR_OK;
}

static enum err open_etcd(const char *rest, const struct coord_config *config, struct coord **out,
                          char why[static COORD_WHY_MAX])
{
    return coord_etcd_open(rest, false, config, out, why);
}

static enum err open_etcd_tls(const char *rest, const struct coord_config *config,
                              struct coord **out, char why[static COORD_WHY_MAX])
{
    return coord_etcd_open(rest, true, config, out, why);
}

static enum err open_consul(const char *rest, const struct coord_config *config, struct coord **out,
                            char why[static COORD_WHY_MAX])
{
    return coord_consul_open(rest, false, config, out, why);
}

static enum err open_consul_tls(const char *rest, const struct coord_config *config,
                                struct coord **out, char why[static COORD_WHY_MAX])
{
    return coord_consul_open(rest, true, config, out, why);
}

static const struct scheme schemes[] = {
    {"store:", "store:", false, open_store},
    {"etcd://", "etcd://h1,h2,h3", true, open_etcd},
    {"etcd+tls://", "etcd+tls://h1,h2,h3", true, open_etcd_tls},
    {"consul://", "consul://host", true, open_consul},
    {"consul+tls://", "consul+tls://host", true, open_consul_tls},
};
#define SCHEMES (sizeof schemes / sizeof *schemes)

static const struct scheme *scheme_of(const char *url)
{
    for (size_t i = 0; url && i < SCHEMES; i++)
        if (strncmp(url, schemes[i].prefix, strlen(schemes[i].prefix)) == 0) return &schemes[i];
    return NULL;
}

static enum err refuse_scheme(const char *url, char why[static COORD_WHY_MAX])
{
    char forms[128] = "";
    for (size_t i = 0; i < SCHEMES; i++) {
        size_t len = strlen(forms);
        (void)snprintf(forms + len, sizeof forms - len, "%s%s", len ? ", " : "", schemes[i].form);
    }
    (void)snprintf(why, COORD_WHY_MAX, "\"%.64s\" is no coordination backend: use one of %s", url,
                   forms);
    return ERR_INVALID;
}

enum err coord_check_url(const char *url, char why[static COORD_WHY_MAX])
{
    const struct scheme *s = scheme_of(url);
    if (!s) return refuse_scheme(url ? url : "", why);
    const char *rest = url + strlen(s->prefix);
    if (!s->hosts && rest[0]) {
        (void)snprintf(why, COORD_WHY_MAX, "\"%.80s\" has text after %s, which takes none", url,
                       s->prefix);
        return ERR_INVALID;
    }
    struct endpoints parsed = {0};
    enum err e = s->hosts ? endpoints_parse(&parsed, rest, false, 1, why) : ERR_OK;
    if (!e) why[0] = 0;
    return e;
}

enum err coord_open(const char *url, const struct coord_config *config, struct coord **out,
                    char why[static COORD_WHY_MAX])
{
    static const struct coord_config defaults = {0};
    *out = NULL;
    enum err e = coord_check_url(url, why);
    if (e) return e;
    if (!config) config = &defaults;
    const struct scheme *s = scheme_of(url);
    e = s->open(url + strlen(s->prefix), config, out, why);
    if (e) return e;
    CHECK(*out != NULL);
    if (config->id && memcmp((*out)->id, config->id, COORD_ID_LEN) != 0) {
        e = coord_refuse_id(why, coord_backend(*out), (*out)->id, config->id);
        coord_free(*out);
        *out = NULL;
    }
    return e;
}
