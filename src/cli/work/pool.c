// SPDX-License-Identifier: Apache-2.0
// The loop of the slots: receive a message, run the job, repeat. The loop ends by an order, on an
// empty queue (--drain), after one job (--once), or on an error that retries do not solve.
#include "cli/work/pool.h"

#include "cli/cli.h"
#include "os/clock.h"
#include "os/lock.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define WAIT_MS         500 // wait of one receive; also how late an idle slot sees an order
#define WAIT_DRAIN_MS   50
#define EMPTY_MAX       20 // receives in a row that return nothing although a message is ready
#define PAUSE_MIN_MS    50
#define PAUSE_MAX_MS    2000
#define PAUSE_HELD_MS   500 // of a worker that an operator paused
#define PAUSE_OWNER_MS  200 // without an owner: a node may come at any moment
#define STACK_BYTES     ((size_t)512 << 10)
#define REOPEN_AFTER_MS 5000
#define WAIT_PER_LEASE  8 // a receive waits at most 1/8 of the lock's time

static const char *const end_names[END_COUNT] = {"processed", "retrying",  "dead-lettered",
                                                 "released",  "cancelled", "lost"};

const char *work_end_name(enum work_end end)
{
    return end_names[end];
}

bool work_undecided(enum sluice_code code)
{
    return code == SLUICE_UNKNOWN || code == SLUICE_UNAVAILABLE || code == SLUICE_LIMIT;
}

void work_ui_trouble(struct worker_pool *p, const char *format, ...)
{
    char sentence[WORK_PROBLEM_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(sentence, sizeof sentence, format, list);
    va_end(list);
    LOCKED(&p->work_ui_lock);
    p->options.ui.trouble(p->options.ui.ctx, sentence);
}

void work_ui_signal(struct worker_pool *p, const char *message, const struct job_signal *signal,
                    const char *state, const char *reason)
{
    struct work_signal row = {.message = message,
                              .signal = signal->id,
                              .number = signal->number,
                              .kind = signal->kind,
                              .state = state,
                              .reason = reason};
    LOCKED(&p->work_ui_lock);
    p->options.ui.signal(p->options.ui.ctx, &row);
}

static void ring(int fd)
{
    uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

void slot_wake(struct slot *s)
{
    ring(s->wake_fd);
}

void slot_sleep(struct slot *s, int64_t ms)
{
    struct pollfd fd = {.fd = s->wake_fd, .events = POLLIN};
    uint64_t count;
    if (poll(&fd, 1, (int)ms) > 0) (void)!read(s->wake_fd, &count, sizeof count);
}

void pool_order(struct worker_pool *p, enum work_order order)
{
    int had = atomic_load(&p->order);
    while (had < (int)order && !atomic_compare_exchange_weak(&p->order, &had, (int)order))
        continue;
    for (uint32_t i = 0; i < p->options.jobs; i++)
        slot_wake(&p->slots[i]);
}

void pool_fail(struct worker_pool *p, enum sluice_code code, const char *sentence)
{
    (void)pthread_mutex_lock(&p->lock);
    if (p->failure == SLUICE_OK) {
        p->failure = code;
        (void)snprintf(p->problem, sizeof p->problem, "%s", sentence);
    }
    (void)pthread_mutex_unlock(&p->lock);
    pool_order(p, WORK_NO_MORE);
}

void pool_reopen(struct worker_pool *p, int64_t since_ms)
{
    int64_t now = clock_boot_ms();
    (void)pthread_mutex_lock(&p->lock);
    bool due = now - since_ms >= REOPEN_AFTER_MS && now - p->opened_ms >= REOPEN_AFTER_MS &&
               p->handles_len < WORK_HANDLES_MAX;
    if (due) p->opened_ms = now;
    (void)pthread_mutex_unlock(&p->lock);
    if (!due) return;
    struct sluice *fresh = NULL;
    struct sluice_queue_info *info = NULL;
    struct sluice_error error = {.message = ""};
    if (sluice_open(p->options.spec.store, NULL, &fresh, &error) == SLUICE_OK &&
        sluice_queue_show(fresh, p->options.queue, &info, &error) == SLUICE_OK) {
        (void)pthread_mutex_lock(&p->lock);
        bool room = p->handles_len < WORK_HANDLES_MAX; // another slot may have been faster
        if (room) p->handles[p->handles_len++] = fresh;
        if (room) atomic_store(&p->store, fresh);
        (void)pthread_mutex_unlock(&p->lock);
        if (!room) sluice_close(fresh);
        work_ui_trouble(p, "the store does not answer; opened it again");
    } else {
        sluice_close(fresh);
        work_ui_trouble(p, "the store cannot be opened again: %s", error.message);
    }
    sluice_queue_info_free(info);
}

static int64_t wait_of(struct slot *s)
{
    const struct work_options *o = &s->pool->options;
    int64_t wait = WAIT_MS;
    int64_t lease = o->visibility_ms == 0 && s->lease_ms > 0 ? s->lease_ms : o->lease_ms;
    if (lease > 0 && lease / WAIT_PER_LEASE < wait) wait = lease / WAIT_PER_LEASE;
    if (!o->drain) return wait;
    LOCKED(&s->pool->lock);
    bool alone = s->pool->busy == 0;
    return alone && !s->blocked ? 0 : WAIT_DRAIN_MS;
}

static bool is_paused(struct worker_pool *p)
{
    struct sluice_queue_info *info = NULL;
    bool paused =
        sluice_queue_show(atomic_load(&p->store), p->options.queue, &info, NULL) == SLUICE_OK &&
        info->paused;
    sluice_queue_info_free(info);
    return paused;
}

// In a strict queue, ready messages wait behind an open message. Then the queue is not drained,
// whichever worker holds that message. A paused queue delivers nothing more, so the worker ends.
static bool is_drained(struct slot *s)
{
    struct sluice_stats stats;
    struct worker_pool *p = s->pool;
    if (sluice_stats(atomic_load(&p->store), p->options.queue, &stats, NULL)) return true;
    if (stats.ready > 0 && is_paused(p)) {
        atomic_store(&p->found_paused, true);
        return true;
    }
    // If no message is open, the message before was finished between the receive and this call.
    // Receives again.
    if (stats.ready > 0 && stats.locked == 0) s->empty_receives++;
    s->blocked = stats.ready > 0 && s->empty_receives <= EMPTY_MAX;
    return !s->blocked;
}

// Receives once. While the outcome is unknown, it repeats the same request id, because the request
// may have locked a message. Returns NULL for nothing.
static struct sluice_batch *receive_one(struct slot *s, int64_t *asked_ms)
{
    struct worker_pool *p = s->pool;
    bool unknown = s->unanswered;
    struct sluice_request request = unknown ? s->request : cli_request();
    s->unanswered = false;
    struct sluice_receive r = {.worker = p->options.worker,
                               .max = 1,
                               .wait_ms = wait_of(s),
                               .visibility_ms = p->options.visibility_ms,
                               .request = &request};
    *asked_ms = unknown ? s->next_asked_ms : clock_boot_ms();
    for (int64_t pause = PAUSE_MIN_MS;;
         pause = pause * 2 < PAUSE_MAX_MS ? pause * 2 : PAUSE_MAX_MS) {
        struct sluice_batch *b = NULL;
        struct sluice_error error;
        enum sluice_code code =
            sluice_receive(atomic_load(&p->store), p->options.queue, &r, &b, &error);
        if (code == SLUICE_OK) {
            atomic_store(&p->ownerless, false);
            atomic_store(&p->held, false);
            return b;
        }
        if (code != SLUICE_UNKNOWN && code != SLUICE_UNAVAILABLE && code != SLUICE_LIMIT) {
            pool_fail(p, code, error.message);
            return NULL;
        }
        unknown |= code == SLUICE_UNKNOWN;
        // The worker must stop, and it certainly holds no message.
        int order = atomic_load(&p->order);
        if (order == WORK_AT_ONCE || (order != WORK_GO && !unknown)) return NULL;
        r.wait_ms = 0;
        if (strcmp(error.reason, "worker-draining") == 0) {
            atomic_store(&p->drained, true);
            pool_order(p, WORK_NO_MORE);
            return NULL;
        }
        if (strcmp(error.reason, "worker-paused") == 0) {
            if (p->options.drain) return NULL;
            if (!atomic_exchange(&p->held, true)) // it is said once, by one slot
                work_ui_trouble(p, "an operator paused this worker: it waits until it is resumed");
            pause = PAUSE_HELD_MS;
        } else if (strcmp(error.reason, "queue-paused") == 0) { // not a problem
            if (p->options.drain) return NULL;
        } else if (strcmp(error.reason, "no-owner") == 0) {
            if (!atomic_exchange(&p->ownerless, true)) // it is said once, by one slot
                work_ui_trouble(p, "waiting for an owner: %s", error.message);
            pause = PAUSE_OWNER_MS;
        } else {
            work_ui_trouble(p, "the store did not answer: %s", error.message);
            pool_reopen(p, *asked_ms);
        }
        slot_sleep(s, pause);
    }
}

// Releases a message that was received after the order to stop.
static void release_received(struct slot *s, const struct sluice_message *m)
{
    (void)pthread_mutex_lock(&s->pool->lock);
    s->state = SLOT_SETTLING;
    (void)snprintf(s->id, sizeof s->id, "%s", m->id);
    (void)snprintf(s->token, sizeof s->token, "%s", m->token);
    s->attempt = m->attempt;
    s->retries = m->retries;
    s->lease_ms = m->lease_ms;
    s->renew_at_ms = clock_boot_ms() + m->lease_ms / 3;
    s->deadline_ms = clock_boot_ms() + m->lease_ms;
    (void)pthread_mutex_unlock(&s->pool->lock);
    enum work_end end = slot_settle(s, WORD_RELEASE, NULL, NULL);
    LOCKED(&s->pool->lock);
    s->pool->ended[end]++;
    s->token[0] = 0;
    s->state = SLOT_IDLE;
}

static uint32_t count_busy(struct worker_pool *p, int change)
{
    LOCKED(&p->lock);
    p->busy = (uint32_t)((int)p->busy + change);
    return p->busy;
}

// A program that gives every message back would be restarted at once, forever. So the slot waits
// longer each time. With --drain the slot ends.
static void pause_after(struct slot *s, enum work_end end)
{
    s->returns = end == END_RELEASED ? s->returns + 1 : 0;
    if (s->returns == 0) return;
    int64_t pause = PAUSE_MIN_MS;
    for (uint32_t i = 1; i < s->returns && pause < PAUSE_MAX_MS; i++)
        pause *= 2;
    if (atomic_load(&s->pool->order) == WORK_GO && !s->pool->options.drain) slot_sleep(s, pause);
}

// Returns true to continue.
static bool run_slot_once(struct slot *s)
{
    struct worker_pool *p = s->pool;
    int64_t asked_ms = s->next_asked_ms;
    bool came = s->next; // the slot still counts as busy
    struct sluice_batch *b = came ? s->next : receive_one(s, &asked_ms);
    s->next = NULL;
    size_t len = b ? b->len : 0;
    bool answered = b != NULL; // false: the queue is paused, or the worker must stop
    if (len > 0) {
        s->empty_receives = 0;
        if (!came) (void)count_busy(p, 1);
        bool late = atomic_load(&p->order) != WORK_GO && !p->options.drain;
        if (late) {
            release_received(s, &b->messages[0]);
        } else {
            enum work_end end = job_run(s, &b->messages[0], asked_ms);
            if (!p->options.once) pause_after(s, end);
        }
        if (!s->next) (void)count_busy(p, -1);
    }
    sluice_batch_free(b);
    if (p->options.once && len > 0) pool_order(p, WORK_NO_MORE);
    s->blocked = false;
    bool nothing = p->options.drain && len == 0 && count_busy(p, 0) == 0;
    if (nothing && (!answered || is_drained(s))) pool_order(p, WORK_NO_MORE);
    if (p->options.drain && s->returns > 0) return false;
    return s->next || s->unanswered || atomic_load(&p->order) == WORK_GO;
}

static void *slot_main(void *ctx)
{
    struct slot *s = ctx;
    struct worker_pool *p = s->pool;
    while (run_slot_once(s))
        continue;
    (void)pthread_mutex_lock(&p->lock);
    bool last = --p->alive == 0;
    (void)pthread_mutex_unlock(&p->lock);
    if (last) ring(p->done_fd);
    return NULL;
}

// Creates every descriptor before the first thread, because each slot may wake all others.
static int pool_prepare(struct worker_pool *p, const struct work_options *o)
{
    *p = (struct worker_pool){.options = *o, .order = WORK_GO, .alive = o->jobs, .store = o->store};
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_mutex_init(&p->work_ui_lock, NULL);
    p->heartbeat_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->heartbeat_timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    p->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->listen_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->answer_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->slots = calloc(o->jobs, sizeof *p->slots);
    if (!p->slots) return ENOMEM;
    bool ok = p->heartbeat_fd >= 0 && p->heartbeat_timer_fd >= 0 && p->done_fd >= 0 &&
              p->listen_fd >= 0 && p->answer_fd >= 0;
    for (uint32_t i = 0; i < o->jobs; i++) {
        struct slot *s = &p->slots[i];
        *s = (struct slot){.pool = p};
        s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        s->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
        ok = ok && s->wake_fd >= 0 && s->timer_fd >= 0;
    }
    return ok ? 0 : EMFILE; // the program then ends and closes them
}

int pool_start(struct worker_pool *p, const struct work_options *o)
{
    int why = pool_prepare(p, o);
    if (why != 0) return why;
    why = pthread_create(&p->heartbeat, NULL, heartbeat_main, p);
    if (why == 0) why = pthread_create(&p->listener, NULL, listener_main, p);
    if (why == 0) why = pthread_create(&p->answerer, NULL, answer_main, p);
    if (why != 0) return why; // the program then ends
    pthread_attr_t attr;
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    for (uint32_t i = 0; i < o->jobs && why == 0; i++) {
        why = pthread_create(&p->slots[i].thread, &attr, slot_main, &p->slots[i]);
        p->slots[i].started = why == 0;
    }
    (void)pthread_attr_destroy(&attr);
    if (why == 0) return 0;
    pool_order(p, WORK_AT_ONCE);
    pool_join(p);
    return why;
}

void pool_join(struct worker_pool *p)
{
    for (uint32_t i = 0; i < p->options.jobs; i++)
        if (p->slots[i].started) (void)pthread_join(p->slots[i].thread, NULL);
    (void)pthread_mutex_lock(&p->lock);
    p->heartbeat_stops = true;
    (void)pthread_mutex_unlock(&p->lock);
    heartbeat_wake(p);
    listener_wake(p);
    answer_wake(p);
    (void)pthread_join(p->heartbeat, NULL);
    (void)pthread_join(p->listener, NULL);
    (void)pthread_join(p->answerer, NULL);
    for (uint32_t i = 0; i < p->options.jobs; i++) {
        (void)close(p->slots[i].wake_fd);
        (void)close(p->slots[i].timer_fd);
    }
    (void)close(p->heartbeat_fd);
    (void)close(p->heartbeat_timer_fd);
    (void)close(p->done_fd);
    (void)close(p->listen_fd);
    (void)close(p->answer_fd);
    for (uint32_t i = 0; i < p->handles_len; i++)
        sluice_close(p->handles[i]);
    free(p->slots);
    p->slots = NULL;
}
