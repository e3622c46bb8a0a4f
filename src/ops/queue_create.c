// SPDX-License-Identifier: Apache-2.0
// Pause, resume and purge; the creation of a queue.
#include "ops/queue_create.h"
#include "ops/ops.h"

#include "base/memory.h"
#include "ops/change.h"
#include "ops/look.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "queues/owner_only.h"

#include <stdio.h>
#include <string.h>

#define CREATE_TRIES 10 // when other processes create and delete the queue at the same time

struct purge {
    struct change change; // first
    bool dead;
    uint64_t sum;
    uint64_t *purged; // NULL: the caller does not want it
};

static enum sluice_code change_all(const struct request_origin *as, const char *queue,
                                   uint16_t kind, struct sluice_error *error)
{
    struct change *ch = NEW(struct change);
    *ch = (struct change){.kind = kind,
                          .whole = true,
                          .encode = change_plain,
                          .take = change_next_shard,
                          .owned = true};
    return change_queue(as, queue, ch, error);
}

enum sluice_code start_queue_pause(const struct request_origin *as, const char *queue,
                                   struct sluice_error *error)
{
    return change_all(as, queue, OP_PAUSE, error);
}

enum sluice_code start_queue_resume(const struct request_origin *as, const char *queue,
                                    struct sluice_error *error)
{
    return change_all(as, queue, OP_RESUME, error);
}

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

static void end_purge(struct change *ch, struct local_call *c)
{
    const struct purge *p = (struct purge *)ch;
    (void)c;
    if (p->purged) *p->purged = p->sum;
}

enum sluice_code start_queue_purge(const struct request_origin *as, const char *queue, int dead,
                                   uint64_t *purged, struct sluice_error *error)
{
    struct purge *p = NEW(struct purge);
    p->change = (struct change){.kind = OP_PURGE,
                                .whole = true,
                                .encode = encode_purge,
                                .take = take_purged,
                                .end = end_purge,
                                .owned = true};
    p->dead = dead != 0;
    p->purged = purged;
    return change_queue(as, queue, &p->change, error);
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

struct dead_letter_route {
    struct engine *engine;
    char next[QUEUE_NAME_MAX + 1];
};

static const char *dead_letter_queue_of(void *ctx, const char *queue)
{
    struct dead_letter_route *r = ctx;
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct queue_config c;
    if (queue_get(r->engine, queue, &q, NULL) || present_config(q, &c, NULL)) return NULL;
    (void)snprintf(r->next, sizeof r->next, "%s", c.dead_letter_queue);
    return r->next[0] ? r->next : NULL;
}

bool queue_dead_letter_queue(struct engine *e, const char *name, char out[QUEUE_NAME_MAX + 1])
{
    struct dead_letter_route route = {.engine = e};
    const char *dlq = dead_letter_queue_of(&route, name);
    if (dlq) (void)snprintf(out, QUEUE_NAME_MAX + 1, "%s", dlq);
    return dlq != NULL;
}

enum sluice_code queue_check_config(struct engine *e, const char *name,
                                    const struct queue_config *c, struct sluice_error *error)
{
    struct config_error why = {""};
    struct dead_letter_route route = {.engine = e};
    if (config_check(c, name, &why) ||
        config_check_cycle(c, name, dead_letter_queue_of, &route, &why))
        return refuse(error, ERR_INVALID, "failureStrategy", "%s", why.text);
    return SLUICE_OK;
}

// The name is in use. If the queue has the wanted settings, the call succeeds; otherwise it is
// refused. If the deletion of the queue was interrupted, it is completed here. Only that life is
// deleted, because the name may have a new life by now. *free: the name can be used now.
static enum sluice_code exists_already(struct engine *e, const char *name,
                                       const struct queue_config *wanted, bool *free,
                                       struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct queue_config present;
    enum sluice_code code = queue_get_fresh(e, name, &q, error);
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

static enum sluice_code create_once(struct engine *e, const struct catalog_row *row, bool *again,
                                    bool *existed, struct sluice_error *error)
{
    LOCAL(store_answer, answer);
    *again = false;
    enum err err = catalog_create(e->store, row, &answer);
    *existed = err == ERR_CONFLICT;
    if (*existed) return exists_already(e, row->name, &row->birth, again, error);
    return err ? refuse_store(e, error, err, row->name, &answer) : SLUICE_OK;
}

static enum sluice_code create(struct engine *s, const char *name, const struct queue_config *c,
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

enum sluice_code queue_ensure(struct engine *e, const char *name, uint16_t rules,
                              struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct queue_config c;
    bool existed;
    if (queue_get(e, name, &q, NULL) == SLUICE_OK) return SLUICE_OK;
    config_defaults(&c);
    c.rules = rules > 0 ? rules : rules_of_new_queue(e);
    enum sluice_code code = queue_check_name(name, error);
    return code ? code : create(e, name, &c, &existed, error);
}

enum sluice_code ops_queue_create(struct engine *e, const char *queue,
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
    if (!code) code = queue_check_config(e, queue, &c, error);
    if (!code && c.consume == CONSUME_OWNER) code = owner_only_note(e, queue, error);
    if (!code) c.rules = rules > 0 ? rules : rules_of_new_queue(e);
    if (!code) code = create(e, queue, &c, &existed, error);
    if (!code && c.dead_letter_queue[0] != 0)
        code = queue_ensure(e, c.dead_letter_queue, c.rules, error);
    if (!code) note_existed(error, existed);
    return code;
}
