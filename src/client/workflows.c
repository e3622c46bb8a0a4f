// SPDX-License-Identifier: Apache-2.0
// The workflows of a queue, from a node.
#include "client/client.h"

static size_t take_rows(struct json *o, const char *name, const struct fields *table, void *out,
                        size_t size, size_t max)
{
    struct json *rows = json_member(o, name);
    bool is_list = rows && json_kind(rows) == JSON_KIND_LIST;
    size_t len = 0;
    for (size_t i = 0; is_list && i < json_list_len(rows) && len < max; i++) {
        struct json *row = json_list_at(rows, i);
        if (json_kind(row) == JSON_KIND_OBJECT) fields_take(row, table, (char *)out + len++ * size);
    }
    return len;
}

enum sluice_code client_workflows(struct node_client *s, const char *queue,
                                  struct sluice_workflow *out, size_t max, size_t *len,
                                  struct sluice_error *error)
{
    enum sluice_code code;
    struct workflows_in in = {.max =
                                  max < WORKFLOWS_SHOWN_MAX ? (uint32_t)max : WORKFLOWS_SHOWN_MAX};
    struct ask ask = {.call = ROUTE_WORKFLOWS, .queue = queue, .in = &in};
    struct json *o = client_ask_json(s, &ask, &code, error);
    for (size_t i = 0; i < max; i++)
        out[i] = (struct sluice_workflow){0};
    *len = o ? take_rows(o, "workflows", &workflow_answer, out, sizeof *out, max) : 0;
    json_free(o);
    return code;
}

enum sluice_code client_workflow_show(struct node_client *s, const char *queue, const char *id,
                                      struct sluice_workflow *out, struct sluice_task *tasks,
                                      size_t max, size_t *len, struct sluice_error *error)
{
    enum sluice_code code;
    struct ask ask = {.call = ROUTE_WORKFLOW, .queue = queue, .id = id};
    struct json *o = client_ask_json(s, &ask, &code, error);
    *out = (struct sluice_workflow){0};
    for (size_t i = 0; i < max; i++)
        tasks[i] = (struct sluice_task){.percent = -1};
    if (o) fields_take(o, &workflow_answer, out);
    *len = o ? take_rows(o, "tasks", &task_answer, tasks, sizeof *tasks, max) : 0;
    json_free(o);
    return code;
}
