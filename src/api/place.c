// SPDX-License-Identifier: Apache-2.0
// A URL without a scheme is a path. A URL that looks like a mistyped scheme is refused. Otherwise a
// typo would create a directory named "s3:", and the messages would be there.
#include "api/place.h"

#include "local/inside.h"
#include "store/s3/url.h"

#include <string.h>

const char *place_path(const char *url)
{
    if (strncmp(url, "file://", 7) == 0) return url + 7;
    return url[strcspn(url, ":/")] == ':' ? NULL : url;
}

// "localhost:7401" is a valid name of a directory, but is meant as a node.
static enum sluice_code refuse_scheme(const char *url, struct sluice_error *error)
{
    static const char *const schemes[] = {"file:", "s3:", "http:", "https:"};
    const char *after = strchr(url, ':') + 1;
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
            return refuse(error, ERR_INVALID, "store",
                          "\"%.150s\" is not a store: did you mean %s//%s%.150s?", url, schemes[i],
                          i == 0 ? "/" : "", after + strspn(after, "/"));
    if (strncmp(url, "mem:", 4) == 0)
        return refuse(error, ERR_INVALID, "store", "\"%.150s\" is not a store: did you mean mem:?",
                      url);
    size_t port = strspn(after, "0123456789");
    if (port > 0 && (after[port] == '\0' || after[port] == '/'))
        return refuse(error, ERR_INVALID, "store",
                      "\"%.150s\" is not a store: did you mean http://%.150s? A directory of that "
                      "name is ./%.150s",
                      url, url, url);
    return refuse(error, ERR_INVALID, "store",
                  "\"%.100s\" is not a store: use " PLACE_STORES
                  ". A directory of that name is ./%.100s",
                  url, url);
}

enum sluice_code place_check(const char *url, struct sluice_error *error)
{
    if (!url || url[0] == 0)
        return refuse(error, ERR_INVALID, "store", "the store's URL is empty; use " PLACE_STORES);
    if (strcmp(url, "mem:") == 0) return SLUICE_OK;
    if (strncmp(url, "s3://", 5) == 0) {
        struct s3_url parts;
        char why[STORE_WHY_MAX] = "";
        enum err err = s3_url_parse(url, &parts, why, sizeof why);
        return err ? refuse(error, err, "store", "%s", why) : SLUICE_OK;
    }
    if (strncmp(url, "file://", 7) == 0 && url[7] != '/')
        return refuse(error, ERR_INVALID, "store", "%s needs an absolute path: file:///path", url);
    if (place_path(url)) return SLUICE_OK;
    if (!strstr(url, "://")) return refuse_scheme(url, error);
    return refuse(error, ERR_INVALID, "store",
                  "%s is not a store this version can open: use " PLACE_STORES, url);
}
