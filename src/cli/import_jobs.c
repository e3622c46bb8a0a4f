// SPDX-License-Identifier: Apache-2.0
// Copies jobs of beanstalkd in batches. A ready job is reserved first, so no worker gets it. A
// killed import loses the reservation, and beanstalkd makes the job ready again. A delayed or
// buried job is not reserved, because it would come back as ready.
#include "cli/import_jobs.h"

#include "os/clock.h"

#include <string.h>

#define BATCH_BYTES ((size_t)2 << 20)
#define SOON_S      3 // a delayed job that is due so soon is taken when it is ready

// The next batch has about BATCH_BYTES of bodies.
static void choose_size(struct tube_import *t)
{
    size_t average = t->len ? t->bodies.len / t->len + 1 : 1;
    size_t size = BATCH_BYTES / average;
    t->size_now = size < 1 ? 1 : size > IMPORT_BATCH_MAX ? IMPORT_BATCH_MAX : size;
}

static void clear(struct tube_import *t)
{
    t->len = 0;
    buf_clear(&t->bodies);
}

static void add(struct tube_import *t, const struct beanstalk_answer *job)
{
    t->items[t->len] = (struct import_item){.id = job->id};
    t->items[t->len].message.body_len = job->body.len;
    t->bodies_at[t->len++] = t->bodies.len;
    buf_put(&t->bodies, job->body);
}

// Fills in what stats-job says. *left is how long a delayed job still waits, in seconds.
static bool describe(struct tube_import *t, struct import_item *item, struct bytes stats,
                     unsigned *state, uint64_t *left)
{
    uint64_t priority, age, ttr;
    struct bytes name;
    if (!answer_value(stats, "state", &name) || !answer_number(stats, "pri", &priority) ||
        !answer_number(stats, "age", &age) || !answer_number(stats, "ttr", &ttr) ||
        !answer_number(stats, "time-left", left))
        return tube_refuse(&t->link, stats);
    if (age > INT64_MAX / 1000) age = 0;
    item->created_at = clock_realtime_ms() - (int64_t)age * 1000;
    item->message.priority = jobs_priority(priority);
    *state = jobs_state(name);
    if (ttr > t->longest_ttr) t->longest_ttr = ttr;
    return true;
}

static bool describe_reserved(struct tube_import *t)
{
    struct beanstalk_answer a;
    for (size_t i = 0; i < t->len; i++)
        tube_command(&t->link, "stats-job %llu", (unsigned long long)t->items[i].id);
    if (!tube_flush(&t->link)) return false;
    for (size_t i = 0; i < t->len; i++) {
        unsigned state;
        uint64_t left;
        if (!tube_answer(&t->link, &a)) return false;
        if (a.word == ANSWER_NOT_FOUND) continue; // deleted at this moment; delete reports it
        if (a.word != ANSWER_OK) return tube_refuse(&t->link, a.line);
        if (!describe(t, &t->items[i], a.body, &state, &left)) return false;
    }
    return true;
}

static bool delete_all(struct tube_import *t)
{
    struct beanstalk_answer a;
    for (size_t i = 0; i < t->len; i++)
        tube_command(&t->link, "delete %llu", (unsigned long long)t->items[i].id);
    if (!tube_flush(&t->link)) return false;
    for (size_t i = 0; i < t->len; i++) {
        if (!tube_answer(&t->link, &a)) return false;
        if (a.word == ANSWER_DELETED)
            t->run->deleted++;
        else if (a.word == ANSWER_NOT_FOUND)
            t->run->taken++;
        else
            return tube_refuse(&t->link, a.line);
    }
    return true;
}

// Copies the jobs that were read, and deletes them at the source.
static int copy(struct tube_import *t)
{
    for (size_t i = 0; i < t->len; i++)
        t->items[i].message.body = t->bodies.len ? t->bodies.data + t->bodies_at[i] : (void *)"";
    int status = import_batch(t->run, t->items, t->len);
    if (status) return status;
    return t->run->keep || delete_all(t) ? 0 : t->link.status;
}

static bool reserve_batch(struct tube_import *t, unsigned wait_s)
{
    struct beanstalk_answer a;
    size_t asked = t->size_now;
    for (size_t i = 0; i < asked; i++)
        tube_command(&t->link, "reserve-with-timeout %u", i == 0 ? wait_s : 0);
    if (!tube_flush(&t->link)) return false;
    clear(t);
    for (size_t i = 0; i < asked; i++) {
        if (!tube_answer(&t->link, &a)) return false;
        if (a.word == ANSWER_RESERVED)
            add(t, &a);
        else if (a.word != ANSWER_TIMED_OUT && a.word != ANSWER_DEADLINE_SOON)
            return tube_refuse(&t->link, a.line);
    }
    return t->len == 0 || describe_reserved(t);
}

int jobs_reserve(struct tube_import *t, unsigned wait_s, uint64_t *found)
{
    for (*found = 0;; wait_s = 0) {
        if (!reserve_batch(t, wait_s)) return t->link.status;
        if (t->len == 0) return 0;
        *found += t->len;
        int status = copy(t);
        if (status) return status;
        choose_size(t);
    }
}

// Reads the state and the body of one job. It is added if its state is still wanted.
static bool read_one(struct tube_import *t, uint64_t id)
{
    struct beanstalk_answer a;
    struct import_item item = {.id = id};
    unsigned state = 0;
    uint64_t left = 0;
    if (!tube_answer(&t->link, &a)) return false;
    if (a.word != ANSWER_OK && a.word != ANSWER_NOT_FOUND) return tube_refuse(&t->link, a.line);
    if (a.word == ANSWER_OK && !describe(t, &item, a.body, &state, &left)) return false;
    if (!tube_answer(&t->link, &a)) return false;
    if (a.word != ANSWER_FOUND && a.word != ANSWER_NOT_FOUND) return tube_refuse(&t->link, a.line);
    bool soon = state == JOBS_DELAYED && left < SOON_S && !t->run->keep && (t->states & JOBS_READY);
    t->soon += soon;
    if (soon) return true;
    if (a.word == ANSWER_NOT_FOUND || !(state & t->states)) {
        t->gone++;
        return true;
    }
    add(t, &a);
    item.message.body_len = a.body.len;
    item.message.delay_ms = state == JOBS_DELAYED ? (int64_t)left * 1000 : 0;
    t->items[t->len - 1] = item;
    return true;
}

int jobs_copy(struct tube_import *t, const struct tube_job *jobs, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t part = len - at < t->size_now ? len - at : t->size_now;
        clear(t);
        for (size_t i = 0; i < part; i++) {
            unsigned long long id = jobs[at + i].id;
            tube_command(&t->link, "stats-job %llu", id);
            tube_command(&t->link, "peek %llu", id);
        }
        if (!tube_flush(&t->link)) return t->link.status;
        for (size_t i = 0; i < part; i++)
            if (!read_one(t, jobs[at + i].id)) return t->link.status;
        int status = t->len ? copy(t) : 0;
        if (status) return status;
        choose_size(t);
        at += part;
    }
    return 0;
}
