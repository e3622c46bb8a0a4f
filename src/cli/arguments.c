// SPDX-License-Identifier: Apache-2.0
// Parses the command line with a command's table of options. Each error is one sentence that names
// the option, the value and what would be right.
#include "api/place.h"
#include "base/check.h"
#include "base/duration.h"
#include "base/nearly.h"
#include "cli/commands.h"
#include "cli/text.h"
#include "protocol/fields.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_NAME_MAX 32

enum { GLOBAL_STORE, GLOBAL_JSON, GLOBAL_QUIET, GLOBAL_TIMEOUT, GLOBAL_HELP };

const struct cli_option global_options[] = {
    [GLOBAL_STORE] = OPTION(TEXT, "store", "URL",
                            PLACE_FORMS ";\n"
                                        "default: $SLUICE_STORE, else ~/.local/share/sluice\n"
                                        "($XDG_DATA_HOME/sluice if that is set)"),
    [GLOBAL_JSON] = FLAG_OPTION("json", 0, "print one JSON object per line, also for errors"),
    [GLOBAL_QUIET] = FLAG_OPTION("quiet", 'q', "print results only"),
    [GLOBAL_TIMEOUT] = OPTION(DURATION, "timeout", "D",
                              "time limit for a command that makes few requests, if a\n"
                              "bucket does not answer; default 2m",
                              .min = 1, .max = (int64_t)24 * 3600 * 1000),
    [GLOBAL_HELP] = FLAG_OPTION("help", 'h', "print this text"),
};
const size_t global_options_len = COUNT_OF(global_options);

struct parse_state {
    struct cli *cli;
    const struct command *command; // NULL: only global options
    char **argv;
    size_t argc;
    size_t at;
    struct cli_value *values;
};

// "workflow-last" is "workflowLast".
static void field_name(const char *option, char *out, size_t size)
{
    size_t len = 0;
    for (const char *at = option; *at && len + 1 < size; at++) {
        bool dash = *at == '-' && at[1];
        if (dash) at++;
        out[len++] = dash ? (char)toupper((unsigned char)*at) : *at;
    }
    out[len] = 0;
}

struct cli_option cli_option_of(const struct cli_option *o)
{
    static const enum option_kind kinds[FIELD_KIND_COUNT] = {
        [FIELD_TEXT] = OPTION_TEXT,         [FIELD_TEXTS] = OPTION_TEXTS,
        [FIELD_NUMBER] = OPTION_COUNT,      [FIELD_INT] = OPTION_COUNT,
        [FIELD_SMALL] = OPTION_COUNT,       [FIELD_MOMENT] = OPTION_MOMENT,
        [FIELD_DURATION] = OPTION_DURATION, [FIELD_ANY] = OPTION_TEXT,
        [FIELD_BOOL] = OPTION_FLAG};
    struct cli_option out = *o;
    char name[FIELD_NAME_MAX];
    if (!o->of) return out;
    field_name(o->name, name, sizeof name);
    const struct field *f = fields_find(o->of, name);
    CHECK(f && (o->value != NULL) == (kinds[f->kind] != OPTION_FLAG));
    out.kind = kinds[f->kind];
    if (out.min < f->min) out.min = f->min;
    out.max = f->max;
    return out;
}

static int bad_value(const struct cli *cli, const struct cli_option *o, const char *text)
{
    char field[64], low[TEXT_MAX], high[TEXT_MAX];
    (void)snprintf(field, sizeof field, "--%s", o->name);
    if (o->kind == OPTION_MOMENT)
        return cli_usage(cli, field, "%s \"%.100s\" is not " MOMENT_HINT, field, text);
    if (o->kind == OPTION_COUNT && o->max > 0)
        return cli_usage(cli, field,
                         "%s \"%.100s\" is not a whole number from %" PRId64 " to %" PRId64, field,
                         text, o->min, o->max);
    if (o->kind == OPTION_COUNT)
        return cli_usage(cli, field, "%s \"%.100s\" is not a whole number of at least %" PRId64,
                         field, text, o->min);
    int64_t ms;
    if (duration_lacks_unit(text))
        return cli_usage(cli, field, "%s \"%.40s\" has no unit: write %.40ss or %.40sms", field,
                         text, text, text);
    if (!duration_read(text, &ms))
        return cli_usage(cli, field, "%s \"%.100s\" is not a duration: " DURATION_HINT, field,
                         text);
    if (o->max == 0)
        return cli_usage(cli, field, "%s \"%.100s\" must be at least %s", field, text,
                         duration_exact(o->min, low));
    return cli_usage(cli, field, "%s \"%.100s\" must be between %s and %s", field, text,
                     duration_exact(o->min, low), duration_exact(o->max, high));
}

static bool value_read(const struct cli_option *o, const char *text, struct cli_value *v)
{
    bool read = true;
    if (o->kind == OPTION_COUNT) read = text_to_number(text, &v->number);
    if (o->kind == OPTION_DURATION) read = duration_read(text, &v->number);
    if (o->kind == OPTION_MOMENT) return text_to_moment(text, &v->number);
    if (o->kind == OPTION_COUNT || o->kind == OPTION_DURATION)
        return read && v->number >= o->min && (o->max == 0 || v->number <= o->max);
    return true;
}

static int value_put(const struct cli *cli, const struct cli_option *o, const char *text,
                     struct cli_value *v)
{
    if (!value_read(o, text, v)) return bad_value(cli, o, text);
    v->given = true;
    size_t at = o->kind == OPTION_TEXTS ? v->texts_len : 0;
    v->texts = cli_realloc(v->texts, (at + 1) * sizeof *v->texts);
    v->texts[at] = text;
    v->texts_len = at + 1;
    return 0;
}

static int timeout_put(struct cli *cli, const struct cli_option *o, const char *text)
{
    struct cli_value v = {0};
    if (!value_read(o, text, &v)) return bad_value(cli, o, text);
    cli->deadline_ms = v.number;
    cli->deadline_given = true;
    return 0;
}

static int global_put(struct parse_state *p, size_t index, const char *text)
{
    struct cli *cli = p->cli;
    switch (index) {
    case GLOBAL_STORE:
        if (!*text) return cli_usage(cli, "--store", "--store \"\" is empty: give a path or a URL");
        cli->store = text;
        cli->store_given = true;
        break;
    case GLOBAL_JSON:
        cli->json = true;
        break;
    case GLOBAL_QUIET:
        cli->quiet = true;
        break;
    case GLOBAL_TIMEOUT:
        return timeout_put(cli, &global_options[index], text);
    default:
        cli->help = true;
        break;
    }
    return 0;
}

// Finds an option by its long name (len bytes) or its letter.
static const struct cli_option *find_option(const struct cli_option *rows, size_t rows_len,
                                            const char *name, size_t len, char letter)
{
    for (size_t i = 0; i < rows_len; i++) {
        if (letter && rows[i].letter == letter) return &rows[i];
        if (!letter && strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0)
            return &rows[i];
    }
    return NULL;
}

#define PREFIX_MIN 3

// The only option that begins so: "--prio" is --priority.
static const char *begun_option(const struct parse_state *p, const char *name)
{
    const char *found = NULL;
    size_t len = strlen(name);
    for (size_t i = 0; p->command && len >= PREFIX_MIN && i < p->command->options_len; i++) {
        if (strncmp(p->command->options[i].name, name, len) != 0) continue;
        if (found) return NULL;
        found = p->command->options[i].name;
    }
    return found;
}

static const char *near_option(const struct parse_state *p, const char *name)
{
    for (size_t i = 0; p->command && i < p->command->options_len; i++)
        if (nearly_same(p->command->options[i].name, name)) return p->command->options[i].name;
    for (size_t i = 0; i < global_options_len; i++)
        if (nearly_same(global_options[i].name, name)) return global_options[i].name;
    return begun_option(p, name);
}

// Where another command has what the option asks for.
static const char *option_instead(const char *command, const char *option)
{
    static const struct {
        const char *command, *option, *instead;
    } rows[] = {
        {"fail", "--delay", "\"sluice release --delay\" gives a message back for later"},
        {"events", "--since", "--from takes a position, and without it all kept events come"},
        {"peek", "--watch", "\"sluice stats --watch\" and \"sluice events --follow\" are live"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].command, command) == 0 && strcmp(rows[i].option, option) == 0)
            return rows[i].instead;
    return NULL;
}

static int unknown_option(const struct parse_state *p, const char *word)
{
    const char *command = p->command ? p->command->name : "sluice", *near = NULL;
    const char *help = p->command ? p->command->name : "";
    char name[64];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *instead = option_instead(command, name);
    if (instead)
        return cli_usage(p->cli, name, "%s is not an option of %s; %s", name, command, instead);
    if (strncmp(name, "--", 2) == 0) near = near_option(p, name + 2);
    if (near)
        return cli_usage(p->cli, name, "%s is not an option of %s; did you mean --%s?", name,
                         command, near);
    return cli_usage(p->cli, name,
                     "%s is not an option of %s: \"sluice help%s%s\" lists the options; put a "
                     "word that begins with a dash after --",
                     name, command, *help ? " " : "", help);
}

// Parses the option at p->at. Its value is in the same word ("--max=3", "-c3") or in the next.
static int option_take(struct parse_state *p)
{
    const char *word = p->argv[p->at++];
    bool is_long = word[1] == '-';
    const char *name = is_long ? word + 2 : word + 1;
    size_t len = is_long ? strcspn(name, "=") : 1;
    const struct command *c = p->command;
    const struct cli_option *rows = c ? c->options : NULL, *o = NULL;
    if (c) o = find_option(rows, c->options_len, name, len, is_long ? 0 : *name);
    bool global = !o;
    if (global) {
        rows = global_options;
        o = find_option(rows, global_options_len, name, len, is_long ? 0 : *name);
    }
    if (!o && !c && (!strcmp(word, "--version") || !strcmp(word, "-V"))) {
        p->cli->version = true;
        return 0;
    }
    if (!o) return unknown_option(p, word);
    struct cli_option row = cli_option_of(o);
    const char *text = name[len] ? name + len + (is_long ? 1 : 0) : NULL;
    if (row.kind == OPTION_FLAG && text)
        return cli_usage(p->cli, word, "--%s takes no value, but \"%.60s\" has one", o->name, word);
    if (row.kind != OPTION_FLAG && !text) {
        if (p->at == p->argc)
            return cli_usage(p->cli, word, "%s needs a value: %s %s", word, word, o->value);
        text = p->argv[p->at++];
    }
    if (global) return global_put(p, (size_t)(o - rows), text);
    return value_put(p->cli, &row, text ? text : "", &p->values[o - rows]);
}

struct word_rule {
    size_t min;
    size_t max; // SIZE_MAX: any number
};

// Parses "QUEUE [BODY]" or "QUEUE TOKEN...".
static struct word_rule rule_of(const char *words)
{
    struct word_rule rule = {0, 0};
    for (const char *at = words; at && *at;) {
        size_t len = strcspn(at, " ");
        if (*at != '[') rule.min++;
        if (rule.max < SIZE_MAX) rule.max++;
        if (len > 3 && memcmp(at + len - 3, "...", 3) == 0) rule.max = SIZE_MAX;
        at += len;
        if (*at == ' ') at++;
    }
    return rule;
}

static int check_words(const struct parse_state *p, const struct arguments *args)
{
    const struct command *c = p->command;
    struct word_rule rule = rule_of(c->words);
    if (args->words_len < rule.min) {
        const char *at = c->words;
        for (size_t left = args->words_len; left > 0 || *at == '['; at += strcspn(at, " ") + 1)
            if (*at != '[') left--;
        char name[64];
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " ."), at);
        return cli_usage(p->cli, name, "%s is missing: sluice %s %s", name, c->name, c->words);
    }
    if (args->words_len <= rule.max) return 0;
    const char *extra = args->words[rule.max];
    const char *hint = strcmp(c->name, "send") == 0 ? " (quote the body if it has spaces)" : "";
    return cli_usage(p->cli, extra, "unexpected argument \"%.60s\"%s: sluice %s%s%s", extra, hint,
                     c->name, c->words ? " " : "", c->words ? c->words : "");
}

int arguments_parse(struct cli *cli, const struct command *command, size_t argc, char **argv,
                    struct arguments *out, size_t *used)
{
    size_t options_len = command ? command->options_len : 0;
    struct parse_state p = {.cli = cli, .command = command, .argv = argv, .argc = argc};
    p.values = cli_alloc(options_len * sizeof *p.values);
    memset(p.values, 0, options_len * sizeof *p.values);
    const char **words = cli_alloc(argc * sizeof *words);
    *out = (struct arguments){.options = p.values, .options_len = options_len, .words = words};
    bool dashes = false;
    while (p.at < argc) {
        const char *word = argv[p.at];
        if (!dashes && strcmp(word, "--") == 0) {
            dashes = true;
            out->words_before_dashes = out->words_len;
            p.at++;
        } else if (!dashes && word[0] == '-' && word[1] != '\0') {
            int status = option_take(&p);
            if (status != 0) return status;
        } else if (!command) {
            break;
        } else {
            words[out->words_len++] = word;
            p.at++;
        }
    }
    if (!dashes) out->words_before_dashes = out->words_len;
    if (used) *used = p.at;
    return command && !cli->help ? check_words(&p, out) : 0;
}

void arguments_done(struct arguments *args)
{
    for (size_t i = 0; i < args->options_len; i++)
        free(args->options[i].texts);
    free((struct cli_value *)(uintptr_t)args->options);
    free(args->words);
    *args = (struct arguments){0};
}
