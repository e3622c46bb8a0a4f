// SPDX-License-Identifier: Apache-2.0
// sluice_peek, sluice_find and sluice_show on a store that this process has opened, with a memory
// budget for the answer.
#pragma once

#include "local/async.h"

// Headers of an answer in the compact encoding: "messages=10; bytes=2048", and the id to continue
// after.
#define FOUND_READ_HEADER "Sluice-Read"
#define FOUND_NEXT_HEADER "Sluice-Next"

// budget and found may be NULL. A search without a filter is a peek. It returns the messages that
// fit into the budget. If none fits, find and show answer UNAVAILABLE with the reason no-room.
enum sluice_code find_within(struct sluice *s, const char *queue, const struct sluice_find *what,
                             struct answer_budget *budget, struct sluice_batch **out,
                             struct sluice_found *found, struct sluice_error *error);
enum sluice_code show_within(struct sluice *s, const char *queue, const char *id,
                             struct answer_budget *budget, struct sluice_batch **out,
                             struct sluice_error *error);
