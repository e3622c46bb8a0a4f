// SPDX-License-Identifier: Apache-2.0
// A queue's settings from the command line: a file of JSON first, then key=value words over it.
#pragma once

#include "cli/cli.h"
#include "json/json.h"

// Every setting there is, for what the shell wants to know of it before the library does.
enum setting_kind { SETTING_OTHER, SETTING_WORD, SETTING_DURATION, SETTING_QUEUE };
struct setting_key {
    const char *key; // NULL: the end
    enum setting_kind kind;
    const char *words; // SETTING_WORD: those it takes
};
extern const struct setting_key setting_keys[];

struct settings {
    struct sluice_setting *rows;
    size_t len;
    struct json_pairs file;
    char **words; // copies, cut at their '='
    size_t words_len;
};

// words are those after the queue's name; config is a path, "-" or NULL. 0: go on; else the exit
// status, already explained.
int settings_read(const struct cli *cli, const char *const *words, size_t words_len,
                  const char *config, struct settings *out);
void settings_done(struct settings *s);
