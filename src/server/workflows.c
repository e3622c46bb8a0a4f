// SPDX-License-Identifier: Apache-2.0
// The workflows of a queue, and one of them with its messages.
#include "base/memory.h"
#include "server/inside.h"

#define TASKS_SHOWN_MAX 1000

void handle_workflows(struct exchange *x)
{
    struct workflows_in in = {0};
    struct sluice_error error;
    size_t len = 0;
    if (!read_request(x, &in)) return;
    struct sluice_workflow *rows = memory_zeroed(in.max + (size_t)1, sizeof *rows);
    enum sluice_code code =
        sluice_workflows(x->server->store, x->queue, rows, in.max, &len, &error);
    if (answer_unless(x, code, &error)) {
        struct json *o = json_new(), *list = json_list_new();
        for (size_t i = 0; i < len; i++)
            json_list_take(list, fields_json(&workflow_answer, &rows[i]));
        json_take(o, "workflows", list);
        answer_json(x, 200, o);
    }
    memory_free(rows);
}

void handle_workflow(struct exchange *x)
{
    struct sluice_error error;
    struct sluice_workflow row;
    size_t len = 0;
    if (!read_request(x, NULL)) return;
    struct sluice_task *tasks = memory_zeroed(TASKS_SHOWN_MAX, sizeof *tasks);
    enum sluice_code code = sluice_workflow_show(x->server->store, x->queue, x->workflow, &row,
                                                 tasks, TASKS_SHOWN_MAX, &len, &error);
    if (answer_unless(x, code, &error)) {
        struct json *o = fields_json(&workflow_answer, &row), *list = json_list_new();
        for (size_t i = 0; i < len; i++)
            json_list_take(list, fields_json(&task_answer, &tasks[i]));
        json_take(o, "tasks", list);
        answer_json(x, 200, o);
    }
    memory_free(tasks);
}
