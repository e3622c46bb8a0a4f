// SPDX-License-Identifier: Apache-2.0
// Tells whether this process is the one that made the guard, without a system call: a child of fork
// sees its page wiped (MADV_WIPEONFORK).
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct fork_guard {
    unsigned char *page; // NULL where the kernel cannot wipe: compare process ids instead
    pid_t pid;
};

void fork_guard_init(struct fork_guard *g);
void fork_guard_done(struct fork_guard *g);
bool fork_guard_same(const struct fork_guard *g); // false in a child of the maker
