// SPDX-License-Identifier: Apache-2.0
// Finds out whether a node of a list answers, with requests to /healthz, which carry no token.
#pragma once

#include "client/client.h"

// Asks the nodes that are away and due, in the background. Cheap.
void probe_away(struct node_client *r);

// An attempt at a node, while no byte of its answer has come.
struct probe_attempt {
    struct node_client *remote;
    size_t node;
    int64_t began; // clock_boot_ms
};
// For struct http_call: whether the node answers nothing at all. A call that takes long is not
// hopeless, as long as the node answers others.
bool probe_is_hopeless(void *attempt);
