// SPDX-License-Identifier: Apache-2.0
// Redrives chosen messages. Those that are dead in this queue are redriven by one op for each
// shard. A dead letter of another queue waits here like any message, and no op locks a message by
// its number. So the call receives until it has the chosen letters, and releases the others.
#include "base/memory.h"
#include "local/change.h"
#include "local/look.h"
#include "local/named_ids.h"
#include "local/redrive.h"
#include "os/clock.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define LETTERS_AT_ONCE 16    // few, because bodies may be large
#define LEASE_MS        60000 // of the locks
#define SEARCH_MS       30000 // the search for letters ends before the first lock expires
#define AT_ONCE         10000 // messages of one op

enum chosen_state {
    CHOSEN_REFUSED,
    CHOSEN_DEAD,  // in this queue
    CHOSEN_READY, // perhaps a dead letter of another queue
    CHOSEN_DOUBT, // another process redrove or purged some of them at the same time
    CHOSEN_DONE,
};

struct chosen {
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
    struct chosen *rows;
    size_t len;
    uint32_t at; // the shard that is looked at
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
    struct chosen *row = &c->rows[i];
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
        if (c->rows[i].shard == c->at && !c->outcomes[i].status) see_one(c, m, now, i);
}

static enum sluice_code look_shard(struct look *l, struct open_queue *q, uint32_t shard,
                                   struct shard_runner *d, bool *enough, struct sluice_error *error)
{
    struct choice *c = (struct choice *)l;
    (void)q;
    (void)enough;
    (void)error;
    c->at = shard;
    runner_inspect(d, see_shard, c);
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
    CLEANUP(buf_done) struct buf seqs;
    buf_init(&seqs, SIZE_MAX);
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
        struct chosen *row = &c->rows[c->from];
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

static struct chosen *find_ready(const struct choice *c, const char *id)
{
    for (size_t i = 0; i < c->len; i++)
        if (c->rows[i].state == CHOSEN_READY && strcmp(c->rows[i].id, id) == 0) return &c->rows[i];
    return NULL;
}

// The lock is kept for now unless the letter was sent.
static void take_letter(struct choice *c, struct sluice *s, const char *queue,
                        const struct redrive_where *where, const struct sluice_message *m,
                        struct leftovers *left)
{
    struct sluice_error why = {.code = SLUICE_OK};
    const struct chosen *row = find_ready(c, m->id);
    enum sluice_code code = SLUICE_INVALID;
    if (row && is_letter(m)) code = redrive_letter(s, queue, where, m, &why);
    if (code) leftovers_keep(left, m->token);
    if (!row) return;
    size_t i = (size_t)(row - c->rows);
    if (!is_letter(m))
        refuse_because(c, i, REASON_NOT_DEAD,
                       "message %s is ready; only a dead message can be redriven", m->id);
    else if (code)
        refuse_one(c, i, code, &why);
    else
        finish_one(c, i);
}

static enum sluice_code redrive_letters(struct choice *c, struct sluice *s, const char *queue,
                                        const struct redrive_where *where,
                                        struct sluice_error *error)
{
    struct leftovers left = {0};
    enum sluice_code code = SLUICE_OK;
    int64_t until = clock_boot_ms() + SEARCH_MS;
    for (bool more = true; !code && more && is_left(c, CHOSEN_READY, NULL);) {
        struct sluice_receive options = {
            .worker = "redrive", .visibility_ms = LEASE_MS, .max = LETTERS_AT_ONCE};
        struct sluice_batch *batch = NULL;
        code = sluice_receive(s, queue, &options, &batch, error);
        for (size_t i = 0; batch && i < batch->len; i++)
            take_letter(c, s, queue, where, &batch->messages[i], &left);
        more = batch && batch->len > 0 && clock_boot_ms() < until;
        sluice_batch_free(batch);
    }
    leftovers_release(s, queue, &left);
    for (size_t i = 0; !code && i < c->len; i++)
        if (c->rows[i].state == CHOSEN_READY)
            refuse_because(c, i, REASON_NOT_DEAD,
                           "message %s could not be locked: a worker has it, or the queue holds it "
                           "back",
                           c->rows[i].id);
    return code;
}

static void parse_ids(struct choice *c)
{
    struct named_id *named = memory_zeroed(c->len + 1, sizeof *named);
    struct sluice_error first;
    bool foreign;
    named_ids_parse(c->queue, c->ids, c->len, named, &first, &foreign);
    c->code = first.code;
    if (first.code && c->error) *c->error = first;
    for (size_t i = 0; i < c->len; i++) {
        c->rows[i] = (struct chosen){.id = c->ids[i], .shard = named[i].shard, .seq = named[i].seq};
        struct sluice_error why = {.code = named[i].code};
        (void)snprintf(why.reason, sizeof why.reason, "%s", named[i].reason);
        if (why.code) refuse_one(c, i, why.code, &why);
    }
    memory_free(named);
}

// The rows that the call did not reach have its error.
static void fill_rest(struct choice *c, enum sluice_code code)
{
    for (size_t i = 0; i < c->len; i++)
        if (!c->outcomes[i].status)
            c->outcomes[i] = (struct sluice_outcome){.code = code, .status = ""};
}

static enum sluice_code open_both(struct choice *c, struct sluice *s, const char *queue,
                                  const struct redrive_where *where, struct sluice_error *error)
{
    CLEANUP(queue_let_go) struct open_queue *target = NULL;
    enum sluice_code code = queue_get(s, queue, &c->queue, error);
    if (!code && where->to && strcmp(where->to, queue) == 0)
        code = refuse(error, ERR_INVALID, "to", "%s cannot be redriven into itself", queue);
    if (!code && where->to && where->may) code = where->may(where->ctx, where->to, error);
    if (!code && where->to) code = queue_get(s, where->to, &target, error);
    if (code && error && target == NULL && c->queue && strcmp(error->field, "queue") == 0)
        (void)snprintf(error->field, sizeof error->field, "to");
    return code;
}

enum sluice_code redrive_chosen(struct sluice *s, const char *queue,
                                const struct redrive_where *where, const char *const *ids,
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
    enum sluice_code code = open_both(&c, s, queue, where, error);
    if (!code) parse_ids(&c);
    if (!code) code = look_at_open_queue(c.queue, &c.look, error);
    if (!code) code = redrive_dead(&c, error);
    if (!code) code = redrive_letters(&c, s, queue, where, error);
    fill_rest(&c, code);
    if (c.queue) queue_let_go(&c.queue);
    memory_free(c.rows);
    if (!outcomes) memory_free(c.outcomes);
    return code ? code : c.code;
}

enum sluice_code direct_redrive_messages(struct sluice *s, const char *queue, const char *to,
                                         const char *const *ids, size_t len,
                                         struct sluice_outcome *outcomes,
                                         struct sluice_error *error)
{
    return redrive_chosen(s, queue, &(struct redrive_where){.to = to}, ids, len, outcomes, error);
}
