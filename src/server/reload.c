// SPDX-License-Identifier: Apache-2.0
// The settings that may change while the node runs: tokens, rate limit, log, flags, certificate.
#include "net/tls.h"
#include "queues/owner.h"
#include "server/hub.h"
#include "server/inside.h"

#include <unistd.h>

static void adopt(struct server *s, const struct server_config *c)
{
    limiter_set(s->limiter, c->requests_per_second);
    atomic_store(&s->log.level, c->log_level);
    atomic_store(&s->log.format, c->log_format);
    atomic_store(&s->log_requests, c->access_log);
    for (int i = 0; i < CAPABILITY_COUNT; i++) {
        bool fixed = i == CAPABILITY_PLACEMENT || i == CAPABILITY_BUS;
        atomic_store(&s->flags[i], fixed ? s->config.flags[i] : c->flags[i]);
    }
    engine_dispatch(s->engine, c->flags[CAPABILITY_DISPATCH]);
}

enum sluice_code live_settings_start(struct server *s, struct sluice_error *error)
{
    const struct server_config *c = &s->config;
    char why[512] = "";
    (void)pthread_rwlock_init(&s->tokens_lock, NULL);
    (void)pthread_mutex_init(&s->queues_shown.lock, NULL);
    s->tokens = c->tokens;
    s->limiter = limiter_new();
    s->log.fd = STDERR_FILENO;
    adopt(s, c);
    if (!c->cert_file) return SLUICE_OK;
    s->tls = tls_new(c->cert_file, c->key_file, c->client_ca_file, why, sizeof why);
    if (s->tls) return SLUICE_OK;
    *error = error_of(SLUICE_INVALID, "", "tls", "%s", why);
    return SLUICE_INVALID;
}

void live_settings_end(struct server *s)
{
    tls_free(s->tls);
    tokens_free(s->tokens);
    limiter_free(s->limiter);
    bytes_free(s->queues_shown.text);
    (void)pthread_mutex_destroy(&s->queues_shown.lock);
    (void)pthread_rwlock_destroy(&s->tokens_lock);
}

enum sluice_code server_reload(struct server *s, const struct server_config *config,
                               struct sluice_error *error)
{
    char why[512] = "";
    struct sluice_error own;
    struct sluice_error *e = error ? error : &own;
    struct tokens *old = config->tokens;
    bool both_ways = (s->tls != NULL) == (config->cert_file != NULL);
    // A file that is just being written may have no tokens either. And the check of the listen
    // address at the start relied on the node's tokens.
    if (auth_asks_tokens(s) && !config->tokens) {
        *e = error_of(SLUICE_DENIED, "", "tokens",
                      "a reload cannot remove the tokens; restart the node");
    } else if (!both_ways) {
        *e = error_of(SLUICE_INVALID, "", "tls",
                      "a reload cannot turn TLS on or off; restart the node");
    } else if (s->tls &&
               !tls_reload(s->tls, config->cert_file, config->key_file, why, sizeof why)) {
        *e = error_of(SLUICE_INVALID, "", "tls", "%s", why);
    } else {
        *e = (struct sluice_error){.code = SLUICE_OK};
        (void)pthread_rwlock_wrlock(&s->tokens_lock);
        old = s->tokens;
        s->tokens = config->tokens;
        (void)pthread_rwlock_unlock(&s->tokens_lock);
        atomic_fetch_add(&s->token_changes, 1);
        hub_tokens_changed(s->hub);
        owner_needs_token(s->engine, s->tokens != NULL);
        adopt(s, config);
    }
    tokens_free(old);
    return e->code;
}

enum sluice_code server_try_tls(const struct server_config *c, struct sluice_error *error)
{
    char why[512] = "";
    if (!c->cert_file) return SLUICE_OK;
    struct tls *trial = tls_new(c->cert_file, c->key_file, c->client_ca_file, why, sizeof why);
    tls_free(trial);
    if (trial) return SLUICE_OK;
    *error = error_of(SLUICE_INVALID, "", "tls", "%s", why);
    return SLUICE_INVALID;
}

void server_drain(struct server *s)
{
    atomic_store(&s->draining, true);
}

struct log *server_log(struct server *s)
{
    return &s->log;
}

int64_t server_alive_ms(const struct server *s)
{
    return httpd_looked_ms(s->httpd);
}
