// SPDX-License-Identifier: Apache-2.0
// After an entry of a random stream, the machine, a second machine that was loaded from a snapshot,
// and the model must agree in everything that can be seen.
#include "stream_parts.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) bool stream_differs(struct stream *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = snprintf(s->trouble, STREAM_TROUBLE_MAX,
                       "slot %llu: ", (unsigned long long)machine_slot(s->rig.m));
    (void)vsnprintf(s->trouble + len, STREAM_TROUBLE_MAX - (size_t)len, format, args);
    va_end(args);
    return false;
}

// Two places are the same if they lead to the same bytes.
static bool same_place(struct stream *s, struct place machine, struct place model)
{
    if (machine.slot == 0 || model.slot == 0) return machine.slot == model.slot;
    struct message a = rig_message(&s->rig, machine), b = rig_message(&s->rig, model);
    return a.body.data == b.body.data && a.reference.name.data == b.reference.name.data;
}

static bool same_grants(struct stream *s, size_t op, uint16_t kind, struct bytes expected)
{
    struct result a, b;
    struct grant x, y;
    if (result_open(rig_body(&s->rig, op), kind, &a) != ERR_OK) return false;
    if (result_open(expected, kind, &b) != ERR_OK) return false;
    if (a.reason != b.reason || a.count != b.count) return false;
    while (grant_next(&a, &x) && grant_next(&b, &y)) {
        if (!same_place(s, x.place, y.place)) return false;
        y.place = x.place;
        struct bytes mine, other;
        if (kind == OP_DISPATCH &&
            (!dispatch_worker(&a, x.worker_row, &mine) ||
             !dispatch_worker(&b, y.worker_row, &other) || !bytes_equal(mine, other)))
            return false;
        struct buf one = payload(), two = payload();
        grant_put(&one, &x);
        grant_put(&two, &y);
        bool same = bytes_equal(buf_bytes(&one), buf_bytes(&two));
        buf_done(&one);
        buf_done(&two);
        if (!same) return false;
        if (s->grants_len < GRANTS_KEPT) s->grants_len++;
        s->grants[s->grants_len < GRANTS_KEPT ? s->grants_len - 1 : below(s, GRANTS_KEPT)] = x;
    }
    return true;
}

static bool same_results(struct stream *s, const struct rig_entry *e, const struct bytes *bodies)
{
    for (size_t i = 0; i < e->ops_len; i++) {
        uint16_t kind = e->ops[i].kind;
        bool tickets = kind == OP_PUBLISH || kind == OP_DISPATCH;
        bool same = tickets || op_is_claim(kind) ? same_grants(s, i, kind, bodies[i])
                                                 : bytes_equal(rig_body(&s->rig, i), bodies[i]);
        if (!same)
            return stream_differs(s, "op %zu of kind %u: machine says %s, model %s", i, kind,
                                  reason_name((enum reason)rig_body(&s->rig, i).data[0]),
                                  reason_name((enum reason)bodies[i].data[0]));
    }
    return true;
}

static bool same_event(struct stream *s, const struct event *x, const struct event *y)
{
    if (!bytes_equal(event_worker(&s->rig.events, x), event_worker(&s->model->events, y)))
        return false;
    if (!same_place(s, x->place, y->place)) return false;
    struct event a = *x, b = *y;
    if (!bytes_equal(event_workflow(&s->rig.events, x), event_workflow(&s->model->events, y)))
        return false;
    a.place = b.place = (struct place){0, 0};
    a.worker_at = b.worker_at = 0;
    return a.slot == b.slot && a.op == b.op && a.n == b.n && a.kind == b.kind &&
           a.status == b.status && a.reason == b.reason && a.at == b.at && a.seq == b.seq &&
           a.deliveries == b.deliveries && a.retries == b.retries && a.fence == b.fence &&
           a.until == b.until && a.order == b.order && a.count == b.count && a.from == b.from &&
           a.sequence == b.sequence && a.key == b.key && a.group == b.group &&
           a.signal_kind == b.signal_kind && a.signal_state == b.signal_state &&
           memcmp(&a.signal, &b.signal, sizeof a.signal) == 0;
}

static bool same_events(struct stream *s)
{
    const struct events *a = &s->rig.events, *b = &s->model->events;
    for (size_t i = 0; i < a->len && i < b->len; i++)
        if (!same_event(s, &a->rows[i], &b->rows[i]))
            return stream_differs(s, "event %zu: machine %s of %llu, model %s of %llu", i,
                                  event_name(a->rows[i].kind), (unsigned long long)a->rows[i].seq,
                                  event_name(b->rows[i].kind), (unsigned long long)b->rows[i].seq);
    return a->len == b->len ||
           stream_differs(s, "%zu events in the machine, %zu in the model", a->len, b->len);
}

static bool same_end(struct stream *s, uint64_t seq)
{
    const struct model_message *x = &s->model->messages[seq - 1];
    struct finished_view v;
    bool kept = machine_finished(s->rig.m, seq, machine_now(s->rig.m), &v);
    if (kept != x->kept)
        return stream_differs(s, "the end of message %llu is %skept", (unsigned long long)seq,
                              kept ? "" : "not ");
    if (kept && !stream_same_kept(s, seq, &v)) return false;
    if (!kept ||
        (v.outcome == x->outcome && v.at == x->finished_at && v.attempts == x->finished_attempts &&
         bytes_equal(v.worker, bytes_str(x->finished_by))))
        return true;
    return stream_differs(
        s, "message %llu ended as %s in the machine, %s in the model, or by another worker",
        (unsigned long long)seq, finished_outcome_name(v.outcome),
        finished_outcome_name(x->outcome));
}

static bool same_message(struct stream *s, uint64_t seq)
{
    const struct model_message *x = &s->model->messages[seq - 1];
    if (!same_end(s, seq) || !stream_same_progress(s, seq)) return false;
    struct message_view v;
    enum err err = machine_find(s->rig.m, seq, machine_now(s->rig.m), &v);
    bool gone = x->state == STATE_PROCESSED || x->state == STATE_MOVED ||
                x->state == STATE_REDRIVEN || x->state == STATE_PURGED ||
                x->state == STATE_CANCELLED;
    if (gone != (err == ERR_CONFLICT))
        return stream_differs(s, "message %llu", (unsigned long long)seq);
    if (gone) return true;
    if (!machine_needs(s->rig.m, x->slot, x->slot))
        return stream_differs(s, "slot %llu is needed", (unsigned long long)x->slot);
    if (v.state == x->state && v.retries == x->retries && v.deliveries == x->deliveries &&
        v.priority == x->priority && same_place(s, v.place, (struct place){x->slot, x->ordinal}))
        return true;
    return stream_differs(s, "message %llu is %s in the machine, %s in the model",
                          (unsigned long long)seq, message_state_name(v.state),
                          message_state_name(x->state));
}

static bool same_costs(struct stream *s)
{
    struct machine_cost spent;
    machine_spent(s->rig.m, machine_now(s->rig.m), &spent);
    if (memcmp(&spent.total, &s->model->spent, sizeof spent.total) == 0) return true;
    return stream_differs(s, "the books");
}

// Age and size are upper bounds in the machine. The floor may never rise over what must stay, and
// with publish=hold it may rise up to the cursor.
static bool same_cursor(struct stream *s)
{
    const struct model *model = s->model;
    const struct machine *m = s->rig.m;
    uint64_t slot, sequence, events, bytes;
    int64_t age, now = machine_now(m);
    bool published = machine_published(m, &slot, &sequence);
    if (published != model->published || slot != model->cursor_slot ||
        sequence != model->cursor_sequence)
        return stream_differs(s, "the publisher's cursor");
    uint64_t limit = machine_floor_limit(m, now);
    if (!model_floor_ok(model, limit)) return stream_differs(s, "the floor may rise too far");
    if (limit < model->cursor_slot) return stream_differs(s, "the floor waits without need");
    struct machine_publish_lag u;
    if (!machine_unpublished(m, now, &u)) return true;
    model_unpublished(model, &events, &age, &bytes);
    if (u.events != events || u.age_ms < age || u.bytes < bytes)
        return stream_differs(s, "what is not published");
    if (events == 0 && (u.age_ms != 0 || u.overdue)) return stream_differs(s, "no lag");
    return true;
}

// The finished messages of a workflow.
static bool same_members(struct stream *s, size_t row, uint32_t run)
{
    const struct model *model = s->model;
    uint64_t *seqs = memory_new((model->sent + 1) * sizeof *seqs), expected = 0;
    size_t len = machine_workflow_finished(s->rig.m, bytes_str(model->workflows[row].id),
                                           machine_now(s->rig.m), seqs, model->sent + 1);
    for (uint64_t i = 0; i < model->sent; i++) {
        const struct model_message *x = &model->messages[i];
        bool listed = x->kept && x->listed && x->state != STATE_OUTBOUND;
        if (!listed || x->row != row + 1 || x->run != run) continue;
        expected++;
        size_t at = 0;
        while (at < len && seqs[at] != i + 1)
            at++;
        if (at == len) expected = UINT64_MAX / 2;
    }
    memory_free(seqs);
    return len == expected ||
           stream_differs(s, "finished messages of workflow %s", model->workflows[row].id);
}

static bool same_workflows(struct stream *s)
{
    const struct model *model = s->model;
    uint32_t rows = 0;
    for (size_t i = 0; i < model->workflows_len; i++) {
        struct workflow_view x, y;
        if (model->workflows[i].gone) continue;
        rows++;
        model_workflow_counts(model, i, &y);
        if (!machine_workflow(s->rig.m, bytes_str(model->workflows[i].id), &x))
            return stream_differs(s, "workflow %s is gone", model->workflows[i].id);
        if (x.state != y.state || x.open != y.open || x.done != y.done || x.failed != y.failed ||
            x.cancelled != y.cancelled || x.run != y.run || x.saw_last != y.saw_last)
            return stream_differs(s, "workflow %s is %s in the machine, %s in the model",
                                  model->workflows[i].id, workflow_state_name(x.state),
                                  workflow_state_name(y.state));
        if (!same_members(s, i, y.run)) return false;
    }
    return machine_workflow_count(s->rig.m) == rows || stream_differs(s, "rows of workflows");
}

static bool same_state(struct stream *s)
{
    struct machine_stats stats;
    machine_stats(s->rig.m, machine_now(s->rig.m), &stats);
    if (stats.sent != s->model->sent) return stream_differs(s, "sent");
    if (stats.refused != s->model->refused) return stream_differs(s, "refused claims");
    uint64_t live = 0;
    for (size_t i = 0; i < STATE_COUNT; i++) {
        uint64_t expected = model_count(s->model, (enum message_state)i);
        if (i <= STATE_LOCKED || i == STATE_DEAD || i == STATE_OUTBOUND) live += expected;
        if (stats.counts[i] != expected)
            return stream_differs(s, "%s: %llu in the machine, %llu in the model",
                                  message_state_name((enum message_state)i),
                                  (unsigned long long)stats.counts[i],
                                  (unsigned long long)expected);
    }
    live += stats.ended; // answers stay as long as the rows about their signals
    bool reasons = stats.counts[STATE_CANCELLED] + stats.counts[STATE_MOVED] > 0;
    live += stats.results + stats.retained + (reasons ? stats.finished : 0);
    if (live == 0 && machine_needs(s->rig.m, 1, machine_slot(s->rig.m)))
        return stream_differs(s, "needless slots");
    if (machine_wake_at(s->rig.m) != model_wake_at(s->model)) return stream_differs(s, "wake_at");
    if (!same_costs(s)) return false;
    if (machine_rules(s->rig.m) != s->model->rules)
        return stream_differs(s, "the version of the rules");
    if (machine_event_count(s->rig.m) != s->model->event_count)
        return stream_differs(s, "event count");
    if (!same_cursor(s) || !same_workflows(s)) return false;
    for (uint64_t seq = 1; seq <= s->model->sent; seq++)
        if ((chance(s, 10) || seq + 8 > s->model->sent) && !same_message(s, seq)) return false;
    return true;
}

// They agree about which bodies are referred to, and a body that was free once stays free.
static bool same_bodies(struct stream *s)
{
    for (size_t i = 0; i < s->uploads_len; i++) {
        struct upload *u = &s->uploads[i];
        struct bytes name = bytes_str(u->name);
        enum body_hold mine = machine_holds(s->rig.m, name), model = model_holds(s->model, name);
        if (mine != model || machine_holds(s->other, name) != model)
            return stream_differs(s, "body %s: hold %d in the machine, %d in the model", u->name,
                                  (int)mine, (int)model);
        if (u->freed && mine != BODY_FREE) return stream_differs(s, "body %s came back", u->name);
        u->freed = mine == BODY_FREE;
    }
    return true;
}

// Everything that another process can notice of the fold.
static void note_fingerprint(struct stream *s, struct bytes saved)
{
    uint64_t h = hash64_mix(s->fingerprint, machine_digest(s->rig.m));
    h = hash64_mix(h, hash64_of(saved, 0));
    for (size_t i = 0; i < s->rig.events.len; i++) {
        const struct event *e = &s->rig.events.rows[i];
        const uint64_t of[] = {e->slot,         e->op,      e->n,      e->kind,  e->seq,
                               e->deliveries,   e->retries, e->status, e->fence, (uint64_t)e->until,
                               (uint64_t)e->at, e->count};
        for (size_t k = 0; k < sizeof of / sizeof *of; k++)
            h = hash64_mix(h, of[k]);
    }
    s->fingerprint = h;
}

// fold(all) == fold(snapshot + tail), and a snapshot of either is the same bytes.
static bool same_snapshots(struct stream *s)
{
    struct buf saved, again;
    buf_init(&saved, (size_t)64 << 20);
    buf_init(&again, (size_t)64 << 20);
    machine_save(s->rig.m, &saved);
    machine_save(s->other, &again);
    bool same = bytes_equal(buf_bytes(&saved), buf_bytes(&again)) &&
                machine_digest(s->rig.m) == machine_digest(s->other);
    struct machine *loaded = machine_new(&s->rig.queue, RIG_SHARD, &s->rig.config);
    bool good = machine_load(loaded, buf_bytes(&saved)) == ERR_OK;
    if (good) machine_check(loaded);
    note_fingerprint(s, buf_bytes(&saved));
    if (chance(s, 20)) {
        struct machine *old = s->other;
        s->other = loaded;
        loaded = old;
    }
    machine_free(loaded);
    buf_done(&saved);
    buf_done(&again);
    return (same || stream_differs(s, "the fold from a snapshot differs")) &&
           (good || stream_differs(s, "a snapshot cannot be loaded"));
}

bool stream_agrees(struct stream *s, const struct rig_entry *e, const struct bytes *bodies)
{
    return same_results(s, e, bodies) && same_events(s) && same_state(s) && same_bodies(s) &&
           stream_same_workers(s) && stream_same_signals(s) && same_snapshots(s);
}
