// SPDX-License-Identifier: Apache-2.0
// The calls about the workflows of a queue. protocol/list.h, which includes them, explains the
// columns.
#pragma once

#define WORKFLOWS_SHOWN_MAX 10000 // rows in one answer

#define WORKFLOWS_FIELDS(F, S)                                                                     \
    F(S, SMALL, max, "max", 1, WORKFLOWS_SHOWN_MAX, 100, "How many rows the answer has at most.")

#define WORKFLOW_REQUEST_STRUCTS(S) S(workflows_in, WORKFLOWS_FIELDS)
#define WORKFLOW_REQUEST_TABLES(T)  T(workflows, workflows_in, WORKFLOWS_FIELDS)

#define WORKFLOW_ANSWER(A, S)                                                                      \
    A(S, CHARS, id, "id", OMIT_NEVER, NULL)                                                        \
    A(S, CHARS, state, "state", OMIT_NEVER, "open, completed or failed.")                          \
    A(S, COUNT, open, "open", OMIT_NEVER, "Messages that have not ended.")                         \
    A(S, COUNT, done, "done", OMIT_NEVER, "Messages that were processed.")                         \
    A(S, COUNT, failed, "failed", OMIT_NEVER, "Messages that are dead or were dead-lettered.")     \
    A(S, COUNT, cancelled, "cancelled", OMIT_NEVER, "Messages that were purged or cancelled.")     \
    A(S, SMALL, run, "run", OMIT_NEVER, "The number of the run, from 1.")                          \
    A(S, SMALL, shard, "shard", OMIT_NEVER, NULL)                                                  \
    A(S, NUMBER, begun, "begunAt", OMIT_NEVER, "When the run began.")                              \
    A(S, NUMBER, seen_at, "seenAt", OMIT_NEVER, "When a message was sent or ended.")               \
    A(S, FLAG, last, "last", OMIT_NEVER, "Whether the last message was sent.")

#define TASK_ANSWER(A, S)                                                                          \
    A(S, CHARS, id, "id", OMIT_NEVER, NULL)                                                        \
    A(S, CHARS, state, "state", OMIT_NEVER, "ready, delayed, locked, dead or outbound.")           \
    A(S, SMALL, attempt, "attempt", OMIT_NEVER, NULL)                                              \
    A(S, NUMBER, until, "until", OMIT_ZERO, "The deadline of its lock, or when it is due.")        \
    A(S, CHARS, worker, "worker", OMIT_EMPTY, NULL)                                                \
    A(S, PERCENT, percent, "progress", OMIT_ZERO, "The progress of a locked message, 0 to 100.")

#define WORKFLOW_ANSWER_TABLES(T)                                                                  \
    T(Workflow, workflow, sluice_workflow, WORKFLOW_ANSWER)                                        \
    T(Task, task, sluice_task, TASK_ANSWER)

#define WORKFLOW_CALLS(X)                                                                          \
    X(WORKFLOWS, workflows, ROUTE_READS, ROUTE_QUEUE "/workflows", .query = &workflows_fields,     \
      .tag = "workflows", .operation = "listWorkflows", .summary = "Lists the workflows",          \
      .answer = "Workflows", .about = "The one that was seen last first.")                         \
    X(WORKFLOW, workflow, ROUTE_READS, ROUTE_QUEUE "/workflows/{workflow}", .tag = "workflows",    \
      .operation = "showWorkflow",                                                                 \
      .summary = "Shows a workflow with its messages that have not ended",                         \
      .answer = "WorkflowShown", .about = "The workflow, and its messages by age.")
