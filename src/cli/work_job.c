// SPDX-License-Identifier: Apache-2.0
// Runs one job: starts the program, watches it, stops it if it may not continue, and classifies its
// end. The slot's thread waits in one poll for the program's end, its output, the deadline and the
// orders.
#define _GNU_SOURCE // sigabbrev_np
#include "cli/work_pool.h"

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

#define TAIL_MAX 4096 // of standard error; contains the last line

// The last bytes of a stream.
struct tail {
    char bytes[TAIL_MAX];
    size_t len;
};

struct work_job {
    struct slot *slot;
    struct child child;
    struct tail tail;
    bool lost;           // the lock is lost, or may have expired
    bool term_sent;      // TERM was sent
    bool killed;         // KILL was sent
    int64_t kill_at_ms;  // valid if term_sent
    int64_t deadline_ms; // copy of the slot's deadline
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
        (void)pthread_mutex_lock(&p->work_ui_lock);
        p->options.ui.output(p->options.ui.ctx, is_error, buf, (size_t)n);
        (void)pthread_mutex_unlock(&p->work_ui_lock);
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
    (void)pthread_mutex_lock(&s->pool->lock);
    s->state = state;
    (void)pthread_mutex_unlock(&s->pool->lock);
}

// Checks the order, the lock and the deadline, and stops the program if one of them requires it.
static void apply_order(struct work_job *j, int64_t now)
{
    struct slot *s = j->slot;
    (void)pthread_mutex_lock(&s->pool->lock);
    j->deadline_ms = s->deadline_ms;
    if (s->lost || now >= s->deadline_ms) j->lost = true;
    (void)pthread_mutex_unlock(&s->pool->lock);
    int order = atomic_load(&s->pool->order);
    if (!j->term_sent && (j->lost || order >= WORK_RETURN)) {
        child_signal(&j->child, SIGTERM);
        child_signal(&j->child, SIGCONT); // a stopped program could not handle TERM
        j->term_sent = true;
        j->kill_at_ms = now + s->pool->options.kill_after_ms;
        slot_move(s, SLOT_STOPPING);
    }
    if (j->term_sent && !j->killed && (now >= j->kill_at_ms || order == WORK_AT_ONCE)) {
        child_signal(&j->child, SIGKILL);
        j->killed = true;
    }
}

static void arm(const struct work_job *j)
{
    int64_t next = j->term_sent ? j->kill_at_ms : j->deadline_ms;
    if (j->killed) next = 0;
    struct itimerspec t = {.it_value = {.tv_sec = next / 1000, .tv_nsec = next % 1000 * 1000000}};
    (void)timerfd_settime(j->slot->timer_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

static int watch(struct work_job *j)
{
    struct slot *s = j->slot;
    for (;;) {
        apply_order(j, work_now_ms());
        arm(j);
        struct pollfd fds[] = {{.fd = j->child.pid_fd, .events = POLLIN},
                               {.fd = j->child.err_fd, .events = POLLIN},
                               {.fd = j->child.out_fd, .events = POLLIN},
                               {.fd = s->wake_fd, .events = POLLIN},
                               {.fd = s->timer_fd, .events = POLLIN}};
        (void)poll(fds, sizeof fds / sizeof *fds, -1);
        uint64_t count;
        if (fds[3].revents) (void)!read(s->wake_fd, &count, sizeof count);
        if (fds[4].revents) (void)!read(s->timer_fd, &count, sizeof count);
        drain(j, &j->child.err_fd, true);
        drain(j, &j->child.out_fd, false);
        if (fds[0].revents) break;
    }
    // Kills processes that the stopped program left behind. Its process group id stays reserved
    // until it is reaped.
    if (j->term_sent) child_signal(&j->child, SIGKILL);
    drain(j, &j->child.err_fd, true);
    drain(j, &j->child.out_fd, false);
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
    s->started_ms = work_now_ms();
    s->lease_ms = m->lease_ms;
    s->deadline_ms = work_deadline(asked_ms, m->lease_ms);
    s->renew_at_ms = asked_ms + m->lease_ms / 3;
    (void)pthread_mutex_unlock(&p->lock);
    heartbeat_wake(p);
}

static void slot_report(struct slot *s, enum work_end end, int status, const char *reason)
{
    struct worker_pool *p = s->pool;
    (void)pthread_mutex_lock(&p->lock);
    p->ended[end]++;
    s->token[0] = 0;
    s->state = SLOT_IDLE;
    struct work_report r = {.id = s->id,
                            .attempt = s->attempt,
                            .end = end,
                            .status = status,
                            .took_ms = work_now_ms() - s->started_ms,
                            .reason = reason};
    (void)pthread_mutex_unlock(&p->lock);
    (void)pthread_mutex_lock(&p->work_ui_lock);
    p->options.ui.ended(p->options.ui.ctx, &r);
    (void)pthread_mutex_unlock(&p->work_ui_lock);
}

static enum work_end job_end(struct work_job *j, int status)
{
    struct slot *s = j->slot;
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool retry_later = WIFEXITED(status) && WEXITSTATUS(status) == EX_TEMPFAIL;
    char reason[WORK_REASON_MAX] = "";
    enum work_end end;
    slot_move(s, SLOT_SETTLING);
    if (good) {
        end = slot_settle(s, WORD_ACK, NULL); // may be too late; the token decides
    } else if (j->lost) {
        (void)snprintf(reason, sizeof reason, "the lock was lost");
        end = END_LOST;
    } else if (j->term_sent || retry_later) {
        end = slot_settle(s, WORD_RELEASE, NULL);
    } else {
        describe_end(j, status, reason);
        end = slot_settle(s, WORD_FAIL, reason);
    }
    slot_report(s, end, status, reason);
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
    enum work_end end = slot_settle(s, WORD_RELEASE, NULL);
    slot_report(s, end, -1, sentence);
    return end;
}

// The answer took so long that the lock may have expired, counted from the request. A renewal
// decides. Until it succeeds, the job may not start.
static bool renew_at_once(struct slot *s)
{
    struct worker_pool *p = s->pool;
    const char *token = s->token;
    int64_t asked = work_now_ms();
    int64_t lease = p->options.lease_ms > s->lease_ms ? p->options.lease_ms : s->lease_ms;
    if (lease == 0 || sluice_renew(atomic_load(&p->store), p->options.queue, &token, 1, lease, NULL,
                                   NULL) != SLUICE_OK)
        return false;
    (void)pthread_mutex_lock(&p->lock);
    p->renewals++;
    s->lease_ms = lease;
    s->deadline_ms = work_deadline(asked, lease);
    s->renew_at_ms = asked + lease / 3;
    bool good = work_now_ms() < s->deadline_ms && !s->lost;
    (void)pthread_mutex_unlock(&p->lock);
    heartbeat_wake(p);
    return good;
}

enum work_end job_run(struct slot *s, const struct sluice_message *m, int64_t asked_ms)
{
    struct work_job j = {.slot = s, .child = {.pid_fd = -1, .err_fd = -1, .out_fd = -1}};
    slot_take(s, m, asked_ms);
    if (work_now_ms() >= asked_ms + m->lease_ms && !renew_at_once(s)) {
        slot_report(s, END_LOST, -1, "the lock had expired before the job started");
        return END_LOST;
    }
    int why = child_start(&j.child, &s->pool->options.spec, m);
    if (why != 0) return refuse_start(s, why);
    return job_end(&j, watch(&j));
}
