// SPDX-License-Identifier: Apache-2.0
// What the load tests share: a node of their own on a directory of their own, with one queue; cases
// as TAP; the clock.
#pragma once

#include "node_process.h"

#include <sluice.h>

#define LOAD_QUEUE "load"

struct load {
    struct node_process node;
    const char *shards; // of the queue; NULL: one
    char dir[256];
    char store[270];
    int cases;
    int failed;
};

// Starts the node and makes the queue; a case says whether it worked.
bool load_start(struct load *l, const char *program);
// Stops the node, which is the last case, removes the directory, prints the plan. The exit status.
int load_end(struct load *l);
void load_case(struct load *l, const char *name, bool ok, const char *detail, ...)
    __attribute__((format(printf, 4, 5)));

int64_t load_now_ms(void);
void load_nap_ms(int64_t ms);
double load_average(void); // of the last minute
