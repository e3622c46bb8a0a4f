// SPDX-License-Identifier: Apache-2.0
// A log is a stream whose ids are the slots. The script of an append adds the slot after the last
// one that ever existed, so a dropped slot cannot be created again.
#include "store/redis/inside.h"

#include "base/array.h"
#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "os/lock.h"
#include "store/backend.h"

#include <string.h>

#define SLOT_MAX        ((uint64_t)1 << 53) // a script's numbers are exact up to here
#define CHECKS_MAX      8                   // lives of the server during one call
#define EPOCH_UNCHECKED UINT64_MAX          // no life of a server

void redis_logs_init(struct redis_logs *l)
{
    *l = (struct redis_logs){0};
    (void)pthread_mutex_init(&l->lock, NULL);
    map_init(&l->by_id);
}

void redis_logs_done(struct redis_logs *l)
{
    for (size_t i = 0; i < l->len; i++)
        memory_free(l->rows[i].name);
    memory_free(l->rows);
    map_done(&l->by_id);
    (void)pthread_mutex_destroy(&l->lock);
}

struct digits {
    char text[DIGITS_MAX + 1];
};

static struct bytes digits_of(struct digits *d, uint64_t n)
{
    char *end = digits_put(d->text, n);
    return bytes_of(d->text, (size_t)(end - d->text));
}

static struct redis_log *log_find(struct redis_logs *l, const char *log)
{
    uint64_t id = hash64_of(bytes_str(log), 0);
    uint32_t at;
    for (size_t next = map_first(&l->by_id, id);
         (at = map_value(&l->by_id, id, &next)) != MAP_NONE;)
        if (strcmp(l->rows[at].name, log) == 0) return &l->rows[at];
    return NULL;
}

static struct redis_log *log_add(struct redis_logs *l, const char *log)
{
    size_t at = 0;
    while (at < l->len && l->rows[at].used)
        at++;
    struct redis_log *row = at < l->len ? &l->rows[at] : ARRAY_ADD(l->rows, l->len, l->cap);
    *row = (struct redis_log){.name = memory_text(log), .used = true};
    row->id = hash64_of(bytes_str(log), 0);
    map_add(&l->by_id, row->id, (uint32_t)at);
    return row;
}

void redis_rest(struct store *s, const char *log)
{
    struct redis_logs *l = &redis_of(s)->logs;
    LOCKED(&l->lock);
    struct redis_log *row = log_find(l, log);
    if (row) {
        map_remove(&l->by_id, row->id, (uint32_t)(row - l->rows));
        memory_free(row->name);
        *row = (struct redis_log){0};
    }
}

// A loss is checked again, from the slot that is known. Otherwise that slot may be one that the
// wrong answer named: the caller reads it again.
void redis_distrust(struct store *s, const char *log)
{
    struct redis *me = redis_of(s);
    redis_lines_retire(&me->client);
    if (!log) return;
    (void)pthread_mutex_lock(&me->logs.lock);
    struct redis_log *row = log_find(&me->logs, log);
    bool lost = row && row->lost;
    if (lost) {
        row->lost = false;
        row->epoch = EPOCH_UNCHECKED;
    }
    (void)pthread_mutex_unlock(&me->logs.lock);
    if (row && !lost) redis_rest(s, log);
}

// The slot is known in the life `epoch` of the server. A later check covers it if the log was
// already checked for another life.
static void note_slot(struct redis *me, const char *log, uint64_t slot, struct bytes body,
                      uint64_t epoch)
{
    struct redis_logs *l = &me->logs;
    CHECK(epoch > 0);
    LOCKED(&l->lock);
    struct redis_log *row = log_find(l, log);
    if (!row) row = log_add(l, log);
    if (slot > row->slot) {
        row->slot = slot;
        row->body = hash64_of(body, 0);
        row->epoch = epoch;
    }
}

// The known slot is there in the life `epoch`, too.
static void note_checked(struct redis *me, const char *log, uint64_t slot, uint64_t epoch)
{
    struct redis_logs *l = &me->logs;
    LOCKED(&l->lock);
    struct redis_log *row = log_find(l, log);
    if (row && row->slot == slot) {
        row->epoch = epoch;
        row->why[0] = 0;
    }
}

bool redis_lost_slots(struct redis *me, char why[static STORE_WHY_MAX])
{
    struct redis_logs *l = &me->logs;
    bool found = false;
    LOCKED(&l->lock);
    for (size_t i = 0; i < l->len && !found; i++) {
        found = l->rows[i].used && l->rows[i].why[0];
        if (found) memcpy(why, l->rows[i].why, STORE_WHY_MAX);
    }
    return found;
}

static enum err say_lost(struct redis *me, const char *log, uint64_t first, uint64_t last,
                         const char *how, struct store_answer *a)
{
    struct redis_logs *l = &me->logs;
    enum err e =
        answer_refuse(a, ERR_CORRUPT,
                      "the Redis server lost what it had acknowledged: in \"%.80s\", slots "
                      "%llu to %llu are %s; open the store again to go on with what is left",
                      log, (unsigned long long)first, (unsigned long long)last, how);
    LOCKED(&l->lock);
    struct redis_log *row = log_find(l, log);
    if (row) {
        row->lost = true;
        memcpy(row->why, a->why, sizeof row->why);
    }
    return e;
}

static enum err ask_tail(struct redis *me, const char *log, uint64_t *last, struct store_answer *a)
{
    struct redis_key key, meta;
    redis_key_of(&key, me->client.url.prefix, 'l', log);
    redis_key_of(&meta, me->client.url.prefix, 'm', log);
    struct bytes args[] = {bytes_str(key.text), bytes_str(meta.text)};
    struct redis_call call = {.script = SCRIPT_TAIL, .keys = 2, .args = args, .args_len = 2};
    struct resp *reply;
    enum err e = redis_run(&me->client, &call, &reply, a);
    if (e) return e;
    int64_t n = resp_number(resp_item(reply, 1));
    (void)redis_time(&me->client, resp_number(resp_item(reply, 0)), a);
    resp_free(reply);
    *last = n > 0 ? (uint64_t)n : 0;
    return ERR_OK;
}

static enum err ask_slots(struct redis *me, const char *log, uint64_t slot, size_t bytes_max,
                          struct redis_call *call, struct resp **reply, struct store_answer *a)
{
    struct redis_key key;
    struct digits first, bytes;
    redis_key_of(&key, me->client.url.prefix, 'l', log);
    struct bytes args[] = {bytes_str(key.text), digits_of(&first, slot),
                           digits_of(&bytes, bytes_max)};
    call->script = SCRIPT_READ;
    call->keys = 1;
    call->args = args;
    call->args_len = 3;
    enum err e = redis_run(&me->client, call, reply, a);
    call->args = NULL;
    return e;
}

// Reads the last known slot again. A slot that is missing although later ones existed was dropped.
// *epoch is the life in which it was found.
static enum err check_kept(struct redis *me, const char *log, const struct redis_log *known,
                           uint64_t *epoch, struct store_answer *a)
{
    struct resp *reply;
    uint64_t last;
    struct redis_call call = {0};
    enum err e = ask_slots(me, log, known->slot, 1, &call, &reply, a);
    if (e) return e;
    *epoch = call.epoch;
    const struct resp *body = resp_item(reply, 2);
    bool there = body->kind == RESP_TEXT;
    bool same = there && hash64_of(resp_bytes(body), 0) == known->body;
    resp_free(reply);
    if (same) return ERR_OK;
    if (there) return say_lost(me, log, known->slot, known->slot, "replaced by others", a);
    e = ask_tail(me, log, &last, a);
    if (e || last >= known->slot) return e;
    return say_lost(me, log, last + 1, known->slot, "gone", a);
}

// Before a call on a log. *epoch is the life of the server for which the log was checked; 0: the
// handle knows nothing of the log. now_epoch is the present life; 0: not known.
static enum err log_enter(struct redis *me, const char *log, uint64_t now_epoch, uint64_t *epoch,
                          struct store_answer *a)
{
    struct redis_logs *l = &me->logs;
    struct redis_log known = {0};
    (void)pthread_mutex_lock(&l->lock);
    const struct redis_log *row = log_find(l, log);
    if (row) known = *row;
    (void)pthread_mutex_unlock(&l->lock);
    if (known.lost) return answer_refuse(a, ERR_CORRUPT, "%s", known.why);
    *epoch = known.epoch;
    if (known.epoch == 0 || now_epoch == 0 || now_epoch == known.epoch) return ERR_OK;
    enum err e = check_kept(me, log, &known, epoch, a);
    if (e) return e;
    note_checked(me, log, known.slot, *epoch);
    answer_clear(a);
    return ERR_OK;
}

typedef enum err log_call_fn(struct redis *me, void *ctx, struct redis_call *call,
                             struct resp **reply, struct store_answer *a);

// Makes the call. If the server has another life than the one for which the log was checked, the
// check comes first.
static enum err log_run(struct redis *me, const char *log, log_call_fn *fn, void *ctx,
                        uint64_t *epoch, struct resp **reply, struct store_answer *a)
{
    uint64_t now_epoch = 0;
    for (int i = 0; i < CHECKS_MAX; i++) {
        struct redis_call call = {0};
        enum err e = log_enter(me, log, now_epoch, epoch, a);
        if (e) return e;
        call.epoch = *epoch;
        e = fn(me, ctx, &call, reply, a);
        *epoch = now_epoch = call.epoch;
        if (!call.moved) return e;
    }
    return answer_refuse(a, ERR_UNAVAILABLE, "the Redis server starts again and again");
}

struct append_context {
    const char *log;
    uint64_t slot;
    struct bytes body;
};

static enum err append_once(struct redis *me, void *ctx, struct redis_call *call,
                            struct resp **reply, struct store_answer *a)
{
    const struct append_context *x = ctx;
    struct redis_key key, meta;
    struct digits slot, before;
    redis_key_of(&key, me->client.url.prefix, 'l', x->log);
    redis_key_of(&meta, me->client.url.prefix, 'm', x->log);
    struct bytes args[] = {bytes_str(key.text), bytes_str(meta.text), digits_of(&slot, x->slot),
                           digits_of(&before, x->slot - 1), x->body};
    call->script = SCRIPT_APPEND;
    call->keys = 2;
    call->args = args;
    call->args_len = 5;
    call->writes = true;
    enum err e = redis_run(&me->client, call, reply, a);
    call->args = NULL;
    return e;
}

// A gap after a slot that this handle knows: the server does not have that slot any more.
static enum err refuse_gap(struct redis *me, const char *log, uint64_t slot, uint64_t last,
                           struct store_answer *a)
{
    (void)pthread_mutex_lock(&me->logs.lock);
    const struct redis_log *row = log_find(&me->logs, log);
    uint64_t known = row ? row->slot : 0;
    (void)pthread_mutex_unlock(&me->logs.lock);
    if (last < known) return say_lost(me, log, last + 1, known, "gone", a);
    return answer_refuse(a, ERR_INVALID, "slot %llu would leave a gap: the last slot is %llu",
                         (unsigned long long)slot, (unsigned long long)last);
}

static enum err read_outcome(const struct resp *reply, struct redis *me, struct store_answer *a)
{
    const struct resp *word = resp_item(reply, 0);
    int64_t now = resp_number(resp_item(reply, 1));
    if (now >= 0) (void)redis_time(&me->client, now, a);
    if (word->kind == RESP_TEXT && now >= 0) {
        if (strcmp(word->text, "ok") == 0) return ERR_OK;
        if (strcmp(word->text, "exists") == 0) return ERR_CONFLICT;
        if (strcmp(word->text, "gap") == 0) return ERR_INVALID;
    }
    return answer_refuse(a, ERR_UNKNOWN,
                         "the Redis server's answer to an append is not understood");
}

enum err redis_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                      struct store_answer *a)
{
    struct redis *me = redis_of(s);
    struct append_context x = {log, slot, body};
    struct resp *reply;
    uint64_t epoch;
    if (slot > SLOT_MAX)
        return answer_refuse(a, ERR_LIMIT, "slot %llu is over the limit of a log in Redis",
                             (unsigned long long)slot);
    enum err e = log_run(me, log, append_once, &x, &epoch, &reply, a);
    if (e) return e;
    e = read_outcome(reply, me, a);
    int64_t last = resp_number(resp_item(reply, 2));
    resp_free(reply);
    if (e == ERR_OK && last != (int64_t)slot)
        return answer_refuse(a, ERR_UNKNOWN,
                             "the Redis server's answer to an append is about another slot");
    if (e == ERR_INVALID) return refuse_gap(me, log, slot, last > 0 ? (uint64_t)last : 0, a);
    if (e == ERR_OK) note_slot(me, log, slot, body, epoch);
    return e;
}

// With durability=replicas:N, a slot that this handle does not know yet may be on one server only.
// It counts once the replicas have it. *again: the server has another life; read again.
static enum err confirm_slots(struct redis *me, const char *log, uint64_t last, uint64_t epoch,
                              bool *again, struct store_answer *a)
{
    struct redis_key mark;
    *again = false;
    if (me->client.url.replicas == 0) return ERR_OK;
    (void)pthread_mutex_lock(&me->logs.lock);
    const struct redis_log *row = log_find(&me->logs, log);
    bool known = row && row->slot >= last && row->epoch == epoch;
    (void)pthread_mutex_unlock(&me->logs.lock);
    if (known) return ERR_OK;
    redis_key_mark(&mark, me->client.url.prefix, log);
    return redis_confirm(&me->client, mark.text, &epoch, again, a);
}

struct read_context {
    const char *log;
    uint64_t slot;
    size_t bytes_max;
};

static enum err read_once(struct redis *me, void *ctx, struct redis_call *call, struct resp **reply,
                          struct store_answer *a)
{
    const struct read_context *x = ctx;
    return ask_slots(me, x->log, x->slot, x->bytes_max, call, reply, a);
}

static enum err take_slots(struct redis *me, const struct resp *reply, uint64_t slot,
                           struct store_answer *a)
{
    int64_t now = resp_number(resp_item(reply, 0));
    if (now < 0 || reply->len % 2 != 1)
        return answer_refuse(a, ERR_UNAVAILABLE, "the Redis server's answer is not understood");
    for (size_t i = 1; i + 1 < reply->len; i += 2) {
        int64_t at = resp_number(resp_item(reply, i));
        const struct resp *body = resp_item(reply, i + 1);
        if (at < 0 || body->kind != RESP_TEXT)
            return answer_refuse(a, ERR_CORRUPT, "slot %llu of the log is damaged",
                                 (unsigned long long)(slot + i / 2));
        struct store_row *row = answer_row(a);
        row->first = row->last = slot + i / 2;
        row->size = body->len;
        row->body_at = a->body.len;
        row->modified = (struct interval){at, at};
        if (at > now) now = at;
        buf_put(&a->body, resp_bytes(body));
    }
    (void)redis_time(&me->client, now, a);
    if (a->body.bad) return answer_refuse(a, ERR_LIMIT, "the answer is over its limit");
    return a->rows_len > 0 ? ERR_OK : ERR_NOT_FOUND;
}

enum err redis_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                        struct store_answer *a)
{
    struct redis *me = redis_of(s);
    struct read_context x = {log, slot, bytes_max};
    struct resp *reply;
    uint64_t epoch;
    bool again = true;
    if (slot > SLOT_MAX) return ERR_NOT_FOUND;
    for (int i = 0; again && i < CHECKS_MAX; i++) {
        answer_clear(a);
        enum err e = log_run(me, log, read_once, &x, &epoch, &reply, a);
        if (e) return e;
        e = take_slots(me, reply, slot, a);
        resp_free(reply);
        if (e) return e;
        size_t last = a->rows_len - 1;
        e = confirm_slots(me, log, a->rows[last].last, epoch, &again, a);
        if (again) continue;
        if (!e) note_slot(me, log, a->rows[last].last, store_row_bytes(a, last), epoch);
        return e;
    }
    return answer_refuse(a, ERR_UNAVAILABLE, "the Redis server starts again and again");
}

enum err redis_has_slot(struct redis *me, const char *log, uint64_t slot, struct store_answer *a)
{
    uint64_t last = 0;
    enum err e = ask_tail(me, log, &last, a);
    return e ? e : last >= slot ? ERR_OK : ERR_NOT_FOUND;
}

enum err redis_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                       struct store_answer *a)
{
    struct redis *me = redis_of(s);
    struct redis_key key;
    struct digits first, rows;
    if (from > SLOT_MAX) return ERR_OK;
    redis_key_of(&key, me->client.url.prefix, 'l', log);
    struct bytes args[] = {bytes_str(key.text), digits_of(&first, from), digits_of(&rows, limit)};
    struct redis_call call = {.script = SCRIPT_EXTENTS, .keys = 1, .args = args, .args_len = 3};
    struct resp *reply;
    enum err e = redis_run(&me->client, &call, &reply, a);
    if (e) return e;
    (void)redis_time(&me->client, resp_number(resp_item(reply, 0)), a);
    a->more = resp_number(resp_item(reply, 1)) == 1;
    for (size_t i = 2; i + 2 < reply->len; i += 3) {
        int64_t slot = resp_number(resp_item(reply, i));
        int64_t size = resp_number(resp_item(reply, i + 1));
        int64_t at = resp_number(resp_item(reply, i + 2));
        if (slot < 1 || size < 0 || at < 0) {
            e = answer_refuse(a, ERR_CORRUPT, "a slot of the log is damaged");
            break;
        }
        struct store_row *row = answer_row(a);
        row->first = row->last = (uint64_t)slot;
        row->size = (uint64_t)size;
        row->modified = (struct interval){at, at};
    }
    resp_free(reply);
    return e;
}

enum err redis_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                    struct store_answer *a)
{
    struct redis *me = redis_of(s);
    struct redis_key key;
    struct digits from, to, next;
    if (first > SLOT_MAX) return ERR_OK;
    if (last > SLOT_MAX) last = SLOT_MAX;
    redis_key_of(&key, me->client.url.prefix, 'l', log);
    struct bytes args[] = {bytes_str(key.text), digits_of(&from, first), digits_of(&to, last),
                           digits_of(&next, last + 1)};
    struct redis_call call = {
        .script = SCRIPT_DROP, .keys = 1, .args = args, .args_len = 4, .writes = true};
    struct resp *reply;
    enum err e = redis_run(&me->client, &call, &reply, a);
    if (e) return e;
    (void)redis_time(&me->client, resp_number(resp_item(reply, 0)), a);
    resp_free(reply);
    return ERR_OK;
}
