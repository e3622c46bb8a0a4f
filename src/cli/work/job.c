// SPDX-License-Identifier: Apache-2.0
// Runs one job: starts the program, watches it, stops it if it may not continue, and classifies its
// end. The slot's thread waits in one poll for the program's end, its output, its replies to
// signals, the deadline and the orders.
#define _GNU_SOURCE // sigabbrev_np
#include "cli/work/pool.h"
#include "os/clock.h"
#include "os/lock.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define TAIL_MAX      4096 // of standard error; contains the last line
#define END_MARGIN_MS 500 // KILL comes so long before the end of a grace, so that the end is stored

// The last bytes of a stream.
struct tail {
    char bytes[TAIL_MAX];
    size_t len;
};

struct work_job {
    struct slot *slot;
    struct child child;
    struct tail tail;
    struct job_conversation talk;
    bool lost;                 // the lock is lost, or may have expired
    bool cut;                  // by an interrupt without grace
    bool interrupted;          // by an interrupt with a grace
    bool stopped;              // because the lock is lost, or by an order
    bool term_sent;            // TERM was sent
    bool killed;               // KILL was sent
    bool remarked;             // a reply that could not be used
    int64_t kill_at_ms;        // valid if term_sent
    int64_t deadline_ms;       // copy of the slot's deadline
    int64_t unread_ms;         // when the next signal counts as not read; 0: never
    char why[WORK_REASON_MAX]; // the reason of the interrupt
};

static void tail_push(struct tail *t, const char *bytes, size_t len)
{
    if (len >= TAIL_MAX) {
        memcpy(t->bytes, bytes + len - TAIL_MAX, TAIL_MAX);
        t->len = TAIL_MAX;
        return;
    }
    if (t->len + len > TAIL_MAX) {
        size_t drop = t->len + len - TAIL_MAX;
        memmove(t->bytes, t->bytes + drop, t->len - drop);
        t->len -= drop;
    }
    memcpy(t->bytes + t->len, bytes, len);
    t->len += len;
}

// Reads the available output. Closes the descriptor at its end, so that poll does not spin.
static void drain(struct work_job *j, int *fd, bool is_error)
{
    char buf[4096];
    for (;;) {
        ssize_t n = *fd >= 0 ? read(*fd, buf, sizeof buf) : -1;
        if (n < 0 && errno == EINTR && *fd >= 0) continue;
        if (n == 0) {
            (void)close(*fd);
            *fd = -1;
        }
        if (n <= 0) return;
        if (is_error) tail_push(&j->tail, buf, (size_t)n);
        struct worker_pool *p = j->slot->pool;
        LOCKED(&p->work_ui_lock);
        p->options.ui.output(p->options.ui.ctx, is_error, buf, (size_t)n);
    }
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

// Copies the last line that is not blank. Control characters become spaces, and the cut is between
// characters.
static void last_line(const struct tail *t, char out[WORK_REASON_MAX])
{
    size_t end = t->len;
    while (end > 0 && strchr(" \t\r\n", t->bytes[end - 1]))
        end--;
    size_t start = end;
    while (start > 0 && t->bytes[start - 1] != '\n' && t->bytes[start - 1] != '\r')
        start--;
    size_t len = end - start;
    if (len >= WORK_REASON_MAX) {
        len = WORK_REASON_MAX - 1;
        while (len > 0 && is_continuation(t->bytes[start + len]))
            len--;
    }
    for (size_t i = 0; i < len; i++) {
        char c = t->bytes[start + i];
        out[i] = (unsigned char)c < ' ' || c == 127 ? ' ' : c;
    }
    out[len] = 0;
}

static void describe_end(const struct work_job *j, int status, char out[WORK_REASON_MAX])
{
    last_line(&j->tail, out);
    if (out[0]) return;
    if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));
        (void)snprintf(out, WORK_REASON_MAX, "killed by signal %d (SIG%s)", WTERMSIG(status),
                       name ? name : "?");
    } else {
        (void)snprintf(out, WORK_REASON_MAX, "exit status %d", WEXITSTATUS(status));
    }
}

static void slot_move(struct slot *s, enum slot_state state)
{
    LOCKED(&s->pool->lock);
    s->state = state;
}

static void stop_program(struct work_job *j, int64_t kill_at_ms)
{
    if (!j->term_sent || kill_at_ms < j->kill_at_ms) j->kill_at_ms = kill_at_ms;
    if (j->term_sent) return;
    child_signal(&j->child, SIGTERM);
    child_signal(&j->child, SIGCONT); // a stopped program could not handle TERM
    j->term_sent = true;
    slot_move(j->slot, SLOT_STOPPING);
}

// Sends the ends of signals to the store, as far as they are known.
static void send_answers(struct work_job *j)
{
    for (struct job_signal *s; (s = talk_settled(&j->talk));)
        answer_put(j->slot, s);
}

static void take_signal(struct work_job *j, struct job_signal *signal, int64_t limit, int64_t now)
{
    const struct work_options *o = &j->slot->pool->options;
    bool interrupt = signal->interrupt;
    int64_t margin = signal->grace_ms / 10 < END_MARGIN_MS ? signal->grace_ms / 10 : END_MARGIN_MS;
    work_ui_signal(j->slot->pool, j->slot->id, signal, "received", "");
    if (interrupt && !j->interrupted) (void)snprintf(j->why, sizeof j->why, "%s", signal->text);
    talk_send(&j->talk, signal, now);
    j->interrupted |= interrupt;
    if (interrupt)
        stop_program(j, limit - margin);
    else if (o->steer_signal != 0 && j->talk.signals_fd >= 0)
        (void)kill(j->child.pid, o->steer_signal);
}

static void take_inbox(struct work_job *j, int64_t now)
{
    struct slot *s = j->slot;
    (void)pthread_mutex_lock(&s->pool->lock);
    struct job_signal *signal = s->inbox, *next;
    int64_t limit = s->limit_ms;
    s->inbox = s->inbox_last = NULL;
    (void)pthread_mutex_unlock(&s->pool->lock);
    for (; signal; signal = next) {
        next = signal->next;
        take_signal(j, signal, limit, now);
    }
    j->unread_ms = talk_tick(&j->talk, now);
    send_answers(j);
}

static void take_replies(struct work_job *j)
{
    struct slot *s = j->slot;
    struct job_conversation *t = &j->talk;
    talk_read(t);
    talk_write(t);
    if (t->has_progress) {
        (void)pthread_mutex_lock(&s->pool->lock);
        s->percent = t->percent;
        memcpy(s->progress, t->progress, sizeof s->progress);
        s->progress_new = true;
        (void)pthread_mutex_unlock(&s->pool->lock);
        t->has_progress = false;
    }
    if (t->remark[0] && !j->remarked)
        work_ui_trouble(s->pool, "%s: a reply of the program is ignored: %s", s->id, t->remark);
    j->remarked |= t->remark[0] != '\0';
    send_answers(j);
}

// Checks the order, the lock and the deadline, and stops the program if one of them requires it.
static void apply_order(struct work_job *j, int64_t now)
{
    struct slot *s = j->slot;
    take_inbox(j, now);
    (void)pthread_mutex_lock(&s->pool->lock);
    j->deadline_ms = s->deadline_ms;
    if (s->lost || now >= s->deadline_ms) j->lost = true;
    j->cut |= s->cut;
    (void)pthread_mutex_unlock(&s->pool->lock);
    int order = atomic_load(&s->pool->order);
    if (!j->stopped && (j->lost || order >= WORK_RETURN)) {
        stop_program(j, now + s->pool->options.kill_after_ms);
        j->stopped = true;
    }
    if (j->cut) j->kill_at_ms = now;
    if (j->term_sent && !j->killed && (now >= j->kill_at_ms || order == WORK_AT_ONCE)) {
        child_signal(&j->child, SIGKILL);
        j->killed = true;
    }
}

static void arm(const struct work_job *j)
{
    int64_t next = j->term_sent ? j->kill_at_ms : j->deadline_ms;
    if (j->killed) next = 0;
    if (j->unread_ms > 0 && (next == 0 || j->unread_ms < next)) next = j->unread_ms;
    struct itimerspec t = {.it_value = {.tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000}};
    (void)timerfd_settime(j->slot->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

static int watch(struct work_job *j)
{
    struct slot *s = j->slot;
    for (;;) {
        apply_order(j, clock_boot_ms());
        arm(j);
        struct pollfd fds[] = {
            {.fd = j->child.pid_fd, .events = POLLIN},
            {.fd = j->child.err_fd, .events = POLLIN},
            {.fd = j->child.out_fd, .events = POLLIN},
            {.fd = s->wake_fd, .events = POLLIN},
            {.fd = s->timer_fd, .events = POLLIN},
            {.fd = j->talk.signals_fd, .events = talk_wants_write(&j->talk) ? POLLOUT : 0},
            {.fd = j->talk.reply_fd, .events = POLLIN}};
        (void)poll(fds, sizeof fds / sizeof *fds, -1);
        uint64_t count;
        if (fds[3].revents) (void)!read(s->wake_fd, &count, sizeof count);
        if (fds[4].revents) (void)!read(s->timer_fd, &count, sizeof count);
        drain(j, &j->child.err_fd, true);
        drain(j, &j->child.out_fd, false);
        if (fds[5].revents || fds[6].revents) take_replies(j);
        if (fds[0].revents) break;
    }
    // Kills processes that the stopped program left behind. Its process group id stays reserved
    // until it is reaped.
    if (j->term_sent) child_signal(&j->child, SIGKILL);
    drain(j, &j->child.err_fd, true);
    drain(j, &j->child.out_fd, false);
    take_replies(j);
    return child_reap(&j->child);
}

static void slot_take(struct slot *s, const struct sluice_message *m, int64_t asked_ms)
{
    struct worker_pool *p = s->pool;
    (void)pthread_mutex_lock(&p->lock);
    s->state = SLOT_RUNNING;
    s->lost = s->quiet = false;
    (void)snprintf(s->id, sizeof s->id, "%s", m->id);
    (void)snprintf(s->token, sizeof s->token, "%s", m->token);
    s->attempt = m->attempt;
    s->retries = m->retries;
    s->body_len = m->body_len < sizeof s->body ? m->body_len : sizeof s->body;
    while (s->body_len > 0 && s->body_len < m->body_len &&
           is_continuation(((const char *)m->body)[s->body_len])) // do not cut inside a character
        s->body_len--;
    if (s->body_len > 0) memcpy(s->body, m->body, s->body_len);
    s->started_ms = clock_boot_ms();
    s->lease_ms = m->lease_ms;
    s->deadline_ms = asked_ms + m->lease_ms;
    s->renew_at_ms = asked_ms + m->lease_ms / 3;
    s->store_ahead_ms = m->deadline - time_left(m->lease_ms) - s->started_ms;
    s->limit_ms = 0;
    s->cut = s->waits = s->progress_new = false;
    s->number = s->signals = s->open = 0;
    s->percent = -1;
    for (size_t i = 0; i < m->signals_len; i++)
        inbox_put(s, &m->signals[i]);
    (void)pthread_mutex_unlock(&p->lock);
    heartbeat_wake(p);
    listener_wake(p);
}

// Signals that came too late for the program.
static void slot_forget(struct slot *s)
{
    (void)pthread_mutex_lock(&s->pool->lock);
    struct job_signal *signal = s->inbox, *next;
    s->inbox = s->inbox_last = NULL;
    (void)pthread_mutex_unlock(&s->pool->lock);
    for (; signal; signal = next) {
        next = signal->next;
        job_signal_free(signal);
    }
}

static void slot_report(struct slot *s, enum work_end end, int status, const char *reason)
{
    struct worker_pool *p = s->pool;
    (void)pthread_mutex_lock(&p->lock);
    p->ended[end]++;
    s->token[0] = 0;
    s->state = SLOT_IDLE;
    s->percent = -1;
    struct work_report r = {.id = s->id,
                            .attempt = s->attempt,
                            .end = end,
                            .status = status,
                            .took_ms = clock_boot_ms() - s->started_ms,
                            .reason = reason};
    (void)pthread_mutex_unlock(&p->lock);
    LOCKED(&p->work_ui_lock);
    p->options.ui.ended(p->options.ui.ctx, &r);
}

// The job was interrupted. The store has the last word: the interrupt may say that the message is
// retried or dead, and the grace may be over.
static enum work_end end_interrupted(struct work_job *j, char reason[WORK_REASON_MAX])
{
    enum work_end end = END_LOST;
    (void)snprintf(reason, WORK_REASON_MAX, "interrupted%s%.*s", *j->why ? ": " : "",
                   WORK_REASON_MAX - 20, j->why);
    if (!j->lost) end = slot_settle(j->slot, WORD_FAIL, reason, NULL);
    return end == END_LOST ? slot_interrupted(j->slot) : end;
}

static enum work_end job_end(struct work_job *j, int status)
{
    struct slot *s = j->slot;
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool retry_later = WIFEXITED(status) && WEXITSTATUS(status) == EX_TEMPFAIL;
    char reason[WORK_REASON_MAX] = "";
    enum work_end end;
    slot_move(s, SLOT_SETTLING);
    talk_end(&j->talk, j->stopped && !j->interrupted, j->interrupted);
    send_answers(j);
    answer_flush(s);
    if (good && !j->cut) {
        end = slot_settle(s, WORD_ACK, NULL, &j->talk); // may be too late; the token decides
    } else if (j->interrupted || j->cut) {
        end = end_interrupted(j, reason);
    } else if (j->lost) {
        (void)snprintf(reason, sizeof reason, "the lock was lost");
        end = END_LOST;
    } else if (j->term_sent || retry_later) {
        end = slot_settle(s, WORD_RELEASE, NULL, NULL);
    } else {
        describe_end(j, status, reason);
        end = slot_settle(s, WORD_FAIL, reason, NULL);
    }
    slot_report(s, end, status, reason);
    slot_forget(s);
    talk_done(&j->talk);
    return end;
}

// The program cannot be started. The message is released, so that this failure costs no attempt.
static enum work_end refuse_start(struct slot *s, int why)
{
    char sentence[WORK_PROBLEM_MAX];
    const char *name = s->pool->options.spec.program[0];
    (void)snprintf(sentence, sizeof sentence, "cannot run \"%s\": %s", name, strerror(why));
    bool passes = why == EAGAIN || why == ENOMEM || why == EMFILE || why == ENFILE;
    if (passes)
        work_ui_trouble(s->pool, "%s; releasing the message", sentence);
    else
        pool_fail(s->pool, SLUICE_INVALID, sentence);
    slot_move(s, SLOT_SETTLING);
    enum work_end end = slot_settle(s, WORD_RELEASE, NULL, NULL);
    slot_report(s, end, -1, sentence);
    slot_forget(s);
    return end;
}

// The answer took so long that the lock may have expired, counted from the request. A renewal
// decides. Until it succeeds, the job may not start.
static bool renew_at_once(struct slot *s)
{
    struct worker_pool *p = s->pool;
    const char *token = s->token;
    int64_t asked = clock_boot_ms();
    int64_t lease = p->options.lease_ms > s->lease_ms ? p->options.lease_ms : s->lease_ms;
    if (lease == 0 || sluice_renew(atomic_load(&p->store), p->options.queue, &token, 1, lease, NULL,
                                   NULL) != SLUICE_OK)
        return false;
    (void)pthread_mutex_lock(&p->lock);
    p->renewals++;
    s->lease_ms = lease;
    s->deadline_ms = work_deadline(asked, lease);
    s->renew_at_ms = asked + lease / 3;
    bool good = clock_boot_ms() < s->deadline_ms && !s->lost;
    (void)pthread_mutex_unlock(&p->lock);
    heartbeat_wake(p);
    return good;
}

enum work_end job_run(struct slot *s, const struct sluice_message *m, int64_t asked_ms)
{
    struct work_job j = {.slot = s, .child = {-1, -1, -1, -1, -1, -1}};
    slot_take(s, m, asked_ms);
    if (clock_boot_ms() >= asked_ms + m->lease_ms && !renew_at_once(s)) {
        slot_report(s, END_LOST, -1, "the lock had expired before the job started");
        slot_forget(s);
        return END_LOST;
    }
    int why = child_start(&j.child, &s->pool->options.spec, m);
    if (why != 0) return refuse_start(s, why);
    talk_init(&j.talk, s->pool->options.unread_ms);
    j.talk.signals_fd = j.child.signals_fd;
    j.talk.reply_fd = j.child.reply_fd;
    j.child.signals_fd = j.child.reply_fd = -1;
    return job_end(&j, watch(&j));
}
