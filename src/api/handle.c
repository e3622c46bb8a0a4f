// SPDX-License-Identifier: Apache-2.0
// Opens a store by its URL, and closes the handle.
#include "api/handle.h"
#include "client/client.h"

#include "api/place.h"
#include "api/signals_seen.h"
#include "api/workers.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/thread.h"
#include "peer/link.h"
#include "store/identity.h"
#include "store/meter.h"
#include "store/probe.h"
#include "store/s3/s3.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS     30000
#define TIMEOUT_MAX_MS (INT64_C(24) * 3600 * 1000)

static int64_t timeout_of(const struct sluice_options *options)
{
    int64_t ms = options && options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_MS;
    return ms < TIMEOUT_MAX_MS ? ms : TIMEOUT_MAX_MS;
}

// Some S3 servers honour the condition of a create only in buckets without versioning. Versioning
// can be switched on after the store was probed, so a versioned bucket is probed again.
static enum err check_versioned(struct store *store, char *why, size_t why_len)
{
    struct s3_facts facts;
    LOCAL(store_answer, a);
    if (!store_is_s3(store) || store_s3_facts(store, &facts, &a) || !facts.versioned)
        return ERR_OK; // also if the credentials do not allow the question
    return store_probe_quickly(store, why, why_len);
}

struct pool_share *handle_parallel(const struct sluice *s)
{
    return s->engine ? s->engine->parallel : s->client->parallel;
}

static struct sluice *handle_new(void)
{
    struct sluice *s = NEW(struct sluice);
    (void)pthread_mutex_init(&s->lock, NULL);
    return s;
}

void sluice_close(struct sluice *s)
{
    if (!s) return;
    if (s->engine) ops_stop(s->engine);
    if (s->client) client_close(s->client);
    registered_free(atomic_load(&s->registered));
    signals_seen_free(s);
    if (s->engine) engine_free(s->engine);
    (void)pthread_mutex_destroy(&s->lock);
    memory_free(s);
}

static enum sluice_code refuse_thread(struct sluice_error *error, const char *url)
{
    enum sluice_code code = refuse(error, ERR_UNAVAILABLE, "", "%s: %s", url, THREAD_REFUSED);
    if (error) (void)snprintf(error->reason, sizeof error->reason, "no-thread");
    return code;
}

enum sluice_code handle_open_take(struct store *store, const char *url,
                                  const struct sluice_options *options, struct sluice **out,
                                  struct sluice_error *error)
{
    if (options && options->deadline_ms > 0)
        store_set_until(store, clock_boot_ms() + options->deadline_ms);
    struct store *inner = store, *identity = store_identity_take(store, 0);
    int64_t began = clock_boot_ms();
    store = store_meter_take(identity);
    struct store_format format;
    char why[STORE_WHY_MAX] = "";
    enum err err = store_check(store, &format, why, sizeof why);
    if (!err) err = check_versioned(inner, why, sizeof why);
    if (err) {
        store_free(store);
        return refuse(error, err, "store", "%s: %s", url, why[0] ? why : err_text(err));
    }
    store_identity_expect(identity, format.id, began);
    struct peer_config peers = {.token = options ? options->token : NULL,
                                .off = options && options->direct};
    struct engine_config config = {.identity = identity,
                                   .store_id = format.id,
                                   .timeout_ms = timeout_of(options),
                                   .peers = &peers};
    struct sluice *s = handle_new();
    s->engine = engine_new_take(store, &config);
    if (ops_start(s->engine)) {
        sluice_close(s);
        return refuse_thread(error, url);
    }
    *out = s;
    return SLUICE_OK;
}

static bool find_worker(void *ctx, const char *queue, const char *worker,
                        char name[WORKER_NAME_MAX + 1], uint64_t *instance)
{
    return registered_name(ctx, queue, worker, name, instance);
}

static enum sluice_code open_node(const char *url, const struct sluice_options *options,
                                  struct sluice **out, struct sluice_error *error)
{
    struct node_client *client = NULL;
    enum sluice_code code = client_open(url, options, &client, error);
    if (code) return code;
    *out = handle_new();
    client->worker_ctx = *out;
    client->worker = find_worker;
    (*out)->client = client;
    return SLUICE_OK;
}

enum sluice_code sluice_open(const char *url, const struct sluice_options *options,
                             struct sluice **out, struct sluice_error *error)
{
    struct store *store = NULL;
    if (place_is(url, PLACE_NODE)) return open_node(url, options, out, error);
    enum sluice_code code = place_open(url, &store, error);
    return code ? code : handle_open_take(store, url, options, out, error);
}
