// SPDX-License-Identifier: Apache-2.0
// token new: makes a bearer token and its line for a node's tokens file.
#include "cli/commands.h"
#include "server/tokens.h"
#include "json/json.h"

#include <string.h>
#include <time.h>

#define LINE_MAX_BYTES 2048

enum { SCOPE, QUEUE, NAME, EXPIRES };

static const struct cli_option options[] = {
    [SCOPE] =
        OPTION(TEXT, "scope", "SCOPES", "read, send, work, signal, admin, separated by commas"),
    [QUEUE] = OPTION(TEXT, "queue", "PATTERNS",
                     "allowed queues: orders, mail-*, or * for all;\nseparated by commas"),
    [NAME] = OPTION(TEXT, "name", "NAME", "name in logs; default: token and some digits"),
    [EXPIRES] = OPTION(MOMENT, "expires", "TIME", "time of expiry; default: never"),
};

static void expiry_text(int64_t ms, char *out, size_t out_len)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    (void)gmtime_r(&seconds, &tm);
    (void)strftime(out, out_len, " expires=%Y-%m-%dT%H:%M:%SZ", &tm);
}

static int print_token(const struct cli *cli, const char *secret, const char *name,
                       const char *value)
{
    if (cli->json) {
        struct json *o = json_new();
        json_text(o, "token", secret);
        json_text(o, "name", name);
        json_text(o, "line", value);
        json_print(o, stdout);
        return 0;
    }
    (void)printf("%s\n", secret);
    (void)printf("%s\n", value);
    cli_say(cli, "The first line is the token; it is not shown again. Add the second line to the "
                 "node's tokens file and send the node SIGHUP.");
    return 0;
}

static int run_token(const struct cli *cli, const struct arguments *args)
{
    const struct cli_value *o = args->options;
    char secret[TOKEN_SECRET_MAX], hash[TOKEN_HASH_MAX], name[TOKEN_NAME_MAX + 1];
    char value[LINE_MAX_BYTES], line[LINE_MAX_BYTES + TOKEN_NAME_MAX + 8];
    char expires[64] = "", why[256] = "";
    if (!o[SCOPE].given)
        return cli_usage(cli, "--scope",
                         "--scope is missing: name the allowed actions, such as --scope send,work");
    token_make(secret, hash);
    if (o[EXPIRES].given) expiry_text(o[EXPIRES].number, expires, sizeof expires);
    (void)snprintf(value, sizeof value, "%s scope=%.200s queue=%.1500s%s", hash, o[SCOPE].texts[0],
                   o[QUEUE].given ? o[QUEUE].texts[0] : "*", expires);
    const char *wanted = option_text(&o[NAME]);
    (void)snprintf(name, sizeof name, "token-%.8s", hash + strlen("sha256:"));
    // The parser of the tokens file validates the line.
    struct tokens *trial = tokens_new();
    bool good = tokens_add(trial, wanted ? wanted : name, value, why, sizeof why);
    tokens_free(trial);
    if (!good) return cli_fail_as(cli, SLUICE_INVALID, "token", "%s", why);
    if (!o[QUEUE].given) // after the scope, which may be wrong
        return cli_usage(cli, "--queue",
                         "--queue is missing: name the allowed queues, such as --queue '*'");
    (void)snprintf(line, sizeof line, "%.64s = %s", wanted ? wanted : name, value);
    return print_token(cli, secret, wanted ? wanted : name, line);
}

const struct command command_token_new = {
    .name = "token new",
    .summary = "Makes a token for a node's clients",
    .details = "Prints the token once, and the line for the node's tokens file, which has only\n"
               "its hash. Scopes: read shows queues and messages; send sends; work receives and\n"
               "settles; signal acts on single messages (cancel, signal); admin creates, changes\n"
               "and deletes, and includes the others. Clients send the token as\n"
               "Authorization: Bearer TOKEN. JSON keys: token, name, line.",
    OPTIONS(options),
    .run = run_token,
};
