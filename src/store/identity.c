// SPDX-License-Identifier: Apache-2.0
// One check of the format object serves all writes of a few seconds. A write starts only after a
// fresh check. If a write takes longer than a check stays fresh, another check follows it.
#include "store/identity.h"

#include "base/check.h"
#include "base/memory.h"
#include "os/clock.h"
#include "store/backend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define CHECKS         3 // checks that must agree before the store is given up
#define CHECK_PAUSE_NS 200000000
#define NEVER_SEEN     (INT64_MIN / 2) // value of seen_ms: the next check is due

struct identity {
    struct store base;
    int64_t fresh_ms;
    uint8_t id[STORE_ID_LEN];
    _Atomic bool expects;
    _Atomic bool lost;       // permanent; why is set before
    _Atomic int64_t seen_ms; // when the last successful check began
    pthread_mutex_t lock;    // guards the fields below
    pthread_cond_t ended;
    bool checking;
    uint64_t checks; // checks that have ended; err and last_why belong to the last
    enum err err;
    char last_why[STORE_WHY_MAX];
    char why[STORE_WHY_MAX]; // the reason of the loss
};

static struct identity *identity_of(struct store *s)
{
    return (struct identity *)s;
}

static enum err refuse_lost(struct identity *me, struct store_answer *a)
{
    return answer_refuse(a, ERR_CORRUPT, "%s", me->why);
}

static enum err check_once(struct identity *me, struct store_answer *a)
{
    enum err e = store_moved(me->base.inner, a);
    if (!e) e = store_get(me->base.inner, FORMAT_KEY, 0, SIZE_MAX, a);
    if (e == ERR_NOT_FOUND)
        return answer_refuse(
            a, e,
            "this store was emptied while it was in use: its object \"" FORMAT_KEY
            "\" is missing; stop all writers, restore the data, then open it again");
    if (e) return e;
    struct store_format found;
    e = store_format_read(buf_bytes(&a->body), &found, a);
    if (e) return ERR_CORRUPT;
    if (memcmp(found.id, me->id, sizeof me->id) == 0) return ERR_OK;
    return answer_refuse(a, ERR_CORRUPT,
                         "this store was replaced by another while it was in use: its object "
                         "\"" FORMAT_KEY "\" has another id; open it again to use the new one");
}

// A get that answers 404 while a list shows the object proves nothing: the server contradicts
// itself.
static enum err check_list(struct identity *me, struct store_answer *a)
{
    enum err e = store_list(me->base.inner, FORMAT_KEY, NULL, 1, a);
    if (e) return e;
    bool shown = a->rows_len > 0 && strcmp(store_row_key(a, 0), FORMAT_KEY) == 0;
    if (!shown) return ERR_NOT_FOUND;
    return answer_refuse(a, ERR_UNAVAILABLE,
                         "the store lists its object \"" FORMAT_KEY "\" and does not find it");
}

static bool seems_lost(enum err e)
{
    return e == ERR_NOT_FOUND || e == ERR_CORRUPT;
}

// Returns ERR_OK, ERR_CORRUPT (permanently lost), or the error that prevented the check.
static enum err check_identity(struct identity *me, struct cost *cost,
                               char why[static STORE_WHY_MAX])
{
    LOCAL(store_answer, a);
    enum err e = ERR_CORRUPT;
    for (int i = 0; i < CHECKS && seems_lost(e); i++) {
        if (i > 0) {
            (void)nanosleep(&(struct timespec){.tv_nsec = CHECK_PAUSE_NS}, NULL);
            store_distrust(me->base.inner, NULL);
        }
        e = check_once(me, &a);
        cost_add(cost, &a.cost);
    }
    (void)snprintf(why, STORE_WHY_MAX, "%s", a.why);
    if (e != ERR_NOT_FOUND) return e;
    e = check_list(me, &a);
    cost_add(cost, &a.cost);
    if (e == ERR_NOT_FOUND) return ERR_CORRUPT;
    if (e) (void)snprintf(why, STORE_WHY_MAX, "%s", a.why);
    return e ? e : ERR_UNAVAILABLE;
}

static void check_ended(struct identity *me, enum err e, int64_t began, const char *why)
{
    me->checking = false;
    me->checks++;
    me->err = e;
    (void)snprintf(me->last_why, sizeof me->last_why, "%s", why[0] ? why : err_text(e));
    if (e == ERR_OK) atomic_store(&me->seen_ms, began);
    if (e == ERR_CORRUPT && !atomic_load(&me->lost)) {
        memcpy(me->why, me->last_why, sizeof me->why);
        atomic_store(&me->lost, true);
    }
    (void)pthread_cond_broadcast(&me->ended);
}

static bool is_fresh(struct identity *me)
{
    if (!atomic_load(&me->expects)) return true;
    return clock_boot_ms() - atomic_load(&me->seen_ms) < me->fresh_ms;
}

// Makes a check, or waits for the check that another thread has begun, which is as fresh.
static enum err check_shared(struct identity *me, struct cost *cost, struct store_answer *a)
{
    (void)pthread_mutex_lock(&me->lock);
    if (me->checking) {
        for (uint64_t before = me->checks; me->checks == before;)
            (void)pthread_cond_wait(&me->ended, &me->lock);
    } else if (!is_fresh(me)) { // else another thread has checked meanwhile
        char why[STORE_WHY_MAX] = "";
        me->checking = true;
        (void)pthread_mutex_unlock(&me->lock);
        int64_t began = clock_boot_ms();
        enum err e = check_identity(me, cost, why);
        (void)pthread_mutex_lock(&me->lock);
        check_ended(me, e, began, why);
    }
    enum err e = me->err;
    if (e) (void)answer_refuse(a, e, "%s", me->last_why);
    (void)pthread_mutex_unlock(&me->lock);
    return e;
}

static enum err before_write(struct store *s, struct cost *cost, struct store_answer *a)
{
    struct identity *me = identity_of(s);
    if (atomic_load(&me->lost)) return refuse_lost(me, a);
    return is_fresh(me) ? ERR_OK : check_shared(me, cost, a);
}

// Called for an answer that contradicts the known state of the store, such as a gap before a slot
// or missing segments. After a directory was emptied, such an answer can come before the next check
// is due.
static enum err explain(struct identity *me, enum err e, struct cost *cost, struct store_answer *a)
{
    LOCAL(store_answer, found);
    atomic_store(&me->seen_ms, NEVER_SEEN);
    enum err lost = check_shared(me, cost, &found);
    return lost == ERR_CORRUPT ? answer_refuse(a, lost, "%s", found.why) : e;
}

// If a write took long, it may have been applied after the store was emptied.
static enum err after_write(struct store *s, enum err e, struct cost *cost, struct store_answer *a)
{
    struct identity *me = identity_of(s);
    bool contradicts = e == ERR_INVALID || e == ERR_CORRUPT;
    if (contradicts && !atomic_load(&me->lost)) e = explain(me, e, cost, a);
    if (e == ERR_OK && !is_fresh(me)) {
        e = check_shared(me, cost, a);
        if (e && e != ERR_CORRUPT) e = ERR_UNKNOWN;
    }
    cost_add(&a->cost, cost);
    return e;
}

#define IDENTITY_WRITE(name, kind, key_of, bytes_in, params, ...)                                  \
    static enum err identity_##name params                                                         \
    {                                                                                              \
        struct cost cost = {0};                                                                    \
        enum err e = before_write(s, &cost, a);                                                    \
        if (!e) e = store_##name(s->inner, __VA_ARGS__, a);                                        \
        return after_write(s, e, &cost, a);                                                        \
    }
STORE_WRITES(IDENTITY_WRITE)

// A read checks nothing, unless the store's bytes are damaged: the reason may be that it was
// emptied or replaced.
static enum err after_read(struct store *s, enum err e, struct store_answer *a)
{
    struct identity *me = identity_of(s);
    if (e != ERR_CORRUPT || atomic_load(&me->lost)) return e;
    struct cost cost = {0};
    e = explain(me, e, &cost, a);
    cost_add(&a->cost, &cost);
    return e;
}

#define UNLESS_LOST(call)                                                                          \
    (atomic_load(&identity_of(s)->lost) ? refuse_lost(identity_of(s), a) : after_read(s, call, a))

#define IDENTITY_READ(name, kind, key_of, bytes_in, params, ...)                                   \
    static enum err identity_##name params                                                         \
    {                                                                                              \
        return UNLESS_LOST(store_##name(s->inner, __VA_ARGS__, a));                                \
    }
STORE_READS(IDENTITY_READ)

static enum err identity_seal(struct store *s, const char *log, struct store_answer *a)
{
    return UNLESS_LOST(store_seal(s->inner, log, a));
}

static bool identity_is_dead(struct store *s, char why[static STORE_WHY_MAX])
{
    struct identity *me = identity_of(s);
    if (!atomic_load(&me->lost)) return store_is_dead(me->base.inner, why);
    memcpy(why, me->why, STORE_WHY_MAX);
    return true;
}

static enum err identity_check_space(struct store *s, uint64_t bytes, struct store_answer *a)
{
    return UNLESS_LOST(store_check_space(s->inner, bytes, a));
}

static void identity_free(struct store *s)
{
    struct identity *me = identity_of(s);
    store_free(me->base.inner);
    (void)pthread_cond_destroy(&me->ended);
    (void)pthread_mutex_destroy(&me->lock);
    memory_free(me);
}

static const struct store_ops identity_ops = {
#define IDENTITY_OP(name, ...) .name = identity_##name,
    STORE_WRITES(IDENTITY_OP) STORE_READS(IDENTITY_OP)
#undef IDENTITY_OP
        .seal = identity_seal,
    .free = identity_free,
    .is_dead = identity_is_dead,
    .check_space = identity_check_space,
};

struct store *store_identity_take(struct store *inner, int64_t fresh_ms)
{
    struct identity *me = NEW(struct identity);
    store_init_around(&me->base, &identity_ops, inner);
    me->fresh_ms = fresh_ms > 0 ? fresh_ms : IDENTITY_FRESH_MS;
    (void)pthread_mutex_init(&me->lock, NULL);
    (void)pthread_cond_init(&me->ended, NULL);
    return &me->base;
}

void store_identity_expect(struct store *s, const uint8_t id[static STORE_ID_LEN], int64_t since_ms)
{
    CHECK(s->ops == &identity_ops);
    struct identity *me = identity_of(s);
    CHECK(!atomic_load(&me->expects));
    memcpy(me->id, id, sizeof me->id);
    atomic_store(&me->seen_ms, since_ms);
    atomic_store(&me->expects, true);
}

bool store_identity_is_lost(const struct store *s)
{
    CHECK(s->ops == &identity_ops);
    return atomic_load(&((const struct identity *)s)->lost);
}
