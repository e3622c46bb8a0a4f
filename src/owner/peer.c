// SPDX-License-Identifier: Apache-2.0
// Challenges to nodes, the memory of their results, and the hosts that may get a token.
#include "owner/peer.h"

#include "base/memory.h"
#include "net/digest.h"
#include "os/clock.h"
#include "os/entropy.h"

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

static void prove(const struct owner_name *self, const char *what, const char *nonce,
                  char out[PEER_PROOF_MAX])
{
    static_assert(PEER_PROOF_MAX == 2 * SHA256_LEN + 1, "as hex digits");
    uint8_t mac[SHA256_LEN];
    char text[JOURNAL_ADDRESS_MAX + CHALLENGE_NONCE + 32];
    (void)snprintf(text, sizeof text, "sluice %s 1\n%s\n%s\n", what, self->node, nonce);
    sha256_hmac(bytes_str(self->incarnation), bytes_str(text), mac);
    hex_print(bytes_of(mac, sizeof mac), out);
}

void peer_prove(const struct owner_name *self, const char *nonce, char out[PEER_PROOF_MAX])
{
    prove(self, "node", nonce, out);
}

void peer_caller_proof(const struct owner_name *self, char out[PEER_PROOF_MAX])
{
    prove(self, "caller", "", out);
}

static void challenge_make(const void *ctx, char nonce[CHALLENGE_NONCE], char path[CHALLENGE_PATH])
{
    uint8_t bytes[NONCE_LEN];
    (void)ctx;
    entropy_fill(bytes, sizeof bytes);
    hex_print(bytes_of(bytes, sizeof bytes), nonce);
    (void)snprintf(path, CHALLENGE_PATH, "/healthz?nonce=%s", nonce);
}

static bool challenge_is_met(const void *ctx, const char *nonce, const struct http_call *answer)
{
    const struct owner_name *name = ctx;
    char proof[PEER_PROOF_MAX];
    peer_prove(name, nonce, proof);
    return answer->status == 200 &&
           bytes_equal(http_header(answer, PEER_HEADER), bytes_str(name->node)) &&
           bytes_equal(http_header(answer, PEER_PROOF), bytes_str(proof));
}

struct peer_challenge peer_challenge_of(const struct owner_name *name)
{
    return (struct peer_challenge){.ask = challenge_make, .shown = challenge_is_met, .ctx = name};
}

enum peer peer_ask(struct http *http, const struct owner_name *name, int64_t wait_ms)
{
    CLEANUP(http_call_done) struct http_call call;
    char nonce[CHALLENGE_NONCE], path[CHALLENGE_PATH], url[URL_MAX];
    challenge_make(name, nonce, path);
    (void)snprintf(url, sizeof url, "%s%s", name->url, path);
    http_call_init(&call, "GET", url);
    call.timeout_ms = wait_ms;
    call.body_max = ANSWER_MAX;
    http_do(http, &call);
    if (call.end != HTTP_ANSWERED) return PEER_AWAY;
    return challenge_is_met(name, nonce, &call) ? PEER_PROVEN : PEER_DECLINES;
}

struct known_peer {
    struct known_peer *next;
    struct owner_name name;
    bool asking;           // a thread sends a challenge
    uint64_t answers;      // challenges that have ended
    enum peer last;        // the result of the last one
    int64_t away_until;    // clock_boot_ms
    int64_t doubted_until; // in case no thread finds out
};

struct peers {
    struct http *http;
    pthread_mutex_t lock;
    pthread_cond_t answered;
    struct known_peer *all;
};

struct peers *peers_new(void)
{
    struct peers *p = NEW(struct peers);
    p->http = peer_http();
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->answered, NULL);
    return p;
}

void peers_free(struct peers *p)
{
    if (!p) return;
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
    if (k) return k;
    k = NEW(struct known_peer);
    k->name = *name;
    k->next = p->all;
    p->all = k;
    return k;
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
    k->away_until = peer == PEER_AWAY ? clock_boot_ms() + PEER_AWAY_MS : 0;
    k->doubted_until = 0;
    (void)pthread_cond_broadcast(&p->answered);
    return peer;
}

static enum peer known_peer_result(const struct known_peer *k)
{
    int64_t now = clock_boot_ms();
    if (k && now < k->away_until) return PEER_AWAY;
    return k && now < k->doubted_until ? PEER_DOUBTED : PEER_PROVEN;
}

enum peer peers_ask(struct peers *p, const struct owner_name *name)
{
    (void)pthread_mutex_lock(&p->lock);
    struct known_peer *k = known_peer_find_or_add(p, name);
    enum peer peer = known_peer_result(k);
    if (peer == PEER_PROVEN) peer = challenge_once(p, k);
    (void)pthread_mutex_unlock(&p->lock);
    return peer;
}

void peers_doubt(struct peers *p, const struct owner_name *name)
{
    (void)pthread_mutex_lock(&p->lock);
    struct known_peer *k = known_peer_find_or_add(p, name);
    k->doubted_until = clock_boot_ms() + 2 * PEER_ASK_MS;
    (void)pthread_mutex_unlock(&p->lock);
}

enum peer peers_find_out(struct peers *p, const struct owner_name *name)
{
    (void)pthread_mutex_lock(&p->lock);
    struct known_peer *k = known_peer_find_or_add(p, name);
    enum peer peer = known_peer_result(k) == PEER_AWAY ? PEER_AWAY : challenge_once(p, k);
    (void)pthread_mutex_unlock(&p->lock);
    return peer;
}

enum peer peers_recall(struct peers *p, const struct owner_name *name)
{
    (void)pthread_mutex_lock(&p->lock);
    enum peer peer = known_peer_result(known_peer_find(p, name));
    (void)pthread_mutex_unlock(&p->lock);
    return peer;
}

// The URL's host without its port and brackets; and the two together.
static bool take_host(const char *url, char host[HOST_MAX], char whole[HOST_MAX])
{
    const char *at = strstr(url, "://");
    at = at ? at + 3 : url;
    size_t len = strcspn(at, "/?#");
    if (len == 0 || len >= HOST_MAX || memchr(at, '@', len)) return false;
    (void)snprintf(whole, HOST_MAX, "%.*s", (int)len, at);
    bool six = whole[0] == '[';
    size_t end = six ? strcspn(whole, "]") : strcspn(whole, ":");
    (void)snprintf(host, HOST_MAX, "%.*s", (int)(six ? end - 1 : end), whole + six);
    return *host;
}

static bool is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    if (strcasecmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

// "node-1, node-2:7333"
static bool is_listed(const char *list, const char *host, const char *whole)
{
    while (*list) {
        list += strspn(list, ", ");
        size_t len = strcspn(list, ", ");
        bool same = (strlen(host) == len && strncasecmp(list, host, len) == 0) ||
                    (strlen(whole) == len && strncasecmp(list, whole, len) == 0);
        if (len > 0 && same) return true;
        list += len;
    }
    return false;
}

bool peer_may_have_token(const char *url, const char *hosts)
{
    char host[HOST_MAX], whole[HOST_MAX];
    const char *list = hosts && *hosts ? hosts : getenv(PEER_HOSTS);
    if (!take_host(url, host, whole)) return false;
    return list && *list ? is_listed(list, host, whole) : is_loopback(host);
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
