// SPDX-License-Identifier: Apache-2.0
// Opens a store by its URL, and closes the handle.
#include "api/handed_out.h"
#include "api/place.h"
#include "api/workers.h"
#include "base/memory.h"
#include "local/mailbox_session.h"
#include "local/parallel.h"
#include "os/clock.h"
#include "os/thread.h"
#include "owner/link.h"
#include "owner/notices.h"
#include "owner/peer.h"
#include "owner/waiting.h"
#include "remote/remote.h"
#include "store/identity.h"
#include "store/meter.h"
#include "store/probe.h"
#include "store/s3/s3.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS       30000
#define TIMEOUT_MAX_MS   (INT64_C(24) * 3600 * 1000)
#define POOL_THREADS_MAX 256 // the bound for commits under way that no caller's thread performs

enum sluice_code sluice_open(const char *url, const struct sluice_options *options,
                             struct sluice **out, struct sluice_error *error)
{
    struct store *store = NULL;
    if (place_is(url, PLACE_NODE)) return remote_open(url, options, out, error);
    enum sluice_code code = place_open(url, &store, error);
    return code ? code : handle_open_take(store, url, options, out, error);
}

// Some S3 servers honour the condition of a create only in buckets without versioning. Versioning
// can be switched on after the store was probed, so a versioned bucket is probed again.
static enum err check_versioned(struct store *store, char *why, size_t why_len)
{
    struct s3_facts facts;
    struct store_answer a CLEANUP(store_answer_done);
    store_answer_init(&a);
    if (!store_is_s3(store) || store_s3_facts(store, &facts, &a) || !facts.versioned)
        return ERR_OK; // also if the credentials do not allow the question
    return store_probe_quickly(store, why, why_len);
}

static void direct_close(struct sluice *s)
{
    async_stop(s);
    mailbox_sessions_free(s);
    upkeep_stop(s);
    struct owner_cluster *cluster = atomic_load(&s->cluster);
    if (cluster) cluster->free(cluster);
    notices_free(s->notices);
    owner_heard_free(s->heard);
    joined_free(atomic_load(&s->joined));
    handed_out_free(s);
    queues_close(s);
    links_free(s->links);
    peers_free(s->peers);
    owner_self_free(atomic_load(&s->self));
    parallel_stop(s);
    thread_pool_free(s->pool);
    store_free(s->store);
    (void)pthread_cond_destroy(&s->let_go);
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
    struct sluice *s = NEW(struct sluice);
    s->calls = &direct_transport;
    s->store = store;
    s->identity = identity;
    memcpy(s->store_id, format.id, sizeof s->store_id);
    s->pool = thread_pool_new(POOL_THREADS_MAX);
    parallel_start(s);
    s->timeout_ms = options && options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_MS;
    if (s->timeout_ms > TIMEOUT_MAX_MS) s->timeout_ms = TIMEOUT_MAX_MS;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->let_go, NULL);
    s->peers = peers_new(s->pool);
    s->links = links_new(options, s->pool);
    if (async_start(s) || upkeep_start(s) || notices_new(s, &s->notices)) {
        direct_close(s);
        return refuse_thread(error, url);
    }
    *out = s;
    return SLUICE_OK;
}

#define CALL_DIRECT(result, public, name, params, args) .name = direct_##name,
const struct transport direct_transport = {.close = direct_close, TRANSPORT_CALLS(CALL_DIRECT)};
