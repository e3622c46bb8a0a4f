// SPDX-License-Identifier: Apache-2.0
// The directory is on a disk where there is one: /var/tmp, not /tmp.
#define _GNU_SOURCE // nftw, getloadavg
#include "load.h"

#include <errno.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int64_t load_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void load_nap_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

double load_average(void)
{
    double average = 0;
    return getloadavg(&average, 1) == 1 ? average : 0;
}

void load_case(struct load *l, const char *name, bool ok, const char *detail, ...)
{
    l->cases++;
    l->failed += !ok;
    printf("%sok %d - %s\n", ok ? "" : "not ", l->cases, name);
    if (ok) return;
    va_list list;
    va_start(list, detail);
    printf("# ");
    (void)vprintf(detail, list);
    printf("\n");
    va_end(list);
}

bool load_start(struct load *l, const char *program)
{
    const char *base = getenv("TMPDIR");
    struct sluice *node = NULL;
    struct sluice_error error = {.message = ""};
    struct sluice_setting shards = {"shards", l->shards};
    (void)snprintf(l->dir, sizeof l->dir, "%s/sluice-load-XXXXXX", base ? base : "/var/tmp");
    bool ok = mkdtemp(l->dir) != NULL;
    if (!ok) l->dir[0] = '\0';
    (void)snprintf(l->store, sizeof l->store, "%s/store", l->dir);
    l->node.program = program;
    l->node.store = l->store;
    ok = ok && node_process_start(&l->node) &&
         sluice_open(l->node.url, NULL, &node, &error) == SLUICE_OK &&
         sluice_queue_create(node, LOAD_QUEUE, &shards, l->shards ? 1 : 0, &error) == SLUICE_OK;
    sluice_close(node);
    load_case(l, "the node can be had", ok, "%s%s", l->node.problem, error.message);
    return ok;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *ftw)
{
    (void)s, (void)kind, (void)ftw;
    return remove(path);
}

int load_end(struct load *l)
{
    bool ran = l->node.pid > 0;
    if (ran) load_case(l, "the node stops when it is told to", node_process_stop(&l->node), " ");
    if (l->dir[0]) (void)nftw(l->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    printf("1..%d\n", l->cases);
    return l->failed > 0;
}
