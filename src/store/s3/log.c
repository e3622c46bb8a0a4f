// SPDX-License-Identifier: Apache-2.0
// Read-ahead and waiting. ahead.c decides how many slots to read, polls.c how often to poll.
#include "store/s3/log.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/memory.h"
#include "os/clock.h"
#include "os/lock.h"
#include "store/backend.h"

#include <string.h>

#define WAIT_ANSWER_MS 2000 // a poll may take this much longer than its wait

static uint64_t log_id(const char *log)
{
    return hash64_of(bytes_str(log), 0);
}

void s3_logs_init(struct s3_logs *l)
{
    *l = (struct s3_logs){0};
    (void)pthread_mutex_init(&l->lock, NULL);
    clock_cond_init(&l->wrote);
}

void s3_logs_done(struct s3_logs *l)
{
    (void)pthread_cond_destroy(&l->wrote);
    (void)pthread_mutex_destroy(&l->lock);
}

struct slot_read {
    struct s3_exchange x;
    char key[OBJLOG_KEY_MAX];
};

static void slot_read_init(struct slot_read *f, const char *log, uint64_t slot, size_t body_max)
{
    objlog_key(f->key, log, slot);
    s3_exchange_init(&f->x, S3_READ, "GET", f->key);
    f->x.body_max = body_max;
}

static bool settled(const struct s3_exchange *x)
{
    return x->answer_class.err == ERR_OK || x->answer_class.err == ERR_NOT_FOUND;
}

// Sends all reads at once. The first slot must get an answer, so its read is repeated if needed. At
// the first other read that fails, the run of slots ends.
static enum err slot_reads_perform(struct s3_client *c, struct slot_read *f, size_t count,
                                   struct store_answer *a)
{
    if (count == 1) return s3_perform(c, &f->x, a);
    CHECK(count <= S3_AHEAD_MAX);
    struct http_call *calls[S3_AHEAD_MAX] = {0};
    for (size_t i = 0; i < count; i++) {
        enum err e = s3_begin(c, &f[i].x, a);
        if (e) return e;
        calls[i] = &f[i].x.call;
    }
    http_do_all(c->http, calls, count, count);
    for (size_t i = 0; i < count; i++)
        s3_conclude(c, &f[i].x, a);
    return settled(&f->x) ? f->x.answer_class.err : s3_perform(c, &f->x, a);
}

static size_t slots_found(const struct slot_read *f, size_t count, size_t *bytes)
{
    size_t found = 0;
    *bytes = 0;
    while (found < count && f[found].x.answer_class.err == ERR_OK)
        *bytes += f[found++].x.call.body_in.len;
    return found;
}

static size_t slots_keep(const struct slot_read *f, size_t found, uint64_t slot, size_t bytes_max,
                         struct store_answer *a)
{
    size_t kept = 0;
    for (; kept < found; kept++) {
        struct bytes body = buf_bytes(&f[kept].x.call.body_in);
        if (kept > 0 && a->body.len + body.len > bytes_max) break;
        struct store_row *row = answer_row(a);
        row->first = row->last = slot + kept;
        row->size = body.len;
        row->body_at = a->body.len;
        row->modified = s3_modified(&f[kept].x, a);
        buf_put(&a->body, body);
    }
    return kept;
}

enum err s3_read_log(struct s3_client *c, struct s3_logs *l, const char *log, uint64_t slot,
                     size_t bytes_max, struct store_answer *a)
{
    uint64_t id = log_id(log);
    (void)pthread_mutex_lock(&l->lock);
    size_t asked = s3_ahead_plan(&l->ahead, id, slot, bytes_max);
    (void)pthread_mutex_unlock(&l->lock);
    struct slot_read *f = memory_zeroed(asked, sizeof *f);
    for (size_t i = 0; i < asked; i++)
        slot_read_init(&f[i], log, slot + i, i == 0 ? STORE_OBJECT_MAX : bytes_max);
    enum err e = slot_reads_perform(c, f, asked, a);
    if (e == ERR_OK || e == ERR_NOT_FOUND) {
        size_t bytes, found = slots_found(f, asked, &bytes);
        size_t kept = slots_keep(f, found, slot, bytes_max, a);
        LOCKED(&l->lock);
        s3_ahead_note(&l->ahead, id, slot, asked, found, kept, bytes);
        if (found == 0) (void)s3_polls_tail(&l->polls, id, slot, clock_boot_ms());
    }
    for (size_t i = 0; i < asked; i++)
        s3_exchange_done(&f[i].x);
    memory_free(f);
    return e;
}

void s3_logs_wrote(struct s3_logs *l, const char *log, uint64_t slot)
{
    LOCKED(&l->lock);
    if (s3_polls_tail(&l->polls, log_id(log), slot + 1, clock_boot_ms()))
        (void)pthread_cond_broadcast(&l->wrote);
}

// Polls with a HEAD. The answer to a HEAD has no body that would explain a failure. In that case a
// GET follows, which also corrects what can be corrected: clock, keys, region.
static enum err poll_once(struct s3_client *c, const char *key, int64_t wait_ms,
                          struct store_answer *a)
{
    LOCAL(s3_exchange, x, S3_READ, "HEAD", key);
    enum err e = s3_begin(c, &x, a);
    if (e) return e;
    int64_t most_ms = wait_ms + WAIT_ANSWER_MS;
    if (most_ms < x.call.timeout_ms) x.call.timeout_ms = most_ms;
    http_do(c->http, &x.call);
    s3_conclude(c, &x, a);
    e = s3_explain(&x, a);
    if (settled(&x) || e == ERR_UNAVAILABLE) return e;
    LOCAL(s3_exchange, get, S3_READ, "GET", key);
    s3_header(&get, "Range", "bytes=0-0");
    return s3_perform(c, &get, a);
}

// Returns false if the wait ends before the next poll is due.
static bool wait_for_poll(struct s3_logs *l, uint64_t id, uint64_t slot, int64_t end)
{
    bool poll_now = false;
    LOCKED(&l->lock);
    for (;;) {
        int64_t now = clock_boot_ms();
        int64_t due = s3_polls_due(&l->polls, id, slot, now);
        poll_now = due <= now;
        if (poll_now || now >= end) break;
        clock_wait(&l->wrote, &l->lock, due < end ? due : end);
    }
    return poll_now;
}

enum err s3_wait(struct s3_client *c, struct s3_logs *l, const char *log, uint64_t slot,
                 int64_t wait_ms, struct store_answer *a)
{
    char key[OBJLOG_KEY_MAX];
    objlog_key(key, log, slot);
    if (wait_ms == 0) return poll_once(c, key, 0, a); // an existence check always polls
    uint64_t id = log_id(log);
    int64_t end = clock_boot_ms() + wait_ms;
    while (wait_for_poll(l, id, slot, end)) {
        enum err e = poll_once(c, key, wait_ms, a);
        if (e == ERR_OK) return e;
        (void)pthread_mutex_lock(&l->lock);
        s3_polls_note(&l->polls, id, slot, clock_boot_ms());
        (void)pthread_mutex_unlock(&l->lock);
        if (e != ERR_NOT_FOUND) return e;
    }
    return ERR_NOT_FOUND;
}
