// SPDX-License-Identifier: Apache-2.0
// Sluice as a target of the benchmark, through the public header. settings->place is a store's URL.
#pragma once

#include "cli/bench/load.h"

extern const struct bench_target bench_sluice;
// The same, but the acks of a receive go with the next receive.
extern const struct bench_target bench_sluice_joined;
