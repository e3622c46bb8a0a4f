// SPDX-License-Identifier: Apache-2.0
// The plain model: workflows. Their counts are computed from all messages ever sent.
#include "model_parts.h"

#include "base/check.h"

#include <string.h>

static struct model_workflow *find(struct model *m, const char *id)
{
    for (size_t i = 0; i < m->workflows_len; i++)
        if (!m->workflows[i].gone && strcmp(m->workflows[i].id, id) == 0) return &m->workflows[i];
    return NULL;
}

enum reason model_admit(const struct model *m, const struct message *msg)
{
    if (m->config.workflow_order && msg->group.len > 0) return REASON_WORKFLOW_ORDER_GROUP;
    if (msg->workflow_last && msg->workflow.len == 0) return REASON_LAST_WITHOUT_WORKFLOW;
    return REASON_NONE; // streams have one shard
}

static void say_workflow(struct model *m, enum event_kind kind, const struct model_workflow *w,
                         uint64_t count)
{
    struct event *e = say(m, kind, 0);
    e->count = count;
    e->key = EVENT_KEY_WORKFLOW;
    say_id(m, e, w->id);
}

// The message enters the present run, or begins the next one.
void model_join(struct model *m, uint64_t seq, const char *id, bool last)
{
    struct model_message *x = at(m, seq);
    struct model_workflow *w = find(m, id);
    if (!w) {
        CHECK(m->workflows_len < MODEL_ROWS_MAX);
        w = &m->workflows[m->workflows_len++];
        *w = (struct model_workflow){.state = WORKFLOW_COMPLETED};
        strcpy(w->id, id);
    }
    if (w->state != WORKFLOW_OPEN) {
        w->state = WORKFLOW_OPEN;
        w->saw_last = last;
        say_workflow(m, EVENT_WORKFLOW_SUBMITTED, w, ++w->run);
    }
    w->saw_last = w->saw_last || last;
    w->listed = false;
    strcpy(x->workflow, id);
    x->row = (size_t)(w - m->workflows) + 1;
    x->run = w->run;
}

void model_join_redriven(struct model *m, uint64_t from, uint64_t to)
{
    const struct model_message *x = at(m, from);
    if (x->row) model_join(m, to, x->workflow, m->workflows[x->row - 1].state != WORKFLOW_OPEN);
}

static bool is_open(const struct model_message *x)
{
    return x->state == STATE_READY || x->state == STATE_DELAYED || x->state == STATE_LOCKED;
}

void model_workflow_counts(const struct model *m, size_t row, struct workflow_view *out)
{
    const struct model_workflow *w = &m->workflows[row];
    *out = (struct workflow_view){.state = w->state, .run = w->run, .saw_last = w->saw_last};
    for (uint64_t i = 0; i < m->sent; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->row != row + 1 || x->run != w->run || x->state == STATE_REDRIVEN) continue;
        bool died = x->death > 0;
        out->open += is_open(x);
        out->done += x->state == STATE_PROCESSED;
        out->failed += died;
        out->cancelled += (x->state == STATE_PURGED && !died) || x->state == STATE_CANCELLED;
    }
}

bool model_lives(const struct model_message *x)
{
    return is_open(x) || x->state == STATE_DEAD || x->state == STATE_OUTBOUND;
}

static bool is_referred_to(const struct model *m, size_t row)
{
    for (uint64_t i = 0; i < m->sent; i++) {
        const struct model_message *x = &m->messages[i];
        if (x->row == row + 1 && model_lives(x)) return true;
    }
    return false;
}

void model_settle(struct model *m)
{
    for (size_t i = 0; i < m->workflows_len; i++) {
        struct model_workflow *w = &m->workflows[i];
        struct workflow_view v;
        if (m->deleted) w->gone = true;
        if (w->gone) continue;
        model_workflow_counts(m, i, &v);
        if (w->state == WORKFLOW_OPEN && w->saw_last && v.open == 0) {
            w->state = v.failed > 0 ? WORKFLOW_FAILED : WORKFLOW_COMPLETED;
            say_workflow(m, v.failed > 0 ? EVENT_WORKFLOW_FAILED : EVENT_WORKFLOW_COMPLETED, w,
                         v.failed > 0 ? v.failed : v.done);
        }
        if (w->listed || is_referred_to(m, i)) continue;
        w->listed = true;
        w->since = m->now;
    }
}

void model_workflows_expire(struct model *m)
{
    for (size_t i = 0; i < m->workflows_len; i++) {
        struct model_workflow *w = &m->workflows[i];
        int64_t keep = w->state == WORKFLOW_OPEN ? CONFIG_DAY_MS : m->config.retention_ms;
        if (w->listed && w->since + keep <= m->now) w->gone = true;
    }
}
