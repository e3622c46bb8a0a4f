// SPDX-License-Identifier: Apache-2.0
// Registers workers and remembers them, so that receives and renewals carry their heartbeats. A
// beat at the store is a commit, at a third of the ttl. A node hears the receives anyway and writes
// the beats of all its workers together. There a beat only asks whether the row is still there, at
// half of the ttl.
#include "api/workers.h"
#include "api/handle.h"

#include "base/memory.h"
#include "ops/worker_change.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"

#include <string.h>

struct registered_worker {
    struct registered_worker *next;
    char *queue, *name, *labels;
    uint64_t instance;
    bool registered; // else a join was tried, and its answer was lost or a refusal
    uint32_t capacity, flags;
    int64_t ttl_ms;
    int64_t due_ms; // clock_boot_ms of the next beat
};

struct registered_workers {
    pthread_mutex_t lock;
    struct registered_worker *all;
};

static void row_free(struct registered_worker *row)
{
    memory_free(row->queue);
    memory_free(row->name);
    memory_free(row->labels);
    memory_free(row);
}

void registered_free(struct registered_workers *j)
{
    if (!j) return;
    while (j->all) {
        struct registered_worker *row = j->all;
        j->all = row->next;
        row_free(row);
    }
    (void)pthread_mutex_destroy(&j->lock);
    memory_free(j);
}

static struct registered_workers *registered_of(struct sluice *s)
{
    LOCKED(&s->lock);
    struct registered_workers *j = atomic_load(&s->registered);
    if (!j) {
        j = NEW(struct registered_workers);
        (void)pthread_mutex_init(&j->lock, NULL);
        atomic_store(&s->registered, j);
    }
    return j;
}

// Call it with the lock. The place of the row's pointer; *place is NULL if there is none.
static struct registered_worker **find(struct registered_workers *j, const char *queue,
                                       const char *name)
{
    struct registered_worker **at = &j->all;
    while (*at && (strcmp((*at)->name, name) != 0 || strcmp((*at)->queue, queue) != 0))
        at = &(*at)->next;
    return at;
}

static int64_t next_beat(const struct sluice *s, int64_t ttl_ms)
{
    return clock_boot_ms() + (s->engine ? ttl_ms / 3 : ttl_ms / 2);
}

// The instance of the worker in this handle. It is drawn once, before the first join: a join whose
// answer was lost is repeated as the same one.
static uint64_t instance_of(struct registered_workers *j, const char *queue, const char *name)
{
    LOCKED(&j->lock);
    struct registered_worker **at = find(j, queue, name);
    if (!*at) {
        *at = NEW(struct registered_worker);
        **at = (struct registered_worker){.queue = memory_text(queue),
                                          .name = memory_text(name),
                                          .labels = memory_text(""),
                                          .instance = entropy_u64() | 1};
    }
    return (*at)->instance;
}

// Call it with the lock. NULL: this handle has not registered such a worker.
static struct registered_worker *registered(struct registered_workers *j, const char *queue,
                                            const char *name)
{
    struct registered_worker *row = *find(j, queue, name);
    return row && row->registered ? row : NULL;
}

static void remember(struct sluice *s, const char *queue, const struct worker_order *o)
{
    struct registered_workers *j = registered_of(s);
    struct registered_worker *row = NEW(struct registered_worker), *old;
    *row = (struct registered_worker){.queue = memory_text(queue),
                                      .name = memory_text(o->name),
                                      .labels = memory_text(o->labels ? o->labels : ""),
                                      .instance = o->instance,
                                      .registered = true,
                                      .capacity = o->capacity,
                                      .flags = o->flags,
                                      .ttl_ms = o->ttl_ms,
                                      .due_ms = next_beat(s, o->ttl_ms)};
    (void)pthread_mutex_lock(&j->lock);
    struct registered_worker **at = find(j, queue, o->name);
    old = *at;
    row->next = old ? old->next : NULL;
    *at = row;
    (void)pthread_mutex_unlock(&j->lock);
    if (old) row_free(old);
}

static void forget(struct sluice *s, const char *queue, const char *name)
{
    struct registered_workers *j = registered_of(s);
    (void)pthread_mutex_lock(&j->lock);
    struct registered_worker **at = find(j, queue, name), *row = *at;
    if (row) *at = row->next;
    (void)pthread_mutex_unlock(&j->lock);
    if (row) row_free(row);
}

enum sluice_code sluice_worker_join(struct sluice *s, const char *queue,
                                    const struct sluice_join *join, struct sluice_error *error)
{
    char name[WORKER_NAME_MAX + 1];
    struct labels labels;
    worker_default(name);
    struct worker_order o = {.act = WORKER_JOIN,
                             .name = join->worker ? join->worker : name,
                             .capacity = join->capacity,
                             .ttl_ms = join->ttl_ms ? join->ttl_ms : WORKER_TTL_DEFAULT_MS,
                             .flags = join->mailbox_only ? WORKER_MAILBOX : 0,
                             .labels = join->labels};
    enum sluice_code code = worker_order_check(&o, &labels, error);
    if (code) return code;
    o.labels = labels.text;
    o.instance = instance_of(registered_of(s), queue, o.name);
    code = dispatch_worker_change(s, queue, &o, error);
    if (!code) remember(s, queue, &o);
    return code;
}

static bool is_unknown(enum sluice_code code, const struct sluice_error *error)
{
    return code == SLUICE_NOT_FOUND &&
           strcmp(error->reason, reason_name(REASON_UNKNOWN_WORKER)) == 0;
}

// A worker that joined with this handle: the order of its beat, with copies of its texts.
static enum sluice_code beat(struct sluice *s, const char *queue, const char *name,
                             struct sluice_error *error)
{
    struct registered_workers *j = registered_of(s);
    struct worker_order o = {.act = WORKER_BEAT, .name = name};
    char *labels = NULL;
    (void)pthread_mutex_lock(&j->lock);
    struct registered_worker *row = registered(j, queue, name);
    if (row) {
        o.instance = row->instance;
        o.capacity = row->capacity;
        o.flags = row->flags;
        o.ttl_ms = row->ttl_ms;
        o.labels = labels = memory_text(row->labels);
        row->due_ms = next_beat(s, row->ttl_ms);
    }
    (void)pthread_mutex_unlock(&j->lock);
    if (!row) return refuse_worker(error, REASON_UNKNOWN_WORKER, queue, name);
    struct sluice_error own = {.code = SLUICE_OK};
    enum sluice_code code = dispatch_worker_change(s, queue, &o, &own);
    if (is_unknown(code, &own)) { // it expired: the process was paused, or the store was away
        o.act = WORKER_JOIN;
        code = dispatch_worker_change(s, queue, &o, &own);
    }
    memory_free(labels);
    if (error && code) *error = own;
    return code;
}

enum sluice_code sluice_worker_beat(struct sluice *s, const char *queue, const char *worker,
                                    struct sluice_error *error)
{
    char name[WORKER_NAME_MAX + 1];
    worker_default(name);
    return beat(s, queue, worker ? worker : name, error);
}

enum sluice_code sluice_worker_leave(struct sluice *s, const char *queue, const char *worker,
                                     struct sluice_error *error)
{
    char own[WORKER_NAME_MAX + 1];
    struct sluice_error why = {.code = SLUICE_OK};
    worker_default(own);
    const char *name = worker ? worker : own;
    struct worker_order o = {
        .act = WORKER_LEAVE, .name = name, .instance = instance_of(registered_of(s), queue, name)};
    enum sluice_code code = dispatch_worker_change(s, queue, &o, &why);
    bool evicted = code && strcmp(why.reason, reason_name(REASON_WORKER_EVICTED)) == 0;
    if (evicted || is_unknown(code, &why)) code = SLUICE_OK;
    if (!code) forget(s, queue, name);
    if (error && code) *error = why;
    return code;
}

static enum sluice_code order(struct sluice *s, const char *queue, const char *worker,
                              enum worker_act act, struct sluice_error *error)
{
    struct worker_order o = {.act = act, .name = worker};
    enum sluice_code code = worker_check(worker, error);
    return code ? code : dispatch_worker_change(s, queue, &o, error);
}

enum sluice_code sluice_worker_pause(struct sluice *s, const char *queue, const char *worker,
                                     struct sluice_error *error)
{
    return order(s, queue, worker, WORKER_PAUSE, error);
}

enum sluice_code sluice_worker_resume(struct sluice *s, const char *queue, const char *worker,
                                      struct sluice_error *error)
{
    return order(s, queue, worker, WORKER_RESUME, error);
}

enum sluice_code sluice_worker_drain(struct sluice *s, const char *queue, const char *worker,
                                     struct sluice_error *error)
{
    return order(s, queue, worker, WORKER_DRAIN, error);
}

enum sluice_code sluice_worker_evict(struct sluice *s, const char *queue, const char *worker,
                                     struct sluice_error *error)
{
    return order(s, queue, worker, WORKER_EVICT, error);
}

// Takes the name of a worker whose beat is due, so that one thread makes it.
static char *take_due(struct registered_workers *j, const char *queue, const char *worker)
{
    char *name = NULL;
    int64_t now = clock_boot_ms();
    LOCKED(&j->lock);
    for (struct registered_worker *row = j->all; row && !name; row = row->next) {
        bool meant = strcmp(row->queue, queue) == 0 && (!worker || strcmp(row->name, worker) == 0);
        if (!meant || !row->registered || now < row->due_ms) continue;
        row->due_ms = now + row->ttl_ms / 3;
        name = memory_text(row->name);
    }
    return name;
}

// A beat that fails is made again when the next one is due. The row lasts that long.
static void note(struct sluice *s, const char *queue, const char *worker)
{
    struct registered_workers *j = atomic_load(&s->registered);
    if (!j) return;
    for (char *name; (name = take_due(j, queue, worker));) {
        (void)beat(s, queue, name, NULL);
        memory_free(name);
    }
}

void registered_note_receive(struct sluice *s, const char *queue, const char *worker)
{
    char name[WORKER_NAME_MAX + 1];
    if (!atomic_load(&s->registered)) return;
    if (!worker) worker_default(name);
    note(s, queue, worker ? worker : name);
}

// At a node, the waiting receive itself is the sign of life.
int64_t registered_wait_max(struct sluice *s, const char *queue, const char *worker)
{
    char own[WORKER_NAME_MAX + 1];
    struct registered_workers *j = atomic_load(&s->registered);
    if (!j || !s->engine) return 0;
    if (!worker) worker_default(own);
    LOCKED(&j->lock);
    const struct registered_worker *row = registered(j, queue, worker ? worker : own);
    return row ? row->ttl_ms / 3 : 0;
}

bool registered_name(struct sluice *s, const char *queue, const char *worker,
                     char name[WORKER_NAME_MAX + 1], uint64_t *instance)
{
    struct registered_workers *j = atomic_load(&s->registered);
    bool found = false;
    if (!j) return false;
    LOCKED(&j->lock);
    for (const struct registered_worker *row = j->all; row && !found; row = row->next) {
        if (!row->registered || strcmp(row->queue, queue) != 0) continue;
        if (worker && strcmp(row->name, worker) != 0) continue;
        memcpy(name, row->name, strlen(row->name) + 1);
        *instance = row->instance;
        found = true;
    }
    return found;
}

void registered_note_renew(struct sluice *s, const char *queue)
{
    note(s, queue, NULL);
}
