// SPDX-License-Identifier: Apache-2.0
// Opens a node by its URL. The token is never part of the URL, because URLs are printed and logged.
#include "client/client.h"

#include "base/memory.h"
#include "os/clock.h"
#include "os/parallel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS     30000
#define TIMEOUT_MAX_MS (INT64_C(24) * 3600 * 1000)
#define OPEN_MS        3000 // for a node that is being restarted; later calls wait longer
#define CONNECTIONS    4096 // each thread inside a call uses one

static bool is_secure(const struct node_client *r)
{
    return strncmp(r->nodes.all[0].url, "https://", 8) == 0;
}

// Checks the file first, because libcurl would report a connection error. Applies to https URLs
// only.
static enum sluice_code check_certificates(const struct node_client *r, const char *ca,
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

static enum sluice_code take_token(struct node_client *r, const struct sluice_options *options,
                                   struct sluice_error *error)
{
    const char *token = options && options->token ? options->token : getenv("SLUICE_TOKEN");
    if (!token || !*token) return SLUICE_OK;
    if (strlen(token) > CLIENT_TOKEN_MAX || !is_token(token))
        return refuse(error, ERR_INVALID, "token",
                      "the token has more than %d characters, or invalid characters",
                      CLIENT_TOKEN_MAX);
    (void)snprintf(r->authorization, sizeof r->authorization, "Authorization: Bearer %s", token);
    return SLUICE_OK;
}

void client_close(struct node_client *c)
{
    pool_share_free(c->parallel);
    thread_pool_free(c->pool);
    http_free(c->http);
    http_free(c->probe_http);
    nodes_done(&c->nodes);
    fork_guard_done(&c->guard);
    explicit_bzero(c->authorization, sizeof c->authorization);
    memory_free(c);
}

// Adds what the user can change in the URL or the environment.
static void add_hint(const struct node_client *r, const struct http_call *call,
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
static enum sluice_code check_reachable(struct node_client *r, const char *url,
                                        struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    int64_t until = clock_boot_ms() + OPEN_MS, latest = client_until(r);
    struct ask ask = {.call = ROUTE_HEALTHZ, .until = until < latest ? until : latest};
    http_call_init(&call, NULL, NULL);
    enum sluice_code code = client_ask(r, &ask, &call, NULL, error);
    if (code && error) add_hint(r, &call, error);
    if (!code && http_header(&call, PEER_HEADER).len == 0)
        code = refuse(error, ERR_INVALID, "store",
                      "%.200s is not a Sluice node; check the URL (a node listens on 7333 by "
                      "default)",
                      url);
    return code;
}

enum sluice_code client_open(const char *url, const struct sluice_options *options,
                             struct node_client **out, struct sluice_error *error)
{
    struct node_client *r = NEW(struct node_client);
    const char *ca = getenv("SLUICE_CA");
    struct http_config config = {.ca_file = ca && *ca ? ca : NULL, .connections_max = CONNECTIONS};
    r->timeout_ms = options && options->timeout_ms > 0 ? options->timeout_ms : TIMEOUT_MS;
    if (r->timeout_ms > TIMEOUT_MAX_MS) r->timeout_ms = TIMEOUT_MAX_MS;
    r->pool = thread_pool_new(1);
    r->parallel = parallel_share_new(r->pool);
    fork_guard_init(&r->guard);
    enum sluice_code code = nodes_init(&r->nodes, url, error);
    if (!code && config.ca_file) code = check_certificates(r, ca, error);
    if (!code) code = take_token(r, options, error);
    if (!code) r->http = http_new(&config);
    if (!code) r->probe_http = http_new(&config);
    if (!code) code = check_reachable(r, url, error);
    if (code)
        client_close(r);
    else
        *out = r;
    return code;
}
