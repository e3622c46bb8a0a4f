// SPDX-License-Identifier: Apache-2.0
// Which store, and opening it. The default one needs nothing prepared: it is made with its parents.
#include "cli/store.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_BELOW_HOME "/.local/share/sluice"

static const char *home(void)
{
    const char *path = getenv("HOME");
    if (path && *path) return path;
    const struct passwd *user = getpwuid(getuid());
    return user && user->pw_dir && *user->pw_dir ? user->pw_dir : NULL;
}

char *store_default(void)
{
    const char *url = getenv("SLUICE_STORE"), *below = home();
    if (url && *url) return strdup(url);
    if (!below) return NULL;
    size_t len = strlen(below) + sizeof DEFAULT_BELOW_HOME;
    char *path = cli_alloc(len);
    (void)snprintf(path, len, "%s%s", below, DEFAULT_BELOW_HOME);
    return path;
}

// Makes every folder above the last one; that one is the library's. What cannot be made it will
// report.
static void make_parents(const char *path)
{
    char *copy = strdup(path);
    if (!copy) return;
    for (char *at = strchr(copy + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(copy, 0777) != 0 && errno != EEXIST) break;
        *at = '/';
    }
    free(copy);
}

void store_prepare(const struct cli *cli)
{
    const char *named = getenv("SLUICE_STORE");
    if (!cli->store_given && !(named && *named)) make_parents(cli->store);
}

struct sluice *cli_open(const struct cli *cli, int *status)
{
    struct sluice *s = NULL;
    struct sluice_error error = {0};
    store_prepare(cli);
    if (sluice_open(cli->store, NULL, &s, &error) == SLUICE_OK) return s;
    *status = cli_fail(cli, &error);
    return NULL;
}

struct sluice_sight *cli_look(struct sluice *s, const struct sluice_names *names, unsigned what)
{
    struct sluice_sight *seen = cli_alloc((names->len + 1) * sizeof *seen);
    sluice_look(s, (const char *const *)names->names, names->len, what, seen);
    return seen;
}

void cli_look_free(struct sluice_sight *seen, size_t len)
{
    sluice_sights_done(seen, len);
    free(seen);
}
