// SPDX-License-Identifier: Apache-2.0
// Opens a node by its URL. The token is never part of the URL, because URLs are printed and logged.
#include "remote/remote.h"

#include "api/handed_out.h"
#include "api/workers.h"
#include "base/memory.h"
#include "local/parallel.h"
#include "local/transport.h"
#include "net/http_plain.h"
#include "os/clock.h"
#include "owner/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS     30000
#define TIMEOUT_MAX_MS (INT64_C(24) * 3600 * 1000)
#define OPEN_MS        3000 // for a node that is being restarted; later calls wait longer
#define CONNECTIONS    4096 // each thread inside a call uses one

static bool is_secure(const struct remote *r)
{
    return strncmp(r->nodes.all[0].url, "https://", 8) == 0;
}

// Checks the file first, because libcurl would report a connection error. Applies to https URLs
// only.
static enum sluice_code check_certificates(const struct remote *r, const char *ca,
                                           struct sluice_error *error)
{
    if (!is_secure(r) || access(ca, R_OK) == 0) return SLUICE_OK;
    return refuse(error, ERR_INVALID, "SLUICE_CA", "SLUICE_CA: cannot read %.200s: %s", ca,
                  strerror(errno));
}

static bool is_token(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~') return false;
    return true;
}

static enum sluice_code take_token(struct remote *r, const struct sluice_options *options,
                                   struct sluice_error *error)
{
    const char *token = options && options->token ? options->token : getenv("SLUICE_TOKEN");
    if (!token || !*token) return SLUICE_OK;
    if (strlen(token) > REMOTE_TOKEN_MAX || !is_token(token))
        return refuse(error, ERR_INVALID, "token",
                      "the token has more than %d characters, or invalid characters",
                      REMOTE_TOKEN_MAX);
    (void)snprintf(r->authorization, sizeof r->authorization, "Authorization: Bearer %s", token);
    return SLUICE_OK;
}

static void remote_close(struct sluice *s)
{
    struct remote *r = remote_of(s);
    parallel_stop(s);
    thread_pool_free(s->pool);
    http_free(r->http);
    joined_free(atomic_load(&s->joined));
    handed_out_free(s);
    (void)pthread_mutex_destroy(&s->lock);
    nodes_done(&r->nodes);
    fork_guard_done(&r->guard);
    explicit_bzero(r->authorization, sizeof r->authorization);
    memory_free(r);
}

// Adds what the user can change in the URL or the environment.
static void add_hint(const struct remote *r, const struct http_call *call,
                     struct sluice_error *error)
{
    bool secure = is_secure(r);
    const char *hint = NULL;
    if (call->untrusted) hint = "; SLUICE_CA names a file of certificates to trust";
    if (!secure && call->end == HTTP_LOST)
        hint = "; if the node uses TLS, use https:// (a node listens on 7333 by default)";
    size_t len = strlen(error->message);
    if (hint) (void)snprintf(error->message + len, sizeof error->message - len, "%s", hint);
}

// Fails when the handle is opened, not at the first call, if no node can be reached.
static enum sluice_code check_reachable(struct remote *r, const char *url,
                                        struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    int64_t until = clock_boot_ms() + OPEN_MS, latest = remote_until(r);
    struct ask ask = {.call = CALL_HEALTHZ, .until = until < latest ? until : latest};
    http_call_init(&call, NULL, NULL);
    enum sluice_code code = remote_ask(r, &ask, &call, NULL, error);
    if (code && error) add_hint(r, &call, error);
    if (!code && http_header(&call, PEER_HEADER).len == 0)
        code = refuse(error, ERR_INVALID, "store",
                      "%.200s is not a Sluice node; check the URL (a node listens on 7333 by "
                      "default)",
                      url);
    return code;
}

enum sluice_code remote_open(const char *url, const struct sluice_options *options,
                             struct sluice **out, struct sluice_error *error)
{
    struct remote *r = NEW(struct remote);
    const char *ca = getenv("SLUICE_CA");
    struct http_config config = {.ca_file = ca && *ca ? ca : NULL, .connections_max = CONNECTIONS};
    r->handle.calls = &remote_transport;
    (void)pthread_mutex_init(&r->handle.lock, NULL); // of the workers that join
    r->handle.timeout_ms = options && options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_MS;
    if (r->handle.timeout_ms > TIMEOUT_MAX_MS) r->handle.timeout_ms = TIMEOUT_MAX_MS;
    r->handle.pool = thread_pool_new(1);
    parallel_start(&r->handle);
    fork_guard_init(&r->guard);
    enum sluice_code code = nodes_init(&r->nodes, url, error);
    if (!code && config.ca_file) code = check_certificates(r, ca, error);
    if (!code) code = take_token(r, options, error);
    if (!code) r->http = http_new(&config);
    if (!code) code = check_reachable(r, url, error);
    if (code)
        remote_close(&r->handle);
    else
        *out = &r->handle;
    return code;
}

#define CALL_REMOTE(result, public, name, params, args) .name = remote_##name,
const struct transport remote_transport = {.close = remote_close, TRANSPORT_CALLS(CALL_REMOTE)};
