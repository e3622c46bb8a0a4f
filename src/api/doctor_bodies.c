// SPDX-License-Identifier: Apache-2.0
// Checks the large bodies: each message that refers to one must find it under data/, with the bytes
// that were sent. It lists all bodies, and reads them up to READ_BYTES_MAX.
#include "api/doctor.h"
#include "api/handle.h"
#include "base/memory.h"
#include "queues/bodies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READ_BYTES_MAX ((uint64_t)256 << 20) // of a queue's bodies

// The messages of a shard that have a large body, in the order of the body's key.
struct holders {
    struct holder {
        uint64_t key, seq;
        bool there;
    } * rows;
    size_t len;
};

struct bodies_check {
    struct doctor *doctor;
    struct open_queue *queue;
    uint32_t shard;
    struct shard_runner *runner;
    struct holders holders;
    uint64_t bodies, read, bytes_left; // of the queue
    uint64_t bad;                      // bodies that are missing, damaged or cannot be read
    char check[QUEUE_NAME_MAX + 8];
};

static int by_key(const void *a, const void *b)
{
    const struct holder *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

static void note_holders(void *ctx, const struct machine *m, int64_t now)
{
    struct holders *h = ctx;
    struct machine_stats stats;
    machine_stats(m, now, &stats);
    h->rows = memory_zeroed(stats.bodies, sizeof *h->rows);
    for (h->len = 0; h->len < stats.bodies; h->len++)
        if (!machine_body(m, h->len, &h->rows[h->len].seq, &h->rows[h->len].key)) break;
    if (h->len > 0) qsort(h->rows, h->len, sizeof *h->rows, by_key);
}

static void report_bad(struct bodies_check *r, uint64_t seq, const char *what, const char *key)
{
    char id[SLUICE_ID_MAX];
    r->bad++;
    r->doctor->worst = ERR_CORRUPT;
    id_print(queue_ref(r->queue), r->shard, seq, id);
    doctor_report(r->doctor, r->check, SLUICE_FAILED, "message %s: its large body %s%s%s", id, what,
                  key ? ": " : "", key ? key : "");
}

static const char *damage_of(struct bodies_check *r, const char *key, const struct body_name *name)
{
    LOCAL(store_answer, a);
    enum err err = store_get(r->queue->engine->store, key, 0, SIZE_MAX, &a);
    if (err == ERR_NOT_FOUND) return NULL; // finished and swept since it was listed
    if (err) return "cannot be read";
    return hash128_equal(name->hash, hash128_of(buf_bytes(&a.body))) ? NULL : "is damaged";
}

static void note_body(struct bodies_check *r, const char *key, uint64_t size)
{
    struct body_name name;
    if (!body_name_parse(bytes_str(strrchr(key, '/') + 1), &name)) return;
    struct holder wanted = {.key = name.random[0]};
    struct holder *end = r->holders.rows + r->holders.len;
    struct holder *h = r->holders.len == 0 ? NULL
                                           : bsearch(&wanted, r->holders.rows, r->holders.len,
                                                     sizeof wanted, by_key);
    if (!h) return; // its message is finished, or not sent yet
    while (h > r->holders.rows && h[-1].key == wanted.key)
        h--;
    const char *damage = NULL;
    if (size <= r->bytes_left) {
        damage = damage_of(r, key, &name);
        r->bytes_left -= size;
        r->read++;
    }
    if (damage) report_bad(r, h->seq, damage, key);
    for (; h < end && h->key == wanted.key; h++) // several messages may share a body
        h->there = true;
}

static enum err note_bodies(struct bodies_check *r, struct store_answer *page)
{
    char folder[BODY_KEY_MAX], after[BODY_KEY_MAX] = "";
    bodies_folder(&r->queue->row.id, r->shard, folder);
    do {
        enum err err = store_list(r->queue->engine->store, folder, after[0] ? after : NULL,
                                  STORE_LIST_MAX, page);
        if (err) return err;
        for (size_t i = 0; i < page->rows_len; i++)
            note_body(r, store_row_key(page, i), page->rows[i].size);
        if (page->rows_len > 0)
            (void)snprintf(after, sizeof after, "%s", store_row_key(page, page->rows_len - 1));
    } while (page->more && page->rows_len > 0);
    return ERR_OK;
}

// A message that was finished meanwhile needs no body.
static void report_missing(struct bodies_check *r)
{
    struct holders now = {0};
    struct sluice_error error;
    if (queue_synced_runner(r->queue, r->shard, &r->runner, &error)) return;
    runner_inspect(r->runner, note_holders, &now);
    for (size_t i = 0; i < r->holders.len; i++) {
        bool held = false;
        for (size_t k = 0; !r->holders.rows[i].there && k < now.len; k++)
            held |= now.rows[k].seq == r->holders.rows[i].seq;
        if (held) report_bad(r, r->holders.rows[i].seq, "is missing", NULL);
    }
    memory_free(now.rows);
}

static bool all_there(const struct holders *h)
{
    for (size_t i = 0; i < h->len; i++)
        if (!h->rows[i].there) return false;
    return true;
}

static void examine_shard(struct bodies_check *r)
{
    struct sluice_error error;
    LOCAL(store_answer, page);
    if (queue_synced_runner(r->queue, r->shard, &r->runner, &error))
        return; // doctor_queues has reported it
    runner_inspect(r->runner, note_holders, &r->holders);
    r->bodies += r->holders.len;
    enum err err = r->holders.len > 0 ? note_bodies(r, &page) : ERR_OK;
    if (err)
        doctor_report(r->doctor, r->check, SLUICE_FAILED, "%s",
                      page.why[0] ? page.why : err_text(err));
    else if (!all_there(&r->holders))
        report_missing(r);
    r->bad += err != ERR_OK;
    memory_free(r->holders.rows);
    r->holders = (struct holders){0};
}

void doctor_bodies(struct doctor *d, struct sluice *s, const char *queue)
{
    struct bodies_check r = {.doctor = d, .bytes_left = READ_BYTES_MAX};
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    (void)snprintf(r.check, sizeof r.check, "bodies %s", queue);
    if (queue_get(s->engine, queue, &q, NULL)) return; // doctor_queues has reported it
    r.queue = q;
    for (r.shard = 0; r.shard < q->row.birth.shards; r.shard++)
        examine_shard(&r);
    if (r.bodies == 0 || r.bad > 0) return;
    doctor_report(d, r.check, SLUICE_PASSED,
                  "%llu large bodies exist; %llu were read and are intact",
                  (unsigned long long)r.bodies, (unsigned long long)r.read);
}
