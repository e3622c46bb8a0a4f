// SPDX-License-Identifier: Apache-2.0
// The defaults of a server's configuration.
#include "net/httpd_inside.h"

#define THREADS         2
#define CONNECTIONS_MAX 10000
#define BODY_MEMORY_MAX ((size_t)256 << 20)
#define HEAD_MAX        ((size_t)16 << 10)
#define IDLE_MS         60000
#define FIRST_HEAD_MS   10000
#define BODY_MS         60000

void httpd_set_defaults(struct httpd_config *c)
{
    if (c->threads == 0) c->threads = THREADS;
    if (c->connections_max == 0) c->connections_max = CONNECTIONS_MAX;
    if (c->body_memory_max == 0) c->body_memory_max = BODY_MEMORY_MAX;
    if (c->head_max == 0) c->head_max = HEAD_MAX;
    if (c->idle_ms == 0) c->idle_ms = IDLE_MS;
    if (c->first_head_ms == 0) c->first_head_ms = FIRST_HEAD_MS;
    if (c->first_head_ms > c->idle_ms) c->first_head_ms = c->idle_ms;
    if (c->body_ms == 0) c->body_ms = BODY_MS;
}
