// SPDX-License-Identifier: Apache-2.0
#include "ops/worker_change.h"
#include "base/text.h"
#include "ops/ops.h"

#include "base/check.h"
#include "base/duration.h"
#include "base/memory.h"
#include "ops/change.h"
#include "ops/look.h"
#include "ops/mailbox_session.h"
#include "queue/codec/labels.h"

#include <string.h>

#define ROWS_BYTES_MAX ((size_t)512 << 10) // of the rows in one op

struct workers_call {
    struct change change; // first
    const struct worker_order *orders;
    enum reason *reasons;
    enum reason *own; // the memory of them, if the caller has none
    size_t len;
    size_t from, count; // of the op under way
    uint32_t shards;
};

// The shares of all shards add up to the capacity, but each has at least one.
static uint32_t share_of(uint32_t capacity, uint32_t shard, uint32_t shards)
{
    uint32_t share = capacity / shards + (shard < capacity % shards);
    return share > 0 ? share : 1;
}

static void put_row(const struct workers_call *w, const struct worker_order *o, struct buf *rows)
{
    bool joins = o->act == WORKER_JOIN;
    uint32_t shard = w->change.shard;
    struct worker_change row = {.act = o->act,
                                .name = bytes_str(o->name),
                                .instance = o->instance,
                                .capacity = joins ? share_of(o->capacity, shard, w->shards) : 0,
                                .ttl_ms = joins ? o->ttl_ms : 0,
                                .flags = joins ? o->flags : 0,
                                .labels = joins && o->labels ? bytes_str(o->labels) : BYTES_EMPTY};
    worker_change_put(rows, &row);
}

static void encode(const struct change *ch, const struct request_id *request, struct buf *out)
{
    struct workers_call *w = (struct workers_call *)(uintptr_t)ch;
    LOCAL(buf, rows, JOURNAL_OP_MAX);
    w->count = 0;
    while (w->from + w->count < w->len && w->count < WORKER_ROWS_MAX && rows.len < ROWS_BYTES_MAX)
        put_row(w, &w->orders[w->from + w->count++], &rows);
    CHECK(!rows.bad && w->count > 0);
    struct op_workers op = {
        .request = *request, .count = (uint32_t)w->count, .rows = buf_bytes(&rows)};
    workers_encode(out, &op);
}

// Another process has the name. All joins begin with shard 0, so one process gets all shards.
static bool is_taken(const struct workers_call *w)
{
    for (size_t i = 0; i < w->len; i++)
        if (w->orders[i].act == WORKER_JOIN && w->reasons[i] == REASON_WORKER_NAME_TAKEN)
            return true;
    return false;
}

// The next part of the rows, or the next shard. A row that the fold refuses concerns no other row.
static enum sluice_code take(struct change *ch, const struct result *result, enum sluice_code code)
{
    struct workers_call *w = (struct workers_call *)ch;
    struct result r = result ? *result : (struct result){.reason = REASON_NONE};
    enum reason reason;
    if (r.count == w->count) code = SLUICE_OK;
    for (size_t i = 0; !code && i < w->count && worker_reason_next(&r, &reason); i++)
        if (w->reasons[w->from + i] == REASON_NONE) w->reasons[w->from + i] = reason;
    w->from += w->count;
    if (w->from < w->len) return code;
    w->from = 0;
    ch->shard = is_taken(w) ? w->shards : ch->shard + 1;
    return code;
}

static void release(struct change *ch)
{
    memory_free(((struct workers_call *)ch)->own);
}

static enum call_built begin(struct change *ch, struct local_call *c, bool may_block)
{
    struct workers_call *w = (struct workers_call *)ch;
    w->shards = c->queue->row.birth.shards;
    (void)may_block;
    return w->len == 0 ? CALL_ENDED : CALL_BUILT;
}

static struct workers_call *workers_new(const struct worker_order *orders, size_t len,
                                        enum reason *reasons)
{
    struct workers_call *w = NEW(struct workers_call);
    w->change = (struct change){.kind = OP_WORKERS,
                                .whole = true,
                                .begin = begin,
                                .encode = encode,
                                .take = take,
                                .release = release,
                                .owned = true};
    w->orders = orders;
    w->len = len;
    w->own = reasons ? NULL : memory_zeroed(len + 1, sizeof *w->own);
    w->reasons = reasons ? reasons : w->own;
    for (size_t i = 0; i < len; i++)
        w->reasons[i] = REASON_NONE;
    return w;
}

enum sluice_code workers_change(struct engine *e, const char *queue,
                                const struct worker_order *orders, size_t len, enum reason *reasons,
                                struct sluice_error *error)
{
    struct workers_call *w = workers_new(orders, len, reasons);
    return change_queue(&(struct request_origin){.engine = e}, queue, &w->change, error);
}

enum sluice_code refuse_worker(struct sluice_error *error, enum reason reason, const char *queue,
                               const char *worker)
{
    if (reason == REASON_NONE) return SLUICE_OK;
    enum sluice_code code =
        refuse(error, reason_err(reason), "worker", "queue %s, worker %.128s: %s", queue, worker,
               reason_text(reason));
    if (error) (void)text_copy(error->reason, sizeof error->reason, reason_name(reason));
    return code;
}

static void end_order(struct change *ch, struct local_call *c)
{
    const struct workers_call *w = (const struct workers_call *)ch;
    if (!call_code(c))
        (void)refuse_worker(call_error(c), w->reasons[0], c->name, w->orders[0].name);
}

enum sluice_code worker_order_start(const struct request_origin *as, const char *queue,
                                    const struct worker_order *o, struct sluice_error *error)
{
    struct workers_call *w = workers_new(o, 1, NULL);
    w->change.end = end_order;
    return change_queue(as, queue, &w->change, error);
}

// A mailbox registers its worker and is its heartbeat. Returns false for any other worker.
static bool change_by_mailbox(struct engine *e, const char *queue, const struct worker_order *o,
                              struct sluice_error *error, enum sluice_code *code)
{
    bool has = o->instance != 0 && mailbox_session_exists(e, queue, o->name);
    *code = SLUICE_OK;
    if (o->act == WORKER_BEAT) return has;
    if (o->act == WORKER_LEAVE && has) mailbox_leave(e, queue, o->name);
    if (o->act != WORKER_JOIN) return has && o->act == WORKER_LEAVE;
    if (!has && !mailbox_wanted(e, queue, o->flags & WORKER_MAILBOX)) return false;
    struct mailbox_join join = {.worker = o->name,
                                .instance = o->instance,
                                .capacity = o->capacity,
                                .ttl_ms = o->ttl_ms,
                                .labels = o->labels};
    *code = mailbox_join(e, queue, &join, error);
    return true;
}

// The other processes that have the name: mostly one. After two joins at the same moment, shards
// may differ.
#define HOLDERS_MAX 4

struct holder {
    uint64_t instance;
    int64_t age_ms;  // since the last sign of life in a journal
    int64_t left_ms; // of its row
    int64_t ttl_ms;
};

struct holders_read {
    struct look look; // first
    const struct worker_order *join;
    struct holder rows[HOLDERS_MAX];
    size_t len;
};

static void find_holder(void *ctx, const struct machine *m, int64_t now)
{
    struct holders_read *h = ctx;
    struct worker_view w;
    size_t i = 0;
    if (!machine_worker_find(m, bytes_str(h->join->name), &w) || w.instance == 0) return;
    if (w.instance == h->join->instance || w.expires_at <= now) return;
    while (i < h->len && h->rows[i].instance != w.instance)
        i++;
    if (i == HOLDERS_MAX) return;
    struct holder *row = &h->rows[i];
    bool first = i == h->len;
    if (first) *row = (struct holder){.instance = w.instance, .age_ms = now - w.last_seen};
    if (first) h->len++;
    row->ttl_ms = w.ttl_ms;
    if (now - w.last_seen < row->age_ms) row->age_ms = now - w.last_seen;
    if (w.expires_at - now > row->left_ms) row->left_ms = w.expires_at - now;
}

static bool is_silent(const struct worker_order *join, const struct holder *h)
{
    int64_t ago_ms = 0;
    bool gone = false;
    bool signed_lately = join->last_sign && join->last_sign(join->last_sign_ctx, join->name,
                                                            h->instance, &ago_ms, &gone);
    if (!signed_lately) return h->age_ms >= h->ttl_ms / 2;
    int64_t silent = ago_ms < h->age_ms ? ago_ms : h->age_ms;
    // The disconnect is later than any sign of life that a node wrote for the process.
    return gone ? ago_ms >= WORKER_GONE_MS : silent >= WORKER_SILENT_MS;
}

static enum sluice_code refuse_taken(struct sluice_error *error, const char *queue,
                                     const char *worker, int64_t left_ms)
{
    char left[DURATION_TEXT_MAX];
    enum sluice_code code =
        refuse(error, ERR_CONFLICT, "worker",
               "queue %s, worker %.128s: %s; its row ends in %s, unless it gives another sign of "
               "life",
               queue, worker, reason_text(REASON_WORKER_NAME_TAKEN),
               duration_exact((left_ms / 1000 + 1) * 1000, left));
    if (error)
        (void)text_copy(error->reason, sizeof error->reason, reason_name(REASON_WORKER_NAME_TAKEN));
    return code;
}

// Another process has the name. If it is silent, its row ends and this one joins, in one op of each
// shard. The locks of the silent process stay until their deadlines.
static enum sluice_code take_over(struct engine *e, const char *queue,
                                  const struct worker_order *join, struct sluice_error *error)
{
    struct holders_read h = {.look = {.inspect = find_holder}, .join = join};
    struct worker_order orders[HOLDERS_MAX + 1];
    enum reason reasons[HOLDERS_MAX + 1];
    int64_t left_ms = 0;
    bool silent = true;
    enum sluice_code code =
        look_at_queue(&(struct request_origin){.engine = e}, queue, &h.look, error);
    if (code) return code;
    for (size_t i = 0; i < h.len; i++) {
        if (h.rows[i].left_ms > left_ms) left_ms = h.rows[i].left_ms;
        silent = silent && is_silent(join, &h.rows[i]);
        orders[i] = (struct worker_order){
            .act = WORKER_LEAVE, .name = join->name, .instance = h.rows[i].instance};
    }
    if (!silent) return refuse_taken(error, queue, join->name, left_ms);
    orders[h.len] = *join;
    code = workers_change(e, queue, orders, h.len + 1, reasons, error);
    return code ? code : refuse_worker(error, reasons[h.len], queue, join->name);
}

enum sluice_code ops_worker_change(struct engine *e, const char *queue,
                                   const struct worker_order *o, struct sluice_error *error)
{
    struct labels labels;
    struct worker_order order = *o;
    enum reason reason = REASON_NONE;
    enum sluice_code code = worker_order_check(o, &labels, error);
    order.labels = labels.text;
    if (!code && change_by_mailbox(e, queue, &order, error, &code)) return code;
    order.flags &= ~(uint32_t)WORKER_MAILBOX; // it writes directly
    if (!code) code = workers_change(e, queue, &order, 1, &reason, error);
    if (code) return code;
    if (reason == REASON_WORKER_NAME_TAKEN) return take_over(e, queue, &order, error);
    return refuse_worker(error, reason, queue, o->name);
}

struct live_read {
    struct look look; // first
    const char *name;
    uint64_t instance;
    uint32_t shards, found;
};

static void find_row(void *ctx, const struct machine *m, int64_t now)
{
    struct live_read *l = ctx;
    struct worker_view w;
    bool found = machine_worker_find(m, bytes_str(l->name), &w);
    l->shards++;
    l->found += found && w.instance == l->instance && w.expires_at > now;
}

// Without a request to the store. False: not all shards are owned here.
static bool read_owned(struct open_queue *q, struct live_read *l)
{
    for (uint32_t i = 0; i < q->row.birth.shards; i++) {
        struct shard_runner *r = runner_if_open(q, i);
        struct runner_owner o = {.mine = false};
        if (r) runner_owner(r, &o);
        if (!o.mine) return false;
        runner_inspect(r, find_row, l);
    }
    return true;
}

bool worker_is_live(struct engine *e, const char *queue, const char *name, uint64_t instance,
                    enum sluice_code *code, struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    struct live_read l = {.name = name, .instance = instance};
    *code = queue_get(e, queue, &q, error);
    if (*code) return false;
    if (!read_owned(q, &l)) {
        l = (struct live_read){.look = {.inspect = find_row}, .name = name, .instance = instance};
        *code = look_at_open_queue(q, &l.look, error);
    }
    return !*code && l.found > 0 && l.found == l.shards;
}
