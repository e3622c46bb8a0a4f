// SPDX-License-Identifier: Apache-2.0
// Nodes as processes of their own: the test's program, started again as "<program> node DIR NAME".
#pragma once

#include "../unit/unit.h"

struct node {
    pid_t pid; // 0: not running
    char url[80];
};

int node_serve(const char *dir, const char *name);                  // for the program's main
void node_start(struct node *n, const char *dir, const char *name); // on a free port
void node_kill(struct node *n);                                     // with 9; none is fine
// Until it stands still: a signal is sent, not delivered.
void node_stop(const struct node *n);
// The number that follows `before` in what the node answers at the path.
int node_number(const struct node *n, const char *path, const char *before);
