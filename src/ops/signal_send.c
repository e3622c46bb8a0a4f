// SPDX-License-Identifier: Apache-2.0
// Sends and withdraws signals: one op in each shard concerned, with the same signal id. The shards
// are independent. If one cannot be reached, its rows say so, and the others are done.
#include "ops/ops.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/by_shard.h"
#include "ops/change.h"
#include "ops/named_ids.h"
#include "os/entropy.h"
#include "protocol/signal_list.h"

#include <stdio.h>
#include <string.h>

#define PARTS_MAX (SIGNALS_OF_SHARD_MAX / SIGNAL_TARGETS_MAX)

struct signal_change {
    struct change change;     // first
    struct open_queue *queue; // of the call
    const struct sluice_signal *what;
    const char *withdrawn, *message; // withdraw: the signal's id, and the only message or NULL
    struct op_signal op;
    struct op_signal_withdraw withdraw;
    struct request_id whole; // withdraw: its parts are the requests of the ops
    const char *const *ids;  // NULL: the shard has the list
    struct named_id *rows;   // of the ids
    bool *concerned;         // without ids: the shards that have something for the signal
    struct by_shard split;   // of the ids, or of the shards
    uint32_t part;           // ops to this shard so far
    bool more;               // the shard may have further messages for the signal
    struct signal_list *list;
    struct sluice_signal_state *by_id; // in the order of the ids
    struct sluice_signals **out;
    struct sluice_error first;
    bool done; // a row was accepted
};

static void note_error(struct signal_change *g, const struct sluice_error *why)
{
    if (!g->first.code) g->first = *why;
}

static void encode_signal(const struct change *ch, const struct request_id *request,
                          struct buf *out)
{
    const struct signal_change *g = (const struct signal_change *)ch;
    struct op_signal op = g->op;
    (void)request; // the signal's id, or a part of it
    op.signal = g->op.request;
    if (g->part > 0) op.request = request_part(op.signal.bytes, g->part);
    LOCAL(buf, seqs, (size_t)SIGNAL_TARGETS_MAX * sizeof(uint64_t));
    op.count = g->ids ? g->split.count : 0;
    for (size_t i = 0; i < op.count; i++)
        buf_put_u64(&seqs, g->rows[by_shard_item(&g->split, i)].seq);
    CHECK(!seqs.bad);
    op.seqs = buf_bytes(&seqs);
    signal_encode(out, &op);
}

static void encode_withdraw(const struct change *ch, const struct request_id *request,
                            struct buf *out)
{
    const struct signal_change *g = (const struct signal_change *)ch;
    struct op_signal_withdraw op = g->withdraw;
    (void)request; // a repeated call has the same ids
    op.request = request_part(g->whole.bytes, (uint64_t)g->part << 32 | ch->shard);
    signal_withdraw_encode(out, &op);
}

static void refuse_row(struct signal_change *g, enum reason reason, const char *message)
{
    struct sluice_error why;
    (void)refuse_reason(&why, reason, message);
    (void)snprintf(why.field, sizeof why.field, "id");
    note_error(g, &why);
}

static void fill_row(struct signal_change *g, struct sluice_signal_state *out,
                     const struct signal_row *row)
{
    bool sends = g->change.kind == OP_SIGNAL;
    *out = (struct sluice_signal_state){.code = (enum sluice_code)reason_err(row->reason),
                                        .number = row->number,
                                        .kind = sends ? signal_kind_name(g->op.kind) : "",
                                        .state = signal_state_name(row->state),
                                        .until = row->until};
    signal_id_print(sends ? &g->op.request : &g->withdraw.signal, out->id);
    id_print(queue_ref(g->queue), g->change.shard, row->seq, out->message);
    if (row->reason == REASON_NONE) {
        g->done = true;
        return;
    }
    if (sends) out->state = "";
    (void)snprintf(out->reason, sizeof out->reason, "%s", reason_name(row->reason));
    refuse_row(g, row->reason, out->message);
}

// The row of a message, among those of the ids. The rows have the order of the op, unless another
// call has sent this id before.
static struct sluice_signal_state *row_of(struct signal_change *g, size_t at, uint64_t seq)
{
    for (size_t i = 0; i < g->split.count; i++) {
        size_t item = by_shard_item(&g->split, (at + i) % g->split.count);
        if (g->rows[item].seq == seq) return &g->by_id[item];
    }
    return NULL;
}

static void take_rows(struct signal_change *g, struct result rows)
{
    struct signal_row row;
    bool full = !g->ids && rows.count == SIGNAL_TARGETS_MAX, sends = g->change.kind == OP_SIGNAL;
    g->more = full && sends;
    for (size_t i = 0; signal_row_next(&rows, &row); i++) {
        g->op.after = row.seq;
        if (!sends && g->part > 0 && row.reason != REASON_NONE) continue; // an earlier op had it
        g->more = g->more || (full && row.reason == REASON_NONE);
        struct sluice_signal_state *to = g->ids ? row_of(g, i, row.seq) : signal_list_add(g->list);
        if (to) fill_row(g, to, &row);
    }
}

static void refuse_state(struct sluice_signal_state *row, enum sluice_code code, const char *reason,
                         const char *message)
{
    *row = (struct sluice_signal_state){.code = code, .kind = "", .state = ""};
    (void)snprintf(row->reason, sizeof row->reason, "%s", reason);
    (void)snprintf(row->message, sizeof row->message, "%s", message ? message : "");
}

// A shard whose op had no rows.
static void note_shard(struct signal_change *g, enum sluice_code code,
                       const struct sluice_error *why)
{
    struct sluice_error reused;
    (void)refuse_reason(&reused, REASON_REQUEST_REUSED, g->queue->row.name);
    const struct sluice_error *said = code ? why : &reused;
    bool missing = false;
    for (size_t i = 0; g->ids && i < g->split.count; i++) {
        size_t item = by_shard_item(&g->split, i);
        if (g->by_id[item].kind) continue;
        missing = true;
        refuse_state(&g->by_id[item], said->code, said->reason, g->ids[item]);
    }
    if (!g->ids && code) {
        struct sluice_signal_state *row = signal_list_add(g->list);
        row->code = code;
        (void)snprintf(row->reason, sizeof row->reason, "%s", why->reason);
    }
    if (missing || code) note_error(g, said);
}

// An op has SIGNAL_TARGETS_MAX messages at most, and a signal PARTS_MAX ops in a shard.
static void next_op(struct signal_change *g)
{
    struct sluice_error why;
    if (g->more && ++g->part < PARTS_MAX) return;
    if (g->more) {
        (void)refuse_reason(&why, REASON_SIGNALS_FULL, g->queue->row.name);
        (void)snprintf(why.message, sizeof why.message,
                       "the signal went to %d messages of shard %u of queue %s, as many as one "
                       "signal can have; if there are more, send another one to them",
                       PARTS_MAX * SIGNAL_TARGETS_MAX, g->change.shard, g->queue->row.name);
        note_shard(g, why.code, &why);
    }
    g->part = 0;
    g->op.after = 0;
    g->change.shard = by_shard_next(&g->split);
}

static enum sluice_code take(struct change *ch, const struct result *result, enum sluice_code code)
{
    struct signal_change *g = (struct signal_change *)ch;
    bool rows = result && result->count > 0;
    // The worker or the workflow has ended what it had since the shard was looked at.
    bool none =
        result && !g->ids &&
        (result->reason == REASON_UNKNOWN_WORKER || result->reason == REASON_UNKNOWN_WORKFLOW ||
         result->reason == REASON_UNKNOWN_SIGNAL);
    g->more = false;
    if (rows && !none) take_rows(g, *result);
    if (!none) note_shard(g, rows ? SLUICE_OK : code, &ch->why);
    next_op(g);
    return SLUICE_OK;
}

struct concern_check {
    const struct signal_change *g;
    bool is;
};

// Whether the shard has something for the signal, or has it already.
static void see_shard(void *ctx, const struct machine *m, int64_t now)
{
    struct concern_check *c = ctx;
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

// Without ids. Reads the shards up to their tails, which blocks.
static void find_shards(struct signal_change *g)
{
    for (uint32_t shard = 0; shard < g->queue->row.birth.shards; shard++) {
        struct sluice_error why = {.code = SLUICE_OK};
        struct shard_runner *r;
        struct concern_check seen = {.g = g};
        enum sluice_code code = queue_synced_runner(g->queue, shard, &r, &why);
        if (!code) runner_inspect(r, see_shard, &seen);
        if (code) note_shard(g, code, &why);
        g->concerned[shard] = seen.is;
    }
}

static uint32_t shard_of(const void *ctx, size_t i)
{
    const struct signal_change *g = ctx;
    if (!g->ids) return g->concerned[i] ? (uint32_t)i : NO_SHARD;
    return g->rows[i].code ? NO_SHARD : g->rows[i].shard;
}

static const struct by_shard_type split_ids = {.shard_of = shard_of, .op_max = SIGNAL_TARGETS_MAX};

static size_t ids_len(const struct signal_change *g)
{
    return g->ids ? g->what->ids_len : 0;
}

static enum call_built parse(struct signal_change *g, struct local_call *c, bool may_block)
{
    if (g->ids) return named_ids_begin(c, may_block, g->ids, ids_len(g), g->rows, &g->first);
    if (!g->message) return CALL_BUILT;
    enum call_built built = named_ids_begin(c, may_block, &g->message, 1, g->rows, &g->first);
    if (built != CALL_BUILT || !g->first.code) return built;
    *call_error(c) = g->first;
    return CALL_ENDED;
}

static enum call_built begin(struct change *ch, struct local_call *c, bool may_block)
{
    struct signal_change *g = (struct signal_change *)ch;
    bool reads = !g->ids && !g->message;
    enum call_built built = parse(g, c, may_block);
    if (built == CALL_BUILT && reads && !may_block) built = CALL_BLOCKS;
    if (built != CALL_BUILT) return built;
    g->queue = c->queue;
    g->concerned = memory_zeroed(c->queue->row.birth.shards, sizeof *g->concerned);
    if (reads) find_shards(g);
    if (g->message) {
        g->withdraw.seq = g->rows[0].seq;
        g->concerned[g->rows[0].shard] = true;
    }
    by_shard_init(&g->split, &split_ids, g, g->ids ? ids_len(g) : c->queue->row.birth.shards);
    by_shard_begin(&g->split);
    ch->shard = by_shard_next(&g->split);
    return ch->shard == NO_SHARD ? CALL_ENDED : CALL_BUILT;
}

static void refuse_none(struct signal_change *g)
{
    const struct sluice_signal *what = g->what;
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

static void give(struct signal_change *g, const struct request_id *id, bool any)
{
    struct sluice_signals *list = signal_list_take(g->list);
    signal_id_print(id, list->id);
    if (any && g->out && list->len > 0)
        *g->out = list;
    else
        sluice_signals_free(list);
}

static void list_ids(struct signal_change *g)
{
    for (size_t i = 0; i < ids_len(g); i++) {
        const struct named_id *row = &g->rows[i];
        if (row->code) refuse_state(&g->by_id[i], row->code, row->reason, g->ids[i]);
        *signal_list_add(g->list) = g->by_id[i];
    }
}

static void end_signal(struct change *ch, struct local_call *c)
{
    struct signal_change *g = (struct signal_change *)ch;
    bool begun = !call_code(c);
    if (begun) list_ids(g);
    if (begun && signal_list_len(g->list) == 0) refuse_none(g);
    if (begun && g->first.code) *call_error(c) = g->first;
    give(g, &g->op.request, begun);
}

static void end_withdraw(struct change *ch, struct local_call *c)
{
    struct signal_change *g = (struct signal_change *)ch;
    bool begun = !call_code(c);
    if (begun && signal_list_len(g->list) == 0) {
        (void)refuse_reason(&g->first, REASON_UNKNOWN_SIGNAL, g->withdrawn);
        (void)snprintf(g->first.field, sizeof g->first.field, "signal");
    }
    // Without a message, those that had ended before keep nothing from being withdrawn.
    bool fine = !g->message && g->done && g->first.code == SLUICE_CONFLICT;
    if (begun && !fine && g->first.code) *call_error(c) = g->first;
    give(g, &g->withdraw.signal, begun);
}

static enum sluice_code check_signal(struct change *ch, struct sluice_error *error)
{
    struct signal_change *g = (struct signal_change *)ch;
    struct request_id request = g->op.request;
    enum sluice_code code = signal_check(g->what, &g->op, error);
    g->op.request = request;
    return code;
}

static enum sluice_code check_withdraw(struct change *ch, struct sluice_error *error)
{
    struct signal_change *g = (struct signal_change *)ch;
    return signal_id_parse(g->withdrawn, &g->withdraw.signal, error);
}

static void release(struct change *ch)
{
    struct signal_change *g = (struct signal_change *)ch;
    by_shard_done(&g->split);
    memory_free(g->concerned);
    memory_free(g->rows);
    memory_free(g->by_id);
}

static struct signal_change *signalling_new(const struct sluice_request *request, size_t len,
                                            struct sluice_signals **out)
{
    struct signal_change *g = NEW(struct signal_change);
    g->change = (struct change){.begin = begin, .take = take, .release = release, .owned = true};
    g->rows = memory_zeroed(len + 1, sizeof *g->rows);
    g->by_id = memory_zeroed(len + 1, sizeof *g->by_id);
    g->list = signal_list_new();
    g->out = out;
    if (out) *out = NULL;
    g->whole = request_or_new(request);
    if (!request_id_set(&g->whole)) // all 0 means none
        entropy_fill(g->whole.bytes, sizeof g->whole.bytes);
    return g;
}

enum sluice_code start_signal(const struct request_origin *as, const char *queue,
                              const struct sluice_signal *what,
                              const struct sluice_request *request, struct sluice_signals **out,
                              struct sluice_error *error)
{
    struct signal_change *g = signalling_new(request, what->ids_len, out);
    g->change.kind = OP_SIGNAL;
    g->change.check = check_signal;
    g->change.encode = encode_signal;
    g->change.end = end_signal;
    g->what = what;
    g->ids = what->ids_len > 0 ? what->ids : NULL;
    g->op.request = g->whole;
    return change_queue(as, queue, &g->change, error);
}

enum sluice_code start_signal_withdraw(const struct request_origin *as, const char *queue,
                                       const char *signal, const char *message,
                                       struct sluice_signals **out, struct sluice_error *error)
{
    struct signal_change *g = signalling_new(as->request, 1, out);
    g->change.kind = OP_SIGNAL_WITHDRAW;
    g->change.check = check_withdraw;
    g->change.encode = encode_withdraw;
    g->change.end = end_withdraw;
    g->withdrawn = signal;
    g->message = message;
    return change_queue(as, queue, &g->change, error);
}
