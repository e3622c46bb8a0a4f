// SPDX-License-Identifier: Apache-2.0
// All waits of a process share one connection and one blocking read. One of the waiting callers
// makes the read, for the logs of all. A caller that comes later ends that read (CLIENT UNBLOCK),
// so that the next one has its log, too. A cluster accepts only keys of one hash slot in a read:
// there, the waits are in groups, and a caller whose group reads for another hash slot polls.
#include "store/redis/inside.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "store/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_KEYS_MAX 500
#define READ_MAX      ((size_t)4 << 20)
#define UNBLOCK_MS    2 // the read that is to end may still be on its way to the server
#define POLL_MS       10

void redis_waits_init(struct redis_waits *w)
{
    *w = (struct redis_waits){0};
    (void)pthread_mutex_init(&w->lock, NULL);
}

void redis_waits_done(struct redis_waits *w, bool ours)
{
    CHECK(!ours || !w->first);
    redis_connection_free(w->connection, ours);
    (void)pthread_mutex_destroy(&w->lock);
}

// XREAD COUNT 1 BLOCK ms STREAMS key... id...
static void format_read(struct redis_waits *w, struct redis_wait *me, int64_t block_ms,
                        struct buf *to)
{
    struct bytes words[6 + 2 * WAIT_KEYS_MAX];
    char(*ids)[DIGITS_MAX + 3] = memory_zeroed(WAIT_KEYS_MAX, sizeof *ids);
    char ms[24];
    const struct redis_wait *taken[WAIT_KEYS_MAX];
    size_t count = 0;
    me->asked = true;
    taken[count++] = me;
    for (struct redis_wait *one = w->first; one && count < WAIT_KEYS_MAX; one = one->next) {
        if (one == me || one->hash_slot != me->hash_slot) continue;
        one->asked = true;
        taken[count++] = one;
    }
    (void)snprintf(ms, sizeof ms, "%lld", (long long)(block_ms > 0 ? block_ms : 1));
    const char *const head[] = {"XREAD", "COUNT", "1", "BLOCK", ms, "STREAMS"};
    for (size_t i = 0; i < 6; i++)
        words[i] = bytes_str(head[i]);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(ids[i], sizeof *ids, "%llu-0", (unsigned long long)(taken[i]->slot - 1));
        words[6 + i] = bytes_str(taken[i]->key.text);
        words[6 + count + i] = bytes_str(ids[i]);
    }
    resp_format(to, words, 6 + 2 * count);
    memory_free(ids);
}

// Wakes the callers whose log has the slot. The answer is a list of [key, [[id, ...]]].
static void wake_callers(struct redis_waits *w, const struct resp *reply)
{
    for (struct redis_wait *one = w->first; one; one = one->next) {
        for (size_t i = 0; reply->kind == RESP_LIST && i < reply->len; i++) {
            const struct resp *key = resp_item(resp_item(reply, i), 0);
            const struct resp *id = resp_item(resp_item(resp_item(resp_item(reply, i), 1), 0), 0);
            if (key->kind != RESP_TEXT || id->kind != RESP_TEXT) continue;
            if (strcmp(key->text, one->key.text) != 0) continue;
            if (strtoull(id->text, NULL, 10) >= one->slot) one->woken = true;
        }
        one->asked = false;
        (void)pthread_cond_signal(&one->wake);
    }
}

// Ends the waits of the read: another server may have their slot now, or the server is another.
static void end_early(struct redis_waits *w, unsigned hash_slot)
{
    for (struct redis_wait *one = w->first; one; one = one->next) {
        if (one->hash_slot != hash_slot) continue;
        one->early = true;
        (void)pthread_cond_signal(&one->wake);
    }
}

static void fail_all(struct redis_waits *w, const char *why)
{
    (void)snprintf(w->why, sizeof w->why, "%s", why);
    for (struct redis_wait *one = w->first; one; one = one->next) {
        one->failed = true;
        (void)pthread_cond_signal(&one->wake);
    }
}

static void drop_connection(struct redis_waits *w)
{
    redis_connection_free(w->connection, true);
    w->connection = NULL;
}

// The connection must lead to the server that has the key, in its present life.
static enum err connect_for(struct redis *r, struct redis_waits *w, struct redis_wait *me)
{
    struct redis_client *c = &r->client;
    int64_t until = clock_boot_ms() + c->url.timeout_ms;
    LOCAL(store_answer, a);
    struct redis_connection *connection = NULL;
    int64_t id = 0;
    (void)pthread_mutex_unlock(&w->lock);
    struct redis_server *server = redis_server_of(c, me->key.text, until, a.why);
    uint64_t epoch = 0;
    if (server) {
        LOCKED(&c->lock);
        epoch = server->epoch;
    }
    bool same = server && w->connection && w->server == server && w->epoch == epoch;
    enum err e = same     ? ERR_OK
                 : server ? redis_client_dial(c, server, until, &connection, &id, &a)
                          : ERR_UNAVAILABLE;
    (void)pthread_mutex_lock(&w->lock);
    if (same) return ERR_OK;
    drop_connection(w);
    w->connection = connection;
    w->client_id = id;
    w->server = server;
    w->epoch = epoch;
    if (e) fail_all(w, a.why);
    return e;
}

// The read was refused. A slot that moves ends it early.
static void refuse_read(struct redis *r, struct redis_waits *w, const char *text)
{
    bool asking;
    bool moves = strncmp(text, "MOVED ", 6) == 0 || strncmp(text, "ASK ", 4) == 0 ||
                 strncmp(text, "UNBLOCKED", 9) == 0;
    (void)redis_cluster_follow(&r->client, w->server, text, &asking);
    if (moves)
        end_early(w, w->hash_slot);
    else
        fail_all(w, text);
}

// Makes one blocking read, without the lock.
static void read_once(struct redis *r, struct redis_waits *w, struct redis_wait *me, int64_t end)
{
    int64_t timeout_ms = r->client.url.timeout_ms;
    LOCAL(buf, command, READ_MAX);
    if (connect_for(r, w, me)) return;
    int64_t left = end - clock_boot_ms();
    format_read(w, me, left, &command);
    w->blocked = true;
    struct redis_connection *connection = w->connection;
    struct resp *reply;
    (void)pthread_mutex_unlock(&w->lock);
    enum redis_end ended = redis_connection_ask(connection, buf_bytes(&command), 1,
                                                clock_boot_ms() + left + timeout_ms, &reply);
    (void)pthread_mutex_lock(&w->lock);
    w->blocked = false;
    if (ended != REDIS_ANSWERED) {
        char why[STORE_WHY_MAX];
        redis_connection_why(connection, why);
        fail_all(w, why);
        drop_connection(w);
        return;
    }
    if (reply->kind == RESP_ERROR) {
        refuse_read(r, w, reply->text);
        drop_connection(w);
    } else {
        wake_callers(w, reply);
    }
    resp_free(reply);
}

// Ends the blocking read of another caller, without the lock.
static void unblock(struct redis *r, struct redis_waits *w)
{
    char id[24];
    struct redis_server *server = w->server;
    (void)snprintf(id, sizeof id, "%lld", (long long)w->client_id);
    w->unblocking = true;
    (void)pthread_mutex_unlock(&w->lock);
    LOCAL(store_answer, a);
    struct bytes words[] = {bytes_str("CLIENT"), bytes_str("UNBLOCK"), bytes_str(id)};
    struct redis_call call = {.raw = true, .args = words, .args_len = 3, .server = server};
    struct resp *reply = NULL;
    if (redis_run(&r->client, &call, &reply, &a) == ERR_OK) resp_free(reply);
    (void)pthread_mutex_lock(&w->lock);
    w->unblocking = false;
}

// Asks for the slot by itself, without the lock.
static void poll_slot(struct redis *r, struct redis_waits *w, struct redis_wait *me,
                      const char *log, int64_t end)
{
    LOCAL(store_answer, a);
    (void)pthread_mutex_unlock(&w->lock);
    enum err e = redis_has_slot(r, log, me->slot, &a);
    (void)pthread_mutex_lock(&w->lock);
    if (e == ERR_OK) me->woken = true;
    int64_t soon = clock_boot_ms() + POLL_MS;
    if (!me->woken) clock_wait(&me->wake, &w->lock, soon < end ? soon : end);
}

static void wait_in_turn(struct redis *r, struct redis_waits *w, struct redis_wait *me,
                         const char *log, int64_t end)
{
    while (!me->woken && !me->failed && !me->early && clock_boot_ms() < end) {
        if (!w->reading) {
            w->reading = true;
            w->hash_slot = me->hash_slot;
            read_once(r, w, me, end);
            w->reading = false;
        } else if (w->hash_slot != me->hash_slot) {
            poll_slot(r, w, me, log, end);
        } else if (me->asked || !w->blocked || w->unblocking) {
            // A read that begins now has this caller, too; one that was sent before may not.
            int64_t soon = clock_boot_ms() + UNBLOCK_MS;
            clock_wait(&me->wake, &w->lock, me->asked || end < soon ? end : soon);
        } else {
            unblock(r, w);
            int64_t soon = clock_boot_ms() + UNBLOCK_MS;
            if (!me->asked && !me->woken) clock_wait(&me->wake, &w->lock, soon < end ? soon : end);
        }
    }
    // The caller asks again at once: a slot that moves takes a moment.
    if (me->early && !me->woken) poll_slot(r, w, me, log, end);
}

static void leave(struct redis_waits *w, struct redis_wait *me)
{
    struct redis_wait **at = &w->first;
    while (*at != me)
        at = &(*at)->next;
    *at = me->next;
    if (!w->reading && w->first) (void)pthread_cond_signal(&w->first->wake); // it reads next
}

enum err redis_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                    struct store_answer *a)
{
    struct redis *r = redis_of(s);
    if (wait_ms == 0) return redis_has_slot(r, log, slot, a);
    int64_t end = clock_boot_ms() + store_patience_ms(s, wait_ms);
    struct redis_wait me = {.slot = slot};
    redis_key_of(&me.key, r->client.url.prefix, 'l', log);
    if (r->client.slots) me.hash_slot = redis_slot_of(me.key.text);
    struct redis_waits *w = &r->waits[me.hash_slot % WAIT_GROUPS];
    clock_cond_init(&me.wake);
    (void)pthread_mutex_lock(&w->lock);
    me.next = w->first;
    w->first = &me;
    wait_in_turn(r, w, &me, log, end);
    leave(w, &me);
    enum err e = me.woken ? ERR_OK : me.failed ? ERR_UNAVAILABLE : ERR_NOT_FOUND;
    if (e == ERR_UNAVAILABLE) (void)answer_refuse(a, e, "%s", w->why);
    (void)pthread_mutex_unlock(&w->lock);
    (void)pthread_cond_destroy(&me.wake);
    return e;
}
