// SPDX-License-Identifier: Apache-2.0
// Merges key=value words and a JSON file into one list of settings. The library interprets the
// keys.
#include "cli/settings.h"

#include <stdlib.h>
#include <string.h>

#define CONFIG_BYTES_MAX ((size_t)1 << 20)

static int read_file(const struct cli *cli, const char *path, struct settings *s)
{
    size_t len;
    int status = 0;
    char error[256];
    char *text = cli_read_all(cli, path, "--config", CONFIG_BYTES_MAX, &len, &status);
    if (!text) return status;
    if (!json_flatten(text, len, &s->file, error, sizeof error))
        status = cli_usage(cli, "--config", "--config %.100s: %s",
                           strcmp(path, "-") == 0 ? "standard input" : path, error);
    free(text);
    return status;
}

// Returns the row that has the key, or a new row.
static struct sluice_setting *row_for(struct settings *s, const char *key)
{
    for (size_t i = 0; i < s->len; i++)
        if (strcmp(s->rows[i].key, key) == 0) return &s->rows[i];
    return &s->rows[s->len++];
}

static bool is_below(const char *key)
{
    return strncmp(key, JSON_SETTINGS_BELOW, sizeof JSON_SETTINGS_BELOW - 1) == 0;
}

// The output of "queue show --json" has the settings under "settings". Its other keys are skipped:
// returns NULL for them.
static const char *key_of(const struct json_pairs *file, const char *key)
{
    bool shown = false;
    for (size_t i = 0; i < file->len; i++)
        shown |= is_below(file->rows[i].key);
    if (!shown) return key;
    if (!strcmp(key, "queue") || !strcmp(key, "id") || !strcmp(key, "paused")) return NULL;
    return is_below(key) ? key + sizeof JSON_SETTINGS_BELOW - 1 : key;
}

int settings_read(const struct cli *cli, const char *const *words, size_t words_len,
                  const char *config, struct settings *out)
{
    *out = (struct settings){0};
    int status = config ? read_file(cli, config, out) : 0;
    if (status != 0) return status;
    out->rows = cli_alloc((out->file.len + words_len) * sizeof *out->rows);
    out->words = cli_alloc(words_len * sizeof *out->words);
    for (size_t i = 0; i < out->file.len; i++) {
        const char *key = key_of(&out->file, out->file.rows[i].key);
        if (key) *row_for(out, key) = (struct sluice_setting){key, out->file.rows[i].value};
    }
    for (size_t i = 0; i < words_len; i++) {
        char *copy = strdup(words[i]);
        char *equals = copy ? strchr(copy, '=') : NULL;
        if (!equals || equals == copy) {
            free(copy);
            settings_done(out);
            return cli_usage(cli, words[i],
                             "\"%.80s\" is not a setting; one looks like visibilityTimeout=30s",
                             words[i]);
        }
        *equals = '\0';
        out->words[out->words_len++] = copy;
        *row_for(out, copy) = (struct sluice_setting){copy, equals + 1};
    }
    return 0;
}

void settings_done(struct settings *s)
{
    for (size_t i = 0; i < s->words_len; i++)
        free(s->words[i]);
    free(s->words);
    free(s->rows);
    json_pairs_done(&s->file);
    *s = (struct settings){0};
}
