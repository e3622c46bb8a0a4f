// SPDX-License-Identifier: Apache-2.0
// sluice_peek and sluice_show on a store that this process has opened, with a memory budget for the
// answer.
#pragma once

#include "local/async.h"

// budget may be NULL. A peek returns the messages that fit into the budget. If none fits, peek and
// show answer UNAVAILABLE with the reason no-room.
enum sluice_code peek_within(struct sluice *s, const char *queue, const struct sluice_peek *options,
                             struct answer_budget *budget, struct sluice_batch **out,
                             struct sluice_error *error);
enum sluice_code show_within(struct sluice *s, const char *queue, const char *id,
                             struct answer_budget *budget, struct sluice_batch **out,
                             struct sluice_error *error);
