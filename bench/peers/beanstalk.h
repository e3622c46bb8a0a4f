// SPDX-License-Identifier: Apache-2.0
// beanstalkd as a target of the benchmark: protocol 1.12 over TCP, one connection a client, batches
// pipelined. place is the port. And the server itself, started with a sync for every write.
#pragma once

#include "cli/bench_load.h"

#include <sys/types.h>

extern const struct bench_target bench_beanstalk;

struct beanstalkd {
    pid_t pid;
    char port[8];
};

// Starts `beanstalkd -b dir -f 0` on a free port and waits until it answers. False: problem says
// why.
bool beanstalkd_start(struct beanstalkd *b, const char *dir, char *problem);
void beanstalkd_stop(struct beanstalkd *b);
