// SPDX-License-Identifier: Apache-2.0
// The settings that are URLs and hosts: the store, the node's own URL, and its peers.
#include "api/place.h"
#include "base/moment.h"
#include "bus/bus.h"
#include "coord/coord.h"
#include "net/listen.h"
#include "peer/peer.h"
#include "protocol/owner_map.h"
#include "server/config.h"
#include "server/inside.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOST_NAME_MAX_LEN 65
#define PATH_TEXT_MAX     1024

static bool check_store(const struct conf *c, struct sluice_error *error)
{
    const char *url = conf_text(c, CONF_STORE), *source = conf_source(c, CONF_STORE);
    struct sluice_error why = {0};
    if (!*url) return true; // the command line has a default
    if (place_check(url, &why) == SLUICE_OK) return true;
    *error = error_of(SLUICE_INVALID, "", "store", "%s: %.400s", source, why.message);
    return false;
}

bool conf_check_folder(const struct conf *c, struct sluice_error *error)
{
    const char *url = conf_text(c, CONF_STORE), *path = place_path(url);
    char above[PATH_TEXT_MAX];
    struct stat seen;
    if (!path || !*path) return true;
    (void)snprintf(above, sizeof above, "%s", path);
    for (size_t len = strlen(above); len > 1 && above[len - 1] == '/'; len--)
        above[len - 1] = '\0';
    char *slash = strrchr(above, '/');
    if (!slash) return true; // in the current directory
    slash[slash == above ? 1 : 0] = '\0';
    if (stat(above, &seen) == 0 && S_ISDIR(seen.st_mode)) return true;
    *error = error_of(SLUICE_INVALID, "", "store",
                      "%s: store %.200s: there is no folder %.200s to make it in",
                      conf_source(c, CONF_STORE), url, above);
    return false;
}

static bool check_advertise(const struct conf *c, struct sluice_error *error)
{
    const char *url = conf_text(c, CONF_ADVERTISE);
    if (!*url || owner_url_is_good(url)) return true;
    *error = error_of(
        SLUICE_INVALID, "", "advertise",
        "%s: advertise \"%.100s\" is not the URL of a node: http://host:port, without a path",
        conf_source(c, CONF_ADVERTISE), url);
    return false;
}

static bool check_peers(const struct conf *c, struct sluice_error *error)
{
    const char *hosts = conf_text(c, CONF_PEERS);
    if (!*hosts || peer_hosts_are_good(hosts)) return true;
    *error = error_of(SLUICE_INVALID, "", "peers",
                      "%s: peers \"%.100s\" is not a list of hosts: node-2, 10.0.0.5:7333",
                      conf_source(c, CONF_PEERS), hosts);
    return false;
}

static bool check_coord(const struct conf *c, struct sluice_error *error)
{
    char why[COORD_WHY_MAX];
    const char *url = conf_text(c, CONF_COORD);
    if (strcmp(url, "none") == 0 || coord_check_url(url, why) == ERR_OK) return true;
    *error = error_of(SLUICE_INVALID, "", "coord", "%s: coord %s", conf_source(c, CONF_COORD), why);
    return false;
}

int64_t conf_both_until(const struct conf *c)
{
    int64_t until = 0;
    const char *text = conf_text(c, CONF_BUS_BOTH_UNTIL);
    return *text && moment_read_exact(bytes_str(text), &until) ? until : 0;
}

static bool check_bus(const struct conf *c, struct sluice_error *error)
{
    char why[BUS_WHY_MAX];
    const char *url = conf_text(c, CONF_BUS), *until = conf_text(c, CONF_BUS_BOTH_UNTIL);
    if (*until && conf_both_until(c) <= 0) {
        *error = error_of(SLUICE_INVALID, "", "bus.bothUntil",
                          "%s: bus.bothUntil \"%.40s\" is not a moment, as in "
                          "2030-01-31T00:00:00.000Z",
                          conf_source(c, CONF_BUS_BOTH_UNTIL), until);
        return false;
    }
    if (!*url || bus_check_url(url, NULL, why) == ERR_OK) return true;
    *error = error_of(SLUICE_INVALID, "", "bus", "%s: bus: %s", conf_source(c, CONF_BUS), why);
    return false;
}

bool conf_check_places(const struct conf *c, struct sluice_error *error)
{
    return check_store(c, error) && check_advertise(c, error) && check_peers(c, error) &&
           check_coord(c, error) && check_bus(c, error);
}

static void describe_node(const char *name, unsigned port, char *out, size_t out_len)
{
    if (port > 0)
        (void)snprintf(out, out_len, "%s-%u", name, port);
    else
        (void)snprintf(out, out_len, "the host's name and the process id");
}

static void describe_url(const char *scheme, const char *host, unsigned port, char *out,
                         size_t out_len)
{
    const char *open = strchr(host, ':') ? "[" : "", *close = *open ? "]" : "";
    if (port > 0)
        (void)snprintf(out, out_len, "%s://%s%s%s:%u", scheme, open, host, close, port);
    else
        (void)snprintf(out, out_len, "%s://%s%s%s and its port", scheme, open, host, close);
}

const char *conf_default(const struct conf *c, enum conf_key key, char *out, size_t out_len)
{
    char host[LISTEN_HOST_MAX], name[HOST_NAME_MAX_LEN] = "";
    uint16_t port = 0;
    *out = '\0';
    if (*conf_text(c, key) || (key != CONF_NODE && key != CONF_ADVERTISE)) return out;
    if (!listen_parse(conf_text(c, CONF_LISTEN), host, &port)) return out;
    if (gethostname(name, sizeof name - 1) != 0) (void)snprintf(name, sizeof name, "node");
    bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    if (key == CONF_NODE)
        describe_node(name, port, out, out_len);
    else
        describe_url(*conf_text(c, CONF_TLS_CERTIFICATE) ? "https" : "http", any ? name : host,
                     port, out, out_len);
    return out;
}
