// SPDX-License-Identifier: Apache-2.0
// RabbitMQ as a target of the benchmark: a quorum queue, publisher confirms, manual acks, two
// connections per client. settings->place is the port. Also starts the server, as a node without a
// cluster.
#pragma once

#include "cli/bench/load.h"

#include <sys/types.h>

extern const struct bench_target bench_rabbit;

struct rabbitd {
    pid_t pid;
    pid_t names; // epmd, the name service of Erlang nodes
    char port[8];
};

// Starts the server in that directory, on free ports of loopback, and waits until it accepts a
// login. On false, problem says why.
bool rabbitd_start(struct rabbitd *r, const char *dir, char *problem);
void rabbitd_stop(struct rabbitd *r);
