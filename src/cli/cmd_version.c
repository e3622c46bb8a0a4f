// SPDX-License-Identifier: Apache-2.0
// version: prints the version.
#include "cli/commands.h"
#include "json/json.h"

static int run_version(const struct cli *cli, const struct arguments *args)
{
    (void)args;
    if (cli->json) {
        struct json *o = json_new();
        json_text(o, "version", sluice_version());
        json_print(o, stdout);
    } else {
        (void)printf("sluice %s\n", sluice_version());
    }
    return 0;
}

const struct command command_version = {
    .name = "version",
    .summary = "Prints the version",
    .run = run_version,
};
