// SPDX-License-Identifier: Apache-2.0
// Reads a queue's settings from the command line: first a JSON file, then key=value words, which
// override it.
#pragma once

#include "cli/cli.h"
#include "json/json.h"

struct settings {
    struct sluice_setting *rows;
    size_t len;
    struct json_pairs file;
    char **words; // copies, split at '='
    size_t words_len;
};

// `words` are the words after the queue's name. `config` is a path, "-" or NULL. Returns 0 to
// continue, else the exit status after printing the error.
int settings_read(const struct cli *cli, const char *const *words, size_t words_len,
                  const char *config, struct settings *out);
void settings_done(struct settings *s);
