// SPDX-License-Identifier: Apache-2.0
// schema check: says whether event schemas changed in a way that consumers notice.
#include "cli/commands.h"
#include "cli/table.h"
#include "events/schema.h"
#include "json/json.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILES_MAX       10000
#define STATUS_BREAKING 1

struct names {
    char **rows;
    size_t len;
};

struct schema_check {
    const struct cli *cli;
    const char *file;     // that is compared now
    struct json *changes; // with --json
    enum schema_change worst;
    int status; // of an error that was printed; 0: none
};

static void names_add(struct names *n, const char *folder, const char *file)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", file);
    n->rows = cli_realloc(n->rows, (n->len + 1) * sizeof *n->rows);
    n->rows[n->len] = cli_alloc(strlen(path) + 1);
    (void)strcpy(n->rows[n->len++], path);
}

static void names_done(struct names *n)
{
    for (size_t i = 0; i < n->len; i++)
        free(n->rows[i]);
    free(n->rows);
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

static bool is_version(const char *name)
{
    return name[0] == 'v' && name[1] && strspn(name + 1, "0123456789") == strlen(name + 1);
}

// Adds the schemas of a folder, and of its folders v1, v2 and so on.
static bool names_find(const char *root, const char *folder, struct names *out)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s%s%s", root, *folder ? "/" : "", folder);
    DIR *dir = opendir(path);
    if (!dir) return false;
    bool good = true;
    for (struct dirent *e; good && (e = readdir(dir)) && out->len < FILES_MAX;) {
        if (e->d_name[0] != '.' && ends_with(e->d_name, ".json"))
            names_add(out, folder, e->d_name);
        else if (!*folder && is_version(e->d_name))
            good = names_find(root, e->d_name, out);
    }
    (void)closedir(dir);
    return good;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_change(void *ctx, enum schema_change change, const char *where, const char *what)
{
    struct schema_check *c = ctx;
    if (change > c->worst) c->worst = change;
    if (c->cli->json) {
        struct json *row = json_new();
        json_text(row, "change", schema_change_name(change));
        json_text(row, "file", c->file);
        json_text(row, "where", where);
        json_text(row, "what", what);
        json_list_take(c->changes, row);
        return;
    }
    char line[2048];
    (void)snprintf(line, sizeof line, "%-8s  %s  %s  %s", schema_change_name(change), c->file,
                   where, what);
    char *safe = safe_text(line, strlen(line), 0);
    (void)printf("%s\n", safe);
    free(safe);
}

static struct schema *read_schema(struct schema_check *c, const char *what, const char *path)
{
    char why[SCHEMA_WHY_MAX];
    struct schema *schema = NULL;
    size_t len = 0;
    char *text = cli_read_all(c->cli, path, what, SCHEMA_TEXT_MAX, &len, &c->status);
    if (!text) return NULL;
    if (schema_parse(bytes_of(text, len), &schema, why) != ERR_OK)
        c->status = cli_usage(c->cli, what, "%s: %s is not a schema: %s", what, path, why);
    free(text);
    return schema;
}

static void compare_files(struct schema_check *c, const char *old, const char *new)
{
    struct schema *before = read_schema(c, "OLD", old);
    struct schema *after = before ? read_schema(c, "NEW", new) : NULL;
    if (after) (void)schema_compare(before, after, add_change, c);
    schema_free(before);
    schema_free(after);
}

// A file that is new must be a schema, too.
static void compare_new(struct schema_check *c, const char *path)
{
    struct schema *after = read_schema(c, "NEW", path);
    if (after) add_change(c, SCHEMA_ADDITIVE, "/", "the schema is new");
    schema_free(after);
}

static void compare_folders(struct schema_check *c, const char *old, const struct names *before,
                            const char *new, const struct names *after)
{
    char paths[2][PATH_MAX];
    for (size_t i = 0, j = 0; !c->status && (i < before->len || j < after->len);) {
        int order = i == before->len  ? 1
                    : j == after->len ? -1
                                      : strcmp(before->rows[i], after->rows[j]);
        c->file = order <= 0 ? before->rows[i] : after->rows[j];
        (void)snprintf(paths[0], sizeof paths[0], "%s/%s", old, c->file);
        (void)snprintf(paths[1], sizeof paths[1], "%s/%s", new, c->file);
        if (order < 0)
            add_change(c, SCHEMA_BREAKING, "/",
                       "the schema is gone: a consumer may wait for such events");
        else if (order > 0)
            compare_new(c, paths[1]);
        else
            compare_files(c, paths[0], paths[1]);
        i += order <= 0;
        j += order >= 0;
    }
}

// A folder without a schema is probably a wrong path.
static bool take_folder(struct schema_check *c, const char *what, const char *path,
                        struct names *out)
{
    if (!names_find(path, "", out)) {
        c->status = cli_usage(c->cli, what, "%s: the folder %s cannot be read", what, path);
        return false;
    }
    if (out->len == 0) {
        c->status =
            cli_usage(c->cli, what, "%s: the folder %s has no file *.json, also not in v1, v2 ...",
                      what, path);
        return false;
    }
    qsort(out->rows, out->len, sizeof *out->rows, by_name);
    return true;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static void check_paths(struct schema_check *c, const char *old, const char *new)
{
    struct names before = {0}, after = {0};
    if (is_folder(old) != is_folder(new)) {
        c->status = cli_usage(c->cli, "NEW", "OLD and NEW must both be files, or both be folders");
        return;
    }
    c->file = new;
    if (!is_folder(old))
        compare_files(c, old, new);
    else if (take_folder(c, "OLD", old, &before) && take_folder(c, "NEW", new, &after))
        compare_folders(c, old, &before, new, &after);
    names_done(&before);
    names_done(&after);
}

static int run_check(const struct cli *cli, const struct arguments *args)
{
    struct schema_check c = {.cli = cli, .changes = cli->json ? json_list_new() : NULL};
    check_paths(&c, args->words[0], args->words[1]);
    if (c.status) {
        if (c.changes) json_free(c.changes);
        return c.status;
    }
    if (cli->json) {
        struct json *o = json_new();
        json_text(o, "result", schema_change_name(c.worst));
        json_take(o, "changes", c.changes);
        json_print(o, stdout);
    } else if (!cli->quiet) {
        (void)printf("%s\n", schema_change_name(c.worst));
    }
    return c.worst == SCHEMA_BREAKING ? STATUS_BREAKING : 0;
}

const struct command command_schema_check = {
    .name = "schema check",
    .words = "OLD NEW",
    .summary = "Compares schemas of events: same, additive or breaking",
    .details = "OLD and NEW are two files, or two folders with files *.json, directly or in\n"
               "folders v1, v2 and so on. A change is additive if an older consumer understands\n"
               "newer events and a newer consumer understands older events. Each change is a\n"
               "line: how it changed, the file, the place in it, and what. The last line is the\n"
               "result. The status is 0 for same and additive, and 1 for breaking.\n"
               "JSON keys: result, and changes with change, file, where and what.",
    .run = run_check,
};
