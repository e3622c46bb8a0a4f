// SPDX-License-Identifier: Apache-2.0
// Redrives chosen messages. Those that are dead in this queue are redriven by one op for each
// shard. A dead letter of another queue waits here like any message (redrive_letters.h).
#include "base/memory.h"
#include "ops/change.h"
#include "ops/look.h"
#include "ops/named_ids.h"
#include "ops/ops.h"
#include "ops/redrive_letters.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT_ONCE 10000 // messages of one op

enum chosen_state {
    CHOSEN_REFUSED,
    CHOSEN_DEAD,  // in this queue
    CHOSEN_READY, // perhaps a dead letter of another queue
    CHOSEN_DOUBT, // another process redrove or purged some of them at the same time
    CHOSEN_DONE,
};

struct chosen_letter {
    const char *id;
    uint32_t shard;
    uint64_t seq;
    enum chosen_state state;
};

struct choice {
    struct look look; // first: finds the states
    struct change change;
    struct open_queue *queue;
    const char *const *ids;
    struct chosen_letter *rows;
    size_t len;
    size_t from; // rows before it are done, in the op under way
    uint32_t count;
    struct sluice_outcome *outcomes;
    struct sluice_error *error; // of the first refusal
    enum sluice_code code;
};

static void refuse_one(struct choice *c, size_t i, enum sluice_code code,
                       const struct sluice_error *why)
{
    c->rows[i].state = CHOSEN_REFUSED;
    c->outcomes[i] = (struct sluice_outcome){.code = code, .status = ""};
    (void)snprintf(c->outcomes[i].reason, sizeof c->outcomes[i].reason, "%s", why->reason);
    if (!c->code && c->error) *c->error = *why;
    if (!c->code) c->code = code;
}

__attribute__((format(printf, 4, 5))) static void
refuse_because(struct choice *c, size_t i, enum reason reason, const char *format, ...)
{
    struct sluice_error why;
    va_list words;
    (void)refuse_reason(&why, reason, c->rows[i].id);
    (void)snprintf(why.field, sizeof why.field, "id");
    va_start(words, format);
    (void)vsnprintf(why.message, sizeof why.message, format, words);
    va_end(words);
    refuse_one(c, i, why.code, &why);
}

static void finish_one(struct choice *c, size_t i)
{
    c->rows[i].state = CHOSEN_DONE;
    c->outcomes[i] = (struct sluice_outcome){.code = SLUICE_OK, .status = "redriven"};
}

static bool was_redriven(const struct machine *m, uint64_t seq, int64_t now)
{
    struct finished_view end;
    return machine_finished(m, seq, now, &end) && end.outcome == FINISHED_REDRIVEN;
}

static void see_one(struct choice *c, const struct machine *m, int64_t now, size_t i)
{
    struct chosen_letter *row = &c->rows[i];
    struct message_view view = {.state = STATE_PROCESSED};
    enum err err = machine_find(m, row->seq, now, &view);
    if (row->state == CHOSEN_DOUBT && err && was_redriven(m, row->seq, now)) {
        finish_one(c, i);
        return;
    }
    if (err == ERR_NOT_FOUND)
        refuse_because(c, i, REASON_UNKNOWN_MESSAGE, "queue %s has no message %s",
                       c->queue->row.name, row->id);
    else if (!err && view.state == STATE_DEAD)
        row->state = CHOSEN_DEAD;
    else if (!err && view.state == STATE_READY)
        row->state = CHOSEN_READY;
    else
        refuse_because(c, i, REASON_NOT_DEAD,
                       "message %s is %s; only a dead message can be redriven", row->id,
                       err ? "finished" : message_state_name(view.state));
}

static void see_shard(void *ctx, const struct machine *m, int64_t now)
{
    struct choice *c = ctx;
    for (size_t i = 0; i < c->len; i++)
        if (c->rows[i].shard == c->look.at && !c->outcomes[i].status) see_one(c, m, now, i);
}

static enum sluice_code look_shard(struct look *l, struct sluice_error *error)
{
    (void)error;
    runner_inspect(l->runner, see_shard, l);
    return SLUICE_OK;
}

static struct choice *choice_of(const struct change *ch)
{
    return (struct choice *)((char *)(uintptr_t)ch - offsetof(struct choice, change));
}

// Adds the rows of the shard to the next op.
static void encode(const struct change *ch, const struct request_id *request, struct buf *out)
{
    struct choice *c = choice_of(ch);
    LOCAL(buf, seqs, SIZE_MAX);
    c->count = 0;
    for (size_t i = c->from; i < c->len && c->count < AT_ONCE; i++) {
        if (c->rows[i].shard != ch->shard || c->rows[i].state != CHOSEN_DEAD) continue;
        buf_put_u64(&seqs, c->rows[i].seq);
        c->count++;
    }
    redrive_encode(out, &(struct op_redrive){
                            .request = *request, .count = c->count, .seqs = buf_bytes(&seqs)});
}

static enum sluice_code take(struct change *ch, const struct result *result, enum sluice_code code)
{
    struct choice *c = choice_of(ch);
    bool all = result && result->reason == REASON_NONE && result->count == c->count;
    if (!result || (result->reason != REASON_NONE && result->reason != REASON_NOT_DEAD))
        return code;
    for (uint32_t seen = 0; c->from < c->len && seen < c->count; c->from++) {
        struct chosen_letter *row = &c->rows[c->from];
        if (row->shard != ch->shard || row->state != CHOSEN_DEAD) continue;
        seen++;
        row->state = CHOSEN_DOUBT;
        if (all) finish_one(c, c->from);
    }
    for (bool more = false; !more && ch->shard < c->queue->row.birth.shards;) {
        for (size_t i = c->from; !more && i < c->len; i++)
            more = c->rows[i].shard == ch->shard && c->rows[i].state == CHOSEN_DEAD;
        if (!more) {
            ch->shard++;
            c->from = 0;
        }
    }
    return SLUICE_OK;
}

static bool is_left(const struct choice *c, enum chosen_state state, uint32_t *shard)
{
    bool any = false;
    for (size_t i = 0; i < c->len; i++) {
        if (c->rows[i].state != state) continue;
        if (shard && (!any || c->rows[i].shard < *shard)) *shard = c->rows[i].shard;
        any = true;
    }
    return any;
}

static enum sluice_code redrive_dead(struct choice *c, struct sluice_error *error)
{
    c->change = (struct change){.kind = OP_REDRIVE, .encode = encode, .take = take};
    if (!is_left(c, CHOSEN_DEAD, &c->change.shard)) return SLUICE_OK;
    enum sluice_code code = change_open_queue(c->queue, &c->change, error);
    if (code || !is_left(c, CHOSEN_DOUBT, NULL)) return code;
    return look_at_open_queue(c->queue, &c->look, error);
}

// The ready rows of the shard with the lowest numbers, in order. A strict queue delivers in this
// order.
static size_t next_ready(const struct choice *c, uint32_t shard, size_t out[LETTERS_AT_ONCE],
                         uint64_t seqs[LETTERS_AT_ONCE])
{
    size_t len = 0;
    for (size_t i = 0; i < c->len; i++) {
        const struct chosen_letter *row = &c->rows[i];
        if (row->state != CHOSEN_READY || row->shard != shard) continue;
        size_t at = len;
        for (; at > 0 && seqs[at - 1] > row->seq; at--) {
            if (at == LETTERS_AT_ONCE) continue;
            seqs[at] = seqs[at - 1];
            out[at] = out[at - 1];
        }
        if (at == LETTERS_AT_ONCE) continue;
        seqs[at] = row->seq;
        out[at] = i;
        if (len < LETTERS_AT_ONCE) len++;
    }
    return len;
}

// again: an earlier message of its group may have been in the way and is gone.
static void take_letter(struct choice *c, size_t i, const struct letter_page *p, size_t at,
                        bool again)
{
    if (p->why[at].code)
        refuse_one(c, i, p->why[at].code, &p->why[at]);
    else if (p->sent[at])
        finish_one(c, i);
    else if (!is_letter(&p->batch->messages[at]))
        refuse_because(c, i, REASON_NOT_DEAD,
                       "message %s is ready; only a dead message can be redriven", c->rows[i].id);
    else if (!again)
        refuse_because(c, i, REASON_NOT_DEAD,
                       "message %s could not be locked: a worker or another redrive has it, or it "
                       "waits for another message of its group",
                       c->rows[i].id);
}

// Redrives up to LETTERS_AT_ONCE rows. Each call sends one at least, or refuses them all.
static enum sluice_code redrive_some(struct choice *c, uint32_t shard,
                                     const struct redrive_target *where, const size_t *rows,
                                     const uint64_t *seqs, size_t len, struct sluice_error *error)
{
    CLEANUP(page_done) struct letter_page p;
    enum sluice_code code = page_read(&p, c->queue, shard, seqs, len, error);
    if (!code) code = page_redrive(&p, where, error);
    bool any = false;
    for (size_t at = 0; !code && at < p.batch->len; at++)
        any |= p.sent[at];
    for (size_t i = 0; !code && i < len; i++) {
        size_t at = 0;
        while (at < p.batch->len && p.seqs[at] != seqs[i])
            at++;
        if (at < p.batch->len)
            take_letter(c, rows[i], &p, at, any);
        else if (!p.cut)
            refuse_because(c, rows[i], REASON_NOT_DEAD,
                           "message %s is no longer ready: a worker or another redrive has it",
                           c->rows[rows[i]].id);
    }
    return code;
}

static enum sluice_code redrive_letters(struct choice *c, const struct redrive_target *where,
                                        struct sluice_error *error)
{
    uint32_t shard = 0;
    while (is_left(c, CHOSEN_READY, &shard)) {
        size_t rows[LETTERS_AT_ONCE];
        uint64_t seqs[LETTERS_AT_ONCE];
        size_t len = next_ready(c, shard, rows, seqs);
        enum sluice_code code = redrive_some(c, shard, where, rows, seqs, len, error);
        if (code) return code;
    }
    return SLUICE_OK;
}

static void parse_ids(struct choice *c)
{
    CLEANUP(memory_let_go) struct named_id *named = memory_zeroed(c->len + 1, sizeof *named);
    struct sluice_error first;
    bool foreign;
    named_ids_parse(c->queue, c->ids, c->len, named, &first, &foreign);
    c->code = first.code;
    if (first.code && c->error) *c->error = first;
    for (size_t i = 0; i < c->len; i++) {
        c->rows[i] =
            (struct chosen_letter){.id = c->ids[i], .shard = named[i].shard, .seq = named[i].seq};
        struct sluice_error why = {.code = named[i].code};
        (void)snprintf(why.reason, sizeof why.reason, "%s", named[i].reason);
        if (why.code) refuse_one(c, i, why.code, &why);
    }
}

// The rows that the call did not reach have its error.
static void fill_rest(struct choice *c, enum sluice_code code)
{
    for (size_t i = 0; i < c->len; i++)
        if (!c->outcomes[i].status)
            c->outcomes[i] = (struct sluice_outcome){.code = code, .status = ""};
}

enum sluice_code redrive_chosen(struct engine *e, const char *queue,
                                const struct redrive_target *where, const char *const *ids,
                                size_t len, struct sluice_outcome *outcomes,
                                struct sluice_error *error)
{
    struct choice c = {.look = {.shard = look_shard},
                       .ids = ids,
                       .rows = memory_zeroed(len + 1, sizeof *c.rows),
                       .len = len,
                       .outcomes = outcomes ? outcomes : memory_zeroed(len + 1, sizeof *outcomes),
                       .error = error};
    memset(c.outcomes, 0, len * sizeof *c.outcomes);
    enum sluice_code code = redrive_open(e, queue, where, &c.queue, error);
    if (!code) parse_ids(&c);
    if (!code) code = look_at_open_queue(c.queue, &c.look, error);
    if (!code) code = redrive_dead(&c, error);
    if (!code) code = redrive_letters(&c, where, error);
    fill_rest(&c, code);
    if (c.queue) queue_let_go(&c.queue);
    memory_free(c.rows);
    if (!outcomes) memory_free(c.outcomes);
    return code ? code : c.code;
}

enum sluice_code ops_redrive_messages(struct engine *e, const char *queue, const char *to,
                                      const char *const *ids, size_t len,
                                      struct sluice_outcome *outcomes, struct sluice_error *error)
{
    return redrive_chosen(e, queue, &(struct redrive_target){.to = to}, ids, len, outcomes, error);
}
