// SPDX-License-Identifier: Apache-2.0
// Redrives dead messages. A message that died in its own queue is redriven by an op of that queue.
// A dead letter is sent to another queue, then acked here (redrive_letters.h).
#include "ops/redrive.h"
#include "ops/ops.h"

#include "base/memory.h"
#include "ops/change.h"
#include "ops/redrive_letters.h"

#include <stdio.h>
#include <string.h>

#define AT_ONCE      10000 // messages of one redrive op
#define LIST_AT_ONCE 4096  // numbers of ready messages

struct redrive {
    struct change change; // first
    uint32_t max;         // 0: all
    uint64_t done;
};

// How many messages the next op redrives at most.
static uint32_t redrive_part(const struct redrive *r)
{
    uint64_t left = r->max == 0 ? AT_ONCE : r->max - r->done;
    return left < AT_ONCE ? (uint32_t)left : AT_ONCE;
}

static void encode_redrive(const struct change *ch, const struct request_id *request,
                           struct buf *out)
{
    uint32_t max = redrive_part((const struct redrive *)ch);
    redrive_encode(out, &(struct op_redrive){.request = *request, .max = max});
}

// A full op is followed by another one on the same shard.
static enum sluice_code take_redriven(struct change *ch, const struct result *result,
                                      enum sluice_code code)
{
    struct redrive *r = (struct redrive *)ch;
    uint32_t count = result && result->reason == REASON_NONE ? result->count : 0;
    r->done += count;
    if (count < AT_ONCE) ch->shard++;
    if (r->max > 0 && r->done == r->max) ch->shard = UINT32_MAX;
    return result && result->reason == REASON_NOT_DEAD ? SLUICE_OK : code;
}

static enum sluice_code redrive_in_place(struct open_queue *q, uint32_t max, uint64_t *done,
                                         struct sluice_error *error)
{
    struct redrive r = {
        .change = {.kind = OP_REDRIVE, .encode = encode_redrive, .take = take_redriven},
        .max = max,
        .done = *done};
    if (max > 0 && *done >= max) return SLUICE_OK;
    enum sluice_code code = change_open_queue(q, &r.change, error);
    *done = r.done;
    return code;
}

enum sluice_code redrive_allowed(const struct redrive_target *where, const char *to,
                                 struct sluice_error *error)
{
    return where->may ? where->may(where->ctx, to, error) : SLUICE_OK;
}

enum sluice_code redrive_name_target(enum sluice_code code, struct sluice_error *error)
{
    if (code && error && strcmp(error->field, "queue") == 0)
        (void)snprintf(error->field, sizeof error->field, "to");
    return code;
}

enum sluice_code redrive_open(struct engine *e, const char *queue,
                              const struct redrive_target *where, struct open_queue **q,
                              struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *target = NULL;
    const char *to = where->to;
    enum sluice_code code = queue_get(e, queue, q, error);
    if (!code && to && strcmp(to, queue) == 0)
        code = refuse(error, ERR_INVALID, "to", "%s cannot be redriven into itself", queue);
    if (!code && to) code = redrive_allowed(where, to, error);
    if (!code && to) code = redrive_name_target(queue_get(e, to, &target, error), error);
    return code;
}

bool is_letter(const struct sluice_message *m)
{
    return *m->from.queue != 0;
}

// A redrive of all letters, or of the first `max` ones.
struct sweep {
    struct open_queue *queue;
    const struct redrive_target *where;
    uint32_t max; // 0: all
    uint64_t done;
    enum sluice_code code; // the first error ...
    struct sluice_error *error;
};

static void note_error(struct sweep *w, enum sluice_code code, const struct sluice_error *why)
{
    if (!code || w->code) return;
    w->code = code;
    if (w->error) *w->error = *why;
}

struct page_counts {
    size_t letters, sent, refused;
    bool cut;
};

static struct page_counts sweep_page(struct sweep *w, uint32_t shard, const uint64_t *seqs,
                                     size_t len)
{
    struct sluice_error why = {.code = SLUICE_OK};
    struct page_counts n = {0};
    CLEANUP(page_done) struct letter_page p;
    enum sluice_code code = page_read(&p, w->queue, shard, seqs, len, &why);
    for (size_t i = 0; !code && i < p.batch->len; i++) {
        if (p.wanted[i] && w->max > 0 && w->done + n.letters >= w->max) p.wanted[i] = false;
        n.letters += p.wanted[i];
    }
    if (!code) code = page_redrive(&p, w->where, &why);
    note_error(w, code, &why);
    if (code) return (struct page_counts){0};
    for (size_t i = 0; i < p.batch->len; i++) {
        n.sent += p.sent[i];
        n.refused += p.why[i].code != SLUICE_OK;
        note_error(w, p.why[i].code, &p.why[i]);
    }
    n.cut = p.cut;
    w->done += n.sent;
    return n;
}

// In a strict queue, a letter can be locked when the one before it in its group is gone. Returns
// whether the rest of the shard is worth a look. It is not if these messages are no letters, or if
// none of the letters could be sent.
static bool sweep_some(struct sweep *w, uint32_t shard, const uint64_t *seqs, size_t len)
{
    struct page_counts first = sweep_page(w, shard, seqs, len), n = first;
    while (n.sent > 0 && (n.cut || n.letters > n.sent + n.refused))
        n = sweep_page(w, shard, seqs, len);
    return first.letters > first.refused;
}

static bool is_enough(const struct sweep *w)
{
    return w->max > 0 && w->done >= w->max;
}

static void sweep_shard(struct sweep *w, uint32_t shard)
{
    CLEANUP(memory_let_go) uint64_t *seqs = memory_zeroed(LIST_AT_ONCE, sizeof *seqs);
    uint64_t after = 0;
    size_t len = LIST_AT_ONCE;
    for (bool more = true; more && len == LIST_AT_ONCE;) {
        struct sluice_error why = {.code = SLUICE_OK};
        enum sluice_code code =
            letters_list(w->queue, shard, after, seqs, LIST_AT_ONCE, &len, &why);
        note_error(w, code, &why);
        more = !code;
        for (size_t at = 0; more && at < len && !is_enough(w); at += LETTERS_AT_ONCE)
            more = sweep_some(w, shard, seqs + at,
                              len - at < LETTERS_AT_ONCE ? len - at : LETTERS_AT_ONCE);
        if (len > 0) after = seqs[len - 1];
        more = more && !is_enough(w);
    }
}

enum sluice_code redrive_where(struct engine *e, const char *queue,
                               const struct redrive_target *where, uint32_t max, uint64_t *redriven,
                               struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *q = NULL;
    enum sluice_code code = redrive_open(e, queue, where, &q, error);
    struct sweep w = {.queue = q, .where = where, .max = max, .error = error};
    // Letters first. A letter that also died in this queue is made ready by redrive_in_place, and
    // so it is counted once.
    for (uint32_t shard = 0; !code && shard < q->row.birth.shards; shard++)
        sweep_shard(&w, shard);
    if (!code) code = w.code;
    if (!code) code = redrive_in_place(q, max, &w.done, error);
    if (redriven) *redriven = w.done;
    return code;
}

enum sluice_code ops_redrive(struct engine *e, const char *queue, const char *to, uint32_t max,
                             uint64_t *redriven, struct sluice_error *error)
{
    return redrive_where(e, queue, &(struct redrive_target){.to = to}, max, redriven, error);
}
