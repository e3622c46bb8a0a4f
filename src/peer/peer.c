// SPDX-License-Identifier: Apache-2.0
// Challenges to nodes, the memory of their results, and the hosts that may get a token.
#include "peer/peer.h"
#include "os/lock.h"
#include "protocol/owner_map.h"

#include "base/authority.h"
#include "base/memory.h"
#include "base/text.h"
#include "net/digest.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/thread_pool.h"

#include <arpa/inet.h>
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define URL_MAX    (JOURNAL_ADDRESS_MAX + CHALLENGE_PATH)
#define ANSWER_MAX ((size_t)64 << 10)
#define NONCE_LEN  16
#define NONCE_MIN  32
#define HOST_MAX   256
#define PROBES_MAX 4

struct http *peer_http(void)
{
    const char *ca = getenv("SLUICE_CA");
    struct http_config config = {.ca_file = ca && *ca ? ca : NULL, .connect_ms = PEER_ASK_MS};
    return http_new(&config);
}

bool peer_nonce_ok(const char *text)
{
    size_t len = strlen(text);
    return len >= NONCE_MIN && len < CHALLENGE_NONCE && strspn(text, "0123456789abcdef") == len;
}

void peer_key(const char *secret, char out[PEER_KEY_MAX])
{
    uint8_t hash[SHA256_LEN];
    sha256(bytes_str(secret), hash);
    hex_print(bytes_of(hash, (PEER_KEY_MAX - 1) / 2), out);
}

void peer_identity_add(struct peer_identity *p, const char *secret)
{
    for (size_t i = 0; i < p->secrets_len; i++)
        if (strcmp(p->secrets[i], secret) == 0) return;
    if (p->secrets_len == PEER_KEYS_MAX) return;
    (void)snprintf(p->secrets[p->secrets_len++], JOURNAL_ADDRESS_MAX, "%s", secret);
}

void peer_identity_of(const struct owner_name *name, struct peer_identity *out)
{
    *out = (struct peer_identity){.secrets_len = 0};
    memcpy(out->url, name->url, sizeof out->url);
    memcpy(out->node, name->node, sizeof out->node);
    peer_identity_add(out, name->incarnation);
}

struct proof {
    const char *what; // which end proves
    const char *url, *node;
    const char *nonce;  // of the caller
    const char *answer; // the nonce of the node; "": none
};

static void prove(const struct proof *p, const char *secret, char out[PEER_PROOF_MAX])
{
    static_assert(PEER_PROOF_MAX == 2 * SHA256_LEN + 1, "as hex digits");
    uint8_t mac[SHA256_LEN];
    char text[2 * JOURNAL_ADDRESS_MAX + CHALLENGE_NONCE + PEER_NONCE_MAX + 32];
    (void)snprintf(text, sizeof text, "sluice %s 2\n%s\n%s\n%s\n%s\n", p->what, p->url, p->node,
                   p->nonce, p->answer);
    sha256_hmac(bytes_str(secret), bytes_str(text), mac);
    hex_print(bytes_of(mac, sizeof mac), out);
}

static void nonce_make(char out[PEER_NONCE_MAX])
{
    uint8_t bytes[NONCE_LEN];
    static_assert(PEER_NONCE_MAX == 2 * NONCE_LEN + 1, "as hex digits");
    entropy_fill(bytes, sizeof bytes);
    hex_print(bytes_of(bytes, sizeof bytes), out);
}

void peer_prove(const struct owner_name *self, const char *secret, const char *nonce,
                struct peer_answer *out)
{
    struct proof p = {"node", self->url, self->node, nonce, ""};
    peer_key(secret, out->key);
    prove(&p, secret, out->proof);
    nonce_make(out->nonce);
    p.what = "caller";
    p.answer = out->nonce;
    prove(&p, secret, out->expects);
}

static void challenge_make(const void *ctx, char nonce[CHALLENGE_NONCE], char path[CHALLENGE_PATH])
{
    const struct peer_identity *to = ctx;
    static_assert(CHALLENGE_PATH > CHALLENGE_NONCE + 32 + PEER_KEYS_MAX * PEER_KEY_MAX, "it fits");
    nonce_make(nonce);
    int len = snprintf(path, CHALLENGE_PATH, "/healthz?nonce=%s", nonce);
    for (size_t i = 0; i < to->secrets_len; i++) {
        char key[PEER_KEY_MAX];
        peer_key(to->secrets[i], key);
        len +=
            snprintf(path + len, CHALLENGE_PATH - (size_t)len, "%s%s", i > 0 ? "," : "&key=", key);
    }
}

static const char *secret_of(const struct peer_identity *to, struct bytes key)
{
    for (size_t i = 0; i < to->secrets_len; i++) {
        char known[PEER_KEY_MAX];
        peer_key(to->secrets[i], known);
        if (bytes_equal(key, bytes_str(known))) return to->secrets[i];
    }
    return NULL;
}

static bool is_proof(struct bytes text, const char expected[PEER_PROOF_MAX])
{
    return text.len == PEER_PROOF_MAX - 1 && digest_equal(text.data, expected, text.len);
}

static bool challenge_is_met(const void *ctx, const char *nonce, const struct http_call *answer,
                             char line[CHALLENGE_LINE])
{
    const struct peer_identity *to = ctx;
    const char *secret = secret_of(to, http_header(answer, PEER_KEY));
    struct proof p = {"node", to->url, to->node, nonce, ""};
    char proof[PEER_PROOF_MAX], own_nonce[PEER_NONCE_MAX];
    struct bytes theirs = http_header(answer, PEER_NONCE);
    if (answer->status != 200 || !secret || theirs.len != PEER_NONCE_MAX - 1) return false;
    prove(&p, secret, proof);
    if (!is_proof(http_header(answer, PEER_PROOF), proof)) return false;
    (void)snprintf(own_nonce, sizeof own_nonce, "%.*s", (int)theirs.len, (const char *)theirs.data);
    p.what = "caller";
    p.answer = own_nonce;
    prove(&p, secret, proof);
    (void)snprintf(line, CHALLENGE_LINE, "%s: %s", PEER_FORWARDED, proof);
    return true;
}

struct peer_challenge peer_challenge_of(const struct peer_identity *p)
{
    return (struct peer_challenge){.ask = challenge_make, .shown = challenge_is_met, .ctx = p};
}

enum peer peer_ask(struct http *http, const struct owner_name *name, int64_t wait_ms)
{
    char nonce[CHALLENGE_NONCE], path[CHALLENGE_PATH], url[URL_MAX], line[CHALLENGE_LINE];
    struct peer_identity to;
    peer_identity_of(name, &to);
    challenge_make(&to, nonce, path);
    (void)snprintf(url, sizeof url, "%s%s", name->url, path);
    LOCAL(http_call, call, "GET", url);
    call.timeout_ms = wait_ms;
    call.body_max = ANSWER_MAX;
    http_do(http, &call);
    if (call.end != HTTP_ANSWERED) return PEER_AWAY;
    return challenge_is_met(&to, nonce, &call, line) ? PEER_PROVEN : PEER_DECLINES;
}

struct known_peer {
    struct known_peer *next;
    struct owner_name name;
    char key[PEER_KEY_MAX];
    int64_t seen_ms;       // when a journal named it last
    bool asking;           // a thread sends a challenge
    uint64_t answers;      // challenges that have ended
    enum peer last;        // the result of the last one ...
    int64_t answered_at;   // ... and when it came
    bool probing;          // a job of the pool sends a challenge
    int64_t probe_at;      // clock_boot_ms; 0: it is not away
    int64_t doubted_until; // in case no thread finds out
};

struct peers {
    struct http *http;
    struct pool_share *share; // for probes
    pthread_mutex_t lock;
    pthread_cond_t answered;
    struct known_peer *all;
};

struct peers *peers_new(struct thread_pool *pool)
{
    struct peers *p = NEW(struct peers);
    p->http = peer_http();
    p->share = pool_share_new(pool, PROBES_MAX, PROBES_MAX);
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->answered, NULL);
    return p;
}

void peers_send(struct peers *p, struct http_call *call)
{
    http_do(p->http, call);
}

void peers_free(struct peers *p)
{
    if (!p) return;
    pool_share_free(p->share);
    while (p->all) {
        struct known_peer *k = p->all;
        p->all = k->next;
        memory_free(k);
    }
    http_free(p->http);
    (void)pthread_cond_destroy(&p->answered);
    (void)pthread_mutex_destroy(&p->lock);
    memory_free(p);
}

static struct known_peer *known_peer_find(struct peers *p, const struct owner_name *name)
{
    struct known_peer *k = p->all;
    while (k && !owner_name_equal(&k->name, name))
        k = k->next;
    return k;
}

static struct known_peer *known_peer_find_or_add(struct peers *p, const struct owner_name *name)
{
    struct known_peer *k = known_peer_find(p, name);
    if (!k) {
        k = NEW(struct known_peer);
        k->name = *name;
        peer_key(name->incarnation, k->key);
        k->next = p->all;
        p->all = k;
    }
    k->seen_ms = clock_boot_ms();
    return k;
}

void peers_learn(struct peers *p, const struct owner_name *name)
{
    LOCKED(&p->lock);
    (void)known_peer_find_or_add(p, name);
}

bool peers_secret(struct peers *p, const char *key, char out[JOURNAL_ADDRESS_MAX])
{
    LOCKED(&p->lock);
    struct known_peer *k = p->all;
    while (k && strcmp(k->key, key) != 0)
        k = k->next;
    if (k) memcpy(out, k->name.incarnation, JOURNAL_ADDRESS_MAX);
    return k != NULL;
}

// Whether `a` is more useful than `b` for a challenge to that node.
static bool is_better(const struct known_peer *a, const struct known_peer *b, const char *node)
{
    bool own_a = strcmp(a->name.node, node) == 0, own_b = strcmp(b->name.node, node) == 0;
    return own_a != own_b ? own_a : a->seen_ms > b->seen_ms;
}

static bool is_among(const struct peer_identity *to, const struct known_peer *k)
{
    for (size_t i = 0; i < to->secrets_len; i++)
        if (strcmp(to->secrets[i], k->name.incarnation) == 0) return true;
    return false;
}

void peers_secrets(struct peers *p, struct peer_identity *to)
{
    struct known_peer *best;
    LOCKED(&p->lock);
    do {
        best = NULL;
        for (struct known_peer *k = p->all; k; k = k->next)
            if (!is_among(to, k) && (!best || is_better(k, best, to->node))) best = k;
        if (best) peer_identity_add(to, best->name.incarnation);
    } while (best && to->secrets_len < PEER_KEYS_MAX);
}

// Called with the lock, which it releases during the challenge.
static enum peer challenge_once(struct peers *p, struct known_peer *k)
{
    uint64_t before = k->answers;
    if (k->asking) {
        while (k->answers == before)
            (void)pthread_cond_wait(&p->answered, &p->lock);
        return k->last;
    }
    k->asking = true;
    (void)pthread_mutex_unlock(&p->lock);
    enum peer peer = peer_ask(p->http, &k->name, PEER_ASK_MS);
    (void)pthread_mutex_lock(&p->lock);
    k->asking = false;
    k->answers++;
    k->last = peer;
    k->answered_at = clock_boot_ms();
    k->probe_at = peer == PEER_AWAY ? clock_boot_ms() + PEER_PROBE_MS : 0;
    k->doubted_until = 0;
    (void)pthread_cond_broadcast(&p->answered);
    return peer;
}

static enum peer known_peer_result(const struct known_peer *k)
{
    if (k && k->probe_at != 0) return PEER_AWAY;
    return k && clock_boot_ms() < k->doubted_until ? PEER_DOUBTED : PEER_PROVEN;
}

struct probe {
    struct pool_job job; // first
    struct peers *peers;
    struct known_peer *peer;
};

static void probe_run(struct pool_job *job)
{
    struct probe *probe = (struct probe *)job;
    struct peers *p = probe->peers;
    (void)pthread_mutex_lock(&p->lock);
    (void)challenge_once(p, probe->peer);
    probe->peer->probing = false;
    (void)pthread_mutex_unlock(&p->lock);
    memory_free(probe);
}

// Call it with the lock.
static void probe_if_due(struct peers *p, struct known_peer *k)
{
    if (k->probe_at == 0 || k->probing || clock_boot_ms() < k->probe_at) return;
    struct probe *probe = NEW(struct probe);
    *probe = (struct probe){.job = {.run = probe_run}, .peers = p, .peer = k};
    k->probing = pool_share_run(p->share, 0, &probe->job) == ERR_OK;
    if (!k->probing) memory_free(probe);
}

enum peer peers_ask(struct peers *p, const struct owner_name *name, int64_t *age_ms)
{
    LOCKED(&p->lock);
    struct known_peer *k = known_peer_find_or_add(p, name);
    enum peer peer = known_peer_result(k);
    probe_if_due(p, k);
    *age_ms = k->probing ? clock_boot_ms() - k->answered_at : 0;
    if (peer == PEER_PROVEN) peer = challenge_once(p, k);
    return peer;
}

void peers_doubt(struct peers *p, const struct owner_name *name)
{
    LOCKED(&p->lock);
    struct known_peer *k = known_peer_find_or_add(p, name);
    k->doubted_until = clock_boot_ms() + 2 * PEER_ASK_MS;
}

enum peer peers_find_out(struct peers *p, const struct owner_name *name)
{
    LOCKED(&p->lock);
    struct known_peer *k = known_peer_find_or_add(p, name);
    return known_peer_result(k) == PEER_AWAY ? PEER_AWAY : challenge_once(p, k);
}

enum peer peers_recall(struct peers *p, const struct owner_name *name)
{
    LOCKED(&p->lock);
    return known_peer_result(known_peer_find(p, name));
}

static bool is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (strcasecmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

static bool equals(struct bytes a, const char *b, size_t b_len)
{
    return a.len == b_len && strncasecmp((const char *)a.data, b, b_len) == 0;
}

// The host, or host and port, in "node-1, node-2:7333".
static bool is_listed(const char *list, struct bytes host, struct bytes whole)
{
    while (*list) {
        list += strspn(list, ", ");
        size_t len = strcspn(list, ", ");
        if (len > 0 && (equals(host, list, len) || equals(whole, list, len))) return true;
        list += len;
    }
    return false;
}

bool peer_may_have_token(const char *url, const char *hosts)
{
    char host[HOST_MAX];
    struct authority at;
    struct bytes whole = authority_of(url);
    const char *list = hosts && *hosts ? hosts : getenv(PEER_HOSTS);
    bool good = !strchr(url, '@') && authority_split(whole, &at) &&
                text_copy_len(host, sizeof host, (const char *)at.host.data, at.host.len) && *host;
    if (!good) return false;
    return list && *list ? is_listed(list, at.host, whole) : is_loopback(host);
}

bool peer_hosts_are_good(const char *hosts)
{
    size_t named = 0;
    for (const char *at = hosts + strspn(hosts, ", "); *at; at += strspn(at, ", "), named++) {
        char url[HOST_MAX + 8];
        size_t len = strcspn(at, ", ");
        if (len >= HOST_MAX) return false;
        const char *colon = memchr(at, ':', len);
        bool six = *at != '[' && colon && memchr(colon + 1, ':', len - (size_t)(colon + 1 - at));
        (void)snprintf(url, sizeof url, six ? "http://[%.*s]" : "http://%.*s", (int)len, at);
        if (!owner_url_is_good(url)) return false;
        at += len;
    }
    return named > 0;
}
