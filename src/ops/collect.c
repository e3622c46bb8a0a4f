// SPDX-License-Identifier: Apache-2.0
// One poll of a collect: waits in the shards of its messages until one of them has ended, or all,
// and reads the outcomes. It is a reader: it changes nothing, and needs no owner.
#include "ops/collect.h"
#include "base/text.h"
#include "ops/ops.h"

#include "base/check.h"
#include "base/memory.h"
#include "ops/async.h"
#include "ops/collect_answers.h"
#include "ops/listen.h"
#include "os/clock.h"

#include <assert.h>
#include <string.h>

#define PIECE 64 // messages whose texts are read at a time

struct collect_call {
    struct listen_call listen; // first
    struct collect_poll poll;  // the ids are borrowed, unless the call owns its arguments
    struct collected_list *out;
    size_t bytes;                 // of results so far
    struct request_id *questions; // owned; poll.signals_len
};
static_assert(sizeof(struct collect_call) <= CALL_BYTES_MAX, "malloc has it at hand");

static struct collect_call *collect_of(struct local_call *c)
{
    return (struct collect_call *)c;
}

static void add_unknown(struct collect_call *l, const char *id)
{
    if (l->out->len == COLLECT_ROWS_MAX) {
        l->out->more = true;
        return;
    }
    struct sluice_message *row = collected_add(l->out);
    (void)text_copy(row->id, sizeof row->id, id);
    row->state = "unknown";
}

// The messages of a poll: those whose ends it waits for, then those that were asked.
struct wanted_messages {
    struct wanted_row {
        uint32_t shard;
        uint32_t after; // of its ask
        uint64_t seq;   // 0: it is no id of this queue
    } * rows;
    size_t len;
};

static void make_parts(struct collect_call *l, const struct wanted_messages *w)
{
    uint32_t shards = l->listen.call.queue->row.birth.shards;
    CLEANUP(memory_let_go) size_t *counts = memory_zeroed(shards, sizeof *counts);
    for (size_t i = 0; i < w->len; i++)
        if (w->rows[i].seq > 0) counts[w->rows[i].shard]++;
    for (uint32_t shard = 0; shard < shards; shard++) {
        if (counts[shard] == 0) continue;
        struct listen_part *p = listen_add_part(&l->listen, shard, counts[shard]);
        p->what.messages = true;
        p->what.all = l->poll.all;
        p->what.questions = l->questions;
        p->what.questions_len = l->poll.signals_len;
        for (size_t i = 0; i < w->len; i++)
            if (w->rows[i].seq > 0 && w->rows[i].shard == shard)
                p->asks[p->what.len++] =
                    (struct listen_ask){.ref.seq = w->rows[i].seq, .after = w->rows[i].after};
    }
}

static struct wanted_row *wanted_add(struct wanted_messages *w, size_t len)
{
    w->rows = memory_resize(w->rows, (w->len + len) * sizeof *w->rows);
    struct wanted_row *rows = w->rows + w->len;
    memset(rows, 0, len * sizeof *rows);
    w->len += len;
    return rows;
}

// The messages that were asked. One of another queue was never asked: it is left out.
static void add_asked(struct collect_call *l, struct wanted_messages *w)
{
    const struct collect_poll *poll = &l->poll;
    if (poll->asked_len == 0) return;
    l->questions = memory_zeroed(poll->signals_len, sizeof *l->questions);
    for (size_t i = 0; i < poll->signals_len; i++)
        (void)signal_id_parse(poll->signals[i], &l->questions[i], NULL); // it was checked
    struct wanted_row *rows = wanted_add(w, poll->asked_len);
    for (size_t i = 0; i < poll->asked_len; i++) {
        struct wanted_row row = {.after = LISTEN_ANSWER};
        if (!id_parse(queue_ref(l->listen.call.queue), poll->asked[i], &row.shard, &row.seq, NULL))
            rows[i] = row;
    }
}

// An id of another queue, or of an earlier life of this one, is listed as unknown.
static bool parse_ids(struct collect_call *l, struct wanted_messages *w, bool may_block)
{
    struct local_call *c = &l->listen.call;
    struct wanted_row *ids = wanted_add(w, l->poll.len);
    size_t bad = 0;
    for (int round = 0; round < 2; round++) {
        bad = 0;
        for (size_t i = 0; i < l->poll.len; i++) {
            ids[i] = (struct wanted_row){0};
            bool good =
                !id_parse(queue_ref(c->queue), l->poll.ids[i], &ids[i].shard, &ids[i].seq, NULL);
            if (!good) ids[i].seq = 0;
            bad += ids[i].seq == 0;
        }
        // The open queue may be an old life of its name.
        if (bad < l->poll.len || !may_block || round == 1 || !call_open_again(c)) break;
    }
    bool blocks = bad == l->poll.len && !may_block;
    for (size_t i = 0; !blocks && i < l->poll.len; i++)
        if (ids[i].seq == 0) add_unknown(l, l->poll.ids[i]);
    return !blocks;
}

// The messages of a workflow, which is in one shard.
struct members {
    const char *workflow;
    uint64_t *seqs;
    size_t len;
    bool found;
};

static void read_members(void *ctx, const struct machine *m, int64_t now)
{
    struct members *w = ctx;
    struct workflow_view v;
    struct bytes id = bytes_str(w->workflow);
    size_t max = SLUICE_COLLECT_MAX + 1;
    w->found = machine_workflow(m, id, &v);
    if (!w->found) return;
    w->seqs = memory_new(2 * max * sizeof *w->seqs);
    w->len = machine_workflow_messages(m, id, w->seqs, max);
    w->len += machine_workflow_finished(m, id, now, w->seqs + w->len, max);
}

static void add_members(struct collect_call *l, uint32_t shard, const struct members *m,
                        struct wanted_messages *to)
{
    struct local_call *c = &l->listen.call;
    if (m->len > SLUICE_COLLECT_MAX) {
        (void)refuse(call_error(c), ERR_LIMIT, "workflow",
                     "workflow \"%.100s\" has more than %d messages; collect them by their ids",
                     m->workflow, SLUICE_COLLECT_MAX);
        return;
    }
    if (m->len == 0) return; // how its messages ended is not known any more
    struct wanted_row *rows = wanted_add(to, m->len);
    for (size_t i = 0; i < m->len; i++)
        rows[i] = (struct wanted_row){.shard = shard, .seq = m->seqs[i]};
}

// It reads each shard up to its tail, until it finds the workflow.
static bool find_members(struct collect_call *l, struct wanted_messages *to)
{
    struct local_call *c = &l->listen.call;
    struct members w = {.workflow = l->poll.workflow};
    for (uint32_t i = 0; i < c->queue->row.birth.shards && !w.found; i++) {
        struct shard_runner *r;
        if (queue_synced_runner(c->queue, i, &r, call_error(c))) return false;
        runner_inspect(r, read_members, &w);
        if (w.found) add_members(l, i, &w, to);
    }
    memory_free(w.seqs);
    if (!w.found)
        (void)refuse(call_error(c), ERR_NOT_FOUND, "workflow",
                     "queue %s has no workflow \"%.100s\"; a finished one is kept for retention",
                     c->queue->row.name, w.workflow);
    return !call_code(c);
}

static void wanted_done(struct wanted_messages *w)
{
    memory_free(w->rows);
}

static enum call_built build(struct local_call *c, bool may_block, struct call_plan *plan)
{
    struct collect_call *l = collect_of(c);
    enum call_built opened = call_open_queue(c, may_block);
    if (opened != CALL_BUILT) return opened;
    if (collect_check(&l->poll, call_error(c))) return CALL_ENDED;
    if (l->poll.workflow && !may_block) return CALL_BLOCKS;
    CLEANUP(wanted_done) struct wanted_messages w = {0};
    if (l->poll.workflow ? !find_members(l, &w) : !parse_ids(l, &w, may_block))
        return l->poll.workflow ? CALL_ENDED : CALL_BLOCKS;
    add_asked(l, &w);
    make_parts(l, &w);
    if (call_code(c) || l->listen.parts_len == 0) return CALL_ENDED;
    if (l->out->len > 0 && !l->poll.all) c->until = 0; // unknown ones are told at once
    *plan = (struct call_plan){.shards = l->listen.parts_len, .all = l->poll.all};
    return CALL_BUILT;
}

// One block: the rows, then their texts.
static const char *const *copy_texts(const char *const *from, size_t len)
{
    size_t bytes = len * sizeof(char *) + 1;
    for (size_t i = 0; i < len; i++)
        bytes += strlen(from[i]) + 1;
    const char **rows = memory_new(bytes);
    char *at = (char *)(rows + len);
    for (size_t i = 0; i < len; i++)
        rows[i] = text_append(&at, bytes_str(from[i]));
    return rows;
}

static void own(struct local_call *c)
{
    struct collect_poll *poll = &collect_of(c)->poll;
    poll->ids = copy_texts(poll->ids, poll->len);
    poll->signals = copy_texts(poll->signals, poll->signals_len);
    poll->asked = copy_texts(poll->asked, poll->asked_len);
    poll->workflow = memory_text(poll->workflow);
}

// What a shard knows about the messages of a part. The rows and places are filled under its lock.
struct part_ends {
    struct collect_call *call;
    const struct listen_part *part;
    int64_t now; // the time up to which the shard's state is complete
    struct reason_place *places;
    size_t places_len;
    struct text_place {
        size_t row;
        enum text_kind { TEXT_RESULT, TEXT_TYPE, TEXT_REASON } kind;
    } * texts;
};

static void want(struct part_ends *e, const struct op_place *at, size_t row, enum text_kind kind)
{
    if (at->slot == 0) return;
    e->texts[e->places_len].row = row;
    e->texts[e->places_len].kind = kind;
    e->places[e->places_len++] = (struct reason_place){
        .slot = at->slot, .op = at->op, .index = at->index, .type = kind == TEXT_TYPE};
}

static struct sluice_message *add_row(struct part_ends *e, uint64_t seq, const char *state)
{
    struct collect_call *l = e->call;
    struct sluice_message *row = collected_add(l->out);
    id_print(queue_ref(l->listen.call.queue), e->part->shard, seq, row->id);
    row->state = state;
    return row;
}

static void add_finished(struct part_ends *e, const struct finished_view *f)
{
    struct collected_list *out = e->call->out;
    size_t at = out->len;
    struct sluice_message *row = add_row(e, f->seq, finished_outcome_name(f->outcome));
    row->attempts = f->attempts;
    row->finished_at = f->at;
    if (f->at < e->call->poll.position) return; // it was collected earlier
    row->worker = collected_keep(out, f->worker.data, f->worker.len);
    want(e, &f->result, at, TEXT_RESULT);
    want(e, &f->result, at, TEXT_TYPE);
    want(e, &f->reason, at, TEXT_REASON);
}

static void add_dead(struct part_ends *e, const struct machine *m, const struct message_view *v)
{
    struct collected_list *out = e->call->out;
    struct failure_view failures[FAILURES_KEPT + 1];
    size_t at = out->len, len = machine_failures(m, v->seq, e->now, failures);
    struct bytes worker = len > 0 ? failures[len - 1].worker : BYTES_EMPTY;
    struct sluice_message *row = add_row(e, v->seq, message_state_name(STATE_DEAD));
    row->attempts = v->deliveries;
    row->finished_at = v->died_at;
    if (v->died_at < e->call->poll.position) return; // it was collected earlier
    row->worker = collected_keep(out, worker.data, worker.len);
    if (v->cause != DEAD_FAILED) row->reason = "lock-expired";
    want(e, &(struct op_place){v->reason_slot, v->reason_op, 0}, at, TEXT_REASON);
}

// Adds the message if it has ended. Returns whether it has.
static bool add_ended(struct part_ends *e, const struct machine *m, uint64_t seq)
{
    struct message_view v;
    struct finished_view f;
    enum err err = machine_find(m, seq, e->now, &v);
    if (!err && v.state != STATE_DEAD && v.state != STATE_OUTBOUND) return false;
    bool known = machine_finished(m, seq, e->now, &f);
    if (err == ERR_NOT_FOUND) {
        (void)add_row(e, seq, "unknown");
    } else if (known && (err || v.state == STATE_OUTBOUND)) {
        add_finished(e, &f);
    } else if (!err) {
        add_dead(e, m, &v);
    } else {
        (void)add_row(e, seq, "finished");
    }
    return true;
}

static void read_ends(void *ctx, const struct machine *m, int64_t now)
{
    struct part_ends *e = ctx;
    struct collect_call *l = e->call;
    e->now = machine_now(m) < now ? machine_now(m) : now;
    for (size_t i = 0; i < e->part->what.len; i++) {
        if (e->part->asks[i].after) continue; // it is about an answer
        if (l->out->len >= COLLECT_ROWS_MAX) {
            l->out->more = true;
            l->out->missing++; // it may have ended
            continue;
        }
        if (!add_ended(e, m, e->part->asks[i].ref.seq)) l->out->missing++;
    }
}

static void take_text(struct collect_call *l, const struct text_place *t,
                      const struct reason_text *from)
{
    struct sluice_message *row = &l->out->rows[t->row];
    if (!from->kept) return;
    const void *text = collected_keep(l->out, from->text.data, from->text.len);
    if (t->kind == TEXT_RESULT) {
        row->result = text;
        row->result_len = from->text.len;
        l->bytes += from->text.len;
    } else if (t->kind == TEXT_TYPE) {
        row->result_type = text;
    } else {
        row->reason = text;
    }
}

// Reads the results and reasons. Those beyond the limit are left for the next poll.
static enum err read_texts(struct collect_call *l, const struct part_ends *e,
                           struct shard_runner *r)
{
    enum err err = ERR_OK;
    for (size_t at = 0; !err && at < e->places_len; at += PIECE) {
        size_t len = e->places_len - at < PIECE ? e->places_len - at : PIECE;
        if (l->bytes >= COLLECT_BYTES_MAX) {
            l->out->len = e->texts[at].row; // the rows from there on come again
            l->out->more = true;
            return ERR_OK;
        }
        struct shard_places wants = {.reasons = e->places + at, .reasons_len = len};
        LOCAL(kept_reply, a);
        err = runner_read(r, &wants, &a);
        for (size_t i = 0; !err && i < len; i++)
            take_text(l, &e->texts[at + i], &a.reasons[i]);
    }
    return err;
}

static enum err read_part(struct collect_call *l, uint32_t part, int64_t *position)
{
    const struct listen_part *p = &l->listen.parts[part];
    struct shard_runner *r = listen_runner(&l->listen.call, part);
    struct part_ends e = {.call = l, .part = p};
    if (!r) return ERR_UNAVAILABLE;
    size_t most = p->what.len < COLLECT_ROWS_MAX ? p->what.len : COLLECT_ROWS_MAX;
    e.places = memory_zeroed(3 * most + 3, sizeof *e.places);
    e.texts = memory_zeroed(3 * most + 3, sizeof *e.texts);
    runner_inspect(r, read_ends, &e);
    enum err err = read_texts(l, &e, r);
    if (e.now < *position) *position = e.now;
    memory_free(e.places);
    memory_free(e.texts);
    return err;
}

// The rows are in the order of the asks.
static void add_left(struct collect_call *l)
{
    struct collected_list *out = l->out;
    size_t row = 0;
    for (const struct listen_part *p = l->listen.parts; p < l->listen.parts + l->listen.parts_len;
         p++)
        for (size_t i = 0; i < p->what.len; i++) {
            char id[SLUICE_ID_MAX];
            if (p->asks[i].after) continue; // it is about an answer
            id_print(queue_ref(l->listen.call.queue), p->shard, p->asks[i].ref.seq, id);
            if (row < out->len && strcmp(out->rows[row].id, id) == 0)
                row++;
            else
                collected_add_id(out, &out->left, id);
        }
    CHECK(row == out->len);
}

static bool deliver(struct local_call *c, bool may_block)
{
    struct collect_call *l = collect_of(c);
    const struct call_result *r = &c->state.result;
    int64_t position = INT64_MAX;
    if (!may_block) return false; // it reads the journal
    if (r->failed) {
        listen_refuse(c, call_slot_of(c, STEP_AWAIT, r->shard));
        return true;
    }
    struct collect_answers answers = {.questions = l->questions,
                                      .questions_len = l->poll.signals_len,
                                      .out = l->out,
                                      .list = signal_list_new(),
                                      .left = COLLECT_BYTES_MAX};
    for (uint32_t i = 0; !call_code(c) && i < l->listen.parts_len; i++) {
        enum err err = read_part(l, i, &position);
        if (err) (void)refuse_why(call_error(c), err, c->queue->row.name, "");
        struct shard_runner *runner = err ? NULL : listen_runner(c, i);
        if (runner) collect_answers(&answers, c->queue, &l->listen.parts[i], runner, call_error(c));
    }
    l->out->answers = signal_list_take(answers.list);
    for (size_t i = 0; l->out->asked.len > 0 && i < l->poll.signals_len; i++) {
        char id[SLUICE_SIGNAL_ID_MAX]; // the caller's texts may be gone
        signal_id_print(&l->questions[i], id);
        collected_add_id(l->out, &l->out->signals, id);
    }
    l->out->position = l->out->more || position == INT64_MAX ? 0 : position;
    if (l->poll.workflow) add_left(l);
    return true;
}

static void answer(struct local_call *c, struct async_answer *out)
{
    struct collect_call *l = collect_of(c);
    if (call_code(c)) return;
    out->collected = l->out;
    l->out = NULL;
}

static void release(struct local_call *c)
{
    struct collect_call *l = collect_of(c);
    listen_release(&l->listen);
    if (c->owns) {
        memory_free((void *)(uintptr_t)l->poll.ids);
        memory_free((void *)(uintptr_t)l->poll.signals);
        memory_free((void *)(uintptr_t)l->poll.asked);
        memory_free((void *)(uintptr_t)l->poll.workflow);
    }
    memory_free(l->questions);
    collected_free(l->out);
    memory_free(l);
}

static const struct call_type collect_type = {.kind = STEP_LISTEN,
                                              .build = build,
                                              .own = own,
                                              .deliver = deliver,
                                              .runner = listen_runner,
                                              .answer = answer,
                                              .release = release};

static struct collect_call *collect_new(struct engine *e, const char *queue,
                                        const struct collect_poll *poll, struct async_call *caller)
{
    struct collect_call *l = NEW(struct collect_call);
    int64_t wait = poll->wait_ms < COLLECT_WAIT_MAX_MS ? poll->wait_ms : COLLECT_WAIT_MAX_MS;
    call_prepare(&l->listen.call, &collect_type, e, queue, caller);
    l->listen.call.until = clock_boot_ms() + (wait > 0 ? wait : 0);
    l->poll = *poll;
    l->out = collected_new();
    return l;
}

enum sluice_code ops_collect_poll(struct engine *e, const char *queue,
                                  const struct collect_poll *poll, struct collected_list **out,
                                  struct sluice_error *error)
{
    struct collect_poll own = *poll;
    struct collected_list *asked = NULL;
    *out = NULL;
    if (poll->running) {
        asked = collected_new();
        enum sluice_code code =
            collect_ask(&(struct request_origin){.engine = e}, queue, poll, asked, error);
        if (code) {
            collected_free(asked);
            return code;
        }
        collect_go_on(&own, asked);
    }
    struct collect_call *l = collect_new(e, queue, &own, NULL);
    atomic_fetch_add(&l->listen.call.refs, 1); // for the rows
    enum sluice_code code = call_blocking(&l->listen.call, error);
    *out = code ? NULL : l->out;
    if (!code) l->out = NULL;
    call_release(&l->listen.call);
    collected_free(asked);
    return code;
}

void async_collect(struct engine *e, const char *queue, const struct collect_poll *poll,
                   struct async_call *a)
{
    call_start(&collect_new(e, queue, poll, a)->listen.call);
}
