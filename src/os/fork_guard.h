// SPDX-License-Identifier: Apache-2.0
// Returns without a system call whether this process created the guard. In a child of fork the
// kernel has wiped the guard's page (MADV_WIPEONFORK).
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct fork_guard {
    unsigned char *page; // NULL if the kernel cannot wipe: then process ids are compared
    pid_t pid;
};

void fork_guard_init(struct fork_guard *g);
void fork_guard_done(struct fork_guard *g);
bool fork_guard_same(const struct fork_guard *g); // false in a child of the creator
