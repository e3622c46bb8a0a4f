// SPDX-License-Identifier: Apache-2.0
// sluice_peek and sluice_show of a store that this process has opened, for somebody who has to keep
// many answers.
#pragma once

#include "local/async.h"

// room may be NULL. A peek that finds room for some of its messages brings those; one that finds
// none, and a show, answer UNAVAILABLE with the reason no-room.
enum sluice_code look_peek(struct sluice *s, const char *queue, const struct sluice_peek *options,
                           struct answer_budget *budget, struct sluice_batch **out,
                           struct sluice_error *error);
enum sluice_code look_show(struct sluice *s, const char *queue, const char *id,
                           struct answer_budget *budget, struct sluice_batch **out,
                           struct sluice_error *error);
