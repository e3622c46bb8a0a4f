// SPDX-License-Identifier: Apache-2.0
// beanstalkd as a target of the benchmark: protocol 1.12 over TCP, one connection per client,
// pipelined batches. settings->place is the port. Also starts the server, with a sync for every
// write.
#pragma once

#include "cli/bench/load.h"

#include <sys/types.h>

extern const struct bench_target bench_beanstalk;

struct beanstalkd {
    pid_t pid;
    char port[8];
};

// Starts `beanstalkd -b dir -f 0` on a free port and waits until it answers. On false, problem says
// why.
bool beanstalkd_start(struct beanstalkd *b, const char *dir, char *problem);
void beanstalkd_stop(struct beanstalkd *b);
