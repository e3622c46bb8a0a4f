// SPDX-License-Identifier: Apache-2.0
// Signals on standard output: for people and as JSON.
#pragma once

#include "cli/cli.h"
#include "json/json.h"

struct json *signal_json(const char *queue, const struct sluice_signal_state *row);
// One line: the message, the state, and what says more; or an object.
void signal_print(const struct cli *cli, const char *queue, const struct sluice_signal_state *row);
// Only the answer, so that a script can use it. Another end is a remark on standard error.
void signal_print_answer(const struct cli *cli, const struct sluice_signal_state *row);
// A table, or an object for each. one: all rows are of one message, so its id is left out.
void signal_print_rows(const struct cli *cli, const char *queue, const struct sluice_signals *list,
                       bool one);
