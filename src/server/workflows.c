// SPDX-License-Identifier: Apache-2.0
// The workflows of a queue, and one of them with its messages.
#include "ops/ops.h"
#include "server/inside.h"

#define TASKS_SHOWN_MAX 1000

struct workflows_result {
    size_t len;
    struct sluice_workflow rows[];
};

static void answer_workflows(struct exchange *x, const struct async_answer *a)
{
    const struct workflows_result *r = x->result;
    if (!answer_unless(x, a->code, a->error)) return;
    struct json *o = json_new(), *list = json_list_new();
    for (size_t i = 0; i < r->len; i++)
        json_list_take(list, fields_json(&workflow_answer, &r->rows[i]));
    json_take(o, "workflows", list);
    answer_json(x, 200, o);
}

void handle_workflows(struct exchange *x)
{
    struct workflows_in in = {0};
    if (!read_request(x, &in)) return;
    struct workflows_result *r;
    struct request_origin as = act(x, sizeof *r + in.max * sizeof *r->rows, answer_workflows);
    r = x->result;
    (void)start_workflows(&as, x->queue, r->rows, in.max, &r->len, NULL);
}

struct workflow_result {
    struct sluice_workflow row;
    size_t len;
    struct sluice_task tasks[TASKS_SHOWN_MAX];
};

static void answer_workflow(struct exchange *x, const struct async_answer *a)
{
    const struct workflow_result *r = x->result;
    if (!answer_unless(x, a->code, a->error)) return;
    struct json *o = fields_json(&workflow_answer, &r->row), *list = json_list_new();
    for (size_t i = 0; i < r->len; i++)
        json_list_take(list, fields_json(&task_answer, &r->tasks[i]));
    json_take(o, "tasks", list);
    answer_json(x, 200, o);
}

void handle_workflow(struct exchange *x)
{
    if (!read_request(x, NULL)) return;
    struct request_origin as = act(x, sizeof(struct workflow_result), answer_workflow);
    struct workflow_result *r = x->result;
    (void)start_workflow_show(&as, x->queue, x->workflow, &r->row, r->tasks, TASKS_SHOWN_MAX,
                              &r->len, NULL);
}
