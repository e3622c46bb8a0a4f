// SPDX-License-Identifier: Apache-2.0
// The heartbeat: one thread renews the locks of all slots after a third of their time, whatever the
// jobs do. It reports a refusal to the slot. It repeats a renewal that got no answer, while the
// slot's own deadline keeps running.
#include "cli/work/pool.h"
#include "os/clock.h"

#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define RENEW_BATCH  256
#define RETRY_MIN_MS 20
// No outcome for this lock: the code of the whole call counts.
#define NOT_SAID     SLUICE_INVALID

static bool wants_renewal(const struct slot *s)
{
    return s->token[0] && !s->lost && !s->quiet;
}

// Sets the timer to the next renewal, or off if there is none.
static void arm(struct worker_pool *p)
{
    int64_t next = 0;
    for (uint32_t i = 0; i < p->options.jobs; i++) {
        const struct slot *s = &p->slots[i];
        if (wants_renewal(s) && (next == 0 || s->renew_at_ms < next)) next = s->renew_at_ms;
    }
    struct itimerspec t = {.it_value = {.tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000}};
    (void)timerfd_settime(p->heartbeat_timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

struct renewal_batch {
    struct slot *slots[RENEW_BATCH];
    char tokens[RENEW_BATCH][SLUICE_TOKEN_MAX];
    char texts[RENEW_BATCH][SLUICE_PROGRESS_TEXT_MAX + 1];
    const char *views[RENEW_BATCH];
    struct sluice_renewal rows[RENEW_BATCH];
    bool reports; // a row has progress
    struct sluice_outcome outcomes[RENEW_BATCH];
    size_t len;
    int64_t lease_ms;
};

// Collects the locks that are due or due soon, so that one entry renews all of them.
static void collect(struct worker_pool *p, struct renewal_batch *r, int64_t now)
{
    r->len = 0;
    r->reports = false;
    r->lease_ms = p->options.visibility_ms;
    for (uint32_t i = 0; i < p->options.jobs && r->len < RENEW_BATCH; i++) {
        struct slot *s = &p->slots[i];
        if (!wants_renewal(s) || s->renew_at_ms - s->lease_ms / 12 > now) continue;
        r->slots[r->len] = s;
        memcpy(r->tokens[r->len], s->token, sizeof s->token);
        r->views[r->len] = r->tokens[r->len];
        memcpy(r->texts[r->len], s->progress, sizeof s->progress);
        r->rows[r->len] = (struct sluice_renewal){.token = r->tokens[r->len],
                                                  .has_progress = s->progress_new,
                                                  .percent = s->percent,
                                                  .text = r->texts[r->len]};
        r->reports |= s->progress_new;
        s->progress_new = false;
        r->outcomes[r->len] = (struct sluice_outcome){.code = NOT_SAID};
        if (s->lease_ms > r->lease_ms) r->lease_ms = s->lease_ms;
        r->len++;
    }
}

static void note(struct worker_pool *p, const struct renewal_batch *r, enum sluice_code whole,
                 int64_t asked)
{
    for (size_t i = 0; i < r->len; i++) {
        struct slot *s = r->slots[i];
        if (strcmp(s->token, r->tokens[i]) != 0) continue; // settled meanwhile
        switch (r->outcomes[i].code == NOT_SAID ? whole : r->outcomes[i].code) {
        case SLUICE_OK:
            p->renewals++;
            s->deadline_ms = work_deadline(asked, r->lease_ms);
            if (s->limit_ms > 0 && s->limit_ms < s->deadline_ms) s->deadline_ms = s->limit_ms;
            s->renew_at_ms = asked + r->lease_ms / 3;
            s->waits = r->outcomes[i].signals > 0;
            if (s->waits) p->deaf = false;
            if (s->waits) listener_wake(p);
            break;
        case SLUICE_UNAVAILABLE:
        case SLUICE_UNKNOWN:
        case SLUICE_LIMIT:
            s->progress_new |= r->rows[i].has_progress;
            s->renew_at_ms = clock_boot_ms() +
                             (s->lease_ms / 12 > RETRY_MIN_MS ? s->lease_ms / 12 : RETRY_MIN_MS);
            break;
        default:
            s->lost = true;
        }
        slot_wake(s);
    }
}

static enum sluice_code renew(struct worker_pool *p, struct renewal_batch *r,
                              struct sluice_error *error)
{
    struct sluice *store = atomic_load(&p->store);
    const char *queue = p->options.queue;
    if (r->reports)
        return sluice_renew_with(store, queue, r->rows, r->len, r->lease_ms, r->outcomes, error);
    return sluice_renew(store, queue, r->views, r->len, r->lease_ms, r->outcomes, error);
}

static void beat(struct worker_pool *p, struct renewal_batch *r)
{
    int64_t asked = clock_boot_ms();
    (void)pthread_mutex_lock(&p->lock);
    collect(p, r, asked);
    (void)pthread_mutex_unlock(&p->lock);
    if (r->len == 0) return;
    struct sluice_error error = {.code = SLUICE_OK};
    enum sluice_code code = renew(p, r, &error);
    (void)pthread_mutex_lock(&p->lock);
    note(p, r, code, asked);
    (void)pthread_mutex_unlock(&p->lock);
    if (code == SLUICE_UNAVAILABLE || code == SLUICE_UNKNOWN)
        work_ui_trouble(p, "a renewal got no answer: %s", error.message);
}

void heartbeat_wake(struct worker_pool *p)
{
    uint64_t one = 1;
    (void)!write(p->heartbeat_fd, &one, sizeof one);
}

void *heartbeat_main(void *ctx)
{
    struct worker_pool *p = ctx;
    struct renewal_batch batch;
    for (;;) {
        (void)pthread_mutex_lock(&p->lock);
        bool stop = p->heartbeat_stops;
        arm(p);
        (void)pthread_mutex_unlock(&p->lock);
        if (stop) return NULL;
        struct pollfd fds[] = {{.fd = p->heartbeat_fd, .events = POLLIN},
                               {.fd = p->heartbeat_timer_fd, .events = POLLIN}};
        (void)poll(fds, 2, -1);
        uint64_t count;
        if (fds[0].revents) (void)!read(p->heartbeat_fd, &count, sizeof count);
        if (fds[1].revents) (void)!read(p->heartbeat_timer_fd, &count, sizeof count);
        beat(p, &batch);
    }
}
