// SPDX-License-Identifier: Apache-2.0
// The promises: no message is open twice; a request is answered once, and truly; an outcome that
// was written in time is applied; after the faults everything ends.
#include "world.h"

#include <string.h>

void check_delivered(struct world *w, uint32_t worker, uint64_t seq)
{
    for (uint32_t i = 0; i < w->mix.workers; i++)
        for (uint32_t j = 0; j < JOBS_MAX; j++) {
            const struct job *job = &w->workers[i].jobs[j];
            if (!w->workers[i].alive || !job->open || job->seq != seq) continue;
            if (job->deadline <= w->now) continue;
            findings_add(&w->findings, "open-twice",
                         "worker %u gets message %llu, worker %u has it", worker,
                         (unsigned long long)seq, i);
        }
}

// When a request must have its answer. It has more time after a sign of life of the owner: its
// mark, or an object for this worker. It never has more than MAILBOX_PATIENCE_MS.
static int64_t answer_due(const struct world *w, const struct asked *a)
{
    int64_t slack = 1000 + 6 * w->mix.latency_ms + 100;
    int64_t due = a->since + MAILBOX_ANSWER_MS, most = a->since + MAILBOX_PATIENCE_MS;
    int64_t sign = w->workers[a->worker].heard_at;
    if (w->marked_at > sign) sign = w->marked_at;
    if (sign + MAILBOX_FRESH_MS > due) due = sign + MAILBOX_FRESH_MS;
    return (due < most ? due : most) + slack;
}

// A request whose answer never comes has no reply to look at.
void check_overdue(struct world *w)
{
    for (size_t i = 0; i < w->asked_len; i++) {
        const struct asked *a = &w->asked[i];
        const struct here_worker *h = &w->workers[a->worker];
        if (a->replies > 0 || !h->alive || h->life != a->life || h->paused_until > a->since)
            continue;
        if (w->now > answer_due(w, a))
            findings_add(&w->findings, "answered-soon", "request %zu has no answer after %lld ms",
                         i + 1, (long long)(w->now - a->since));
    }
}

void check_reply(struct world *w, uint64_t ticket, enum err err, struct bytes body)
{
    struct asked *a = &w->asked[ticket - 1];
    if (a->replies++ > 0)
        findings_add(&w->findings, "answered-once", "request %llu is answered again",
                     (unsigned long long)ticket);
    bool paused = w->workers[a->worker].paused_until > a->since;
    if (!paused && w->now > answer_due(w, a))
        findings_add(&w->findings, "answered-soon", "request %llu is answered after %lld ms",
                     (unsigned long long)ticket, (long long)(w->now - a->since));
    struct result result;
    struct outcome_row row;
    bool known = !result_open(body, a->kind, &result) && outcome_row_next(&result, &row);
    if (!known && a->excused) return;
    if (!known) {
        findings_add(&w->findings, "I2", "request %llu is answered %s without a result",
                     (unsigned long long)ticket, err_name(err));
        return;
    }
    if (a->kind != OP_ACK) return;
    bool acked = hash128_equal(w->acked_by[a->ref.seq], a->ref.token);
    if (acked == (row.reason == REASON_NONE)) return;
    findings_add(&w->findings, "I2", "the ack of message %llu was %s, and is answered %s",
                 (unsigned long long)a->ref.seq, acked ? "applied" : "not applied",
                 reason_name(row.reason));
}

// Whether an op of the entry is about this lock and arrived before the deadline.
static bool entry_has(const struct op *ops, size_t ops_len, const struct lock_ref *ref,
                      int64_t deadline)
{
    for (size_t i = 0; i < ops_len; i++) {
        struct op_outcome op;
        if (!op_is_outcome(ops[i].kind) || outcome_decode(ops[i].payload, &op)) continue;
        for (uint32_t n = 0; n < op.count && op.arrived_at < deadline; n++) {
            struct lock_ref one = outcome_ref(&op, n);
            if (one.seq == ref->seq && hash128_equal(one.token, ref->token)) return true;
        }
    }
    return false;
}

static void check_ref(struct world *w, const struct object *o, const struct lock_ref *ref,
                      const struct op *ops, size_t ops_len, int64_t time)
{
    struct message_view view;
    if (machine_lock(w->machine, ref) != REASON_NONE) return;
    if (machine_find(w->machine, ref->seq, machine_now(w->machine), &view)) return;
    if (view.until > time || o->created >= view.until) return; // not due, or late
    // The owner could not list or read for so long that it goes on.
    if (view.until <= w->now - MAILBOX_LIMIT_MS) return;
    if (entry_has(ops, ops_len, ref, view.until)) return;
    findings_add(
        &w->findings, "in-time", "the lock of message %llu expires at %lld; %s was written at %lld",
        (unsigned long long)ref->seq, (long long)view.until, o->key, (long long)o->created);
}

static bool is_applied(struct world *w, const struct mailbox_row *row)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, SIZE_MAX);
    struct op op = {.kind = row->code, .payload = row->body};
    struct op_result result;
    return machine_recall(w->machine, &op, &result, &text);
}

// Before an owner's entry with that time is applied: no outcome that was written before the
// deadline of its lock is left behind, if LIST shows it at once.
void check_in_time(struct world *w, const struct op *ops, size_t ops_len, int64_t time)
{
    if (w->mix.lag_ms > 0 || machine_wake_at(w->machine) > time) return;
    for (size_t i = 0; i < w->objects_len; i++) {
        const struct object *o = &w->objects[i];
        struct mailbox_object m;
        if (o->deleted || mailbox_decode(o->body, &m) || m.way != MAILBOX_OUT) continue;
        struct reader rows = reader_of(m.rows);
        struct mailbox_row row;
        struct op_outcome op;
        for (uint32_t r = 0; r < m.count && mailbox_row_next(&rows, &row); r++) {
            if (!op_is_outcome(row.code) || outcome_decode(row.body, &op)) continue;
            if (is_applied(w, &row)) continue; // the object is not deleted yet
            for (uint32_t n = 0; n < op.count; n++) {
                struct lock_ref ref = outcome_ref(&op, n);
                check_ref(w, o, &ref, ops, ops_len, time);
            }
        }
    }
}

void check_end(struct world *w)
{
    struct machine_stats stats;
    machine_stats(w->machine, machine_now(w->machine), &stats);
    uint64_t done = stats.counts[STATE_PROCESSED];
    if (w->sent < w->mix.messages || done < w->sent)
        findings_add(&w->findings, "liveness", "%llu of %u messages are processed",
                     (unsigned long long)done, w->mix.messages);
    for (size_t i = 0; i < w->asked_len; i++) {
        const struct asked *a = &w->asked[i];
        bool lives = w->workers[a->worker].alive && w->workers[a->worker].life == a->life;
        if (lives && a->replies == 0)
            findings_add(&w->findings, "answered", "request %zu of worker %u has no answer", i + 1,
                         a->worker);
    }
}
