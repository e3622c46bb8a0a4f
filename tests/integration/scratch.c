// SPDX-License-Identifier: Apache-2.0
// mkdtemp, and nftw to take it away again.
#define _GNU_SOURCE // nftw
#include "scratch.h"

#include "os/clock.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool scratch_make(struct scratch *s, const char *parent)
{
    const char *chosen = parent ? parent : getenv("TMPDIR");
    if (!chosen || !*chosen) chosen = "/tmp";
    int len = snprintf(s->path, sizeof s->path, "%s/sluice-XXXXXX", chosen);
    if (len > 0 && (size_t)len < sizeof s->path && mkdtemp(s->path)) return true;
    (void)fprintf(stderr, "cannot make a directory under %s: %s\n", chosen, strerror(errno));
    s->path[0] = 0;
    return false;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void scratch_remove(struct scratch *s)
{
    if (!s->path[0]) return;
    if (nftw(s->path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        (void)fprintf(stderr, "cannot remove %s: %s\n", s->path, strerror(errno));
    s->path[0] = 0;
}

bool eventually(bool (*answer)(void *ctx), void *ctx, int64_t wait_ms)
{
    int64_t end = clock_boot_ms() + wait_ms;
    while (!answer(ctx)) {
        if (clock_boot_ms() >= end) return false;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}
