// SPDX-License-Identifier: Apache-2.0
// Lists signals: those of a message, a workflow or a worker, or all that are pending.
#include "ops/signals.h"
#include "ops/ops.h"
#include "ops/signal_rows.h"

#include "base/memory.h"
#include "ops/look.h"
#include "protocol/signal_list.h"

#define MESSAGES_MAX 10000 // of a workflow or a worker whose signals are listed

struct listing {
    struct look look; // first
    struct signals_query want;
    uint64_t seq; // of the message
    struct signal_list *list;
    size_t max;
    size_t left;               // bytes of texts
    struct signal_view *views; // of one shard
    size_t len;
    bool known; // the message, the workflow or the worker is there
    struct sluice_signals **out;
};

static size_t room(const struct listing *l)
{
    return l->max - signal_list_len(l->list) - l->len;
}

static void see_message(struct listing *l, const struct machine *m, uint64_t seq)
{
    l->len += machine_signals_of(m, seq, l->views + l->len, room(l));
}

static void see_workflow(struct listing *l, const struct machine *m)
{
    CLEANUP(memory_let_go) uint64_t *seqs = memory_zeroed(MESSAGES_MAX, sizeof *seqs);
    struct bytes id = bytes_str(l->want.workflow);
    struct workflow_view view;
    l->known = l->known || machine_workflow(m, id, &view);
    size_t len = machine_workflow_messages(m, id, seqs, MESSAGES_MAX);
    for (size_t i = 0; i < len && room(l) > 0; i++)
        see_message(l, m, seqs[i]);
}

static void see_worker(struct listing *l, const struct machine *m, int64_t now)
{
    CLEANUP(memory_let_go) struct message_view *views = memory_zeroed(MESSAGES_MAX, sizeof *views);
    struct bytes name = bytes_str(l->want.worker);
    size_t len = machine_list(m, STATE_LOCKED, 0, now, views, MESSAGES_MAX);
    for (size_t i = 0; i < len && room(l) > 0; i++)
        if (bytes_equal(views[i].worker, name)) see_message(l, m, views[i].seq);
    struct worker_view worker;
    l->known = l->known || machine_worker_find(m, name, &worker);
}

static void see(void *ctx, const struct machine *m, int64_t now)
{
    struct listing *l = ctx;
    struct message_view view;
    l->len = 0;
    if (l->want.message) {
        l->known = machine_find(m, l->seq, now, &view) != ERR_NOT_FOUND;
        see_message(l, m, l->seq);
    } else if (l->want.workflow) {
        see_workflow(l, m);
    } else if (l->want.worker) {
        see_worker(l, m, now);
    } else {
        l->known = true;
        l->len = machine_signals_pending(m, 0, 0, l->views, room(l));
    }
}

static enum sluice_code check(struct look *look, struct sluice_error *error)
{
    const struct listing *l = (const struct listing *)look;
    if (l->max <= SIGNALS_SHOWN_MAX) return SLUICE_OK;
    return refuse(error, ERR_INVALID, "max", "max must be between 1 and %d, not %zu",
                  SIGNALS_SHOWN_MAX, l->max);
}

static enum sluice_code begin(struct look *look, struct open_queue *q, struct sluice_error *error)
{
    struct listing *l = (struct listing *)look;
    l->views = memory_zeroed(l->max, sizeof *l->views);
    if (!l->want.message) return SLUICE_OK;
    return id_parse(queue_ref(q), l->want.message, &look->first, &l->seq, error);
}

static enum sluice_code look_shard(struct look *look, struct sluice_error *error)
{
    struct listing *l = (struct listing *)look;
    runner_inspect(look->runner, see, l);
    enum sluice_code code = signal_list_add_views(l->list, look->queue, look->at, look->runner,
                                                  l->views, l->len, NULL, &l->left, error);
    l->len = 0;
    look->enough = l->want.message || room(l) == 0;
    return code;
}

static void refuse_unknown(const struct listing *l, struct local_call *c)
{
    const struct signals_query *w = &l->want;
    const char *field = w->message ? "id" : w->workflow ? "workflow" : "worker";
    const char *what = w->message ? "message" : field;
    const char *name = w->message ? w->message : w->workflow ? w->workflow : w->worker;
    (void)refuse(call_error(c), ERR_NOT_FOUND, field, "queue %s has no %s %.128s", c->name, what,
                 name);
}

static void end(struct look *look, struct local_call *c)
{
    struct listing *l = (struct listing *)look;
    if (!call_code(c) && !l->known) refuse_unknown(l, c);
    struct sluice_signals *list = signal_list_take(l->list);
    if (call_code(c))
        sluice_signals_free(list);
    else
        *l->out = list;
}

static void release(struct look *l)
{
    memory_free(((struct listing *)l)->views);
}

enum sluice_code signals_list(const struct request_origin *as, const char *queue,
                              const struct signals_query *want, struct sluice_signals **out,
                              struct sluice_error *error)
{
    struct listing *l = NEW(struct listing);
    l->look = (struct look){.check = check,
                            .begin = begin,
                            .shard = look_shard,
                            .end = end,
                            .release = release,
                            .owned = true};
    l->want = *want;
    l->max = want->max > 0 ? want->max : SIGNALS_SHOWN_DEFAULT;
    l->left = SIGNAL_LIST_BYTES;
    l->out = out;
    l->list = signal_list_new();
    *out = NULL;
    return look_at_queue(as, queue, &l->look, error);
}

enum sluice_code ops_signals(struct engine *e, const char *queue, const char *message, uint32_t max,
                             struct sluice_signals **out, struct sluice_error *error)
{
    struct signals_query want = {.message = message, .max = max};
    return signals_list(&(struct request_origin){.engine = e}, queue, &want, out, error);
}
