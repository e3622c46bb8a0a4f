// SPDX-License-Identifier: Apache-2.0
// Reads a queue's settings from the command line: first a JSON file, then key=value words, which
// override it.
#pragma once

#include "cli/cli.h"
#include "json/json.h"

// All settings of a queue, as far as the parser and the completion need them.
enum setting_type { SETTING_OTHER, SETTING_WORD, SETTING_DURATION, SETTING_QUEUE };
struct setting_key {
    const char *key; // NULL ends the table
    enum setting_type kind;
    const char *words; // SETTING_WORD: the allowed words
};
extern const struct setting_key setting_keys[];

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
