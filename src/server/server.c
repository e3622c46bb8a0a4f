// SPDX-License-Identifier: Apache-2.0
// Starts and stops a node, and brings a request to its handler: target, route, head, authorization,
// body, then the handler, which runs on the pool if it blocks.
#include "server/server.h"
#include "api/handle.h"

#include "base/check.h"
#include "base/memory.h"
#include "member/member.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"
#include "os/thread.h"
#include "peer/peer.h"
#include "publish/publish.h"
#include "queues/counters.h"
#include "queues/liveness.h"
#include "queues/owner.h"
#include "server/cluster_bus.h"
#include "server/hub.h"
#include "server/inside.h"
#include "server/owners.h"
#include "server/presence.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define CALLS            16 // threads for blocking calls
#define CALLS_WAITING    1000
#define PARSERS          2 // threads that parse large JSON
#define PARSERS_WAITING  1000
#define IGNORED_BODY_MAX ((size_t)1 << 10)
#define JSON_INLINE      ((size_t)64 << 10) // larger JSON is not parsed on an HTTP thread
#define WAITING_MAX      10000
#define CONNECTIONS      10000
#define STREAMS_MAX      64
#define SUBSCRIBERS_MAX  2000
#define BODY_MEMORY      ((size_t)256 << 20)
#define ANSWERS          ((size_t)256 << 20)
#define LEAVE_MS         ((int64_t)5000) // for other nodes to take over the shards

void call_begin(struct server *s)
{
    LOCKED(&s->lock);
    s->calls++;
}

void call_end(struct server *s)
{
    LOCKED(&s->lock);
    s->calls--;
    (void)pthread_cond_broadcast(&s->fewer);
}

static void exchange_over(void *mine, bool delivered)
{
    struct exchange *x = mine;
    bool whole = x->status != 0; // else the client left before its end
    if (whole) metrics_request(x);
    if (whole && atomic_load(&x->server->log_requests)) log_access(x);
    receive_over(x, delivered);
    budget_set(&x->server->budget, &x->budget_part, 0);
    kept_done(&x->kept);
    target_done(&x->target);
    memory_free(x->tokens);
    memory_free(x);
}

static bool read_target(struct exchange *x)
{
    struct sluice_error e;
    char allow[ALLOW_MAX] = "";
    if (!target_read(&x->target, httpd_target(x->http))) {
        bool many = x->target.pairs_len == TARGET_PAIRS_MAX;
        e = many ? error_of(SLUICE_LIMIT, "head-too-large", "query",
                            "a request has at most %d parameters", TARGET_PAIRS_MAX)
                 : error_of(SLUICE_INVALID, "malformed", "path",
                            "the request's target cannot be read");
        answer_problem(x, many ? 414 : 400, &e, NULL);
        return false;
    }
    x->head = strcmp(httpd_method(x->http), "HEAD") == 0;
    x->route = route_find(httpd_method(x->http), &x->target, allow);
    if (x->route) return true;
    if (!*allow)
        return refuse_request(x, SLUICE_NOT_FOUND, "unknown-path", "path",
                              "there is nothing at %.200s; GET /openapi.json lists the paths",
                              httpd_target(x->http));
    e = error_of(SLUICE_INVALID, "method-not-allowed", "method",
                 "%.20s is not possible here, only %s", httpd_method(x->http), allow);
    answer_problem(x, 405, &e, &(struct httpd_pair){"Allow", allow});
    return false;
}

static struct exchange *exchange_of(struct call_job *j)
{
    return (struct exchange *)((char *)j - offsetof(struct exchange, job));
}

static void run_on_pool(struct call_job *j)
{
    struct exchange *x = exchange_of(j);
    struct server *s = x->server;
    x->route->handle(x);
    call_end(s);
}

// The exchange keeps the parsed body. The handler finds it there, also when it is called again.
static void parse_on_pool(struct call_job *j)
{
    struct exchange *x = exchange_of(j);
    struct server *s = x->server;
    if (read_json(x)) x->route->handle(x);
    call_end(s);
}

struct sluice_error no_thread_error(void)
{
    return error_of(SLUICE_UNAVAILABLE, "no-thread", "",
                    "the node cannot create a thread for this call; see the limits of its user and "
                    "of its control group");
}

static void refuse_call(struct exchange *x, struct sluice_error e)
{
    struct server *s = x->server;
    answer_error(x, &e);
    call_end(s);
}

static void refuse_busy(struct call_job *j)
{
    struct sluice_error e =
        error_of(SLUICE_LIMIT, "busy", "",
                 "too many calls wait for a thread (limits.callsWaiting), and this client has its "
                 "share; try again later");
    refuse_call(exchange_of(j), e);
}

static void run_later(struct exchange *x, struct call_share *share, void (*run)(struct call_job *j))
{
    x->job.run = run;
    x->job.refuse = refuse_busy;
    call_begin(x->server);
    enum err err = call_share_run(share, &x->job, x->client);
    if (err == ERR_LIMIT) refuse_busy(&x->job);
    if (err == ERR_UNAVAILABLE) refuse_call(x, no_thread_error());
}

// Large JSON takes a while to parse.
static bool has_large_json(const struct exchange *x)
{
    if (httpd_body(x->http).len <= JSON_INLINE) return false;
    const char *type = httpd_header(x->http, "Content-Type");
    bool raw = x->wire_in || (x->route->handle == handle_send && type && !is_type(type, JSON_TYPE));
    return !raw;
}

static size_t body_max_of(const struct exchange *x)
{
    size_t most = x->server->config.body_max;
    size_t own = x->route->row->body_max;
    if (own == 0) own = IGNORED_BODY_MAX;
    return own < most ? own : most;
}

// Every refusal that the head allows is made before a byte of the body is read.
static size_t check_head(void *ctx, struct httpd_request *http)
{
    struct server *s = ctx;
    struct exchange *x = NEW(struct exchange);
    x->server = s;
    x->http = http;
    x->began_ns = clock_boot_ns();
    httpd_attach(http, x, exchange_over);
    if (!read_framing(x) || !read_target(x) || !read_head(x) || !auth_admit(x)) return 0;
    x->client = auth_client(x);
    httpd_set_client(http, x->client);
    return body_max_of(x);
}

static bool has_body(struct exchange *x)
{
    struct sluice_error e;
    switch (httpd_lost(x->http)) {
    case HTTPD_WHOLE:
        return true;
    case HTTPD_TOO_LARGE:
        e = error_of(SLUICE_LIMIT, "body-too-large", "body",
                     "the body of this request has at most %zu bytes", body_max_of(x));
        answer_problem(x, 413, &e, NULL);
        return false;
    case HTTPD_NO_ROOM:
        refuse_body(x);
        return false;
    }
    CHECK(false); // not a way to lose a body
    return false;
}

// A call that would wait for a store that is known to fail is refused at once. It was not applied.
static bool refuse_down(struct exchange *x)
{
    const struct route *call = x->route->row;
    struct sluice_error e;
    bool changes = x->target.queue && call->repeat != REPEAT_READ && !call->peer;
    if (!changes || !store_is_down(x->server, &e)) return false;
    answer_error(x, &e);
    return true;
}

static void handle(void *ctx, struct httpd_request *http)
{
    struct server *s = ctx;
    struct exchange *x = httpd_mine(http);
    x->began_ns = clock_boot_ns();
    METRICS_ADD(&s->metrics, bytes_in, httpd_body(http).len);
    if (!has_body(x) || refuse_down(x)) return;
    if (x->route->row->blocks)
        run_later(x, s->blocking, run_on_pool);
    else if (has_large_json(x))
        run_later(x, s->parsers, parse_on_pool);
    else
        x->route->handle(x);
}

// The default name is the same at each start, so that a restarted node takes over its shards at
// once.
static void name_itself(struct server *s)
{
    char host[65] = "";
    uint16_t port = 0;
    if (gethostname(host, sizeof host - 1) != 0) (void)snprintf(host, sizeof host, "node");
    (void)listen_parse(s->config.listen, s->host, &port); // check_config reports an error
    long number = port > 0 ? port : (long)getpid();
    (void)snprintf(s->node, sizeof s->node, "%s-%ld", host, number);
}

// At most half of the file descriptors: a store that cannot open a file can do nothing.
static unsigned connections_allowed(unsigned wanted)
{
    struct rlimit files;
    unsigned most = wanted > 0 ? wanted : CONNECTIONS;
    bool few = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < most;
    return few ? (unsigned)(files.rlim_cur / 2) : most;
}

static void set_defaults(struct server *s)
{
    struct server_config *c = &s->config;
    if (!c->listen) c->listen = SERVER_LISTEN;
    if (c->body_max == 0) c->body_max = SERVER_BODY_MAX;
    if (c->body_memory_max == 0)
        c->body_memory_max = c->body_max > BODY_MEMORY / 3 ? 3 * c->body_max : BODY_MEMORY;
    if (c->answer_memory_max == 0) c->answer_memory_max = ANSWERS;
    c->connections_max = connections_allowed(c->connections_max);
    if (c->waiting_max == 0) c->waiting_max = WAITING_MAX;
    if (c->streams_max == 0) c->streams_max = STREAMS_MAX;
    if (c->subscribers_max == 0) c->subscribers_max = SUBSCRIBERS_MAX;
    if (c->calls_max == 0) c->calls_max = CALLS;
    if (c->calls_waiting_max == 0) c->calls_waiting_max = CALLS_WAITING;
    if (c->node)
        (void)snprintf(s->node, sizeof s->node, "%s", c->node);
    else
        name_itself(s);
    (void)snprintf(s->store_name, sizeof s->store_name, "%s", c->store ? c->store : "");
    c->node = s->node;
    c->store = s->store_name;
}

static enum sluice_code check_config(struct server *s, struct sluice_error *error)
{
    const struct server_config *c = &s->config;
    *error = (struct sluice_error){.code = SLUICE_OK};
    if (!listen_parse(c->listen, s->host, &s->port))
        *error = error_of(SLUICE_INVALID, "", "listen",
                          "\"%.80s\" is not an address to listen at; one looks like "
                          "127.0.0.1:7333 or [::1]:7333",
                          c->listen);
    else if (!listen_is_loopback(s->host) && !c->tokens && !c->insecure)
        *error = error_of(SLUICE_DENIED, "", "listen",
                          "%s can be reached from outside, and without tokens every client may "
                          "do everything; set tokens, listen on 127.0.0.1, or set insecure",
                          c->listen);
    return error->code;
}

static void note_address(struct server *s, uint16_t port)
{
    bool six = strchr(s->host, ':') != NULL;
    (void)snprintf(s->address, sizeof s->address, six ? "[%s]:%u" : "%s:%u", s->host, port);
}

// Reserves the port, which the node announces. The system refuses clients until begin_to_listen.
static enum sluice_code start_httpd(struct server *s, struct sluice_error *error)
{
    const struct server_config *c = &s->config;
    struct httpd_config http = {.host = s->host,
                                .port = s->port,
                                .threads = c->threads,
                                .connections_max = c->connections_max,
                                .per_address_max = c->per_address_max,
                                .body_memory_max = c->body_memory_max,
                                .idle_ms = c->idle_ms,
                                .first_head_ms = c->first_head_ms,
                                .body_ms = c->body_ms,
                                .tls = s->tls,
                                .head = check_head,
                                .handle = handle,
                                .ctx = s};
    char why[256] = "";
    enum err err = httpd_start(&http, &s->httpd, why, sizeof why);
    if (!err) {
        note_address(s, httpd_port(s->httpd));
        return SLUICE_OK;
    }
    *error = error_of((enum sluice_code)err, "", "listen", "%s", why);
    return error->code;
}

static enum sluice_code begin_to_listen(struct server *s, struct sluice_error *error)
{
    char why[256] = "";
    enum err err = httpd_listen(s->httpd, why, sizeof why);
    if (!err) return SLUICE_OK;
    *error = error_of((enum sluice_code)err, "", "listen", "%s", why);
    return error->code;
}

// The node's URL is written into the journals that it owns. No node can connect to a wildcard
// address such as 0.0.0.0, so the URL then has the host's name.
static enum sluice_code announce(struct server *s, struct sluice_error *error)
{
    char url[ADDRESS_MAX + 80], name[65] = "";
    bool any = strcmp(s->host, "0.0.0.0") == 0 || strcmp(s->host, "::") == 0;
    unsigned port = httpd_port(s->httpd);
    const char *scheme = s->tls ? "https" : "http", *given = s->config.advertise;
    if (any && gethostname(name, sizeof name - 1) == 0)
        (void)snprintf(url, sizeof url, "%s://%s:%u", scheme, name, port);
    else
        (void)snprintf(url, sizeof url, "%s://%s", scheme, s->address);
    if (given && !owner_url_is_good(given)) {
        *error = error_of(SLUICE_INVALID, "", "advertise",
                          "\"%.100s\" is not the URL of a node: http://host:port, without a path",
                          given);
        return error->code;
    }
    return owner_become(s->engine, given ? given : url, s->node, error);
}

static void log_cluster_event(void *ctx, const struct membership_event *e)
{
    struct server *s = ctx;
    bool bad = e->note == NOTE_DEGRADED || e->note == NOTE_REPLACED;
    bool minor = e->note == NOTE_MEMBER && strcmp(e->node, s->node) == 0;
    LOG(&s->log,
        bad     ? LOG_WARNING
        : minor ? LOG_DEBUG
                : LOG_INFO,
        cluster_note_name(e->note), LOG_TEXT("node", e->node),
        LOG_TEXT("life", e->note == NOTE_MEMBER ? life_name(e->life) : NULL),
        LOG_TEXT("queue", *e->queue ? e->queue : NULL), LOG_NUMBER("shard", e->shard),
        LOG_NUMBER("epoch", (int64_t)e->epoch));
}

static void log_settings_differ(void *ctx, const char *node, const char *what)
{
    struct server *s = ctx;
    LOG(&s->log, LOG_WARNING, "cluster-settings-differ", LOG_TEXT("node", node),
        LOG_TEXT("what", what));
}

static enum sluice_code join_cluster(struct server *s, struct sluice_error *error)
{
    const struct server_config *c = &s->config;
    struct membership_config config = {.coord = c->coord,
                                       .capacity = c->capacity,
                                       .observe_only = c->observe_only,
                                       .tuning = c->tuning,
                                       .event = log_cluster_event,
                                       .differs = log_settings_differ,
                                       .event_ctx = s};
    struct membership *m = NULL;
    enum sluice_code code = c->coord ? membership_start(s->engine, &config, &m, error) : SLUICE_OK;
    atomic_store(&s->member, m);
    char why[COORD_WHY_MAX] = "";
    if (m && membership_degraded(m, NULL, why) && *why)
        LOG(&s->log, LOG_WARNING, "coordination-away", LOG_TEXT("why", why));
    return code;
}

static void log_publishing(void *ctx, enum publishing_note note, const char *queue, uint32_t shard,
                           const char *why)
{
    static const struct {
        const char *name;
        enum log_level level;
    } notes[] = {[PUBLISHING_DEGRADED] = {"bus-degraded", LOG_WARNING},
                 [PUBLISHING_RECOVERED] = {"bus-recovered", LOG_INFO},
                 [PUBLISHING_REFUSED] = {"bus-refused", LOG_WARNING},
                 [PUBLISHING_OVERDUE] = {"bus-overdue", LOG_WARNING},
                 [PUBLISHING_HEALED] = {"bus-healed", LOG_WARNING},
                 [PUBLISHING_GAP] = {"bus-gap", LOG_WARNING},
                 [PUBLISHING_SCHEMA] = {"bus-schema", LOG_WARNING}};
    struct server *s = ctx;
    LOG(&s->log, notes[note].level, notes[note].name, LOG_TEXT("queue", queue),
        LOG_NUMBER("shard", shard), LOG_TEXT("why", why));
}

static enum sluice_code start_publishing(struct server *s, struct sluice_error *error)
{
    struct publishing_config config = {
        .bus = s->config.bus,
        .node = s->node,
        .shadow = s->config.flags[CAPABILITY_BUS] == ROLLOUT_SHADOW,
        .window = {.also = s->config.bus_both_until > 0 ? ENVELOPE_VERSION - 1 : 0,
                   .until = s->config.bus_both_until},
        .note = log_publishing,
        .ctx = s};
    return config.bus ? publishing_start(s->engine, &config, &s->publishing, error) : SLUICE_OK;
}

static void server_release(struct server *s)
{
    (void)pthread_cond_destroy(&s->fewer);
    (void)pthread_mutex_destroy(&s->lock);
    budget_done(&s->budget);
    counters_watch(s->engine, 0, NULL, NULL);
    live_settings_end(s);
    owners_shown_free(s->owners_shown);
    presence_free(s->presence);
    waiting_shown_free(s->waiting_shown);
    memory_free(s);
}

// A client gets a quarter of the threads for calls. Probes for /readyz have a thread of their own.
static void start_shares(struct server *s)
{
    const struct server_config *c = &s->config;
    struct thread_pool *pool = s->engine->pool;
    struct call_share_config calls = {.threads = c->calls_max,
                                      .per_client = (c->calls_max + 3) / 4,
                                      .waiting = c->calls_waiting_max};
    struct call_share_config parsers = {
        .threads = PARSERS, .per_client = 1, .waiting = PARSERS_WAITING};
    struct call_share_config health = {.threads = 1, .per_client = 1, .waiting = 1};
    size_t streams = 2 * (size_t)c->streams_max; // as many may be ending
    s->blocking = call_share_new(pool, &calls);
    s->parsers = call_share_new(pool, &parsers);
    s->health = call_share_new(pool, &health);
    s->stream_threads = pool_share_new(pool, streams, streams);
}

static void stop_shares(struct server *s)
{
    call_share_free(s->blocking);
    call_share_free(s->parsers);
    call_share_free(s->health);
    pool_share_free(s->stream_threads);
}

static enum sluice_code start_hub(struct server *s, struct sluice_error *error)
{
    s->hub = hub_new(s);
    if (!s->hub) *error = no_thread_error();
    return s->hub ? SLUICE_OK : error->code;
}

static void set_up_store(struct server *s)
{
    owner_may_tell(s->engine, s->config.peers);
    owner_needs_token(s->engine, auth_asks_tokens(s));
    if (s->config.coord) owner_joins(s->engine);
    s->slow.log = &s->log;
    counters_watch(s->engine, SLOW_MS, slow_tell, &s->slow);
}

// The node joins first and listens last. So a start that fails has served no client, and the other
// members do not see a node that is refused for its own settings.
static enum sluice_code start_all(struct server *s, struct sluice_error *e)
{
    enum sluice_code code = live_settings_start(s, e);
    if (!code) code = check_config(s, e);
    if (!code) start_shares(s);
    if (!code) code = start_hub(s, e);
    if (!code) set_up_store(s);
    if (!code) code = start_httpd(s, e);
    if (!code) code = announce(s, e);
    if (!code) code = start_publishing(s, e);
    if (!code) code = join_cluster(s, e);
    if (!code) s->cluster_bus = cluster_bus_new(s);
    if (!code) s->heartbeats = heartbeats_new(s);
    if (!code) code = begin_to_listen(s, e);
    return code;
}

enum sluice_code server_start(const struct server_config *config, struct sluice *store,
                              struct server **out, struct sluice_error *error)
{
    struct sluice_error own;
    struct server *s = NEW(struct server);
    s->config = *config;
    s->store = store;
    s->engine = store->engine;
    s->started_ms = clock_boot_ms();
    s->seed = entropy_u64();
    s->owners_shown = owners_shown_new();
    s->presence = presence_new();
    s->waiting_shown = waiting_shown_new();
    set_defaults(s);
    (void)pthread_mutex_init(&s->lock, NULL);
    clock_cond_init(&s->fewer);
    budget_init(&s->budget, s->config.answer_memory_max);
    s->waiters.max = s->config.waiting_max;
    s->streaming.max = s->config.streams_max;
    s->subscribing.max = s->config.subscribers_max;
    enum sluice_code code = start_all(s, error ? error : &own);
    if (code) {
        bool ended = server_stop(s, 0);
        CHECK(ended); // it has served no client
        return code;
    }
    *out = s;
    return SLUICE_OK;
}

bool server_store_is_dead(const struct server *s, struct sluice_error *error)
{
    return liveness_is_dead(s->engine, error);
}

const char *server_address(const struct server *s)
{
    return s->address;
}

const char *server_node(const struct server *s)
{
    return s->node;
}

// Waits for library calls. Mostly these release messages of clients that have disconnected. They
// are quick, unless the store is unavailable.
static bool calls_end(struct server *s, int64_t wait_ms)
{
    int64_t until = clock_boot_ms() + wait_ms + 1000;
    LOCKED(&s->lock);
    while (s->calls > 0 && clock_wait(&s->fewer, &s->lock, until))
        ;
    return s->calls == 0;
}

bool server_stop(struct server *s, int64_t drain_ms)
{
    if (!s) return true;
    atomic_store(&s->stopping, true);
    membership_stop(s->member, drain_ms / 2 < LEAVE_MS ? drain_ms / 2 : LEAVE_MS);
    if (s->httpd) httpd_close(s->httpd);
    receive_end_all(s);
    if (s->hub) hub_end(s->hub);
    bool drained = httpd_stop(s->httpd, drain_ms);
    // Calls in progress still use the server, so it is not freed then.
    if (!calls_end(s, drained ? drain_ms : 0)) return false;
    cluster_bus_free(s->cluster_bus);
    publishing_stop(s->publishing);
    stop_shares(s);
    heartbeats_free(s->heartbeats);
    hub_free(s->hub);
    server_release(s);
    return drained;
}
