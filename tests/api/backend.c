// SPDX-License-Identifier: Apache-2.0
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *backend;

static void start_node(struct rig *r, char *url, size_t len)
{
    struct server_config config = {.listen = "127.0.0.1:0"};
    FINE(sluice_open("mem:", NULL, &r->behind, &error));
    FINE(server_start(&config, r->behind, &r->node, &error));
    (void)snprintf(url, len, "http://%s", server_address(r->node));
}

void rig_open(struct rig *r)
{
    char url[200] = "mem:", prefix[S3_PREFIX_LEN];
    *r = (struct rig){0};
    s3_prefix(prefix);
    if (strcmp(backend, "http") == 0) start_node(r, url, sizeof url);
    if (strcmp(backend, "file") == 0) {
        scratch_make(r->dir);
        (void)snprintf(url, sizeof url, "%s", r->dir);
    }
    if (strcmp(backend, "redis") == 0) redis_url(url, sizeof url, prefix);
    if (strcmp(backend, "s3") == 0)
        (void)snprintf(url, sizeof url, "%s/%s", getenv("SLUICE_TEST_S3"), prefix);
    FINE(sluice_open(url, NULL, &r->s, &error));
}

void rig_close(struct rig *r)
{
    sluice_close(r->s);
    (void)server_stop(r->node, 5000);
    sluice_close(r->behind);
    if (*r->dir) scratch_remove(r->dir);
}
