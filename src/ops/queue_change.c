// SPDX-License-Identifier: Apache-2.0
// Changes and deletes queues with one op on every shard. The reasons for a refusal are checked on
// all shards before the first op, so a refused call changes nothing. The next deletion completes
// one that was interrupted.
#include "ops/change.h"
#include "ops/life.h"
#include "ops/look.h"
#include "ops/ops.h"
#include "ops/queue_create.h"
#include "os/parallel.h"
#include "queues/bodies.h"
#include "queues/owner_only.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SET_TRIES 10 // when other processes change the queue at the same time

struct shards_state {
    struct look look;           // first
    uint64_t outbound;          // messages in the outboxes of all shards
    uint64_t version;           // of the first shard's configuration
    struct queue_config config; // of the first shard
    bool first;                 // no shard was read yet
    uint16_t rules;             // the lowest version of the rules
};

static void read_shard(void *ctx, const struct machine *m, int64_t now)
{
    struct shards_state *l = ctx;
    struct machine_stats stats;
    machine_stats(m, now, &stats);
    l->outbound += stats.counts[STATE_OUTBOUND];
    if (l->first || machine_rules(m) < l->rules) l->rules = machine_rules(m);
    if (!l->first) return;
    l->first = false;
    l->version = machine_config_version(m);
    l->config = *machine_config(m);
}

static enum sluice_code read_shards(struct open_queue *q, struct shards_state *out,
                                    struct sluice_error *error)
{
    *out = (struct shards_state){.look = {.any_state = true, .inspect = read_shard}, .first = true};
    return look_at_open_queue(q, &out->look, error);
}

static enum sluice_code check_change(const struct open_queue *q, const struct shards_state *now,
                                     const struct queue_config *next, struct sluice_error *error)
{
    bool reordered = now->config.ordering_guarantee != next->ordering_guarantee;
    if (reordered && q->row.birth.shards > 1)
        return refuse(error, ERR_CONFLICT, "orderingGuarantee",
                      "orderingGuarantee of %s cannot change: the queue has %u shards, and the "
                      "setting decides the shard of a message",
                      q->row.name, q->row.birth.shards);
    bool rerouted = strcmp(now->config.dead_letter_queue, next->dead_letter_queue) != 0;
    if (rerouted && now->outbound > 0) return refuse_reason(error, REASON_OUTBOX_BUSY, q->row.name);
    return SLUICE_OK;
}

struct configure_change {
    struct change change; // first
    const struct queue_config *config;
    uint64_t version;
};

// If two processes change the queue at once, the first shard decides which one succeeds. Only its
// op names the expected version.
static void encode_configure(const struct change *ch, const struct request_id *request,
                             struct buf *out)
{
    const struct configure_change *c = (const struct configure_change *)ch;
    struct op_configure op = {
        .request = *request, .config = *c->config, .expected = ch->shard == 0 ? c->version : 0};
    configure_encode(out, &op);
}

static enum sluice_code configure(struct open_queue *q, const struct queue_config *config,
                                  uint64_t version, struct sluice_error *error)
{
    struct configure_change c = {.change = {.kind = OP_CONFIGURE,
                                            .whole = true,
                                            .encode = encode_configure,
                                            .take = change_next_shard},
                                 .config = config,
                                 .version = version};
    return change_open_queue(q, &c.change, error);
}

enum sluice_code ops_queue_set(struct engine *s, const char *queue,
                               const struct sluice_setting *settings, size_t settings_len,
                               struct sluice_error *error)
{
    struct sluice_error own;
    struct sluice_error *e = error ? error : &own;
    for (int tries = 1;; tries++) {
        CLEANUP(queue_let_go) struct open_queue *q = NULL;
        struct shards_state now;
        enum sluice_code code = queue_get(s, queue, &q, e);
        if (!code) code = read_shards(q, &now, e);
        if (code) return code;
        struct queue_config next = now.config;
        code = queue_change_config(&next, settings, settings_len, e);
        if (!code) code = queue_check_config(s, queue, &next, e);
        if (!code) code = check_change(q, &now, &next, e);
        if (!code && next.consume == CONSUME_OWNER) code = owner_only_note(s, queue, e);
        if (!code && next.dead_letter_queue[0] != 0)
            code = queue_ensure(s, next.dead_letter_queue, now.rules, e);
        if (code) return code;
        code = configure(q, &next, now.version, e);
        bool raced = code && strcmp(e->reason, reason_name(REASON_CONFIG_CHANGED)) == 0;
        if (!raced || tries == SET_TRIES) return code;
    }
}

struct users {
    struct engine *e;
    char **names;
    const char *of;       // the queue that they may use
    _Atomic size_t found; // the index of one that does, plus 1; 0: none
};

static void check_user(void *ctx, size_t i)
{
    struct users *u = ctx;
    char dlq[QUEUE_NAME_MAX + 1];
    if (atomic_load(&u->found) == 0 && queue_dead_letter_queue(u->e, u->names[i], dlq) &&
        strcmp(dlq, u->of) == 0)
        atomic_store(&u->found, i + 1);
}

// Refuses if another queue uses `name` as its dead-letter queue. It reads every queue, several at a
// time, because only a queue's journal has its present settings.
static enum sluice_code used_by(struct engine *e, const char *name, struct sluice_error *error)
{
    struct sluice_names *all;
    enum sluice_code code = queues_list(e, &all, error);
    if (code) return code;
    struct users u = {.e = e, .names = all->names, .of = name};
    parallel_for(e->parallel, 0, all->len, check_user, &u);
    size_t found = atomic_load(&u.found);
    if (found > 0)
        code = refuse(error, ERR_CONFLICT, "queue",
                      "%s is the dead-letter queue of %s; change or delete that one first", name,
                      all->names[found - 1]);
    sluice_names_free(all);
    return code;
}

// A delete op succeeds on a shard that is deleted already.
static enum sluice_code take_deleted(struct change *ch, const struct result *result,
                                     enum sluice_code code)
{
    bool deleted = result && result->reason == REASON_DELETED;
    return change_next_shard(ch, result, deleted ? SLUICE_OK : code);
}

enum sluice_code queue_end(struct open_queue *q, struct sluice_error *error)
{
    LOCAL(store_answer, answer);
    struct change ch = {.kind = OP_DELETE, .encode = change_plain, .take = take_deleted};
    enum sluice_code code = change_open_queue(q, &ch, error);
    if (code) return code;
    enum err err = catalog_mark_deleted(q->engine->store, &q->row, &answer);
    if (err) code = refuse_store(q->engine, error, err, q->row.name, &answer);
    for (uint32_t shard = 0; !code && shard < q->row.birth.shards; shard++)
        bodies_delete_all(q, shard);
    queue_stale(q);
    return code;
}

static enum sluice_code check_life(const struct open_queue *q, const char *id,
                                   struct sluice_error *error)
{
    char present[2 * sizeof q->row.id.bytes + 1];
    for (size_t i = 0; i < sizeof q->row.id.bytes; i++)
        (void)snprintf(present + 2 * i, 3, "%02x", q->row.id.bytes[i]);
    if (!id || strcmp(id, present) == 0) return SLUICE_OK;
    enum sluice_code code =
        refuse(error, ERR_NOT_FOUND, "id", "queue %s has another id than %.40s", q->row.name, id);
    if (error) (void)snprintf(error->reason, sizeof error->reason, "unknown-queue");
    return code;
}

// The name is looked up once. So a queue that gets the name meanwhile is not deleted.
enum sluice_code queue_delete_life(struct engine *e, const char *queue, const char *id,
                                   struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shards_state now;
    enum sluice_code code = queue_get_fresh(e, queue, &q, error);
    if (!code) code = check_life(q, id, error);
    if (!code) code = used_by(e, queue, error);
    if (!code) code = read_shards(q, &now, error);
    if (!code && now.outbound > 0) code = refuse_reason(error, REASON_OUTBOX_BUSY, queue);
    return code ? code : queue_end(q, error);
}

enum sluice_code ops_queue_delete(struct engine *e, const char *queue, struct sluice_error *error)
{
    return queue_delete_life(e, queue, NULL, error);
}
