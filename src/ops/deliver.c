// SPDX-License-Identifier: Apache-2.0
// The messages that do not fit are released before bodies are read, because reading may take longer
// than a lock.
#include "ops/deliver.h"

#include "base/memory.h"
#include "ops/settle.h"
#include "ops/signal_rows.h"

static void keep_valid_locks(void *ctx, const struct machine *m, int64_t now)
{
    struct kept_reply *a = ctx;
    size_t good = 0;
    (void)now;
    for (size_t i = 0; i < a->deliveries_len; i++) {
        const struct grant *g = &a->deliveries[i].grant;
        struct lock_ref ref = {.seq = g->seq, .token = g->token};
        enum reason reason = machine_lock(m, &ref);
        if (reason != REASON_NONE && reason != REASON_LOCK_EXPIRED) continue;
        a->deliveries[good++] = a->deliveries[i];
    }
    a->deliveries_len = good;
}

void deliver_drop_stale(struct shard_runner *r, struct kept_reply *a)
{
    if (a->deliveries_len > 0) runner_inspect(r, keep_valid_locks, a);
}

// The op for a message that is not delivered; 0: none.
static uint16_t op_for(enum err err)
{
    if (err == ERR_OK || err == ERR_NOT_FOUND) return 0;
    return err == ERR_CORRUPT ? OP_FAIL : OP_RELEASE;
}

static void settle_undelivered(const struct delivery_target *h, uint16_t kind,
                               const struct delivery *rows, const enum err *errs, size_t len)
{
    CLEANUP(memory_let_go) struct lock_name *locks = memory_zeroed(len, sizeof *locks);
    size_t count = 0;
    for (size_t i = 0; i < len; i++) {
        const struct grant *g = &rows[i].grant;
        if (op_for(errs[i]) != kind) continue;
        locks[count++] =
            (struct lock_name){.shard = h->shard, .ref = {.seq = g->seq, .token = g->token}};
    }
    settle_locks(h->queue, kind, kind == OP_FAIL ? "its body is missing or damaged" : "", locks,
                 count);
}

// Ends the locks of the messages that are not delivered. A message whose body is lost is failed.
// Otherwise it would be delivered again and again without success.
static void end_locks(const struct delivery_target *h, const struct delivery *rows,
                      const enum err *errs, size_t len)
{
    settle_undelivered(h, OP_FAIL, rows, errs, len);
    settle_undelivered(h, OP_RELEASE, rows, errs, len);
}

static enum sluice_code refuse_body(const struct delivery_target *h, uint64_t seq, enum err err,
                                    struct sluice_error *error)
{
    char id[SLUICE_ID_MAX];
    if (err == ERR_NOT_FOUND) return SLUICE_OK; // another worker has finished it
    if (err == ERR_LIMIT) return refuse_budget(error);
    id_print(queue_ref(h->queue), h->shard, seq, id);
    return refuse(error, err, "body", "message %s: its body %s", id,
                  err == ERR_CORRUPT ? "is missing or damaged" : "could not be read");
}

// No message is delivered: the first error is the answer. If the caller can repeat its request id,
// it gets the same locks again. Then they stay, and the answer is UNKNOWN.
static enum sluice_code refuse_all(const struct delivery_target *h, const struct delivery *rows,
                                   const enum err *errs, size_t len, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    for (size_t i = 0; !code && i < len; i++)
        code = refuse_body(h, rows[i].grant.seq, errs[i], error);
    bool again = h->named && code && code != SLUICE_CORRUPT;
    if (!again) end_locks(h, rows, errs, len);
    if (again && error) error->code = SLUICE_UNKNOWN;
    return again ? SLUICE_UNKNOWN : code;
}

// Computes the leases again, because reading the bodies and the commits took time.
static void count_leases(struct sluice_batch *b, struct shard_runner *r)
{
    int64_t now = runner_time(r).hi;
    for (size_t i = 0; i < b->len; i++) {
        struct sluice_message *m = &b->messages[i];
        m->lease_ms = time_surely_left(m->deadline - now);
    }
}

// Delivers the messages that fit; there is at least one.
static enum sluice_code deliver_some(const struct delivery_target *h, const struct kept_reply *a,
                                     size_t len, enum err *errs, struct sluice_batch **out,
                                     struct sluice_error *error)
{
    const struct delivery *rows = a->deliveries;
    enum sluice_code code = SLUICE_OK;
    struct batch_builder *b = batch_new(len);
    bodies_add(b, h->queue, h->shard, h->runner, rows, NULL, len, errs);
    struct sluice_batch *batch = batch_take(b);
    if (batch->len > 0) {
        end_locks(h, rows, errs, len);
        count_leases(batch, h->runner);
        batch_add_signals(batch, h->queue, h->shard, a);
        *out = batch;
    } else {
        code = refuse_all(h, rows, errs, len, error);
        sluice_batch_free(batch);
    }
    return code;
}

enum sluice_code deliver_batch(const struct delivery_target *h, const struct kept_reply *a,
                               struct sluice_batch **out, struct sluice_error *error)
{
    enum sluice_code code;
    const struct delivery *rows = a->deliveries;
    size_t all = a->deliveries_len, len = batch_reserve(h->queue, rows, all, h->budget, true);
    CLEANUP(memory_let_go) enum err *errs = memory_zeroed(all, sizeof *errs);
    for (size_t i = len; i < all; i++)
        errs[i] = ERR_LIMIT; // released for the next receive
    if (len == 0) {
        code = refuse_all(h, rows, errs, all, error);
    } else {
        end_locks(h, rows + len, errs + len, all - len);
        code = deliver_some(h, a, len, errs, out, error);
    }
    return code;
}
