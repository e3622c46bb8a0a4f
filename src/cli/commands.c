// SPDX-License-Identifier: Apache-2.0
// The table of commands, and the search in it.
#include "cli/commands.h"

#include "base/nearly.h"

#include <string.h>

#define COMMAND_ROW(name) &command_##name
static const struct command *const commands[] = {COMMAND_LIST(COMMAND_ROW)};

const struct command *command_at(size_t index)
{
    return index < COUNT_OF(commands) ? commands[index] : NULL;
}

const struct command *command_find(const char *const *words, size_t len, size_t *used)
{
    for (size_t i = 0; i < COUNT_OF(commands) && len > 0; i++) {
        const char *name = commands[i]->name, *space = strchr(name, ' ');
        if (strcmp(words[0], name) == 0) { // also "queue purge" as one argument
            *used = 1;
            return commands[i];
        }
        size_t first = space ? (size_t)(space - name) : strlen(name);
        if (strlen(words[0]) != first || memcmp(words[0], name, first) != 0) continue;
        if (space && (len < 2 || strcmp(words[1], space + 1) != 0)) continue;
        *used = space ? 2 : 1;
        return commands[i];
    }
    return NULL;
}

bool command_group(const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        const char *name = commands[i]->name;
        if (strncmp(name, word, len) == 0 && name[len] == ' ') return true;
    }
    return false;
}

// Returns the command that the user probably meant. It knows names that other queues use, and the
// second word of a name alone.
static const char *meant_by(const char *typed)
{
    static const char *const others[][2] = {{"ls", "queue list"},
                                            {"queues", "queue list"},
                                            {"enqueue", "send"},
                                            {"push", "send"},
                                            {"publish", "send"},
                                            {"put", "send"},
                                            {"pop", "receive"},
                                            {"dequeue", "receive"},
                                            {"reserve", "receive"},
                                            {"nack", "fail"},
                                            {"retry", "redrive"},
                                            {"steer", "signal"},
                                            {"ask", "signal"},
                                            {"interrupt", "signal"},
                                            {"abort", "cancel"},
                                            {"kick", "redrive"},
                                            {"top", "stats --watch"},
                                            {"jobs", "peek"},
                                            {"worker stop", "worker drain"}};
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (strcmp(typed, others[i][0]) == 0) return others[i][1];
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        const char *space = strchr(commands[i]->name, ' ');
        if (space && strcmp(space + 1, typed) == 0) return commands[i]->name;
    }
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (nearly_same(commands[i]->name, typed)) return commands[i]->name;
    return NULL;
}

int command_unknown(const struct cli *cli, const char *const *words, size_t len)
{
    bool group = command_group(words[0]);
    char typed[128];
    if (group && len < 2)
        return cli_usage(cli, "command",
                         "%s needs a second word: \"sluice help %s\" lists the commands", words[0],
                         words[0]);
    (void)snprintf(typed, sizeof typed, group ? "%.50s %.50s" : "%.100s", words[0],
                   group ? words[1] : "");
    const char *meant = meant_by(typed);
    if (meant)
        return cli_usage(cli, "command", "\"%s\" is not a command; did you mean \"%s\"?", typed,
                         meant);
    return cli_usage(cli, "command", "\"%s\" is not a command: \"sluice help\" lists the commands",
                     typed);
}
