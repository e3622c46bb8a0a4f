// SPDX-License-Identifier: Apache-2.0
// Sends and withdraws signals: one op in each shard concerned, with the same signal id. The shards
// are independent. If one cannot be reached, its rows say so, and the others are done.
#include "local/signals.h"

#include "base/check.h"
#include "base/memory.h"
#include "local/change.h"
#include "local/signal_list.h"
#include "os/entropy.h"

#include <stdio.h>
#include <string.h>

#define PARTS_MAX (SIGNALS_OF_SHARD_MAX / SIGNAL_TARGETS_MAX)

struct signalling {
    struct change change; // first
    struct open_queue *queue;
    struct op_signal op;
    struct op_signal_withdraw withdraw;
    struct request_id whole; // withdraw: its parts are the requests of the ops
    const char *const *ids;  // NULL: the shard has the list
    struct named_id *rows;
    size_t len;
    size_t *members; // of the op under way, in the order of the ids
    size_t count;
    uint32_t shard;
    uint32_t part; // ops to this shard so far
    bool more;     // the shard may have further messages for the signal
    struct signal_list *list;
    struct sluice_signal_state *by_id; // in the order of the ids
    struct sluice_error first;
    bool done; // a row was accepted
    bool none; // the shard has nothing for the signal
};

static void note_error(struct signalling *g, const struct sluice_error *why)
{
    if (!g->first.code) g->first = *why;
}

static void encode_signal(const struct change *ch, const struct request_id *request,
                          struct buf *out)
{
    const struct signalling *g = (const struct signalling *)ch;
    struct op_signal op = g->op;
    (void)request; // the signal's id, or a part of it
    op.signal = g->op.request;
    if (g->part > 0) op.request = request_part(op.signal.bytes, g->part);
    CLEANUP(buf_done) struct buf seqs;
    buf_init(&seqs, (size_t)SIGNAL_TARGETS_MAX * sizeof(uint64_t));
    for (size_t i = 0; i < g->count; i++)
        buf_put_u64(&seqs, g->rows[g->members[i]].seq);
    CHECK(!seqs.bad);
    op.count = (uint32_t)g->count;
    op.seqs = buf_bytes(&seqs);
    signal_encode(out, &op);
}

static void encode_withdraw(const struct change *ch, const struct request_id *request,
                            struct buf *out)
{
    const struct signalling *g = (const struct signalling *)ch;
    struct op_signal_withdraw op = g->withdraw;
    (void)request; // a repeated call has the same ids
    op.request = request_part(g->whole.bytes, (uint64_t)g->part << 32 | g->shard);
    signal_withdraw_encode(out, &op);
}

static void refuse_row(struct signalling *g, enum reason reason, const char *message)
{
    struct sluice_error why;
    (void)refuse_reason(&why, reason, message);
    (void)snprintf(why.field, sizeof why.field, "id");
    note_error(g, &why);
}

static void fill_row(struct signalling *g, struct sluice_signal_state *out,
                     const struct signal_row *row)
{
    bool sends = g->change.kind == OP_SIGNAL;
    *out = (struct sluice_signal_state){.code = (enum sluice_code)reason_err(row->reason),
                                        .number = row->number,
                                        .kind = sends ? signal_kind_name(g->op.kind) : "",
                                        .state = signal_state_name(row->state),
                                        .until = row->until};
    signal_id_print(sends ? &g->op.request : &g->withdraw.signal, out->id);
    id_print(g->queue, g->shard, row->seq, out->message);
    if (row->reason == REASON_NONE) {
        g->done = true;
        return;
    }
    if (sends) out->state = "";
    (void)snprintf(out->reason, sizeof out->reason, "%s", reason_name(row->reason));
    refuse_row(g, row->reason, out->message);
}

// The row of a message, among those of the ids.
static struct sluice_signal_state *row_of(struct signalling *g, uint64_t seq)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->rows[g->members[i]].seq == seq) return &g->by_id[g->members[i]];
    return NULL;
}

static enum sluice_code take(struct change *ch, const struct result *result, enum sluice_code code)
{
    struct signalling *g = (struct signalling *)ch;
    struct result rows = result ? *result : (struct result){0};
    struct signal_row row;
    ch->shard = UINT32_MAX; // one op
    // The worker or the workflow has ended what it had since the shard was looked at.
    g->none =
        result && !g->ids &&
        (result->reason == REASON_UNKNOWN_WORKER || result->reason == REASON_UNKNOWN_WORKFLOW ||
         result->reason == REASON_UNKNOWN_SIGNAL);
    if (g->none) return SLUICE_OK;
    if (!result || result->count == 0) return code;
    bool full = !g->ids && result->count == SIGNAL_TARGETS_MAX, sends = ch->kind == OP_SIGNAL;
    g->more = full && sends;
    for (size_t i = 0; signal_row_next(&rows, &row); i++) {
        g->op.after = row.seq;
        if (!sends && g->part > 0 && row.reason != REASON_NONE) continue; // an earlier op had it
        g->more = g->more || (full && row.reason == REASON_NONE);
        struct sluice_signal_state *to = NULL;
        // The rows have the order of the op, unless another call has sent this id before.
        bool in_order = i < g->count && g->rows[g->members[i]].seq == row.seq;
        if (g->ids) to = in_order ? &g->by_id[g->members[i]] : row_of(g, row.seq);
        if (!g->ids) to = signal_list_add(g->list);
        if (to) fill_row(g, to, &row);
    }
    return SLUICE_OK;
}

// A shard whose op had no rows.
static void note_shard(struct signalling *g, enum sluice_code code, const struct sluice_error *why)
{
    struct sluice_error reused;
    (void)refuse_reason(&reused, REASON_REQUEST_REUSED, g->queue->row.name);
    const struct sluice_error *said = code ? why : &reused;
    bool missing = false;
    for (size_t i = 0; i < g->count; i++) {
        struct sluice_signal_state *row = &g->by_id[g->members[i]];
        if (row->kind) continue;
        missing = true;
        *row = (struct sluice_signal_state){.code = said->code, .kind = "", .state = ""};
        (void)snprintf(row->reason, sizeof row->reason, "%s", said->reason);
        (void)snprintf(row->message, sizeof row->message, "%s", g->ids[g->members[i]]);
    }
    if (!g->ids && code) {
        struct sluice_signal_state *row = signal_list_add(g->list);
        row->code = code;
        (void)snprintf(row->reason, sizeof row->reason, "%s", why->reason);
    }
    if (missing || code) note_error(g, said);
}

static void change_part(struct signalling *g)
{
    struct sluice_error why = {.code = SLUICE_OK};
    g->change.shard = g->shard;
    g->none = g->more = false;
    enum sluice_code code = change_open_queue(g->queue, &g->change, &why);
    if (!g->none) note_shard(g, code, &why);
}

// An op has SIGNAL_TARGETS_MAX messages at most, and a signal PARTS_MAX ops in a shard.
static void change_shard(struct signalling *g, uint32_t shard)
{
    struct sluice_error why;
    g->shard = shard;
    g->op.after = 0;
    g->more = true;
    for (g->part = 0; g->more && g->part < PARTS_MAX; g->part++)
        change_part(g);
    if (!g->more) return;
    (void)refuse_reason(&why, REASON_SIGNALS_FULL, g->queue->row.name);
    (void)snprintf(why.message, sizeof why.message,
                   "the signal went to %d messages of shard %u of queue %s, as many as one signal "
                   "can have; if there are more, send another one to them",
                   PARTS_MAX * SIGNAL_TARGETS_MAX, shard, g->queue->row.name);
    note_shard(g, why.code, &why);
}

static void send_to_ids(struct signalling *g)
{
    for (uint32_t shard = 0; shard < g->queue->row.birth.shards; shard++) {
        g->count = 0;
        for (size_t i = 0; i < g->len; i++)
            if (!g->rows[i].code && g->rows[i].shard == shard) g->members[g->count++] = i;
        if (g->count > 0) change_shard(g, shard);
    }
    for (size_t i = 0; i < g->len; i++) {
        struct sluice_signal_state *row = &g->by_id[i];
        if (g->rows[i].code) {
            *row = (struct sluice_signal_state){.code = g->rows[i].code, .kind = "", .state = ""};
            (void)snprintf(row->reason, sizeof row->reason, "%s", g->rows[i].reason);
            (void)snprintf(row->message, sizeof row->message, "%s", g->ids[i] ? g->ids[i] : "");
        }
        *signal_list_add(g->list) = *row;
    }
}

struct concerned {
    const struct signalling *g;
    bool is;
};

// Whether the shard has something for the signal, or has it already.
static void see_shard(void *ctx, const struct machine *m, int64_t now)
{
    struct concerned *c = ctx;
    const struct op_signal *op = &c->g->op;
    bool sends = c->g->change.kind == OP_SIGNAL;
    struct signal_view known;
    struct workflow_view workflow;
    struct worker_view worker;
    (void)now;
    c->is = machine_signal_find(m, sends ? &op->request : &c->g->withdraw.signal, 0, &known);
    if (sends && op->target == SIGNAL_TO_WORKFLOW)
        c->is = c->is || machine_workflow(m, op->name, &workflow);
    if (sends && op->target == SIGNAL_TO_WORKER)
        c->is = c->is || (machine_worker_find(m, op->name, &worker) && worker.open > 0);
}

static void send_to_shards(struct signalling *g)
{
    for (uint32_t shard = 0; shard < g->queue->row.birth.shards; shard++) {
        struct sluice_error why = {.code = SLUICE_OK};
        struct shard_runner *d;
        struct concerned seen = {.g = g};
        enum sluice_code code = queue_synced_runner(g->queue, shard, &d, &why);
        if (!code) runner_inspect(d, see_shard, &seen);
        if (code) note_shard(g, code, &why);
        if (seen.is) change_shard(g, shard);
    }
}

static void refuse_none(struct signalling *g, const struct sluice_signal *what)
{
    struct sluice_error why;
    const char *queue = g->queue->row.name;
    bool worker = g->op.target == SIGNAL_TO_WORKER;
    (void)refuse_reason(&why, worker ? REASON_UNKNOWN_WORKER : REASON_UNKNOWN_WORKFLOW, queue);
    (void)snprintf(why.field, sizeof why.field, "%s", worker ? "worker" : "workflow");
    (void)snprintf(why.message, sizeof why.message,
                   worker ? "worker %.128s holds no message of queue %s"
                          : "workflow %.128s has no message of queue %s that is not finished",
                   worker ? what->worker : what->workflow, queue);
    g->first = why;
}

static void give(struct signalling *g, const struct request_id *id, struct sluice_signals **out)
{
    struct sluice_signals *list = signal_list_take(g->list);
    signal_id_print(id, list->id);
    bool given = out && list->len > 0;
    if (given) *out = list;
    if (!given) sluice_signals_free(list);
    if (g->queue) queue_let_go(&g->queue);
    memory_free(g->rows);
    memory_free(g->members);
    memory_free(g->by_id);
}

static struct request_id request_of(const struct acting *as)
{
    struct request_id id;
    if (as->request)
        memcpy(id.bytes, as->request->bytes, sizeof id.bytes);
    else
        entropy_fill(id.bytes, sizeof id.bytes);
    if (!request_id_set(&id)) entropy_fill(id.bytes, sizeof id.bytes); // all 0 means none
    return id;
}

enum sluice_code signal_send(struct sluice *s, const char *queue, const struct sluice_signal *what,
                             const struct acting *as, struct sluice_signals **out,
                             struct sluice_error *error)
{
    size_t len = what->ids_len;
    struct signalling g = {
        .change = {.kind = OP_SIGNAL, .encode = encode_signal, .take = take, .token = as->token}};
    if (out) *out = NULL;
    enum sluice_code code = signal_check(what, &g.op, error);
    if (code) return code;
    g.op.request = request_of(as);
    g.ids = len > 0 ? what->ids : NULL;
    g.len = len;
    g.rows = memory_zeroed(len + 1, sizeof *g.rows);
    g.members = memory_zeroed(len + 1, sizeof *g.members);
    g.by_id = memory_zeroed(len + 1, sizeof *g.by_id);
    g.list = signal_list_new();
    code = named_ids_open(s, queue, what->ids, len, &g.queue, g.rows, &g.first, error);
    if (!code) code = queue_needs_rules(g.queue, RULES_SIGNALS, "a signal needs", error);
    if (code) {
        give(&g, &g.op.request, NULL);
        return code;
    }
    if (len > 0) send_to_ids(&g);
    if (len == 0) send_to_shards(&g);
    if (signal_list_len(g.list) == 0) refuse_none(&g, what);
    if (g.first.code && error) *error = g.first;
    give(&g, &g.op.request, out);
    return g.first.code;
}

enum sluice_code signal_withdraw(struct sluice *s, const char *queue, const char *signal,
                                 const char *message, const struct acting *as,
                                 struct sluice_signals **out, struct sluice_error *error)
{
    struct signalling g = {.change = {.kind = OP_SIGNAL_WITHDRAW,
                                      .encode = encode_withdraw,
                                      .take = take,
                                      .token = as->token},
                           .whole = request_of(as)};
    struct named_id row = {.seq = 0};
    if (out) *out = NULL;
    enum sluice_code code = signal_id_parse(signal, &g.withdraw.signal, error);
    if (code) return code;
    g.list = signal_list_new();
    code = named_ids_open(s, queue, &message, message ? 1 : 0, &g.queue, &row, &g.first, error);
    if (!code && g.first.code) code = g.first.code;
    if (code && g.first.code && error) *error = g.first;
    if (!code) code = queue_needs_rules(g.queue, RULES_SIGNALS, "a signal needs", error);
    if (code) {
        give(&g, &g.withdraw.signal, NULL);
        return code;
    }
    g.withdraw.seq = row.seq;
    if (message) change_shard(&g, row.shard);
    if (!message) send_to_shards(&g);
    if (signal_list_len(g.list) == 0) {
        (void)refuse_reason(&g.first, REASON_UNKNOWN_SIGNAL, signal);
        (void)snprintf(g.first.field, sizeof g.first.field, "signal");
    }
    // Without a message, those that had ended before keep nothing from being withdrawn.
    code = !message && g.done && g.first.code == SLUICE_CONFLICT ? SLUICE_OK : g.first.code;
    if (code && error) *error = g.first;
    give(&g, &g.withdraw.signal, out);
    return code;
}

enum sluice_code direct_signal(struct sluice *s, const char *queue,
                               const struct sluice_signal *what,
                               const struct sluice_request *request, struct sluice_signals **out,
                               struct sluice_error *error)
{
    struct acting as = {.request = request};
    return signal_send(s, queue, what, &as, out, error);
}

enum sluice_code direct_signal_withdraw(struct sluice *s, const char *queue, const char *signal,
                                        const char *message, struct sluice_signals **out,
                                        struct sluice_error *error)
{
    return signal_withdraw(s, queue, signal, message, &(struct acting){0}, out, error);
}
