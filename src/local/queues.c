// SPDX-License-Identifier: Apache-2.0
// The open queues of a handle, by name, and their runners; pause, resume and purge; the creation of
// a queue.
#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "local/awaits.h"
#include "local/change.h"
#include "local/look.h"
#include "local/mailbox_rounds.h"
#include "local/owner_only.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "owner/where.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREATE_TRIES 10 // when other processes create and delete the queue at the same time

static struct open_queue **bucket_of(struct sluice *s, const char *name)
{
    return &s->queues[hash64_of(bytes_str(name), 0) % QUEUE_BUCKETS];
}

// The caller holds the lock.
static struct open_queue *find_open(struct sluice *s, const char *name)
{
    struct open_queue *q = *bucket_of(s, name);
    while (q && (q->stale || strcmp(q->row.name, name) != 0))
        q = q->next;
    return q;
}

static struct shard_ownership *ownerships_new(uint32_t shards)
{
    struct shard_ownership *ownerships = memory_zeroed(shards, sizeof *ownerships);
    for (uint32_t i = 0; i < shards; i++)
        (void)pthread_mutex_init(&ownerships[i].lock, NULL);
    return ownerships;
}

static struct open_queue *add_open(struct sluice *s, const struct catalog_row *row)
{
    (void)pthread_mutex_lock(&s->lock);
    struct open_queue *q = find_open(s, row->name); // another thread may have added it
    if (!q) {
        q = NEW(struct open_queue);
        q->handle = s;
        q->row = *row;
        q->holds = 1; // the handle's
        (void)pthread_mutex_init(&q->opening, NULL);
        q->runners = memory_zeroed(row->birth.shards, sizeof(struct shard_runner *));
        q->ownerships = ownerships_new(row->birth.shards);
        q->next_shard = (uint32_t)entropy_u64(); // processes start with different shards
        struct open_queue **bucket = bucket_of(s, row->name);
        q->next = *bucket;
        *bucket = q;
    }
    q->holds++;
    (void)pthread_mutex_unlock(&s->lock);
    return q;
}

void queue_close(struct open_queue *q)
{
    awaits_free(q);
    mailbox_rounds_free(q->mailbox_rounds);
    for (uint32_t shard = 0; shard < q->row.birth.shards; shard++) {
        runner_close(q->runners[shard]);
        (void)pthread_mutex_destroy(&q->ownerships[shard].lock);
    }
    (void)pthread_mutex_destroy(&q->opening);
    memory_free(q->runners);
    memory_free(q->ownerships);
    memory_free(q);
}

// The caller holds the lock.
static void drop_hold(struct open_queue *q)
{
    struct sluice *s = q->handle;
    CHECK(q->holds > 0);
    q->holds--;
    if (s->closing) (void)pthread_cond_signal(&s->let_go);
    if (q->holds > 0) return;
    struct open_queue **at = bucket_of(s, q->row.name);
    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
    q->next = s->leaving;
    s->leaving = q;
    upkeep_wake_locked(s);
}

void queue_hold(struct open_queue *q)
{
    (void)pthread_mutex_lock(&q->handle->lock);
    q->holds++;
    (void)pthread_mutex_unlock(&q->handle->lock);
}

void queue_let_go(struct open_queue **q)
{
    if (!*q) return;
    struct sluice *s = (*q)->handle;
    (void)pthread_mutex_lock(&s->lock);
    drop_hold(*q);
    (void)pthread_mutex_unlock(&s->lock);
    *q = NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct open_queue *const *)a)->row.name,
                  (*(struct open_queue *const *)b)->row.name);
}

size_t queues_hold(struct sluice *s, struct open_queue ***out)
{
    size_t len = 0, cap = 0;
    *out = NULL;
    (void)pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < QUEUE_BUCKETS; i++)
        for (struct open_queue *q = s->queues[i]; q; q = q->next) {
            if (q->stale) continue;
            if (len == cap) {
                cap = cap > 0 ? 2 * cap : 16;
                *out = memory_resize(*out, cap * sizeof(struct open_queue *));
            }
            q->holds++;
            (*out)[len++] = q;
        }
    (void)pthread_mutex_unlock(&s->lock);
    if (len > 1) qsort(*out, len, sizeof(struct open_queue *), by_name);
    return len;
}

void queues_let_go(struct open_queue **queues, size_t len)
{
    for (size_t i = 0; i < len; i++)
        queue_let_go(&queues[i]);
    memory_free(queues);
}

enum sluice_code queue_check_name(const char *name, struct sluice_error *error)
{
    if (name && queue_name_ok(name)) return SLUICE_OK;
    return refuse(error, ERR_INVALID, "queue",
                  "\"%.100s\" is not a queue name: a letter or digit, then letters, digits, '_', "
                  "'.' or '-', %d at most",
                  name ? name : "", QUEUE_NAME_MAX);
}

struct shard_runner *runner_if_open(struct open_queue *q, uint32_t shard)
{
    (void)pthread_mutex_lock(&q->handle->lock);
    struct shard_runner *d = q->runners[shard];
    (void)pthread_mutex_unlock(&q->handle->lock);
    return d;
}

// Whether the last folded state says so. It makes no request to the store.
static bool is_known_deleted(struct open_queue *q)
{
    const struct shard_runner *d = runner_if_open(q, 0);
    return d && runner_saw(d, RUNNER_DELETED);
}

static enum sluice_code find_in_catalog(struct sluice *s, const char *name, struct catalog_row *row,
                                        struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    struct store_answer answer;
    store_answer_init(&answer);
    enum err err = catalog_find(s->store, name, row, &answer);
    if (err == ERR_NOT_FOUND) {
        code = refuse(error, err, "queue", "queue \"%s\" does not exist", name);
        if (error) (void)snprintf(error->reason, sizeof error->reason, "unknown-queue");
    } else if (err && catalog_is_newer(&answer)) {
        code = refuse_why(error, err, name, answer.why);
    } else if (err) {
        code = refuse_store(s, error, err, name, &answer);
    }
    store_answer_done(&answer);
    return code;
}

static struct open_queue *get_open(struct sluice *s, const char *name)
{
    (void)pthread_mutex_lock(&s->lock);
    struct open_queue *q = find_open(s, name);
    if (q) q->holds++;
    (void)pthread_mutex_unlock(&s->lock);
    return q;
}

struct open_queue *queue_if_known(struct sluice *s, const char *name)
{
    return get_open(s, name);
}

enum sluice_code queue_get(struct sluice *s, const char *name, struct open_queue **out,
                           struct sluice_error *error)
{
    *out = name ? get_open(s, name) : NULL; // the name of an open queue was checked before
    if (*out && !is_known_deleted(*out)) return SLUICE_OK;
    queue_let_go(out);
    return queue_get_fresh(s, name, out, error);
}

enum sluice_code queue_get_fresh(struct sluice *s, const char *name, struct open_queue **out,
                                 struct sluice_error *error)
{
    struct catalog_row row;
    *out = NULL;
    enum sluice_code code = queue_check_name(name, error);
    if (!code) code = find_in_catalog(s, name, &row, error);
    if (code && code != SLUICE_NOT_FOUND) return code;
    CLEANUP(queue_let_go) struct open_queue *before = get_open(s, name);
    bool same =
        !code && before && memcmp(before->row.id.bytes, row.id.bytes, sizeof row.id.bytes) == 0;
    if (before && !same) queue_stale(before); // deleted, perhaps with a new life of the name
    if (!code) *out = add_open(s, &row);
    return code;
}

uint64_t queue_key(const struct open_queue *q)
{
    uint64_t key; // the id is random
    memcpy(&key, q->row.id.bytes, sizeof key);
    return key;
}

void queue_stale(struct open_queue *q)
{
    struct sluice *s = q->handle;
    (void)pthread_mutex_lock(&s->lock);
    bool first = !q->stale;
    q->stale = true;
    if (first) drop_hold(q); // the handle's
    (void)pthread_mutex_unlock(&s->lock);
}

static enum err open_runner(struct open_queue *q, uint32_t shard, bool events,
                            struct shard_runner **out)
{
    struct runner_config config = {.pool = q->handle->pool,
                                   .id = {.shard = shard},
                                   .birth = q->row.birth,
                                   .rules = q->handle->rules,
                                   .from_oldest = events,
                                   .keeps_events = events,
                                   .moves_dead_letters = !events,
                                   .totals = events ? NULL : &q->handle->totals,
                                   .dispatch = &q->handle->dispatch,
                                   .no_courtesy = q->handle->no_courtesy,
                                   .patience_ms = q->handle->timeout_ms};
    memcpy(config.id.queue, q->row.id.bytes, sizeof config.id.queue);
    memcpy(config.queue, q->row.name, sizeof config.queue);
    return runner_open(q->handle->store, &config, out);
}

static enum sluice_code refuse_runner(struct open_queue *q, enum err err,
                                      struct sluice_error *error)
{
    struct store_answer silent = {.why = ""}; // the runner got the store's message
    (void)store_is_dead(q->handle->store, silent.why);
    return refuse_store(q->handle, error, err, q->row.name, &silent);
}

enum sluice_code queue_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                              struct sluice_error *error)
{
    *out = runner_if_open(q, shard);
    if (*out) return SLUICE_OK;
    enum err err = ERR_OK;
    (void)pthread_mutex_lock(&q->opening); // not the handle's: the store may be slow
    *out = runner_if_open(q, shard);
    bool opens = !*out;
    if (opens) err = open_runner(q, shard, false, out);
    (void)pthread_mutex_lock(&q->handle->lock);
    if (opens && !err) q->runners[shard] = *out;
    (void)pthread_mutex_unlock(&q->handle->lock);
    (void)pthread_mutex_unlock(&q->opening);
    if (opens) upkeep_wake(q->handle); // its outbox may have dead letters
    return err ? refuse_runner(q, err, error) : SLUICE_OK;
}

enum sluice_code queue_work_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                                   struct sluice_error *error)
{
    enum sluice_code code = queue_runner(q, shard, out, error);
    for (uint32_t i = 0; !code && i < q->row.birth.shards; i++) {
        struct shard_runner *d = runner_if_open(q, i); // queue_if_open needs all of them checked
        if (d) where_check(q, i, d);
    }
    return code;
}

struct open_queue *queue_if_open(struct sluice *s, const char *name,
                                 struct shard_runner *const **runners)
{
    (void)pthread_mutex_lock(&s->lock);
    struct open_queue *q = find_open(s, name);
    for (uint32_t i = 0; q && i < q->row.birth.shards; i++)
        if (!q->runners[i]) q = NULL;
    if (q) q->holds++;
    (void)pthread_mutex_unlock(&s->lock);
    if (!q) return NULL;
    bool ready = !is_known_deleted(q);
    for (uint32_t i = 0; ready && i < q->row.birth.shards; i++)
        ready = !where_is_due(q, i, q->runners[i]); // the check of the owner may block
    if (!ready) queue_let_go(&q);
    if (q) *runners = q->runners; // open runners stay open as long as the queue
    return q;
}

enum sluice_code queue_synced_runner(struct open_queue *q, uint32_t shard,
                                     struct shard_runner **out, struct sluice_error *error)
{
    enum sluice_code code = queue_runner(q, shard, out, error);
    if (code) return code;
    enum err err = runner_sync(*out);
    if (err) {
        char why[STORE_WHY_MAX];
        runner_why(*out, err, why);
        return refuse_why(error, err, q->row.name, why);
    }
    if (!runner_saw(*out, RUNNER_DELETED)) return SLUICE_OK;
    return refuse_reason(error, REASON_DELETED, q->row.name);
}

enum sluice_code queue_event_runner(struct open_queue *q, uint32_t shard, struct shard_runner **out,
                                    struct sluice_error *error)
{
    enum err err = open_runner(q, shard, true, out);
    return err ? refuse_runner(q, err, error) : SLUICE_OK;
}

struct open_queue *queues_take_left(struct sluice *s)
{
    (void)pthread_mutex_lock(&s->lock);
    struct open_queue *left = s->leaving;
    s->leaving = NULL;
    (void)pthread_mutex_unlock(&s->lock);
    return left;
}

static void close_list(struct open_queue *list)
{
    while (list) {
        struct open_queue *q = list;
        list = q->next;
        queue_close(q);
    }
}

static bool any_held(const struct sluice *s)
{
    for (size_t i = 0; i < QUEUE_BUCKETS; i++)
        for (const struct open_queue *q = s->queues[i]; q; q = q->next)
            if (q->stale || q->holds > 1) return true;
    return false;
}

// All calls have ended when a handle is closed, but the thread that answered one may still have a
// hold on a queue.
static void await_calls(struct sluice *s)
{
    (void)pthread_mutex_lock(&s->lock);
    while (any_held(s))
        (void)pthread_cond_wait(&s->let_go, &s->lock);
    (void)pthread_mutex_unlock(&s->lock);
}

void queues_close(struct sluice *s)
{
    await_calls(s);
    for (size_t i = 0; i < QUEUE_BUCKETS; i++)
        close_list(s->queues[i]);
    close_list(queues_take_left(s));
}

enum sluice_code direct_queue_pause(struct sluice *s, const char *queue, struct sluice_error *error)
{
    struct change ch = {
        .kind = OP_PAUSE, .whole = true, .encode = change_plain, .take = change_next_shard};
    return change_queue(s, queue, &ch, error);
}

enum sluice_code direct_queue_resume(struct sluice *s, const char *queue,
                                     struct sluice_error *error)
{
    struct change ch = {
        .kind = OP_RESUME, .whole = true, .encode = change_plain, .take = change_next_shard};
    return change_queue(s, queue, &ch, error);
}

struct purge {
    struct change change; // first
    bool dead;
    uint64_t sum;
};

static void encode_purge(const struct change *ch, const struct request_id *request, struct buf *out)
{
    const struct purge *p = (const struct purge *)ch;
    purge_encode(out, &(struct op_purge){.request = *request, .dead = p->dead});
}

static enum sluice_code take_purged(struct change *ch, const struct result *result,
                                    enum sluice_code code)
{
    if (!code && result) ((struct purge *)ch)->sum += result->value;
    return change_next_shard(ch, result, code);
}

enum sluice_code direct_queue_purge(struct sluice *s, const char *queue, int dead, uint64_t *purged,
                                    struct sluice_error *error)
{
    struct purge p = {
        .change = {.kind = OP_PURGE, .whole = true, .encode = encode_purge, .take = take_purged},
        .dead = dead != 0};
    enum sluice_code code = change_queue(s, queue, &p.change, error);
    if (purged) *purged = p.sum;
    return code;
}

struct config_look {
    struct look look; // first
    struct queue_config *config;
};

static void copy_config(void *ctx, const struct machine *m, int64_t now)
{
    (void)now;
    *((struct config_look *)ctx)->config = *machine_config(m);
}

// The configuration at the journal's tail.
static enum sluice_code present_config(struct open_queue *q, struct queue_config *out,
                                       struct sluice_error *error)
{
    struct config_look l = {.look = {.first_only = true, .inspect = copy_config}, .config = out};
    return look_at_open_queue(q, &l.look, error);
}

enum sluice_code queue_change_config(struct queue_config *c, const struct sluice_setting *settings,
                                     size_t len, struct sluice_error *error)
{
    struct config_error why = {""};
    for (size_t i = 0; i < len; i++)
        if (config_set(c, settings[i].key, settings[i].value, &why))
            return refuse(error, ERR_INVALID, settings[i].key, "%s", why.text);
    return SLUICE_OK;
}

struct dead_letter_route {
    struct sluice *handle;
    char next[QUEUE_NAME_MAX + 1];
};

static const char *dead_letter_queue_of(void *ctx, const char *queue)
{
    struct dead_letter_route *r = ctx;
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct queue_config c;
    if (queue_get(r->handle, queue, &q, NULL) || present_config(q, &c, NULL)) return NULL;
    (void)snprintf(r->next, sizeof r->next, "%s", c.dead_letter_queue);
    return r->next[0] ? r->next : NULL;
}

bool queue_dead_letter_queue(struct sluice *s, const char *name, char out[QUEUE_NAME_MAX + 1])
{
    struct dead_letter_route route = {.handle = s};
    const char *dlq = dead_letter_queue_of(&route, name);
    if (dlq) (void)snprintf(out, QUEUE_NAME_MAX + 1, "%s", dlq);
    return dlq != NULL;
}

enum sluice_code queue_check_config(struct sluice *s, const char *name,
                                    const struct queue_config *c, struct sluice_error *error)
{
    struct config_error why = {""};
    struct dead_letter_route route = {.handle = s};
    if (config_check(c, name, &why) ||
        config_check_cycle(c, name, dead_letter_queue_of, &route, &why))
        return refuse(error, ERR_INVALID, "failureStrategy", "%s", why.text);
    return SLUICE_OK;
}

// The name is in use. If the queue has the wanted settings, the call succeeds; otherwise it is
// refused. If the deletion of the queue was interrupted, it is completed here. Only that life is
// deleted, because the name may have a new life by now. *free: the name can be used now.
static enum sluice_code exists_already(struct sluice *s, const char *name,
                                       const struct queue_config *wanted, bool *free,
                                       struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct queue_config present;
    enum sluice_code code = queue_get_fresh(s, name, &q, error);
    *free = code == SLUICE_NOT_FOUND;
    if (code) return code;
    code = present_config(q, &present, error);
    if (code && strcmp(error->reason, reason_name(REASON_DELETED)) == 0) {
        code = queue_end(q, error);
        *free = !code;
    }
    if (code || *free) return code;
    struct config_pair a, b;
    for (size_t i = 0; config_show(wanted, i, &a) && config_show(&present, i, &b); i++)
        if (strcmp(a.value, b.value) != 0)
            return refuse(error, ERR_CONFLICT, a.key, "queue %s exists, with %s %s instead of %s",
                          name, a.key, b.value, a.value);
    return SLUICE_OK;
}

static enum sluice_code create_once(struct sluice *s, const struct catalog_row *row, bool *again,
                                    bool *existed, struct sluice_error *error)
{
    struct store_answer answer CLEANUP(store_answer_done);
    store_answer_init(&answer);
    *again = false;
    enum err err = catalog_create(s->store, row, &answer);
    *existed = err == ERR_CONFLICT;
    if (*existed) return exists_already(s, row->name, &row->birth, again, error);
    return err ? refuse_store(s, error, err, row->name, &answer) : SLUICE_OK;
}

static enum sluice_code create(struct sluice *s, const char *name, const struct queue_config *c,
                               bool *existed, struct sluice_error *error)
{
    struct catalog_row row = {.birth = *c, .created_ms = clock_realtime_ms()};
    struct sluice_error own;
    struct sluice_error *e = error ? error : &own;
    (void)snprintf(row.name, sizeof row.name, "%s", name);
    entropy_fill(row.id.bytes, sizeof row.id.bytes);
    for (int tries = 0; tries < CREATE_TRIES; tries++) {
        bool again;
        enum sluice_code code = create_once(s, &row, &again, existed, e);
        if (!again) return code;
    }
    return refuse(e, ERR_UNAVAILABLE, "queue",
                  "other processes create and delete queue %s at the same time; try again", name);
}

void note_existed(struct sluice_error *error, bool existed)
{
    if (!error) return;
    *error = (struct sluice_error){.code = SLUICE_OK};
    if (existed) (void)snprintf(error->reason, sizeof error->reason, "exists");
}

enum sluice_code queue_ensure(struct sluice *s, const char *name, uint16_t rules,
                              struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct queue_config c;
    bool existed;
    if (queue_get(s, name, &q, NULL) == SLUICE_OK) return SLUICE_OK;
    config_defaults(&c);
    config_begin(&c, rules > 0 ? rules : rules_of_new_queue(s));
    enum sluice_code code = queue_check_name(name, error);
    return code ? code : create(s, name, &c, &existed, error);
}

enum sluice_code direct_queue_create(struct sluice *s, const char *queue,
                                     const struct sluice_setting *settings, size_t settings_len,
                                     struct sluice_error *error)
{
    struct queue_config c;
    bool existed = false;
    uint16_t rules = 0;
    config_defaults(&c);
    enum sluice_code code = queue_check_name(queue, error);
    for (size_t i = 0; !code && i < settings_len; i++)
        code = strcmp(settings[i].key, SETTING_RULES) == 0
                   ? rules_read(settings[i].value, &rules, error)
                   : queue_change_config(&c, &settings[i], 1, error);
    if (!code) code = queue_check_config(s, queue, &c, error);
    if (!code && c.consume == CONSUME_OWNER) code = owner_only_note(s, queue, error);
    if (!code) config_begin(&c, rules > 0 ? rules : rules_of_new_queue(s));
    if (!code) code = create(s, queue, &c, &existed, error);
    if (!code && c.dead_letter_queue[0] != 0)
        code = queue_ensure(s, c.dead_letter_queue, config_rules(&c), error);
    if (!code) note_existed(error, existed);
    return code;
}
