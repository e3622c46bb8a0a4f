// SPDX-License-Identifier: Apache-2.0
// One connection serves all calls. One caller connects while the others wait. Without an answer, a
// read is sent again; a write ends in doubt, and the journal resolves that.
#include "store/redis/client.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/file.h"
#include "store/backend.h"
#include "store/redis/outcome.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FACTS_EVERY_MS  60000
#define MEMORY_EVERY_MS 1000
#define RECONNECT_MS    1000 // a call waits this long for a server that does not accept
#define PAUSE_MS        20
#define COMMAND_MAX     (STORE_OBJECT_MAX + ((size_t)1 << 20))
#define PINGS           5

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
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, sizeof c->password - 1);
    int number = file_read(c->url.password_file, &text);
    if (number) {
        (void)snprintf(why, why_len, "passwordFile \"%.120s\" cannot be read: %s",
                       c->url.password_file, strerror(number));
        return ERR_INVALID;
    }
    size_t len = text.len;
    while (len > 0 && (text.data[len - 1] == '\n' || text.data[len - 1] == '\r'))
        len--;
    if (len > 0) memcpy(c->password, text.data, len);
    c->password[len] = 0;
    return ERR_OK;
}

enum err redis_client_init(struct redis_client *c, const struct redis_url *url, char *why,
                           size_t why_len)
{
    *c = (struct redis_client){.url = *url};
    (void)pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&c->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    enum err e = read_password(c, why, why_len);
    if (e || !url->tls) return e;
    c->tls = stream_tls_new(url->ca[0] ? url->ca : NULL, url->cert[0] ? url->cert : NULL,
                            url->key[0] ? url->key : NULL, why, why_len);
    return c->tls ? ERR_OK : ERR_INVALID;
}

void redis_client_done(struct redis_client *c, bool ours)
{
    if (c->line) {
        CHECK(!ours || c->line->users == 0);
        redis_connection_free(c->line->connection, ours);
        memory_free(c->line);
    }
    stream_tls_free(c->tls);
    (void)pthread_cond_destroy(&c->changed);
    (void)pthread_mutex_destroy(&c->lock);
    memset(c->password, 0, sizeof c->password);
}

static void wait_changed(struct redis_client *c, int64_t until)
{
    int64_t ms = until - clock_boot_ms();
    if (ms <= 0) return;
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(&c->changed, &c->lock, &t);
}

static void pause_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&t, NULL);
}

// Another life of the server: it was started again, or another server took over.
static void take_facts(struct redis_client *c, const struct redis_facts *facts)
{
    bool same = strcmp(c->facts.run_id, facts->run_id) == 0 &&
                strcmp(c->facts.history_id, facts->history_id) == 0;
    if (!same) c->epoch++;
    c->facts = *facts;
    c->facts_ms = c->memory_ms = clock_boot_ms();
    c->clock_off_ms = facts->time_ms - clock_realtime_ms();
}

static void line_leave(struct redis_client *c, struct redis_line *line)
{
    (void)pthread_mutex_lock(&c->lock);
    bool last = --line->users == 0 && c->line != line;
    (void)pthread_mutex_unlock(&c->lock);
    if (!last) return;
    redis_connection_free(line->connection, true);
    memory_free(line);
}

// Takes the bad connection away. The caller holds the lock.
static void line_drop(struct redis_client *c)
{
    struct redis_line *line = c->line;
    c->line = NULL;
    if (line->users > 0) return; // the last user frees it
    redis_connection_free(line->connection, true);
    memory_free(line);
}

// Connects. The caller holds the lock, which is released meanwhile.
static enum err connect_line(struct redis_client *c, int64_t until, char why[static STORE_WHY_MAX])
{
    struct redis_connection *connection;
    struct redis_facts facts;
    c->connecting = true;
    (void)pthread_mutex_unlock(&c->lock);
    enum err e = redis_hello(c, until, &connection, &facts, why);
    (void)pthread_mutex_lock(&c->lock);
    c->connecting = false;
    if (!e) {
        take_facts(c, &facts);
        CHECK(!c->line);
        c->line = NEW(struct redis_line);
        c->line->connection = connection;
        c->line->epoch = c->epoch;
    }
    (void)pthread_cond_broadcast(&c->changed);
    return e;
}

// Asks the facts again, once a minute. If the server is not as it must be any more, the connection
// ends, so that nothing more is written to it.
static void check_facts(struct redis_client *c, struct redis_line *line, int64_t until)
{
    struct redis_facts facts;
    char why[STORE_WHY_MAX] = "";
    (void)pthread_mutex_unlock(&c->lock);
    enum err e = redis_ask_facts(c, line->connection, until, &facts, why);
    (void)pthread_mutex_lock(&c->lock);
    c->checking = false;
    if (e)
        redis_connection_break(line->connection, why);
    else
        take_facts(c, &facts);
    line->epoch = c->epoch;
}

// Finds or makes a connection that works. The caller leaves it (line_leave).
static enum err line_enter(struct redis_client *c, int64_t until, struct redis_line **out,
                           uint64_t *epoch, char why[static STORE_WHY_MAX])
{
    int64_t connect_until = clock_boot_ms() + RECONNECT_MS;
    enum err e = ERR_UNAVAILABLE;
    (void)snprintf(why, STORE_WHY_MAX, "there is no connection to the server");
    (void)pthread_mutex_lock(&c->lock);
    for (;;) {
        if (c->line && !redis_connection_is_good(c->line->connection)) line_drop(c);
        if (c->line) break;
        if (clock_boot_ms() >= until) break;
        if (c->connecting) {
            wait_changed(c, until);
            continue;
        }
        e = connect_line(c, until, why);
        if (!e) break;
        if (e != ERR_UNAVAILABLE || clock_boot_ms() >= connect_until) break;
        wait_changed(c, clock_boot_ms() + PAUSE_MS);
    }
    struct redis_line *line = c->line;
    if (line) {
        line->users++;
        bool due = clock_boot_ms() - c->facts_ms >= FACTS_EVERY_MS && !c->checking;
        if (due) {
            c->checking = true;
            check_facts(c, line, until);
        }
        *epoch = line->epoch;
    }
    (void)pthread_mutex_unlock(&c->lock);
    *out = line;
    return line ? ERR_OK : e;
}

static int64_t deadline(const struct redis_client *c)
{
    int64_t ms = c->store ? store_patience_ms(c->store, c->url.timeout_ms) : c->url.timeout_ms;
    return clock_boot_ms() + ms;
}

// One attempt. Returns whether another one makes sense; *e is the outcome otherwise.
static bool attempt(struct redis_line *line, struct bytes command, bool writes, int64_t until,
                    struct resp **reply, enum redis_step *step, enum err *e, struct store_answer *a)
{
    enum redis_end end = redis_connection_ask(line->connection, command, 1, until, reply);
    *step = REDIS_FINAL;
    if (end != REDIS_ANSWERED) {
        *e = redis_unanswered(writes, end == REDIS_LOST);
        redis_connection_why(line->connection, a->why);
        return *e != ERR_UNKNOWN;
    }
    *e = ERR_OK;
    if ((*reply)->kind != RESP_ERROR) return false;
    struct redis_class class = redis_classify((*reply)->text, writes);
    (void)answer_refuse(a, class.err, "the Redis server answered: %.180s", (*reply)->text);
    if (class.step == REDIS_MOVE) redis_connection_break(line->connection, a->why);
    if (class.step == REDIS_AGAIN) pause_ms(PAUSE_MS);
    resp_free(*reply);
    *reply = NULL;
    *e = class.err;
    *step = class.step;
    return class.step != REDIS_FINAL;
}

static void format_call(struct redis_client *c, const struct redis_script_call *call, bool text,
                        struct buf *to)
{
    char keys[24];
    (void)snprintf(keys, sizeof keys, "%zu", call->keys);
    struct bytes *words = memory_zeroed(call->args_len + 3, sizeof *words);
    words[0] = bytes_str(text ? "EVAL" : "EVALSHA");
    words[1] = bytes_str(text ? redis_script_text(call->script) : c->sha[call->script]);
    words[2] = bytes_str(keys);
    memcpy(words + 3, call->args, call->args_len * sizeof *words);
    buf_clear(to);
    resp_format(to, words, call->args_len + 3);
    memory_free(words);
}

// Makes attempts until one decides. call NULL: command is sent as it is.
static enum err perform(struct redis_client *c, struct redis_script_call *call, struct buf *command,
                        bool writes, struct resp **reply, struct store_answer *a)
{
    int64_t until = deadline(c);
    enum err e = ERR_UNAVAILABLE;
    enum redis_step step;
    for (bool again = true; again;) {
        struct redis_line *line;
        uint64_t epoch = 0;
        char why[STORE_WHY_MAX];
        e = line_enter(c, until, &line, &epoch, why);
        if (e) // a refusal is no answer to this call: the operator can correct it
            return answer_refuse(a, e == ERR_DENIED ? e : ERR_UNAVAILABLE, "%s", why);
        if (call && call->epoch && call->epoch != epoch) {
            call->moved = true;
            call->epoch = epoch;
            line_leave(c, line);
            return ERR_UNAVAILABLE;
        }
        again = attempt(line, buf_bytes(command), writes, until, reply, &step, &e, a);
        line_leave(c, line);
        if (again && call && step == REDIS_RELOAD) format_call(c, call, true, command);
        if (clock_boot_ms() >= until) again = false;
    }
    return e;
}

enum err redis_run(struct redis_client *c, struct redis_script_call *call, struct resp **reply,
                   struct store_answer *a)
{
    CLEANUP(buf_done) struct buf command;
    buf_init(&command, COMMAND_MAX);
    *reply = NULL;
    call->moved = false;
    format_call(c, call, false, &command);
    if (command.bad) return answer_refuse(a, ERR_LIMIT, "the request is over its limit");
    enum err e = perform(c, call, &command, call->writes, reply, a);
    if (e || (*reply)->kind == RESP_LIST) return e;
    resp_free(*reply);
    *reply = NULL;
    return answer_refuse(a, call->writes ? ERR_UNKNOWN : ERR_UNAVAILABLE,
                         "the Redis server's answer to a script is not a list");
}

enum err redis_command(struct redis_client *c, struct bytes command, bool writes,
                       struct resp **reply, struct store_answer *a)
{
    CLEANUP(buf_done) struct buf copy;
    buf_init(&copy, COMMAND_MAX);
    buf_put(&copy, command);
    *reply = NULL;
    return perform(c, NULL, &copy, writes, reply, a);
}

int64_t redis_time(struct redis_client *c, int64_t server_ms, struct store_answer *a)
{
    int64_t last = atomic_load(&c->last_ms);
    while (server_ms > last && !atomic_compare_exchange_weak(&c->last_ms, &last, server_ms)) {
    }
    int64_t now = server_ms > last ? server_ms : last;
    if (now <= 0) return now; // no server has told a time yet: it stays unknown
    a->time = (struct interval){now, now};
    return now;
}

enum err redis_memory(struct redis_client *c, int64_t *used, int64_t *limit, struct store_answer *a)
{
    (void)pthread_mutex_lock(&c->lock);
    bool fresh = clock_boot_ms() - c->memory_ms < MEMORY_EVERY_MS;
    if (!fresh) c->memory_ms = clock_boot_ms(); // one caller asks
    *used = c->facts.used_memory;
    *limit = c->facts.maxmemory;
    (void)pthread_mutex_unlock(&c->lock);
    if (fresh) return ERR_OK;
    struct resp *reply;
    CLEANUP(buf_done) struct buf command;
    buf_init(&command, 256);
    struct bytes words[2] = {bytes_str("INFO"), bytes_str("memory")};
    resp_format(&command, words, 2);
    enum err e = redis_command(c, buf_bytes(&command), false, &reply, a);
    if (e) return e;
    *used = redis_info_number(resp_bytes(reply), "used_memory");
    *limit = redis_info_number(resp_bytes(reply), "maxmemory");
    resp_free(reply);
    (void)pthread_mutex_lock(&c->lock);
    c->facts.used_memory = *used;
    c->facts.maxmemory = *limit;
    (void)pthread_mutex_unlock(&c->lock);
    return ERR_OK;
}

static int64_t measure(struct redis_client *c, struct redis_line *line, int64_t until)
{
    CLEANUP(buf_done) struct buf ping;
    buf_init(&ping, 64);
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
    line_leave(c, line);
    return best;
}

enum err redis_client_open(struct redis_client *c, int64_t *round_trip_ns, char *why,
                           size_t why_len)
{
    int64_t until = deadline(c);
    char words[STORE_WHY_MAX] = "";
    (void)pthread_mutex_lock(&c->lock);
    enum err e = connect_line(c, until, words);
    struct redis_line *line = c->line;
    if (!e) line->users++;
    (void)pthread_mutex_unlock(&c->lock);
    (void)snprintf(why, why_len, "%s", words);
    if (!e) *round_trip_ns = measure(c, line, until);
    return e;
}
