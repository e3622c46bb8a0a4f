// SPDX-License-Identifier: Apache-2.0
// The stores that the integration tests run on, one after the other: in memory, and a directory. A
// handle is what a process of its own would have: in a directory each opens its own store.
#pragma once

#include "ledger.h"
#include "scratch.h"
#include "store/file/file.h"

struct place {
    const char *name; // "mem" or "file"
    struct scratch scratch;
    struct store *shared; // mem: the one store of all handles
    struct file_options files;
    struct ledger_options options;
};

struct handle {
    struct place *place;
    struct store *store; // file: its own
    struct ledger *ledger;
};

void place_open(struct place *p, const char *name); // fails the test when it cannot
void place_close(struct place *p);
void handle_open(struct handle *h, struct place *p);
void handle_close(struct handle *h);

// Adds 1 under a new request id.
enum err handle_add(struct handle *h, const char *name, int64_t *value);
int64_t handle_value(struct handle *h, const char *name); // 0 when it was never written
