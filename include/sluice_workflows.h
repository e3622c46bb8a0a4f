// SPDX-License-Identifier: Apache-2.0
//
// The workflows of a queue. sluice.h includes this file.
#ifndef SLUICE_WORKFLOWS_H
#define SLUICE_WORKFLOWS_H

#include "sluice.h"

#ifdef __cplusplus
extern "C" {
#endif

// Messages with the same workflow id, counted since the queue has version 5 of the rules. A run
// begins with the first message. It ends when a message with workflow_last was sent and none is
// open.
struct sluice_workflow {
    char id[257];
    char state[16]; // "open", "completed" or "failed"
    uint64_t open;  // messages of this run
    uint64_t done;
    uint64_t failed;    // dead, or dead-lettered
    uint64_t cancelled; // purged or cancelled
    uint32_t run;       // from 1
    uint32_t shard;
    int64_t begun;
    int64_t seen_at; // when a message was sent or ended
    int last;        // not 0: the last message was sent
};

// The workflows that are kept, the one that was seen last first. Ended ones stay for the setting
// `retention`. out has room for max rows; *len were filled.
SLUICE_API enum sluice_code sluice_workflows(struct sluice *s, const char *queue,
                                             struct sluice_workflow *out, size_t max, size_t *len,
                                             struct sluice_error *error);

// A message of a workflow that has not ended, or is dead.
struct sluice_task {
    char id[SLUICE_ID_MAX];
    char state[16]; // "ready", "delayed", "locked", "dead" or "outbound"
    uint32_t attempt;
    int64_t until; // the deadline of its lock, or when it is due; 0: neither
    char worker[129];
    int percent; // locked: the progress that its worker reported; -1: none
};

// One workflow, with its messages by age. tasks has room for max rows; *len were filled.
// SLUICE_NOT_FOUND: the queue has no such workflow.
SLUICE_API enum sluice_code sluice_workflow_show(struct sluice *s, const char *queue,
                                                 const char *id, struct sluice_workflow *out,
                                                 struct sluice_task *tasks, size_t max, size_t *len,
                                                 struct sluice_error *error);

#ifdef __cplusplus
}
#endif

#endif
