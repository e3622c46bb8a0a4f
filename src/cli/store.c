// SPDX-License-Identifier: Apache-2.0
// Finds and opens the store. The default store needs no preparation: it is created with its
// parents.
#include "cli/store.h"

#include "api/place.h"
#include "base/nearly.h"
#include "cli/answer_watch.h"

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *home(void)
{
    const char *path = getenv("HOME");
    if (path && *path) return path;
    const struct passwd *user = getpwuid(getuid());
    return user && user->pw_dir && *user->pw_dir ? user->pw_dir : NULL;
}

// The XDG Base Directory Specification says to ignore a relative XDG_DATA_HOME.
char *store_default(void)
{
    const char *url = getenv("SLUICE_STORE"), *data = getenv("XDG_DATA_HOME"), *below = home();
    if (url && *url) return strdup(url);
    bool has_data = data && *data == '/';
    if (!has_data && !below) return NULL;
    size_t len = strlen(has_data ? data : below) + sizeof "/.local/share/sluice";
    char *path = cli_alloc(len);
    (void)snprintf(path, len, "%s%s/sluice", has_data ? data : below,
                   has_data ? "" : "/.local/share");
    return path;
}

// Creates all directories above the last one, which the library creates. The library also reports a
// failure.
static void make_parents(const char *path)
{
    char *copy = strdup(path);
    if (!copy) return;
    for (char *at = strchr(copy + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(copy, 0700) != 0 && errno != EEXIST) break;
        *at = '/';
    }
    free(copy);
}

static bool is_default(const struct cli *cli)
{
    const char *named = getenv("SLUICE_STORE");
    return !cli->store_given && !(named && *named);
}

static void store_prepare(const struct cli *cli)
{
    if (is_default(cli)) make_parents(cli->store);
}

// True if the directory can be created: its parent exists, or it is the default store.
static bool could_be_made(const struct cli *cli, const char *path)
{
    struct stat st;
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    char *parent = cli_alloc(len + 2);
    (void)snprintf(parent, len + 2, "%.*s", len ? (int)len : 1, len ? path : ".");
    bool there = stat(parent, &st) == 0 && S_ISDIR(st.st_mode);
    free(parent);
    return there || is_default(cli);
}

bool store_missing(const struct cli *cli)
{
    const char *path = place_path(cli->store);
    struct stat st;
    return path && *path && stat(path, &st) != 0 && errno == ENOENT && could_be_made(cli, path);
}

static struct sluice *open_url(const struct cli *cli, const char *url, int *status)
{
    struct sluice *s = NULL;
    struct sluice_error error = {0};
    struct sluice_options options = {.deadline_ms = cli->deadline_ms};
    answer_watch_open(cli);
    enum sluice_code code = sluice_open(url, &options, &s, &error);
    answer_watch_start(cli, 0);
    if (code == SLUICE_OK) return s;
    *status = cli_fail(cli, &error);
    return NULL;
}

struct sluice *cli_open_making(const struct cli *cli, int *status)
{
    store_prepare(cli);
    return open_url(cli, cli->store, status);
}

// A missing directory reads as an empty store and is not created.
struct sluice *cli_open(const struct cli *cli, int *status)
{
    return open_url(cli, store_missing(cli) ? "mem:" : cli->store, status);
}

struct sluice_queue_status *cli_status(struct sluice *s, const struct sluice_names *names,
                                       unsigned what)
{
    struct sluice_queue_status *seen = cli_alloc((names->len + 1) * sizeof *seen);
    sluice_queues_status(s, (const char *const *)names->names, names->len, what, seen);
    return seen;
}

void cli_status_free(struct sluice_queue_status *seen, size_t len)
{
    sluice_queues_status_done(seen, len);
    free(seen);
}

// Returns an existing queue with a similar name. The caller frees it. Returns NULL if there is none
// or the list cannot be read.
static char *nearest_queue(struct sluice *s, const char *queue)
{
    struct sluice_names *names = NULL;
    char *near = NULL;
    if (!s || sluice_queue_list(s, &names, NULL) != SLUICE_OK) return NULL;
    for (size_t i = 0; i < names->len && !near; i++)
        if (nearly_same(names->names[i], queue)) near = strdup(names->names[i]);
    sluice_names_free(names);
    return near;
}

static bool is_missing(const struct sluice_error *error)
{
    return error->code == SLUICE_NOT_FOUND && strcmp(error->field, "queue") == 0;
}

#define NO_QUEUE "queue \"%.80s\" does not exist"

int cli_fail_queue(const struct cli *cli, struct sluice *s, const char *queue,
                   const struct sluice_error *error)
{
    if (!is_missing(error)) return cli_fail(cli, error);
    char *near = nearest_queue(s, queue);
    int status;
    if (near)
        status = cli_fail_as(cli, SLUICE_NOT_FOUND, "queue", NO_QUEUE "; did you mean %.80s?",
                             queue, near);
    else if (store_missing(cli))
        status = cli_fail_as(cli, SLUICE_NOT_FOUND, "queue", NO_QUEUE ": " STORE_MISSING, queue,
                             cli->store);
    else
        status = cli_fail_as(cli, SLUICE_NOT_FOUND, "queue",
                             NO_QUEUE "; \"sluice queue list\" shows the existing queues", queue);
    free(near);
    return status;
}

int cli_fail_unsent(const struct cli *cli, struct sluice *s, const char *queue,
                    const struct sluice_error *error)
{
    if (!is_missing(error)) return cli_fail(cli, error);
    const char *store = cli->store_given ? cli->store : "", *option = *store ? " --store " : "";
    char *near = nearest_queue(s, queue);
    char meant[128] = "";
    if (near) (void)snprintf(meant, sizeof meant, "; did you mean %.80s?", near);
    free(near);
    return cli_fail_as(cli, SLUICE_NOT_FOUND, "queue",
                       NO_QUEUE "%s%s create it with: sluice queue create %.80s%s%.120s", queue,
                       meant, *meant ? " Or" : ";", queue, option, store);
}
