// SPDX-License-Identifier: Apache-2.0
// The first join. It finds mistakes: wrong credentials, a name in use, journals of another service.
// If the service does not answer, the node starts all the same. It serves what needs no claim:
// calls go to the owners that the journals name and that answer, and are written directly
// otherwise. The membership's timer tries the join until the service is back. Then the step
// function begins, with the lease that the service granted.
#include "base/digits.h"
#include "coord/credentials.h"
#include "member/inside.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "os/lock.h"

#include <stdio.h>
#include <string.h>

#define CHECKED_QUEUES 3 // whose journals are read at the start
#define AGAIN_MS       250

// A node that was killed leaves its record, and its successor must not wait for the end of the
// lease.
static bool holder_is_dead(struct membership *m)
{
    bool dead = true;
    LOCAL(coord_answer, a);
    enum err e = coord_list(m->coord, &a);
    for (size_t i = 0; !e && i < a.members_len; i++) {
        const struct coord_member *row = &a.members[i];
        if (strcmp(row->name, m->self.name) != 0) continue;
        dead = strcmp(row->url, m->self.url) == 0 || !member_answers(row->url, row->name);
    }
    return dead;
}

static enum sluice_code refuse_coord(struct sluice_error *error, enum err e, const char *why)
{
    return refuse(error, e == ERR_UNKNOWN ? ERR_UNAVAILABLE : e, "coord", "%s", why);
}

static enum sluice_code join(struct membership *m, struct sluice_error *error)
{
    LOCAL(coord_answer, a);
    int64_t began = clock_boot_ms();
    enum err e = coord_join(m->coord, &m->self, false, &a);
    if (e == ERR_CONFLICT && holder_is_dead(m)) e = coord_join(m->coord, &m->self, true, &a);
    enum sluice_code code = e ? refuse_coord(error, e, a.why) : SLUICE_OK;
    if (!e) {
        m->join_done = true;
        m->lease_ms = a.lease_ms;
        m->next_beat_at = began + a.next_ms;
    }
    return code;
}

static enum sluice_code open_service(struct membership *m, struct sluice_error *error)
{
    const char *url = m->config.coord ? m->config.coord : "store:";
    struct coord_credentials secrets;
    struct coord_config config = {.store = m->engine->store,
                                  .lease_ms = m->config.tuning.lease_ms,
                                  .lone_ms = m->config.lone_ms};
    char why[COORD_WHY_MAX] = "";
    if (m->coord) return SLUICE_OK;
    m->coord = m->config.take;
    if (!m->coord) {
        enum err e = coord_credentials_read(&secrets, why);
        if (!e) coord_credentials_use(&secrets, &config);
        if (!e) e = coord_open(url, &config, &m->coord, why);
        coord_credentials_done(&secrets);
        if (e) return refuse_coord(error, e, why);
    }
    (void)snprintf(m->service, sizeof m->service, "%s", coord_backend(m->coord));
    m->on_store = strcmp(m->service, "store") == 0;
    coord_id(m->coord, m->coord_id);
    settings_tell(m);
    return SLUICE_OK;
}

struct first_names {
    char names[CHECKED_QUEUES][QUEUE_NAME_MAX + 1];
    size_t len;
};

static void add_first(void *ctx, const char *name)
{
    struct first_names *f = ctx;
    if (f->len < CHECKED_QUEUES) (void)snprintf(f->names[f->len++], sizeof *f->names, "%s", name);
}

static enum sluice_code check_journal(struct membership *m, const char *queue,
                                      struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct shard_runner *r;
    struct runner_owner o;
    char has[2 * COORD_ID_LEN + 1], own[2 * COORD_ID_LEN + 1];
    if (queue_get(m->engine, queue, &q, NULL) || queue_synced_runner(q, 0, &r, NULL))
        return SLUICE_OK; // the first call reports it
    runner_owner(r, &o);
    if (o.epoch == 0 || memcmp(o.coord, m->coord_id, sizeof o.coord) == 0) return SLUICE_OK;
    *digits_put_hex(has, o.coord, sizeof o.coord) = 0;
    *digits_put_hex(own, m->coord_id, sizeof m->coord_id) = 0;
    return refuse(error, ERR_CORRUPT, "coord",
                  "queue %s follows the coordination service %s, and this node would use %s (%s): "
                  "correct the service, or run sluice cluster coord-switch",
                  queue, has, own, m->service);
}

// The journals decide which service numbers their owners. A node that uses another one could own
// nothing.
static enum sluice_code check_journals(struct membership *m, struct sluice_error *error)
{
    struct first_names first = {.len = 0};
    enum sluice_code code = SLUICE_OK;
    LOCAL(store_answer, answer);
    enum err err = catalog_names(m->engine->store, add_first, &first, &answer);
    for (size_t i = 0; !err && !code && i < first.len; i++)
        code = check_journal(m, first.names[i], error);
    return code;
}

// Two environments on one service and prefix would be one cluster, and a leader would place the
// shards of both. The one that comes later is refused. The members on `store:` have one store.
static enum sluice_code check_stores(struct membership *m, struct sluice_error *error)
{
    char has[2 * COORD_STORE_LEN + 1], own[2 * COORD_STORE_LEN + 1];
    enum sluice_code code = SLUICE_OK;
    LOCAL(coord_answer, a);
    if (m->on_store || coord_list(m->coord, &a)) a.members_len = 0; // the join reports an error
    for (size_t i = 0; !code && i < a.members_len; i++) {
        const struct coord_member *row = &a.members[i];
        if (!coord_is_foreign(row, &m->self)) continue;
        *digits_put_hex(has, row->store, sizeof row->store) = 0;
        *digits_put_hex(own, m->self.store, sizeof m->self.store) = 0;
        code = refuse(error, ERR_CONFLICT, "coord",
                      "member %s of this %s has the store %s, and this node has %s: give the nodes "
                      "of each store a prefix of their own, as in %s://host/staging",
                      row->name, m->service, has, own, m->service);
    }
    return code;
}

static struct cluster *cluster_of(const struct membership *m)
{
    struct cluster_config config;
    struct member_id id;
    member_id_set(&id, m->self.name, m->self.incarnation);
    cluster_config_defaults(&config, &id, m->lease_ms);
    tuning_apply(&m->config.tuning, &config);
    config.observe_only = m->config.observe_only;
    config.lazy = true;
    config.seed = entropy_u64();
    return cluster_new(&config);
}

// The node stops while it joins: it leaves at once.
static void leave(struct membership *m)
{
    LOCAL(coord_answer, a);
    enum err e = coord_leave(m->coord, &a);
    (void)e; // the session ends with its lease
}

static enum sluice_code begin(struct membership *m, struct sluice_error *error)
{
    enum sluice_code code = open_service(m, error);
    if (!code) code = check_journals(m, error);
    if (!code) code = check_stores(m, error);
    if (!code) code = join(m, error);
    if (code) return code;
    code = check_stores(m, error); // another store's node may have joined at the same time
    if (code) leave(m);
    if (code) return code;
    (void)pthread_mutex_lock(&m->lock);
    bool stops = m->stopping;
    if (!stops) {
        cluster_free(m->cluster);
        m->cluster = cluster_of(m);
        m->begun = true;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (stops) leave(m);
    return SLUICE_OK;
}

// The scheme of the URL, which is the name of the backend.
static void name_service(struct membership *m)
{
    const char *url = m->config.coord ? m->config.coord : "store:";
    (void)snprintf(m->service, sizeof m->service, "%.*s", (int)strcspn(url, ":+"), url);
    m->on_store = !m->config.take && strcmp(m->service, "store") == 0;
}

static void note_degraded(struct membership *m, const struct sluice_error *error)
{
    LOCKED(&m->lock);
    (void)snprintf(m->why, sizeof m->why, "%.*s", COORD_WHY_MAX - 1, error->message);
    m->counters.requests++;
    m->counters.errors++;
}

enum sluice_code start_or_wait(struct membership *m, struct sluice_error *error)
{
    struct cluster_effect degraded = {.kind = CLUSTER_NOTE, .note = NOTE_DEGRADED};
    struct sluice_error why;
    name_service(m);
    enum sluice_code code = begin(m, &why);
    bool waits = code == SLUICE_UNAVAILABLE && !m->on_store;
    if (code && error) *error = why;
    if (!waits) return code;
    note_degraded(m, &why);
    LOCKED(&m->lock);
    m->cluster = cluster_of(m); // it is degraded, and takes no step
    m->degraded_since = clock_boot_ms();
    event_add(m, &degraded);
    return SLUICE_OK;
}

int64_t start_again(struct membership *m)
{
    struct cluster_event drain = {.kind = CLUSTER_DRAIN};
    struct sluice_error why;
    (void)pthread_mutex_lock(&m->lock);
    bool stops = m->stopping;
    (void)pthread_mutex_unlock(&m->lock);
    if (stops) return TASK_NEVER;
    if (begin(m, &why)) {
        note_degraded(m, &why);
        return clock_boot_ms() + AGAIN_MS;
    }
    (void)pthread_mutex_lock(&m->lock);
    bool begun = m->begun, drains = m->draining;
    (void)pthread_mutex_unlock(&m->lock);
    if (!begun) return TASK_NEVER;
    if (drains) membership_step(m, &drain);
    view_watch(m);
    return 0;
}
