// SPDX-License-Identifier: Apache-2.0
// The list of signals, also of a workflow or a worker.
#pragma once

#include "ops/async.h"
#include "protocol/call_arguments.h"

enum sluice_code signals_list(const struct request_origin *as, const char *queue,
                              const struct signals_query *want, struct sluice_signals **out,
                              struct sluice_error *error);
