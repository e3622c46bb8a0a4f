// SPDX-License-Identifier: Apache-2.0
// completion: prints the completion scripts of the shells. The scripts are small: they ask this
// program for the words ("completion words"), which come from the command tables.
#include "api/place.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "queue/codec/settings.h"
#include "server/config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// The files of completions/, which tools/embed makes constants.
extern const char script_bash[], script_zsh[];

static const char *const states[] = {"ready",    "delayed",  "locked",    "dead",
                                     "outbound", "finished", "processed", "dead-lettered",
                                     "purged",   "redriven", "cancelled"};
static const char *const unix_signals[] = {"USR1", "USR2", "HUP", "WINCH"};
static const char *const signal_kinds[] = {"steer", "ask", "interrupt"};
// Words that an option takes.
static const struct {
    const char *option;
    const char *words[4];
} option_words[] = {{"when-idle", {"wait", "refuse"}},
                    {"on-lock-end", {"sticky", "once"}},
                    {"then", {"cancel", "retry", "dead-letter"}}};
static const char *const job_states[] = {"ready", "delayed", "buried", "all"};
static const char *const scopes[] = {"read", "send", "work", "signal", "admin"};
static const char *const of_files[] = {"record",   "lines",  "config",          "store",
                                       "position", "tokens", "tls-certificate", "tls-key"};
static const char *const shells[] = {"bash", "zsh"};

// A command line that is being typed. words[at] is to be completed.
struct typed_line {
    const char *const *words;
    size_t len;
    size_t at;
    const char *start; // the typed part of words[at]
    const char *store; // as typed, or the default
};

static void offer(const struct typed_line *t, const char *word, const char *remark)
{
    if (strncmp(word, t->start, strlen(t->start)) == 0) (void)printf("%s\t%s\n", word, remark);
}

static void offer_list(const struct typed_line *t, const char *const *list, size_t len)
{
    for (size_t i = 0; i < len; i++)
        offer(t, list[i], "");
}

static void offer_options(const struct typed_line *t, const struct cli_option *rows, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char word[64], remark[120];
        (void)snprintf(word, sizeof word, "--%s", rows[i].name);
        (void)snprintf(remark, sizeof remark, "%.*s", (int)strcspn(rows[i].help, "\n"),
                       rows[i].help);
        offer(t, word, remark);
    }
}

// Offers commands by their first word, or by the second word of a group.
static void offer_commands(const struct typed_line *t, const char *group)
{
    char last[64] = "";
    for (size_t i = 0; command_at(i); i++) {
        const struct command *c = command_at(i);
        const char *space = strchr(c->name, ' ');
        size_t first = space ? (size_t)(space - c->name) : strlen(c->name);
        if (group && space && strlen(group) == first && memcmp(group, c->name, first) == 0)
            offer(t, space + 1, c->summary);
        if (group) continue;
        char word[64];
        (void)snprintf(word, sizeof word, "%.*s", (int)first, c->name);
        if (strcmp(word, last) != 0)
            offer(t, word,
                  c == &command_queue_create ? "Queues: create, list, set ..." : c->summary);
        (void)snprintf(last, sizeof last, "%s", word);
    }
}

static void offer_joined(const struct typed_line *t, const char *before, const char *word)
{
    char whole[256];
    (void)snprintf(whole, sizeof whole, "%s%s", before, word);
    offer(t, whole, "");
}

// Completion must not create a store.
static void offer_queues(const struct typed_line *t, const char *before)
{
    struct sluice *s = NULL;
    struct sluice_names *names = NULL;
    struct stat about;
    const char *path = place_path(t->store);
    bool exists = path ? stat(path, &about) == 0 : place_is(t->store, PLACE_NODE);
    if (!exists || sluice_open(t->store, NULL, &s, NULL) != SLUICE_OK) return;
    if (sluice_queue_list(s, &names, NULL) == SLUICE_OK)
        for (size_t i = 0; i < names->len; i++)
            offer_joined(t, before, names->names[i]);
    sluice_names_free(names);
    sluice_close(s);
}

// Offers "orderingMode=", or after it the allowed words.
static void offer_setting(const struct typed_line *t, const struct setting *s)
{
    char key[64], word[SETTING_TEXT_MAX];
    (void)snprintf(key, sizeof key, "%s=", s->key);
    bool chosen = strncmp(t->start, key, strlen(key)) == 0;
    if (!chosen) offer(t, key, s->meaning);
    if (chosen && s->kind == SETTING_NAME) offer_queues(t, key);
    for (uint64_t v = 0; chosen && s->choices && v <= s->max; v++) {
        setting_print(s, v, true, word);
        offer_joined(t, key, word);
    }
}

// Completes the last item of a comma-separated list.
static void offer_scopes(const struct typed_line *t)
{
    const char *comma = strrchr(t->start, ',');
    int before = comma ? (int)(comma + 1 - t->start) : 0;
    for (size_t i = 0; i < COUNT_OF(scopes); i++) {
        char list[160];
        (void)snprintf(list, sizeof list, "%.*s%s", before, t->start, scopes[i]);
        offer(t, list, "");
    }
}

static void offer_value(const struct typed_line *t, const struct command *c, const char *option)
{
    if (strcmp(option, "state") == 0 && c == &command_import)
        offer_list(t, job_states, COUNT_OF(job_states));
    else if (strcmp(option, "state") == 0)
        offer_list(t, states, COUNT_OF(states));
    else if (strcmp(option, "to") == 0)
        offer_queues(t, "");
    else if (strcmp(option, "scope") == 0)
        offer_scopes(t);
    else if (strcmp(option, "set") == 0)
        for (enum conf_key i = 0; i < CONF_KEYS; i++)
            offer_joined(t, conf_name(i), "=");
    else if (strcmp(option, "steer-signal") == 0)
        offer_list(t, unix_signals, COUNT_OF(unix_signals));
    for (size_t i = 0; i < COUNT_OF(option_words); i++)
        for (size_t k = 0; strcmp(option, option_words[i].option) == 0 && option_words[i].words[k];
             k++)
            offer(t, option_words[i].words[k], "");
    for (size_t i = 0; i < COUNT_OF(of_files); i++)
        if (strcmp(option, of_files[i]) == 0) (void)printf(":files\t\n");
}

// Returns the option that takes the next word as its value, or NULL.
static const struct cli_option *needs_value(const struct command *c, const char *word)
{
    for (size_t i = 0; c && i < c->options_len; i++) {
        const struct cli_option *o = &c->options[i];
        bool letter = word[0] == '-' && word[1] && word[1] == o->letter && !word[2];
        bool name = strncmp(word, "--", 2) == 0 && strcmp(word + 2, o->name) == 0;
        if ((letter || name) && o->value) return o;
    }
    return strcmp(word, "--store") == 0 ? &global_options[0] : NULL;
}

// Completes the nth word of the command's usage, without dots and brackets.
static void offer_word(const struct typed_line *t, const struct command *c, size_t n)
{
    char name[64] = "";
    for (const char *at = c->words; at && *at;) {
        size_t len = strcspn(at, " ");
        (void)snprintf(name, sizeof name, "%.*s", (int)len, at);
        bool dashes = strcmp(name, "[--]") == 0; // skipped: it is not a word
        if (!dashes && (n-- == 0 || strstr(name, "..."))) break;
        name[0] = '\0';
        at += len + (at[len] == ' ');
    }
    bool is_new = strcmp(c->name, "queue create") == 0;
    bool queue = !strcmp(name, "QUEUE") || !strcmp(name, "QUEUE...") || !strcmp(name, "[QUEUE]") ||
                 !strcmp(name, "DLQ") || (!strcmp(name, "NAME") && !is_new);
    if (queue) offer_queues(t, "");
    for (size_t i = 0; strstr(name, "KEY=") && i < QUEUE_SETTINGS_LEN; i++)
        offer_setting(t, &queue_settings[i]);
    if (strstr(name, "steer|ask")) offer_list(t, signal_kinds, COUNT_OF(signal_kinds));
    if (strstr(name, "SHELL")) offer_list(t, shells, COUNT_OF(shells));
    if (strstr(name, "COMMAND")) offer_commands(t, NULL);
    bool file = strstr(name, "PROGRAM") || strstr(name, "SOURCE") || !strcmp(name, "OLD") ||
                !strcmp(name, "NEW");
    if (file) (void)printf(":files\t\n");
}

// Completes "--name=" with its value in the same word.
static void offer_behind(const struct typed_line *t, const struct command *c)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(t->start, "="), t->start);
    const struct cli_option *o = needs_value(c, name);
    if (o && strcmp(o->name, "store") == 0) offer_value(t, c, o->name);
}

static void offer_words(struct typed_line *t)
{
    const char *plain[3] = {0};
    const struct command *c = NULL;
    const struct cli_option *open = NULL;
    size_t plain_len = 0, used = 0, after = 0; // words so far: in the command's name, and after it
    for (size_t i = 1; i < t->at; i++) {
        const char *word = t->words[i];
        if (open) {
            if (open == &global_options[0]) t->store = word;
            open = NULL;
        } else if (word[0] == '-' && word[1]) {
            open = needs_value(c, word);
        } else if (c) {
            after++;
        } else if (plain_len < 2) {
            plain[plain_len++] = word;
            c = command_find(plain, plain_len, &used);
        }
    }
    if (open) {
        offer_value(t, c, open->name);
    } else if (t->start[0] == '-' && strchr(t->start, '=')) {
        offer_behind(t, c);
    } else if (t->start[0] == '-') {
        if (!c) offer(t, "--version", "print the version");
        if (c) offer_options(t, c->options, c->options_len);
        offer_options(t, global_options, global_options_len);
    } else if (!c) {
        offer_commands(t, plain[0]);
    } else if (c == &command_help && after > 0) {
        offer_commands(t, t->words[t->at - 1]);
    } else {
        offer_word(t, c, after);
    }
}

static int run_completion(const struct cli *cli, const struct arguments *args)
{
    const char *shell = args->words[0];
    int64_t at;
    if (strcmp(shell, "bash") == 0) {
        (void)fputs(script_bash, stdout);
    } else if (strcmp(shell, "zsh") == 0) {
        (void)fputs(script_zsh, stdout);
    } else if (strcmp(shell, "words") == 0 && args->words_len > 2 &&
               text_to_number(args->words[1], &at)) {
        struct typed_line t = {.words = args->words + 2,
                               .len = args->words_len - 2,
                               .at = (size_t)at,
                               .store = cli->store};
        if (t.at > t.len) return 0;
        t.start = t.at < t.len ? t.words[t.at] : "";
        offer_words(&t);
    } else {
        return cli_usage(cli, "SHELL", "\"%.40s\" is not one of bash, zsh", shell);
    }
    return 0;
}

const struct command command_completion = {
    .name = "completion",
    .words = "SHELL [WORD]...",
    .summary = "Prints the completion script for bash or zsh",
    .details = "  source <(sluice completion bash)\n"
               "  source <(sluice completion zsh)\n"
               "\n"
               "\"make install\" installs them for both shells.",
    .run = run_completion,
};
