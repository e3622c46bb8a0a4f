// SPDX-License-Identifier: Apache-2.0
// workflow list, show: the workflows of a queue, and one of them with its messages.
#include "cli/commands.h"
#include "cli/table.h"
#include "cli/text.h"
#include "os/clock.h"
#include "protocol/routes.h"
#include "json/json.h"

#include <stdlib.h>
#include <time.h>

#define ROWS_MAX 10000

enum { MAX };
static const struct cli_option list_options[] = {
    [MAX] = OPTION_OF(workflows, "max", "N", "how many at most, 100 if not given"),
};

static const char *age_text(int64_t at, char text[TEXT_MAX])
{
    int64_t age = clock_realtime_ms() - at;
    return duration_text(age > 0 ? age : 0, text);
}

static int run_list(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    static const char *const heads[] = {"WORKFLOW", "STATE",      ">OPEN", ">DONE",
                                        ">FAILED",  ">CANCELLED", ">RUN",  ">SEEN"};
    const char *queue = args->words[0];
    size_t max = args->options[MAX].given ? (size_t)args->options[MAX].number : 100, len = 0;
    struct sluice_error error = {0};
    struct sluice_workflow *rows = cli_alloc((max + 1) * sizeof *rows);
    if (sluice_workflows(s, queue, rows, max, &len, &error) != SLUICE_OK) {
        free(rows);
        return cli_fail_queue(cli, s, queue, &error);
    }
    struct table *t = table_new(heads, COUNT_OF(heads));
    for (size_t i = 0; i < len; i++) {
        char text[TEXT_MAX];
        if (cli->json) {
            struct json *o = json_new();
            json_text(o, "queue", queue);
            fields_put(o, &workflow_answer, &rows[i]);
            json_print(o, stdout);
            continue;
        }
        table_cell(t, rows[i].id);
        table_cell(t, rows[i].state);
        table_number(t, rows[i].open);
        table_number(t, rows[i].done);
        table_number(t, rows[i].failed);
        table_number(t, rows[i].cancelled);
        table_number(t, rows[i].run);
        table_cell(t, age_text(rows[i].seen_at, text));
    }
    if (!cli->json && len > 0) table_print(t, cli, stdout);
    if (!cli->json && len == 0) cli_say(cli, "queue %s has no workflows", queue);
    table_free(t);
    free(rows);
    return 0;
}

static void print_json(const char *queue, const struct sluice_workflow *w,
                       const struct sluice_task *tasks, size_t len)
{
    struct json *o = json_new(), *list = json_list_new();
    json_text(o, "queue", queue);
    fields_put(o, &workflow_answer, w);
    for (size_t i = 0; i < len; i++)
        json_list_take(list, fields_json(&task_answer, &tasks[i]));
    json_take(o, "tasks", list);
    json_print(o, stdout);
}

static void print_text(const struct cli *cli, const struct sluice_workflow *w,
                       const struct sluice_task *tasks, size_t len)
{
    static const char *const heads[] = {"MESSAGE", "STATE", ">ATTEMPT", "WORKER", ">PROGRESS"};
    char text[TEXT_MAX];
    print_line(stdout, "workflow:  %s", w->id);
    print_line(stdout, "state:     %s%s", w->state,
               w->last ? "" : ", the last message was not sent yet");
    printf("messages:  %llu open, %llu done, %llu failed, %llu cancelled\n",
           (unsigned long long)w->open, (unsigned long long)w->done, (unsigned long long)w->failed,
           (unsigned long long)w->cancelled);
    printf("run:       %u, begun %s ago\n", w->run, age_text(w->begun, text));
    if (len == 0) return;
    struct table *t = table_new(heads, COUNT_OF(heads));
    for (size_t i = 0; i < len; i++) {
        table_cell(t, tasks[i].id);
        table_cell(t, tasks[i].state);
        table_number(t, tasks[i].attempt);
        table_cell(t, *tasks[i].worker ? tasks[i].worker : "-");
        (void)snprintf(text, sizeof text, "%d %%", tasks[i].percent);
        table_cell(t, tasks[i].percent >= 0 ? text : "-");
    }
    table_print(t, cli, stdout);
    table_free(t);
}

static int run_show(const struct cli *cli, const struct arguments *args, struct sluice *s)
{
    const char *queue = args->words[0], *id = args->words[1];
    struct sluice_error error = {0};
    struct sluice_workflow w;
    size_t len = 0;
    struct sluice_task *tasks = cli_alloc(ROWS_MAX * sizeof *tasks);
    int status = 0;
    if (sluice_workflow_show(s, queue, id, &w, tasks, ROWS_MAX, &len, &error) != SLUICE_OK)
        status = cli_fail_queue(cli, s, queue, &error);
    else if (cli->json)
        print_json(queue, &w, tasks, len);
    else
        print_text(cli, &w, tasks, len);
    free(tasks);
    return status;
}

const struct command command_workflow_list = {
    .name = "workflow list",
    .words = "QUEUE",
    .summary = "Lists the workflows of a queue, the one that was seen last first",
    .details =
        "Ended workflows stay for the setting retention. JSON keys: queue, id, state, open,\n"
        "done, failed, cancelled, run, shard, begunAt, seenAt, last.",
    OPTIONS(list_options),
    .run_on = run_list,
    .brief = true,
};

const struct command command_workflow_show = {
    .name = "workflow show",
    .words = "QUEUE WORKFLOW",
    .summary = "Shows a workflow and its messages that have not ended or are dead",
    .details = "JSON keys: those of \"workflow list\", and tasks with id, state, attempt, until,\n"
               "worker, progress.",
    .run_on = run_show,
    .brief = true,
};
