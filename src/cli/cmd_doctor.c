// SPDX-License-Identifier: Apache-2.0
// doctor: checks the store and prints the result of each check.
#include "cli/answer_watch.h"
#include "cli/commands.h"
#include "cli/store.h"
#include "cli/table.h"
#include "json/json.h"

#define CHECK_WIDTH 28

static const char *health_word(enum sluice_health health)
{
    return health == SLUICE_PASSED ? "passed" : health == SLUICE_WARNING ? "warning" : "failed";
}

static const char *health_color(const struct cli *cli, enum sluice_health health)
{
    if (!cli->color) return "";
    return health == SLUICE_PASSED    ? "\x1b[32m"
           : health == SLUICE_WARNING ? "\x1b[33m"
                                      : "\x1b[31m";
}

static void report(void *ctx, const char *check, enum sluice_health health, const char *detail)
{
    const struct cli *cli = ctx;
    if (cli->json) {
        struct json *o = json_new();
        json_text(o, "check", check);
        json_text(o, "result", health_word(health));
        json_text(o, "detail", detail ? detail : "");
        json_print(o, stdout);
    } else if (!cli->quiet || health != SLUICE_PASSED) {
        (void)printf("%s%-8s%s  ", health_color(cli, health), health_word(health), plain(cli));
        print_line(stdout, "%-*s  %s", CHECK_WIDTH, check, detail ? detail : "");
    }
    answer_watch_start(cli, 0);
    (void)fflush(stdout); // some checks are slow, so each is shown at once
}

static int run_doctor(const struct cli *cli, const struct arguments *args)
{
    struct sluice_error error = {0};
    struct cli copy = *cli;
    if (args->words_len > 0) {
        copy.store = args->words[0];
        copy.store_given = true;
    }
    if (!cli->json && !cli->quiet)
        (void)printf("%s%-8s  %-*s  %s%s\n", bold(cli), "RESULT", CHECK_WIDTH, "CHECK", "DETAIL",
                     plain(cli));
    if (store_missing(&copy)) { // a check creates nothing
        char detail[400];
        (void)snprintf(detail, sizeof detail, STORE_MISSING "; the first queue creates it",
                       copy.store);
        report(&copy, "open", SLUICE_FAILED, detail);
        return cli_fail_as(cli, SLUICE_NOT_FOUND, "store", STORE_MISSING, copy.store);
    }
    answer_watch_open(&copy);
    if (sluice_doctor(copy.store, report, &copy, &error) == SLUICE_OK) return 0;
    return cli_fail(cli, &error);
}

const struct command command_doctor = {
    .name = "doctor",
    .words = "[URL]",
    .summary = "Checks the store and every queue's journal",
    .details = "Without a URL it checks the store of --store: permissions and latency (put,\n"
               "get, list, delete), the clock, consistency (the probe), every queue and its\n"
               "large bodies (256 MiB per queue). For a directory it also checks whether other\n"
               "users can read it. For a bucket it also checks the source of the keys, and\n"
               "versioning.\n"
               "\n"
               "JSON prints an object per check: check, result (passed, warning, failed),\n"
               "detail.",
    .run = run_doctor,
};
