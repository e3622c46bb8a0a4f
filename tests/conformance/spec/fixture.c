// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"
#include "api/handle.h"

#include "queues/queues.h"
#include "store/mem.h"

#include <stdlib.h>

static const char *backend;
static bool owned, through_node;

void fixture_choose(const char *name, const char *way)
{
    backend = name;
    through_node = strcmp(way, "node") == 0 || fixture_is_memory();
    owned = through_node || strcmp(way, "owner") == 0;
}

bool fixture_is_memory(void)
{
    return strcmp(backend, "mem") == 0;
}

bool fixture_through_node(void)
{
    return through_node;
}

static void find_store(struct fixture *p)
{
    char prefix[S3_PREFIX_LEN];
    s3_prefix(prefix);
    if (strcmp(backend, "file") == 0) {
        scratch_make(p->dir);
        (void)snprintf(p->url, sizeof p->url, "%s", p->dir);
    }
    if (strcmp(backend, "redis") == 0) redis_url(p->url, sizeof p->url, prefix);
    if (strcmp(backend, "s3") == 0)
        (void)snprintf(p->url, sizeof p->url, "%s/%s", getenv("SLUICE_TEST_S3"), prefix);
}

static void start_node(struct fixture *p)
{
    struct server_config config = {.listen = "127.0.0.1:0", .node = "spec", .store = "spec"};
    if (*p->url)
        FINE(sluice_open(p->url, NULL, &p->store, &error));
    else
        FINE(handle_open_take(store_mem_new(), "spec", NULL, &p->store, &error));
    FINE(server_start(&config, p->store, &p->server, &error));
}

static struct sluice *handle_of(struct server *server)
{
    char url[URL_MAX];
    struct sluice *s;
    (void)snprintf(url, sizeof url, "http://%s", server_address(server));
    FINE(sluice_open(url, NULL, &s, &error));
    return s;
}

// A node opens the queue with the first call for it, and then owns it.
static void take_ownership(struct server *server)
{
    struct sluice *s = handle_of(server);
    struct sluice_batch *b = NULL;
    FINE(sluice_receive(s, QUEUE, NULL, &b, &error));
    sluice_batch_free(b);
    sluice_close(s);
}

struct fixture *fixture_open(bool owner, const struct sluice_setting *settings, size_t len)
{
    static struct fixture p;
    char url[URL_MAX + 16];
    p = (struct fixture){.url = ""};
    find_store(&p);
    if (owner || owned) start_node(&p);
    (void)snprintf(url, sizeof url, "%s", p.url);
    if (through_node) (void)snprintf(url, sizeof url, "http://%s", server_address(p.server));
    FINE(sluice_open(url, NULL, &p.mine, &error));
    FINE(sluice_open(url, NULL, &p.theirs, &error));
    FINE(sluice_queue_create(p.mine, QUEUE, NULL, 0, &error));
    if (len > 0) FINE(sluice_queue_set(p.mine, QUEUE, settings, len, &error));
    if (p.server) take_ownership(p.server);
    return &p;
}

void fixture_stop_node(struct fixture *p)
{
    assert_true(server_stop(p->server, PATIENCE_MS));
    p->server = NULL;
}

struct sluice *fixture_second_node(struct fixture *p)
{
    struct server_config config = {.listen = "127.0.0.1:0", .node = "second", .store = "spec"};
    if (fixture_is_memory()) // one process: the second node follows the first one
        FINE(server_start(&config, p->store, &p->other, &error));
    else {
        FINE(sluice_open(p->url, NULL, &p->other_store, &error));
        FINE(server_start(&config, p->other_store, &p->other, &error));
    }
    return handle_of(p->other);
}

void fixture_close(struct fixture *p)
{
    sluice_close(p->mine);
    sluice_close(p->theirs);
    if (p->other) assert_true(server_stop(p->other, PATIENCE_MS));
    if (p->server) fixture_stop_node(p);
    sluice_close(p->other_store);
    sluice_close(p->store);
    if (*p->dir) scratch_remove(p->dir);
}
