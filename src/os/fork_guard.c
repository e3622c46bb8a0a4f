// SPDX-License-Identifier: Apache-2.0
// One private page that holds a 1 in the creator and a 0 in every child.
#include "os/fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#define GUARD_LEN 4096

void fork_guard_init(struct fork_guard *g)
{
    g->pid = getpid();
    g->page = mmap(NULL, GUARD_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g->page == MAP_FAILED) {
        g->page = NULL;
        return;
    }
    if (madvise(g->page, GUARD_LEN, MADV_WIPEONFORK) != 0) {
        (void)munmap(g->page, GUARD_LEN);
        g->page = NULL;
        return;
    }
    *g->page = 1;
}

void fork_guard_done(struct fork_guard *g)
{
    if (g->page) (void)munmap(g->page, GUARD_LEN);
    g->page = NULL;
}

bool fork_guard_same(const struct fork_guard *g)
{
    return g->page ? *g->page == 1 : g->pid == getpid();
}
