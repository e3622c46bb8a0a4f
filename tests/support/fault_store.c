// SPDX-License-Identifier: Apache-2.0
// Decides under a mutex what goes wrong with a call, then makes the call without it, or does not.
#include "fault_store.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/rng.h"
#include "store/backend.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum fate {
    FATE_FINE,
    FATE_LOST_REQUEST,
    FATE_LOST_REPLY,
    FATE_UNKNOWN_LOST,
    FATE_UNKNOWN_LATE,
};

enum write_kind {
    WRITE_PUT_NEW,
    WRITE_PUT,
    WRITE_APPEND,
};

struct write {
    enum write_kind kind;
    const char *key;
    uint64_t slot;
    struct bytes body;
};

// A write on its way that its caller has given up on. Owns its bytes.
struct late {
    struct late *next;
    struct write write;
    uint64_t due; // at which call it lands; UINT64_MAX: at a flush
};

struct fault {
    struct store base;
    struct store *inner;
    pthread_mutex_t lock; // guards what follows
    struct fault_options options;
    struct rng rng;
    uint64_t calls;
    uint64_t faults;
    struct late *late;                   // oldest first
    char won_twice[STORE_KEY_MAX + 1];   // the key that a second caller was told to have created
    char hidden_once[STORE_KEY_MAX + 1]; // the key that was hidden from its first reader
};

static struct fault *fault_of(struct store *s)
{
    return (struct fault *)s;
}

static enum err write_through(struct store *inner, const struct write *w, struct store_answer *a)
{
    switch (w->kind) {
    case WRITE_PUT_NEW:
        return store_put_new(inner, w->key, w->body, a);
    case WRITE_PUT:
        return store_put(inner, w->key, w->body, a);
    case WRITE_APPEND:
        return store_append(inner, w->key, w->slot, w->body, a);
    }
    return ERR_INVALID;
}

static void late_add(struct fault *f, const struct write *w)
{
    struct late *l = NEW(struct late);
    l->write = *w;
    struct bytes key = bytes_copy(bytes_of(w->key, strlen(w->key) + 1));
    l->write.key = (const char *)key.data;
    l->write.body = bytes_copy(w->body);
    uint32_t within = f->options.late_calls;
    l->due = within ? f->calls + 1 + rng_below(&f->rng, within) : UINT64_MAX;
    struct late **at = &f->late;
    while (*at)
        at = &(*at)->next;
    *at = l;
}

static void late_free(struct late *l)
{
    bytes_free(bytes_str(l->write.key));
    bytes_free(l->write.body);
    memory_free(l);
}

// Takes one write off the list that is due; NULL when none is.
static struct late *late_take(struct fault *f, uint64_t due)
{
    (void)pthread_mutex_lock(&f->lock);
    struct late **at = &f->late;
    while (*at && (*at)->due > due)
        at = &(*at)->next;
    struct late *l = *at;
    if (l) *at = l->next;
    (void)pthread_mutex_unlock(&f->lock);
    return l;
}

static void late_land(struct fault *f, uint64_t due)
{
    struct store_answer a CLEANUP(store_answer_done);
    store_answer_init(&a);
    for (struct late *l = late_take(f, due); l; l = late_take(f, due)) {
        enum err ignore_answer = write_through(f->inner, &l->write, &a);
        (void)ignore_answer;
        late_free(l);
    }
}

static enum fate draw(struct fault *f, bool write)
{
    const struct fault_options *o = &f->options;
    uint64_t roll = rng_below(&f->rng, 10000);
    const struct {
        uint32_t chance;
        enum fate fate;
    } fates[] = {
        {o->lost_request, FATE_LOST_REQUEST},
        {o->lost_reply, FATE_LOST_REPLY},
        {write ? o->unknown_lost : 0, FATE_UNKNOWN_LOST},
        {write ? o->unknown_late : 0, FATE_UNKNOWN_LATE},
    };
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) {
        if (roll < fates[i].chance) return fates[i].fate;
        roll -= fates[i].chance;
    }
    return FATE_FINE;
}

// What becomes of this call. Late writes that are due land first.
static enum fate fault_enter(struct fault *f, const struct write *w)
{
    (void)pthread_mutex_lock(&f->lock);
    uint64_t call = ++f->calls;
    enum fate fate = draw(f, w != NULL);
    if (fate != FATE_FINE) f->faults++;
    if (fate == FATE_UNKNOWN_LATE) {
        CHECK(w);
        late_add(f, w);
    }
    bool slow = rng_chance(&f->rng, f->options.slow);
    int64_t slow_ms = f->options.slow_ms;
    bool due = f->late != NULL;
    (void)pthread_mutex_unlock(&f->lock);
    if (due) late_land(f, call);
    if (slow) {
        struct timespec t = {.tv_sec = slow_ms / 1000, .tv_nsec = slow_ms % 1000 * 1000000};
        (void)nanosleep(&t, NULL);
    }
    return fate;
}

static enum err lose(struct store_answer *a, enum err e)
{
    answer_clear(a);
    return answer_refuse(a, e, e == ERR_UNKNOWN ? "the reply was lost" : "the request was lost");
}

static enum err fault_write(struct store *s, const struct write *w, struct store_answer *a)
{
    struct fault *f = fault_of(s);
    switch (fault_enter(f, w)) {
    case FATE_LOST_REQUEST:
        return lose(a, ERR_UNAVAILABLE);
    case FATE_UNKNOWN_LOST:
    case FATE_UNKNOWN_LATE:
        return lose(a, ERR_UNKNOWN);
    case FATE_LOST_REPLY: {
        enum err ignore_answer = write_through(f->inner, w, a);
        (void)ignore_answer;
        return lose(a, ERR_UNKNOWN);
    }
    case FATE_FINE:
        break;
    }
    return write_through(f->inner, w, a);
}

// True once for each key, as long as keys come one after the other.
static bool lie_once(struct fault *f, char told[STORE_KEY_MAX + 1], const char *key)
{
    (void)pthread_mutex_lock(&f->lock);
    bool first = strcmp(told, key) != 0;
    if (first) memcpy(told, key, strlen(key) + 1);
    (void)pthread_mutex_unlock(&f->lock);
    return first;
}

// A test may set other options while calls run.
static struct fault_options options_of(struct fault *f)
{
    (void)pthread_mutex_lock(&f->lock);
    struct fault_options options = f->options;
    (void)pthread_mutex_unlock(&f->lock);
    return options;
}

static enum err fault_put_new(struct store *s, const char *key, struct bytes body,
                              struct store_answer *a)
{
    struct fault *f = fault_of(s);
    const struct fault_options o = options_of(f);
    enum write_kind kind = o.ignores_condition ? WRITE_PUT : WRITE_PUT_NEW;
    enum err e = fault_write(s, &(struct write){.kind = kind, .key = key, .body = body}, a);
    bool lies = e == ERR_CONFLICT && o.lets_two_win && lie_once(f, f->won_twice, key);
    return lies ? ERR_OK : e;
}

static enum err fault_put(struct store *s, const char *key, struct bytes body,
                          struct store_answer *a)
{
    return fault_write(s, &(struct write){.kind = WRITE_PUT, .key = key, .body = body}, a);
}

static enum err fault_append(struct store *s, const char *log, uint64_t slot, struct bytes body,
                             struct store_answer *a)
{
    struct write w = {.kind = WRITE_APPEND, .key = log, .slot = slot, .body = body};
    return fault_write(s, &w, a);
}

// Reads and removals: lost on the way there or back is all that happens to them.
static enum fate fault_read(struct store *s, struct store_answer *a, enum err *e)
{
    enum fate fate = fault_enter(fault_of(s), NULL);
    if (fate == FATE_LOST_REQUEST) *e = lose(a, ERR_UNAVAILABLE);
    return fate;
}

static enum err fault_get(struct store *s, const char *key, size_t from, size_t len,
                          struct store_answer *a)
{
    struct fault *f = fault_of(s);
    enum err e = ERR_OK;
    enum fate fate = fault_read(s, a, &e);
    if (e) return e;
    if (options_of(f).stale_absence && lie_once(f, f->hidden_once, key)) return ERR_NOT_FOUND;
    e = store_get(f->inner, key, from, len, a);
    return fate == FATE_FINE ? e : lose(a, ERR_UNAVAILABLE);
}

static enum err fault_list(struct store *s, const char *prefix, const char *after, size_t limit,
                           struct store_answer *a)
{
    enum err e = ERR_OK;
    enum fate fate = fault_read(s, a, &e);
    if (e) return e;
    e = store_list(fault_of(s)->inner, prefix, after, limit, a);
    return fate == FATE_FINE ? e : lose(a, ERR_UNAVAILABLE);
}

static enum err fault_delete(struct store *s, const char *const *keys, size_t count,
                             struct store_answer *a)
{
    enum err e = ERR_OK;
    enum fate fate = fault_read(s, a, &e);
    if (e) return e;
    e = store_delete(fault_of(s)->inner, keys, count, a);
    return fate == FATE_FINE ? e : lose(a, ERR_UNKNOWN);
}

static enum err fault_read_log(struct store *s, const char *log, uint64_t slot, size_t bytes_max,
                               struct store_answer *a)
{
    enum err e = ERR_OK;
    enum fate fate = fault_read(s, a, &e);
    if (e) return e;
    e = store_read_log(fault_of(s)->inner, log, slot, bytes_max, a);
    return fate == FATE_FINE ? e : lose(a, ERR_UNAVAILABLE);
}

static enum err fault_extents(struct store *s, const char *log, uint64_t from, size_t limit,
                              struct store_answer *a)
{
    enum err e = ERR_OK;
    enum fate fate = fault_read(s, a, &e);
    if (e) return e;
    e = store_extents(fault_of(s)->inner, log, from, limit, a);
    return fate == FATE_FINE ? e : lose(a, ERR_UNAVAILABLE);
}

static enum err fault_drop(struct store *s, const char *log, uint64_t first, uint64_t last,
                           struct store_answer *a)
{
    enum err e = ERR_OK;
    enum fate fate = fault_read(s, a, &e);
    if (e) return e;
    e = store_drop(fault_of(s)->inner, log, first, last, a);
    return fate == FATE_FINE ? e : lose(a, ERR_UNKNOWN);
}

static enum err fault_seal(struct store *s, const char *log, struct store_answer *a)
{
    return store_seal(fault_of(s)->inner, log, a);
}

static enum err fault_wait(struct store *s, const char *log, uint64_t slot, int64_t wait_ms,
                           struct store_answer *a)
{
    return store_wait(fault_of(s)->inner, log, slot, wait_ms, a);
}

static void fault_free(struct store *s)
{
    struct fault *f = fault_of(s);
    for (struct late *l = late_take(f, UINT64_MAX); l; l = late_take(f, UINT64_MAX))
        late_free(l);
    store_free(f->inner);
    (void)pthread_mutex_destroy(&f->lock);
    memory_free(f);
}

static void fault_rest(struct store *s, const char *log)
{
    store_rest(fault_of(s)->inner, log);
}

static void fault_distrust(struct store *s, const char *log)
{
    store_distrust(fault_of(s)->inner, log);
}

static bool fault_is_dead(struct store *s, char why[static STORE_WHY_MAX])
{
    return store_is_dead(fault_of(s)->inner, why);
}

static bool fault_concern(struct store *s, enum store_concern what, char why[static STORE_WHY_MAX])
{
    return store_concern(fault_of(s)->inner, what, why);
}

static bool fault_read_clock(struct store *s, int64_t *now_ms)
{
    return store_read_clock(fault_of(s)->inner, now_ms);
}

static enum err fault_check_space(struct store *s, uint64_t bytes, struct store_answer *a)
{
    return store_check_space(fault_of(s)->inner, bytes, a);
}

static const struct store_ops fault_ops = {
    .put_new = fault_put_new,
    .put = fault_put,
    .get = fault_get,
    .list = fault_list,
    .delete = fault_delete,
    .append = fault_append,
    .read_log = fault_read_log,
    .extents = fault_extents,
    .drop = fault_drop,
    .seal = fault_seal,
    .wait = fault_wait,
    .free = fault_free,
    .rest = fault_rest,
    .distrust = fault_distrust,
    .is_dead = fault_is_dead,
    .concern = fault_concern,
    .check_space = fault_check_space,
    .read_clock = fault_read_clock,
};

struct store *store_fault_take(struct store *inner, const struct fault_options *options)
{
    struct fault *f = NEW(struct fault);
    store_init_around(&f->base, &fault_ops, inner);
    f->inner = inner;
    f->options = *options;
    rng_init(&f->rng, options->seed);
    (void)pthread_mutex_init(&f->lock, NULL);
    return &f->base;
}

void store_fault_set(struct store *s, const struct fault_options *options)
{
    CHECK(s->ops == &fault_ops);
    struct fault *f = fault_of(s);
    (void)pthread_mutex_lock(&f->lock);
    f->options = *options;
    (void)pthread_mutex_unlock(&f->lock);
}

void store_fault_flush(struct store *s)
{
    CHECK(s->ops == &fault_ops);
    late_land(fault_of(s), UINT64_MAX);
}

uint64_t store_fault_count(struct store *s)
{
    CHECK(s->ops == &fault_ops);
    struct fault *f = fault_of(s);
    (void)pthread_mutex_lock(&f->lock);
    uint64_t count = f->faults;
    (void)pthread_mutex_unlock(&f->lock);
    return count;
}
