// SPDX-License-Identifier: Apache-2.0
#include "queues/owner_only.h"

#include "base/memory.h"
#include "queues/owner.h"

#include <stdio.h>
#include <string.h>

#define FOLDER   "consume/"
#define STALE_MS (INT64_C(3600) * 1000) // a hint without a queue is kept so long: it may come yet

static void key_of(const char *queue, char out[static STORE_KEY_MAX + 1])
{
    (void)snprintf(out, STORE_KEY_MAX + 1, FOLDER "%s", queue);
}

enum sluice_code owner_only_note(struct engine *e, const char *queue, struct sluice_error *error)
{
    char key[STORE_KEY_MAX + 1];
    LOCAL(store_answer, answer);
    key_of(queue, key);
    enum err err = store_put(e->store, key, bytes_str("owner"), &answer);
    return err ? refuse_store(e, error, err, queue, &answer) : SLUICE_OK;
}

static void forget(struct engine *e, const char *queue)
{
    char key[STORE_KEY_MAX + 1];
    const char *const keys[] = {key};
    LOCAL(store_answer, answer);
    key_of(queue, key);
    enum err err = store_delete(e->store, keys, 1, &answer);
    (void)err; // the next round tries again
}

// A member tells the node that should own the shard. Another node takes it, if no node has it.
static void keep_owned(struct open_queue *q)
{
    struct owner_cluster *cluster = atomic_load(&q->engine->cluster);
    struct queue_config config;
    struct shard_runner *r;
    if (!queue_known_config(q, &config) || config.consume != CONSUME_OWNER) return;
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct runner_owner o;
        if (queue_work_runner(q, i, &r, NULL)) continue;
        runner_owner(r, &o);
        if (cluster && !o.mine) cluster->used(cluster, q, i);
    }
}

struct hint {
    char queue[QUEUE_NAME_MAX + 1];
    int64_t modified;
};

// Returns the queues that have a hint, in memory of the caller.
static struct hint *read_hints(struct engine *e, size_t *len, int64_t *now)
{
    struct hint *all = NULL;
    char after[STORE_KEY_MAX + 1] = "";
    *len = 0;
    LOCAL(store_answer, answer);
    do {
        if (store_list(e->store, FOLDER, after[0] ? after : NULL, STORE_LIST_MAX, &answer)) break;
        all = memory_resize(all, (*len + answer.rows_len + 1) * sizeof *all);
        for (size_t i = 0; i < answer.rows_len; i++) {
            const char *name = store_row_key(&answer, i) + strlen(FOLDER);
            if (!queue_name_ok(name)) continue;
            struct hint *h = &all[(*len)++];
            *h = (struct hint){.modified = answer.rows[i].modified.hi};
            memcpy(h->queue, name, strlen(name));
        }
        *now = answer.time.lo;
        if (answer.rows_len > 0)
            (void)snprintf(after, sizeof after, "%s", store_row_key(&answer, answer.rows_len - 1));
    } while (answer.more);
    return all;
}

size_t owner_only_round(struct engine *e)
{
    size_t len = 0;
    int64_t now = 0;
    struct hint *all = read_hints(e, &len, &now);
    for (size_t i = 0; i < len; i++) {
        CLEANUP(queue_let_go) struct open_queue *q = NULL;
        enum sluice_code code = queue_get(e, all[i].queue, &q, NULL);
        if (!code) keep_owned(q);
        if (code == SLUICE_NOT_FOUND && now - all[i].modified > STALE_MS) forget(e, all[i].queue);
    }
    memory_free(all);
    return len;
}
