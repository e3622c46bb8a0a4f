// SPDX-License-Identifier: Apache-2.0
// The calls that collect the outcomes of messages (protocol/collected.h).
#pragma once

#include "protocol/collected.h"

struct engine;
struct request_origin;
struct async_call;
// Asks the running messages of a poll. *out has the questions and the messages that were asked:
// give them to the poll. Messages that are not running are left out. It blocks.
enum sluice_code collect_ask(const struct request_origin *as, const char *queue,
                             const struct collect_poll *poll, struct collected_list *out,
                             struct sluice_error *error);
// The poll goes on with the questions of an earlier answer, which must stay as long as the poll.
void collect_go_on(struct collect_poll *poll, const struct collected_list *before);
// The answer has async_answer.collected, which `done` frees. async_cancel ends it early.
void async_collect(struct engine *e, const char *queue, const struct collect_poll *poll,
                   struct async_call *a);
