// SPDX-License-Identifier: Apache-2.0
// Creates queues, and checks their settings.
#pragma once

#include "queues/queues.h"

enum sluice_code queue_check_config(struct engine *e, const char *name,
                                    const struct queue_config *c, struct sluice_error *error);
// The dead-letter queue of a queue. False: it has none, or it cannot be read.
bool queue_dead_letter_queue(struct engine *e, const char *name, char out[QUEUE_NAME_MAX + 1]);
// Creates the queue with the default settings if it does not exist. It begins with a version of the
// rules that is not newer than this one (0: any).
enum sluice_code queue_ensure(struct engine *e, const char *name, uint16_t rules,
                              struct sluice_error *error);
// The version of the rules that a new queue begins with: the newest one that this program and all
// members of the cluster know. In upgrade.c.
uint16_t rules_of_new_queue(struct engine *e);
// Only at the creation of a queue: the version of the rules that it begins with. It is no setting
// of the table, because it is no part of the configuration: `sluice upgrade` raises the version.
#define SETTING_RULES "rules"
enum sluice_code rules_read(const char *value, uint16_t *out, struct sluice_error *error);
// Deletes this life of the name, or completes its deletion. It does not check whether other queues
// use it as their dead-letter queue. In queue_change.c.
enum sluice_code queue_end(struct open_queue *q, struct sluice_error *error);
