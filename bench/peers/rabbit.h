// SPDX-License-Identifier: Apache-2.0
// RabbitMQ as a target of the benchmark: a quorum queue, publisher confirms, manual acks, two
// connections a client. place is the port. And the server itself, a node of its own that knows no
// other.
#pragma once

#include "cli/bench_load.h"

#include <sys/types.h>

extern const struct bench_target bench_rabbit;

struct rabbitd {
    pid_t pid;
    pid_t names; // epmd, which Erlang's nodes find each other with
    char port[8];
};

// Starts it in that directory, on free ports of loopback, and waits until it lets us in. False:
// problem says why.
bool rabbitd_start(struct rabbitd *r, const char *dir, char *problem);
void rabbitd_stop(struct rabbitd *r);
