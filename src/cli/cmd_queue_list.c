// SPDX-License-Identifier: Apache-2.0
// queue list and queue show: print the queues and their settings.
#include "cli/commands.h"
#include "cli/store.h"
#include "cli/table.h"
#include "cli/text.h"
#include "queue/codec/settings.h"
#include "json/json.h"

#include <string.h>

#define FIELD_WIDTH 34

static struct json *info_json(const struct sluice_queue_info *info)
{
    struct json *o = json_new();
    json_text(o, "queue", info->name);
    json_text(o, "id", info->id);
    json_bool(o, "paused", info->paused);
    json_take(o, "settings", json_settings(info->settings, info->settings_len));
    return o;
}

static const char *setting(const struct sluice_queue_info *info, const char *key)
{
    for (size_t i = 0; i < info->settings_len; i++)
        if (strcmp(info->settings[i].key, key) == 0) return info->settings[i].value;
    return "";
}

// Returns the value as people write it: "30s", "1MiB", "2", or "-" if it is empty.
static const char *readable(const struct sluice_queue_info *info, const char *key,
                            char out[static TEXT_MAX])
{
    const struct setting *s = setting_find(key);
    const char *value = setting(info, key);
    uint64_t v;
    if (!s || !setting_parse(s, value, &v)) return *value ? value : "-";
    setting_print(s, v, true, out);
    return out;
}

static void add_row(struct table *t, const struct sluice_queue_info *info)
{
    char time[TEXT_MAX];
    bool strict = strcmp(setting(info, "orderingGuarantee"), "true") == 0;
    table_cell(t, info->name);
    table_cell(t, info->paused ? "paused" : "active");
    table_cellf(t, "%s%s", setting(info, "orderingMode"), strict ? ", strict" : "");
    table_cell(t, readable(info, "visibilityTimeout", time));
    table_cell(t, setting(info, "failureStrategy.mode"));
    table_cell(t, setting(info, "failureStrategy.maxRetries"));
    table_cell(t, setting(info, "shards"));
    table_cell(t, readable(info, "failureStrategy.deadLetterQueue", time));
}

static int list_all(const struct cli *cli, struct sluice *s, const struct sluice_names *names)
{
    static const char *const heads[] = {"QUEUE",   "STATE",    "ORDER",   ">VISIBILITY",
                                        "FAILURE", ">RETRIES", ">SHARDS", "DEAD LETTERS"};
    struct table *t = table_new(heads, COUNT_OF(heads));
    int status = 0;
    struct sluice_queue_status *seen = cli_status(s, names, SLUICE_STATUS_INFO);
    // A queue that cannot be read does not hide the others.
    for (size_t i = 0; i < names->len; i++) {
        enum sluice_code code = seen[i].error.code;
        if (code == SLUICE_NOT_FOUND) continue; // deleted meanwhile
        if (code != SLUICE_OK) {
            int mine = cli_fail(cli, &seen[i].error);
            status = status ? status : mine;
        } else if (cli->json) {
            json_print(info_json(seen[i].info), stdout);
        } else {
            add_row(t, seen[i].info);
        }
    }
    cli_status_free(seen, names->len);
    if (!cli->json) table_print(t, cli, stdout);
    table_free(t);
    return status;
}

static void say_none(const struct cli *cli)
{
    bool missing = store_missing(cli);
    cli_say(cli, "there are no queues yet%s%.300s%s; create one with: sluice queue create NAME",
            missing ? ": the store " : "", missing ? cli->store : "",
            missing ? " does not exist yet" : "");
}

static int run_list(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    (void)args;
    int status = 0;
    struct sluice_names *names = NULL;
    struct sluice_error error = {0};
    if (sluice_queue_list(s, &names, &error) != SLUICE_OK) {
        status = cli_fail(cli, &error);
    } else if (cli->quiet && !cli->json) {
        for (size_t i = 0; i < names->len; i++)
            print_line(stdout, "%s", names->names[i]);
    } else if (names->len == 0) {
        say_none(cli);
    } else {
        status = list_all(cli, s, names);
    }
    sluice_names_free(names);
    return status;
}

const struct command command_queue_list = {
    .name = "queue list",
    .summary = "Lists the queues",
    .details = "With --quiet it prints only the names. With --json it prints an object per\n"
               "queue, with the keys of \"queue show\".",
    .run_on = run_list,
};

static void print_info(const struct sluice_queue_info *info)
{
    field_print(stdout, FIELD_WIDTH, "queue", "%s", info->name);
    field_print(stdout, FIELD_WIDTH, "id", "%s", info->id);
    field_print(stdout, FIELD_WIDTH, "state", "%s", info->paused ? "paused" : "active");
    for (size_t i = 0; i < info->settings_len; i++) {
        char text[TEXT_MAX];
        const char *key = info->settings[i].key;
        field_print(stdout, FIELD_WIDTH, key, "%s", readable(info, key, text));
    }
}

static int run_show(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    int status = 0;
    struct sluice_queue_info *info = NULL;
    struct sluice_error error = {0};
    if (sluice_queue_show(s, args->words[0], &info, &error) != SLUICE_OK) {
        status = cli_fail_queue(cli, s, args->words[0], &error);
    } else if (cli->json) {
        json_print(info_json(info), stdout);
    } else {
        print_info(info);
    }
    sluice_queue_info_free(info);
    return status;
}

const struct command command_queue_show = {
    .name = "queue show",
    .words = "NAME",
    .summary = "Shows the settings of a queue",
    .details = "JSON keys: queue, id, paused, settings. \"queue create --config\" accepts this\n"
               "output.",
    .run_on = run_show,
    .brief = true,
};
