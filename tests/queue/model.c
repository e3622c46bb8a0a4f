// SPDX-License-Identifier: Apache-2.0
// The plain model: time, locks and the failure strategy. Ops are in model_ops.c.
#include "model_parts.h"

#include "base/check.h"
#include "base/memory.h"
#include "base/siphash.h"
#include "queue/codec/body_name.h"

#include <string.h>

void model_init(struct model *m, const struct queue_id *queue, uint32_t shard,
                const struct queue_config *config)
{
    memset(m, 0, sizeof *m);
    m->queue = *queue;
    m->shard = shard;
    m->config = *config;
    m->version = 1;
    m->rules = config->rules;
    m->now = TIME_UNKNOWN;
    events_init(&m->events);
    buf_init(&m->body, (size_t)16 << 20);
}

void model_done(struct model *m)
{
    for (size_t i = 0; i < m->requests_len; i++)
        bytes_free(m->requests[i].body);
    events_done(&m->events);
    buf_done(&m->body);
}

uint64_t model_count(const struct model *m, enum message_state state)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < m->sent; i++)
        count += m->messages[i].state == state;
    return count;
}

uint64_t model_held(const struct model *m)
{
    return model_count(m, STATE_READY) + model_count(m, STATE_DELAYED) +
           model_count(m, STATE_LOCKED) + model_count(m, STATE_DEAD);
}

struct model_message *at(struct model *m, uint64_t seq)
{
    CHECK(seq >= 1 && seq <= m->sent);
    return &m->messages[seq - 1];
}

static bool unfinished(const struct model_message *x)
{
    return x->state == STATE_READY || x->state == STATE_DELAYED || x->state == STATE_LOCKED;
}

static int64_t moment(const struct model_message *x)
{
    if (x->state == STATE_DELAYED) return x->due;
    return x->state == STATE_LOCKED ? x->deadline : TIME_NEVER;
}

int64_t model_wake_at(const struct model *m)
{
    int64_t first = TIME_NEVER;
    for (uint64_t i = 0; i < m->sent; i++)
        if (moment(&m->messages[i]) < first) first = moment(&m->messages[i]);
    for (size_t i = 0; i < m->workers_len; i++)
        if (m->workers[i].capacity && m->workers[i].expires_at < first)
            first = m->workers[i].expires_at;
    int64_t signal = model_signals_wake_at(m);
    return signal < first ? signal : first;
}

static bool is_live(const struct model_message *x)
{
    return unfinished(x) || x->state == STATE_DEAD || x->state == STATE_OUTBOUND;
}

enum body_hold model_holds(const struct model *m, struct bytes name)
{
    struct body_name parsed;
    CHECK(body_name_parse(name, &parsed));
    for (uint64_t i = 0; i < m->sent; i++)
        if (m->messages[i].body == parsed.random[0] &&
            (is_live(&m->messages[i]) || (m->messages[i].kept && m->messages[i].body_kept)))
            return BODY_HELD;
    bool stale = m->now > parsed.uploaded_at + BODY_AGE_MAX_MS;
    return stale || m->deleted ? BODY_FREE : BODY_YET;
}

void say_id(struct model *m, struct event *e, const char *workflow)
{
    e->workflow_at = (uint32_t)m->events.text.len;
    e->workflow_len = (uint32_t)strlen(workflow);
    buf_put(&m->events.text, bytes_str(workflow));
}

void say_key(struct model *m, struct event *e, uint64_t seq)
{
    const struct model_message *x = at(m, seq);
    struct bytes group = bytes_str(x->group);
    e->key = m->config.ordering_guarantee ? EVENT_KEY_GROUP : EVENT_KEY_MESSAGE;
    if (m->config.ordering_guarantee && group.len > 0) e->group = hash64_of(group, 0);
    if (!x->row) return;
    if (m->config.workflow_order) e->key = EVENT_KEY_WORKFLOW;
    say_id(m, e, x->workflow);
}

struct event *say(struct model *m, enum event_kind kind, uint64_t seq)
{
    struct events *list = &m->events;
    if (list->len == list->cap) {
        list->cap = list->cap < 64 ? 64 : list->cap * 2;
        list->rows = memory_resize(list->rows, list->cap * sizeof *list->rows);
    }
    struct event *e = &list->rows[list->len++];
    *e = (struct event){.slot = m->slot, .op = m->op, .kind = kind, .at = m->now, .seq = seq};
    e->n = m->op == EVENT_OP_TIME ? m->time_n++ : m->event_n++;
    e->sequence = ++m->event_count;
    if (seq == 0) return e;
    say_key(m, e, seq);
    const struct model_message *x = at(m, seq);
    e->place = (struct place){x->slot, x->ordinal};
    e->deliveries = x->deliveries;
    e->retries = x->retries;
    if (x->state == STATE_DELAYED) e->until = x->due;
    if (x->state != STATE_LOCKED) return e;
    e->fence = x->fence;
    e->until = x->deadline;
    e->order = x->order;
    return e;
}

void say_worker(struct model *m, struct event *e, const char *worker)
{
    e->worker_at = (uint32_t)m->events.text.len;
    e->worker_len = (uint32_t)strlen(worker);
    buf_put(&m->events.text, bytes_str(worker));
}

// Does x come before y when both could go?
static bool goes_before(const struct model *m, uint64_t x, uint64_t y)
{
    uint8_t px = m->messages[x - 1].priority, py = m->messages[y - 1].priority;
    if (px != py) return px > py;
    return m->config.ordering_mode == ORDERING_LIFO ? x > y : x < y;
}

// Strict: only the message that was handed out before, or the first of its group when there is
// none.
bool model_has_its_turn(const struct model *m, uint64_t seq)
{
    const struct model_message *x = &m->messages[seq - 1];
    if (!m->config.ordering_guarantee) return true;
    for (uint64_t other = 1; other <= m->sent; other++) {
        const struct model_message *y = &m->messages[other - 1];
        if (other == seq || !unfinished(y) || strcmp(x->group, y->group) != 0) continue;
        if (y->opened) return false;
        if (!x->opened && goes_before(m, other, seq)) return false;
    }
    return true;
}

uint64_t model_next(const struct model *m)
{
    uint64_t best = 0;
    for (uint64_t seq = 1; seq <= m->sent; seq++) {
        if (m->messages[seq - 1].state != STATE_READY || !model_has_its_turn(m, seq)) continue;
        if (best == 0 || goes_before(m, seq, best)) best = seq;
    }
    return best;
}

// Messages still open, and how many of them come before seq.
uint64_t model_open(const struct model *m)
{
    uint64_t open = 0;
    for (uint64_t i = 0; i < m->sent; i++)
        open += m->messages[i].state == STATE_LOCKED || m->messages[i].waiting;
    return m->config.ordering_guarantee ? 0 : open;
}

bool model_overtakes(const struct model *m, uint64_t seq, uint64_t fence)
{
    if (m->config.ordering_guarantee) return false;
    for (uint64_t other = 1; other <= m->sent; other++) {
        const struct model_message *y = &m->messages[other - 1];
        bool open = y->waiting || (y->state == STATE_LOCKED && y->fence <= fence);
        if (open && other != seq && goes_before(m, other, seq)) return true;
    }
    return false;
}

void model_grant(struct model *m, uint64_t seq, const char *worker, const uint8_t seed[16],
                 int64_t deadline, bool ticket)
{
    struct model_message *x = at(m, seq);
    x->state = STATE_LOCKED;
    x->locked_once = true;
    x->opened = true;
    x->fence = ++m->fence;
    x->token = siphash128(seed, seq, x->fence);
    x->deadline = deadline;
    x->ticket = ticket;
    x->order = ticket ? ++m->order : 0;
    if (!ticket) x->deliveries++;
    strcpy(x->worker, worker);
}

void model_use(struct model *m, uint64_t seq)
{
    struct model_message *x = at(m, seq);
    if (x->ticket) x->deliveries++;
    x->ticket = false;
}

void model_give_back(struct model *m, uint64_t seq, int64_t due, bool expired)
{
    struct model_message *x = at(m, seq);
    if (!x->ticket) model_lock_over(m, seq);
    if (!x->ticket) x->deliveries--;
    x->ticket = false;
    x->expired = expired;
    x->state = due > m->now ? STATE_DELAYED : STATE_READY;
    x->due = due;
}

int64_t model_backoff(const struct queue_config *c, uint32_t retry)
{
    int64_t wait = c->backoff.initial_ms;
    for (uint32_t i = 1; i < retry; i++) {
        wait = wait * c->backoff.multiplier_1000 / 1000;
        if (wait > c->backoff.max_ms) wait = c->backoff.max_ms;
    }
    return wait;
}

void model_end(struct model *m, struct model_message *x, enum finished_outcome outcome,
               const char *worker)
{
    if (m->config.retention_ms == 0) return;
    x->kept = true;
    x->listed = x->row > 0 && outcome != FINISHED_REDRIVEN;
    model_keep(m, x, outcome);
    x->outcome = outcome;
    x->finished_at = m->now;
    x->finished_attempts = x->deliveries;
    strcpy(x->finished_by, worker);
}

static enum outcome_status die(struct model *m, struct model_message *x, bool failed)
{
    if (m->config.failure_mode != FAILURE_RETRY) model_end(m, x, FINISHED_DEAD_LETTERED, x->worker);
    x->state = m->config.failure_mode == FAILURE_RETRY ? STATE_DEAD : STATE_OUTBOUND;
    x->death = ++m->deaths;
    x->opened = false;
    if (failed) model_why(m, (uint64_t)(x - m->messages) + 1, m->slot);
    model_close(m, (uint64_t)(x - m->messages) + 1);
    return OUTCOME_DEAD_LETTERED;
}

enum outcome_status model_fail(struct model *m, uint64_t seq, bool failed, int64_t *until)
{
    const struct queue_config *c = &m->config;
    struct model_message *x = at(m, seq);
    model_lock_over(m, seq);
    x->expired = !failed;
    *until = 0;
    if (c->deliveries_max > 0 && x->deliveries >= c->deliveries_max) return die(m, x, failed);
    if (c->failure_mode == FAILURE_DEAD_LETTER) {
        if (failed) return die(m, x, failed);
        x->state = STATE_READY;
        return OUTCOME_RETRYING;
    }
    if (x->retries >= c->retries_max) return die(m, x, failed);
    x->retries++;
    x->state = STATE_READY;
    if (!failed) return OUTCOME_RETRYING;
    x->due = m->from + model_backoff(c, x->retries);
    if (x->due <= m->now) return OUTCOME_RETRYING;
    x->state = STATE_DELAYED;
    x->waiting = true;
    *until = x->due;
    return OUTCOME_RETRYING;
}

static void moment_comes(struct model *m, uint64_t seq)
{
    struct model_message *x = at(m, seq);
    if (x->state == STATE_DELAYED) {
        x->state = STATE_READY;
        x->waiting = false;
        return;
    }
    if (x->ticket) {
        struct event *recovered = say(m, EVENT_TICKETS_RECOVERED, seq);
        recovered->reason = REASON_LOCK_EXPIRED;
        say_worker(m, recovered, x->worker);
        model_give_back(m, seq, 0, true);
        return;
    }
    say_worker(m, say(m, EVENT_LOCK_EXPIRED, seq), x->worker);
    int64_t until;
    uint32_t retries = x->retries;
    enum outcome_status status;
    if (model_interrupted(m, seq, true, BYTES_EMPTY, &status)) return;
    status = model_fail(m, seq, false, &until);
    bool counted = x->retries > retries;
    if (status != OUTCOME_DEAD_LETTERED && !counted) return;
    struct event *e = say(m, EVENT_MESSAGE_OUTCOME, seq);
    e->status = status;
    e->reason = REASON_LOCK_EXPIRED;
    say_worker(m, e, x->worker);
}

static void forget(struct model *m)
{
    for (size_t i = 0; i < m->dedup_len; i++) {
        if (m->dedup[i].dropped) continue;
        if (m->dedup[i].expires_at > m->now) break;
        m->dedup[i].dropped = true;
    }
    for (size_t i = 0; i < m->requests_len; i++) {
        if (m->requests[i].dropped) continue;
        if (m->requests[i].expires_at > m->now) break;
        m->requests[i].dropped = true;
    }
    for (uint64_t i = 0; i < m->sent; i++)
        if (m->messages[i].finished_at + m->config.retention_ms <= m->now)
            m->messages[i].kept = false;
}

static void advance(struct model *m)
{
    m->op = EVENT_OP_TIME;
    for (;;) {
        uint64_t first = 0;
        for (uint64_t seq = 1; seq <= m->sent; seq++) {
            const struct model_message *x = at(m, seq);
            if (x->held || moment(x) > m->now) continue;
            if (first == 0 || moment(x) < moment(at(m, first))) first = seq;
        }
        if (first == 0) break;
        moment_comes(m, first);
    }
    model_signals_expire(m);
    forget(m);
    model_settle(m);
    model_workflows_expire(m);
}

void model_recover(struct model *m, const char *worker)
{
    for (;;) {
        uint64_t first = 0;
        for (uint64_t seq = 1; seq <= m->sent; seq++) {
            const struct model_message *x = at(m, seq);
            if (x->state != STATE_LOCKED || !x->ticket || strcmp(x->worker, worker) != 0) continue;
            if (first == 0 || x->order < at(m, first)->order) first = seq;
        }
        if (first == 0) return;
        struct event *recovered = say(m, EVENT_TICKETS_RECOVERED, first);
        recovered->reason = REASON_UNKNOWN_WORKER;
        say_worker(m, recovered, worker);
        model_give_back(m, first, 0, false);
    }
}

static void workers_leave(struct model *m)
{
    for (;;) {
        struct model_worker *first = NULL;
        for (size_t i = 0; i < m->workers_len; i++) {
            struct model_worker *w = &m->workers[i];
            if (w->capacity == 0 || w->expires_at > m->now) continue;
            if (!first || w->expires_at < first->expires_at ||
                (w->expires_at == first->expires_at && w->serial < first->serial))
                first = w;
        }
        if (!first) return;
        model_recover(m, first->name);
        first->capacity = 0;
    }
}

static void hold(struct model *m, const struct machine_entry *e)
{
    for (size_t i = 0; i < e->ops_len; i++) {
        struct op_outcome op;
        if (e->ops[i].kind == OP_SIGNAL_SETTLE) model_hold_settle(m, e->ops[i].payload);
        if (e->ops[i].kind < OP_RENEW || e->ops[i].kind > OP_RELEASE) continue;
        if (outcome_decode(e->ops[i].payload, &op) != ERR_OK) continue;
        if (op.shard != m->shard || memcmp(op.queue.bytes, m->queue.bytes, 16) != 0) continue;
        if (!model_extras_ok(e->ops[i].kind, &op)) continue;
        for (uint32_t k = 0; k < op.count; k++) {
            struct lock_ref ref = outcome_ref(&op, k);
            if (model_check(m, &ref) != REASON_NONE) continue;
            struct model_message *x = at(m, ref.seq);
            if (op.arrived_at < x->deadline) x->held = true;
        }
    }
}

void model_apply(struct model *m, const struct machine_entry *e, struct bytes *bodies)
{
    m->slot = e->slot;
    if (e->now > m->now) m->now = e->now;
    m->from = e->time.hi > m->now ? e->time.hi : m->now;
    m->epoch = e->epoch;
    m->ordinal = 0;
    m->time_n = 0;
    model_enter_published(m, e->bytes.len);
    events_clear(&m->events);
    hold(m, e);
    advance(m);
    for (uint64_t seq = 1; seq <= m->sent; seq++)
        at(m, seq)->held = false;
    for (size_t i = 0; i < e->ops_len; i++) {
        m->op = (uint32_t)i;
        m->event_n = 0;
        model_answer(m, &e->ops[i]);
        bodies[i] = bytes_copy(buf_bytes(&m->body));
    }
    advance(m);
    workers_leave(m);
}
