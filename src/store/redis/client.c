// SPDX-License-Identifier: Apache-2.0
// Calls go to the server that has their keys. Without an answer, a read is sent again; a write ends
// in doubt, and the journal resolves that.
#define _GNU_SOURCE // explicit_bzero
#include "store/redis/client.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/lock.h"
#include "store/backend.h"
#include "store/redis/outcome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_EVERY_MS 1000
// The reserve must have space for a snapshot of a queue that was drained: without one, no slot is
// dropped. A snapshot has about a hundred bytes for each message that ended lately.
#define RESERVE_SHARE   8
#define RESERVE_MAX     ((int64_t)256 << 20)
#define BYTES_GROW      2 // a write takes up to this many times its bytes in the server
#define SENT_SHARE      8 // the server is asked again after this part of what is left was sent
#define PAUSE_MS        20
#define COMMAND_MAX     (STORE_OBJECT_MAX + ((size_t)1 << 20))
#define PINGS           5
#define REPLICAS_MS     1000 // how long a write waits for its replicas, at most
#define PARTS_MAX       3    // ASKING, the command, WAIT

static enum err read_password(struct redis_client *c, char *why, size_t why_len)
{
    const char *user = getenv("SLUICE_REDIS_USER"), *password = getenv("SLUICE_REDIS_PASSWORD");
    (void)snprintf(c->user, sizeof c->user, "%s", c->url.user[0] ? c->url.user : user ? user : "");
    if (password && strlen(password) >= sizeof c->password) {
        (void)snprintf(why, why_len, "SLUICE_REDIS_PASSWORD is longer than %zu bytes",
                       sizeof c->password - 1);
        return ERR_INVALID;
    }
    (void)snprintf(c->password, sizeof c->password, "%s", password ? password : "");
    if (!c->url.password_file[0]) return ERR_OK;
    LOCAL(buf, text, sizeof c->password - 1);
    int number = file_read(c->url.password_file, &text);
    size_t len = number ? 0 : text.len;
    while (len > 0 && (text.data[len - 1] == '\n' || text.data[len - 1] == '\r'))
        len--;
    if (len > 0) memcpy(c->password, text.data, len);
    c->password[len] = 0;
    if (text.data) explicit_bzero(text.data, text.len);
    if (!number) return ERR_OK;
    (void)snprintf(why, why_len, "passwordFile \"%.120s\" cannot be read: %s", c->url.password_file,
                   strerror(number));
    return ERR_INVALID;
}

enum err redis_client_init(struct redis_client *c, const struct redis_url *url, char *why,
                           size_t why_len)
{
    *c = (struct redis_client){.url = *url};
    (void)pthread_mutex_init(&c->lock, NULL);
    clock_cond_init(&c->changed);
    if (url->form == REDIS_CLUSTER) {
        c->slots = memory_new(REDIS_SLOTS * sizeof *c->slots);
        memset(c->slots, 0xff, REDIS_SLOTS * sizeof *c->slots); // no server
    } else {
        c->servers[c->servers_len++] = NEW(struct redis_server);
        if (url->form == REDIS_ONE) c->servers[0]->at = url->places[0];
    }
    enum err e = read_password(c, why, why_len);
    if (e || !url->tls) return e;
    c->tls = stream_tls_new(url->ca[0] ? url->ca : NULL, url->cert[0] ? url->cert : NULL,
                            url->key[0] ? url->key : NULL, why, why_len);
    return c->tls ? ERR_OK : ERR_INVALID;
}

void redis_client_done(struct redis_client *c, bool ours)
{
    for (size_t i = 0; i < c->servers_len; i++)
        redis_server_free(c->servers[i], ours);
    memory_free(c->slots);
    stream_tls_free(c->tls);
    (void)pthread_cond_destroy(&c->changed);
    (void)pthread_mutex_destroy(&c->lock);
    explicit_bzero(c->password, sizeof c->password);
}

static int64_t deadline(const struct redis_client *c)
{
    int64_t ms = c->store ? store_patience_ms(c->store, c->url.timeout_ms) : c->url.timeout_ms;
    return clock_boot_ms() + ms;
}

// A call on its way: its bytes and where the next attempt goes.
struct attempt {
    struct redis_call *call;
    struct redis_server *server;
    struct buf bytes;
    size_t parts;  // commands in bytes
    bool text;     // the script goes with its text
    bool asking;   // the next attempt starts with ASKING
    bool waits;    // WAIT follows the command
    enum err err;  // of the last attempt
    int64_t until; // clock_boot_ms
};

// WAIT answers after this time, before the connection's own time is over.
static int64_t replicas_ms(const struct redis_client *c)
{
    int64_t half = c->url.timeout_ms / 2;
    return half < 1 ? 1 : half < REPLICAS_MS ? half : REPLICAS_MS;
}

static void put_words(struct redis_client *c, const struct attempt *t, struct buf *to)
{
    const struct redis_call *call = t->call;
    char keys[24];
    size_t first = call->raw ? 0 : 3;
    (void)snprintf(keys, sizeof keys, "%zu", call->keys);
    CLEANUP(memory_let_go) struct bytes *words = memory_zeroed(call->args_len + 3, sizeof *words);
    if (!call->raw) {
        words[0] = bytes_str(t->text ? "EVAL" : "EVALSHA");
        words[1] = bytes_str(t->text ? redis_script_text(call->script) : c->sha[call->script]);
        words[2] = bytes_str(keys);
    }
    memcpy(words + first, call->args, call->args_len * sizeof *words);
    resp_format(to, words, call->args_len + first);
}

static void format_attempt(struct redis_client *c, struct attempt *t)
{
    buf_clear(&t->bytes);
    t->parts = 1;
    if (t->asking) {
        struct bytes word = bytes_str("ASKING");
        resp_format(&t->bytes, &word, 1);
        t->parts++;
    }
    put_words(c, t, &t->bytes);
    if (!t->waits) return;
    char count[24], ms[24];
    (void)snprintf(count, sizeof count, "%lld", (long long)c->url.replicas);
    (void)snprintf(ms, sizeof ms, "%lld", (long long)replicas_ms(c));
    struct bytes words[] = {bytes_str("WAIT"), bytes_str(count), bytes_str(ms)};
    resp_format(&t->bytes, words, 3);
    t->parts++;
    CHECK(t->parts <= PARTS_MAX);
}

// The outcome of a command that was applied, by the answer to WAIT after it.
static enum err check_replicas(struct redis_client *c, const struct attempt *t,
                               const struct resp *reply, const struct resp *wait,
                               struct store_answer *a)
{
    int64_t have = resp_number(wait);
    const struct resp *word = resp_item(reply, 0);
    const char *text = word->kind == RESP_TEXT ? word->text : "";
    // Nothing was written: the caller reads what is there, and that waits.
    if (strcmp(text, "exists") == 0 || strcmp(text, "gap") == 0 || strcmp(text, "folder") == 0)
        return ERR_OK;
    if (have >= c->url.replicas) return ERR_OK;
    if (wait->kind == RESP_ERROR)
        return answer_refuse(a, t->call->writes ? ERR_UNKNOWN : ERR_UNAVAILABLE,
                             "the Redis server answered to WAIT: %.150s", wait->text);
    return answer_refuse(a, ERR_UNKNOWN,
                         "the Redis server has the write, but only %lld of its replicas have it: "
                         "durability=replicas:%lld asks for more",
                         (long long)(have > 0 ? have : 0), (long long)c->url.replicas);
}

static enum redis_step refuse_error(struct redis_client *c, struct attempt *t,
                                    struct redis_line *line, const char *text,
                                    struct store_answer *a)
{
    struct redis_class class = redis_classify(text, t->call->writes);
    t->err = answer_refuse(a, class.err, "the Redis server answered: %.180s", text);
    if (class.step == REDIS_MOVE) redis_connection_break(line->connection, a->why);
    if (class.step == REDIS_AGAIN) clock_sleep(PAUSE_MS);
    if (class.step != REDIS_FOLLOW) return class.step;
    struct redis_server *to = redis_cluster_follow(c, t->server, text, &t->asking);
    if (!to) return REDIS_FINAL;
    t->server = to;
    return REDIS_FOLLOW;
}

// One attempt. Returns what comes next; t->err is the outcome if that is REDIS_FINAL.
static enum redis_step attempt(struct redis_client *c, struct attempt *t, struct redis_line *line,
                               struct resp **reply, struct store_answer *a)
{
    struct resp *replies[PARTS_MAX] = {NULL, NULL, NULL};
    bool writes = t->call->writes;
    enum redis_end end =
        redis_connection_ask(line->connection, buf_bytes(&t->bytes), t->parts, t->until, replies);
    if (end != REDIS_ANSWERED) {
        t->err = redis_unanswered(writes, end == REDIS_LOST);
        redis_connection_why(line->connection, a->why);
        return t->err == ERR_UNKNOWN ? REDIS_FINAL : REDIS_AGAIN;
    }
    size_t at = t->asking ? 1 : 0;
    t->call->asked = t->asking;
    t->asking = false;
    *reply = replies[at];
    replies[at] = NULL;
    enum redis_step step = REDIS_FINAL;
    t->err = ERR_OK;
    if ((*reply)->kind == RESP_ERROR)
        step = refuse_error(c, t, line, (*reply)->text, a);
    else if (t->waits)
        t->err = check_replicas(c, t, *reply, replies[at + 1], a);
    for (size_t i = 0; i < PARTS_MAX; i++)
        resp_free(replies[i]);
    if (t->err) {
        resp_free(*reply);
        *reply = NULL;
    }
    return step;
}

// Without a connection to the server: another one of the cluster may have its slots by now.
static bool find_other(struct redis_client *c, struct attempt *t, const char *key)
{
    char why[STORE_WHY_MAX];
    if (!c->slots || t->call->server || redis_cluster_ask(c, t->until, why)) return false;
    struct redis_server *now = redis_server_of(c, key, t->until, why);
    if (!now || now == t->server) return false;
    t->server = now;
    return true;
}

// Goes on from a step. Returns false if the call is decided.
static bool go_on(struct redis_client *c, struct attempt *t, enum redis_step step, const char *key)
{
    char why[STORE_WHY_MAX];
    if (step == REDIS_FINAL || clock_boot_ms() >= t->until) return false;
    if (step == REDIS_RELOAD) t->text = true;
    if (step != REDIS_FOLLOW && !t->call->server) {
        t->asking = false;
        struct redis_server *server = redis_server_of(c, key, t->until, why);
        if (server) t->server = server;
    }
    return true;
}

static void note_sent(struct redis_client *c, struct redis_server *s, size_t bytes)
{
    LOCKED(&c->lock);
    s->sent_bytes += (int64_t)bytes * BYTES_GROW;
}

// Makes attempts until one decides.
static enum err perform(struct redis_client *c, struct attempt *t, const char *key,
                        struct resp **reply, struct store_answer *a)
{
    struct redis_call *call = t->call;
    char why[STORE_WHY_MAX] = "";
    t->server = call->server ? call->server : redis_server_of(c, key, t->until, why);
    if (!t->server) return answer_refuse(a, ERR_UNAVAILABLE, "%s", why);
    for (enum redis_step step = REDIS_AGAIN; step != REDIS_FINAL;) {
        struct redis_line *line;
        struct redis_server *server = t->server;
        uint64_t epoch = 0;
        enum err e = redis_line_enter(c, server, t->until, &line, &epoch, why);
        if (e && clock_boot_ms() < t->until && find_other(c, t, key)) continue;
        if (e) // a refusal is no answer to this call: the operator can correct it
            return answer_refuse(a, e == ERR_DENIED ? e : ERR_UNAVAILABLE, "%s", why);
        // A slot that moves has its keys on two servers, which are one life until it has moved.
        bool other = call->epoch && call->epoch != epoch && !t->asking;
        if (!t->asking) call->epoch = epoch;
        if (other) {
            call->moved = true;
            redis_line_leave(c, server, line);
            return ERR_UNAVAILABLE;
        }
        format_attempt(c, t);
        if (t->bytes.bad) {
            redis_line_leave(c, server, line);
            return answer_refuse(a, ERR_LIMIT, "the request is over its limit");
        }
        if (call->writes) note_sent(c, server, t->bytes.len);
        step = attempt(c, t, line, reply, a);
        redis_line_leave(c, server, line);
        if (!go_on(c, t, step, key)) step = REDIS_FINAL;
    }
    return t->err;
}

enum err redis_run(struct redis_client *c, struct redis_call *call, struct resp **reply,
                   struct store_answer *a)
{
    CHECK(call->args_len > 0);
    struct attempt t = {.call = call, .until = deadline(c)};
    const struct bytes *key = call->args + (call->raw && call->args_len > 1 ? 1 : 0);
    t.waits = call->writes && c->url.replicas > 0;
    buf_init(&t.bytes, COMMAND_MAX);
    *reply = NULL;
    call->moved = false;
    enum err e = perform(c, &t, (const char *)key->data, reply, a);
    buf_done(&t.bytes);
    a->tight = atomic_load(&c->tight);
    if (e || call->raw || (*reply)->kind == RESP_LIST) return e;
    resp_free(*reply);
    *reply = NULL;
    return answer_refuse(a, call->writes ? ERR_UNKNOWN : ERR_UNAVAILABLE,
                         "the Redis server's answer to a script is not a list");
}

enum err redis_confirm(struct redis_client *c, const char *mark, uint64_t *epoch, bool *moved,
                       struct store_answer *a)
{
    *moved = false;
    if (c->url.replicas == 0) return ERR_OK;
    struct bytes words[] = {bytes_str("SET"), bytes_str(mark), bytes_str("x")};
    struct redis_call call = {
        .raw = true, .args = words, .args_len = 3, .writes = true, .epoch = *epoch};
    struct resp *reply;
    enum err e = redis_run(c, &call, &reply, a);
    *epoch = call.epoch;
    *moved = call.moved;
    if (!e) resp_free(reply);
    if (e != ERR_UNKNOWN) return e;
    return answer_refuse(a, ERR_UNAVAILABLE,
                         "what was read is not on %lld replicas of the Redis server yet, as "
                         "durability=replicas:%lld asks",
                         (long long)c->url.replicas, (long long)c->url.replicas);
}

int64_t redis_time(struct redis_client *c, int64_t server_ms, struct store_answer *a)
{
    int64_t last = atomic_load(&c->last_ms);
    if (server_ms > TIME_REAL_MAX) server_ms = 0; // not a time: it is not believed
    while (server_ms > last && !atomic_compare_exchange_weak(&c->last_ms, &last, server_ms)) {
    }
    int64_t now = server_ms > last ? server_ms : last;
    if (now <= 0) return now; // no server has told a time yet: it stays unknown
    a->time = (struct interval){now, now};
    return now;
}

int64_t redis_reserve_of(int64_t limit)
{
    return limit / RESERVE_SHARE < RESERVE_MAX ? limit / RESERVE_SHARE : RESERVE_MAX;
}

static int64_t left_of(const struct redis_facts *f)
{
    return f->maxmemory <= 0 || f->used_memory < 0 ? INT64_MAX : f->maxmemory - f->used_memory;
}

// The server has half of the reserve above the reserve, or less: unneeded data must go before sends
// are refused. The caller holds the lock.
void redis_note_tight(struct redis_client *c)
{
    bool tight = false;
    for (size_t i = 0; i < c->servers_len; i++) {
        const struct redis_facts *f = &c->servers[i]->facts;
        int64_t reserve = redis_reserve_of(f->maxmemory);
        tight = tight || left_of(f) < reserve + reserve / 2;
    }
    atomic_store(&c->tight, tight);
}

struct redis_facts redis_fullest(struct redis_client *c)
{
    struct redis_facts out = {0};
    LOCKED(&c->lock);
    for (size_t i = 0; i < c->servers_len; i++) {
        const struct redis_facts *f = &c->servers[i]->facts;
        if (!f->run_id[0]) continue; // never connected
        struct redis_facts now = *f;
        if (now.used_memory >= 0) now.used_memory += c->servers[i]->sent_bytes;
        if (!out.run_id[0] || left_of(&now) < left_of(&out)) out = now;
    }
    return out;
}

// Asks the server for its memory, if what is known is old.
static enum err ask_memory(struct redis_client *c, struct redis_server *s, struct store_answer *a)
{
    (void)pthread_mutex_lock(&c->lock);
    int64_t left = left_of(&s->facts), reserve = redis_reserve_of(s->facts.maxmemory);
    bool few = left == INT64_MAX || s->sent_bytes * SENT_SHARE < left - reserve;
    bool fresh = (clock_boot_ms() - s->memory_ms < MEMORY_EVERY_MS && few) || !s->line;
    int64_t sent = s->sent_bytes;               // what is sent from now on may not be in the answer
    if (!fresh) s->memory_ms = clock_boot_ms(); // one caller asks
    (void)pthread_mutex_unlock(&c->lock);
    if (fresh) return ERR_OK;
    struct bytes words[2] = {bytes_str("INFO"), bytes_str("memory")};
    struct redis_call call = {.raw = true, .args = words, .args_len = 2, .server = s};
    struct resp *reply;
    enum err e = redis_run(c, &call, &reply, a);
    if (e) return e;
    (void)pthread_mutex_lock(&c->lock);
    s->facts.used_memory = redis_info_number(resp_bytes(reply), "used_memory");
    s->facts.maxmemory = redis_info_number(resp_bytes(reply), "maxmemory");
    s->sent_bytes = s->sent_bytes > sent ? s->sent_bytes - sent : 0;
    redis_note_tight(c);
    (void)pthread_mutex_unlock(&c->lock);
    resp_free(reply);
    return ERR_OK;
}

enum err redis_memory(struct redis_client *c, int64_t *used, int64_t *limit, struct store_answer *a)
{
    (void)pthread_mutex_lock(&c->lock);
    size_t count = c->servers_len;
    (void)pthread_mutex_unlock(&c->lock);
    enum err e = ERR_OK;
    for (size_t i = 0; i < count; i++) {
        enum err one = ask_memory(c, c->servers[i], a);
        if (one) e = one;
    }
    if (e && !c->slots) return e; // a cluster can lack one server
    struct redis_facts f = redis_fullest(c);
    *used = f.used_memory;
    *limit = f.maxmemory;
    return ERR_OK;
}

static int64_t measure(struct redis_line *line, int64_t until)
{
    LOCAL(buf, ping, 64);
    struct bytes word = bytes_str("PING");
    resp_format(&ping, &word, 1);
    int64_t best = INT64_MAX;
    for (int i = 0; i < PINGS; i++) {
        struct resp *reply;
        int64_t start = clock_boot_ns();
        if (redis_connection_ask(line->connection, buf_bytes(&ping), 1, until, &reply)) break;
        int64_t took = clock_boot_ns() - start;
        if (took < best) best = took;
        resp_free(reply);
    }
    return best;
}

// Of a cluster, every slot must have a server before the store opens.
static enum err check_covered(struct redis_client *c, char *why)
{
    size_t first = 0, last;
    while (first < REDIS_SLOTS && c->slots[first] != UINT16_MAX)
        first++;
    if (first == REDIS_SLOTS) return ERR_OK;
    for (last = first; last + 1 < REDIS_SLOTS && c->slots[last + 1] == UINT16_MAX;)
        last++;
    (void)snprintf(why, STORE_WHY_MAX,
                   "slots %zu to %zu of the Redis Cluster have no server: every slot must be "
                   "covered",
                   first, last);
    return ERR_UNAVAILABLE;
}

enum err redis_client_open(struct redis_client *c, int64_t *round_trip_ns, char *why,
                           size_t why_len)
{
    int64_t until = deadline(c);
    char words[STORE_WHY_MAX] = "";
    struct redis_line *line;
    uint64_t epoch;
    enum err e = ERR_OK;
    if (c->slots) e = redis_cluster_ask(c, until, words);
    if (!e && c->slots) e = check_covered(c, words);
    // Every server of a cluster is refused or accepted now, not at its first call.
    for (size_t i = 0; !e && i < c->servers_len; i++) {
        struct redis_server *server = c->servers[i];
        e = redis_line_enter(c, server, until, &line, &epoch, words);
        if (e) break;
        if (i == 0) *round_trip_ns = measure(line, until);
        redis_line_leave(c, server, line);
    }
    (void)snprintf(why, why_len, "%s", words);
    return e;
}
