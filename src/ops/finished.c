// SPDX-License-Identifier: Apache-2.0
#include "ops/finished.h"

#include "base/memory.h"
#include "protocol/filter.h"
#include "queues/bodies.h"

#include <string.h>

#define PAGE 256 // messages that are listed at a time

bool finished_state(const char *text, int *outcome)
{
    *outcome = FINISHED_COUNT;
    if (strcmp(text, "finished") == 0) return true;
    for (int i = 0; i < FINISHED_COUNT; i++) {
        *outcome = i;
        if (strcmp(text, finished_outcome_name((enum finished_outcome)i)) == 0) return true;
    }
    return false;
}

// The texts of one message, in the order in which they are asked for.
struct texts {
    struct reason_place places[3];
    size_t len;
    int result, type, reason; // indexes; -1: none
};

static int ask_for(struct texts *t, const struct op_place *place, bool type)
{
    if (place->slot == 0) return -1;
    t->places[t->len] = (struct reason_place){
        .slot = place->slot, .op = place->op, .index = place->index, .type = type};
    return (int)t->len++;
}

static struct bytes text_at(const struct kept_reply *a, int index, bool *kept)
{
    *kept = index >= 0 && a->reasons[index].kept;
    return *kept ? a->reasons[index].text : BYTES_EMPTY;
}

static void fill(const struct finished_read *r, struct sluice_message *m,
                 const struct finished_view *view, bool known, const struct texts *t,
                 const struct kept_reply *a, bool has_body)
{
    bool kept;
    m->state = known ? finished_outcome_name(view->outcome) : "finished";
    m->finished_at = view->at;
    m->attempts = view->attempts;
    m->attempt = 0;
    if (!has_body) m->body = NULL;
    struct bytes text = text_at(a, t->result, &kept);
    if (kept) m->result = batch_keep(r->batch, text);
    if (kept) m->result_len = text.len;
    m->result_type = batch_keep(r->batch, text_at(a, t->type, &kept));
    m->reason = batch_keep(r->batch, text_at(a, t->reason, &kept));
}

static uint64_t weight_of(const struct kept_reply *a)
{
    uint64_t weight = batch_weight(a->deliveries, a->deliveries_len) + 1;
    for (size_t i = 0; i < a->reasons_len; i++)
        weight += a->reasons[i].text.len + 1;
    return weight;
}

// A filter about the content finds only messages whose bodies are kept.
static bool matches(const struct finished_read *r, const struct finished_view *view,
                    const struct delivery *d)
{
    const struct sluice_find *f = r->want;
    if (!r->filtered) return true;
    if (d) return filter_matches(f, d);
    bool content = f->headers_len > 0 || (f->contains && *f->contains);
    return !content && view->at < f->before; // it was sent before it ended
}

// *fits: there is room for it.
static enum sluice_code reserve(struct finished_read *r, uint64_t weight, bool *fits,
                                struct sluice_error *error)
{
    bool first = batch_len(r->batch) == 0;
    *fits = first || weight <= *r->left;
    if (!*fits) return SLUICE_OK;
    if (r->budget) *fits = r->budget->take(r->budget, *r->taken + weight, first);
    if (!*fits) return first ? refuse_budget(error) : SLUICE_OK;
    *r->taken += weight;
    *r->left -= weight < *r->left ? weight : *r->left;
    return SLUICE_OK;
}

static bool add_read(struct finished_read *r, const struct finished_view *view, bool known,
                     const struct texts *t, const struct kept_reply *a)
{
    const struct delivery none = {0}, *d = a->deliveries_len > 0 ? a->deliveries : NULL;
    struct message_view as = {.seq = view->seq, .state = STATE_PROCESSED, .worker = view->worker};
    size_t at = batch_len(r->batch);
    enum err err = ERR_OK;
    if (d) bodies_add(r->batch, r->queue, r->shard, r->runner, d, &as, 1, &err);
    bool has_body = d && batch_len(r->batch) > at;
    if (!has_body) batch_add(r->batch, queue_ref(r->queue), r->shard, &none, &as, 0);
    struct sluice_message *m = &batch_take(r->batch)->messages[at];
    fill(r, m, view, known, t, a, has_body);
    bool large = has_body && r->filtered && d->message.reference.name.len > 0;
    if (!large || filter_matches_body(r->want, bytes_of(m->body, m->body_len))) return true;
    batch_drop_last(r->batch);
    return false;
}

// Reads one message, and adds it if it matches. *full: there was no room.
static enum sluice_code read_one(struct finished_read *r, const struct finished_view *view,
                                 bool known, bool *full, struct sluice_error *error)
{
    struct texts t = {.len = 0};
    struct shard_places wants = {.places = &view->body, .places_len = view->body.slot != 0};
    bool fits = true;
    t.result = ask_for(&t, &view->result, false);
    t.type = ask_for(&t, &view->result, true);
    t.reason = ask_for(&t, &view->reason, false);
    wants.reasons = t.places;
    wants.reasons_len = t.len;
    LOCAL(kept_reply, a);
    enum err err =
        wants.places_len + wants.reasons_len > 0 ? runner_read(r->runner, &wants, &a) : ERR_OK;
    if (err == ERR_NOT_FOUND) { // the body is gone meanwhile
        wants.places_len = 0;
        err = runner_read(r->runner, &wants, &a);
    }
    enum sluice_code code = SLUICE_OK;
    if (err) code = refuse_why(error, err, r->queue->row.name, a.why ? a.why : "");
    if (!code && matches(r, view, a.deliveries_len > 0 ? a.deliveries : NULL)) {
        code = reserve(r, weight_of(&a), &fits, error);
        if (!code && fits) (void)add_read(r, view, known, &t, &a);
    }
    *full = !fits;
    if (!code && fits) {
        r->found->messages++;
        r->found->bytes += weight_of(&a);
    }
    return code;
}

enum sluice_code finished_add(struct finished_read *r, const struct finished_view *view, bool known,
                              struct sluice_error *error)
{
    bool full;
    return read_one(r, view, known, &full, error);
}

struct page {
    uint64_t after; // the message before the first one
    bool first;
    struct finished_view views[PAGE];
    size_t len;
    struct buf names; // the workers' names are copied
};

static void see_page(void *ctx, const struct machine *m, int64_t now)
{
    struct page *p = ctx;
    struct finished_view before = {.seq = p->after};
    p->len = 0;
    if (!p->first && !machine_finished(m, p->after, now, &before)) return;
    p->len = machine_finished_list(m, now, p->first ? NULL : &before, p->views, PAGE);
    size_t total = 0;
    for (size_t i = 0; i < p->len; i++)
        total += p->views[i].worker.len;
    buf_clear(&p->names);
    uint8_t *at = buf_grow(&p->names, total);
    for (size_t i = 0; i < p->len; i++) {
        struct bytes *name = &p->views[i].worker;
        if (name->len == 0) continue;
        memcpy(at, name->data, name->len);
        name->data = at;
        at += name->len;
    }
}

static enum sluice_code read_page(struct finished_read *r, const struct page *p, bool *stop,
                                  uint64_t *last, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    for (size_t i = 0; !code && !*stop && i < p->len; i++) {
        const struct finished_view *view = &p->views[i];
        bool wanted = r->outcome == FINISHED_COUNT || r->outcome == (int)view->outcome;
        if (wanted) code = read_one(r, view, true, stop, error);
        if (code || *stop) break;
        *last = view->seq;
        *stop = batch_len(r->batch) == r->max || (r->filtered && r->found->bytes >= r->bytes_max);
    }
    return code;
}

enum sluice_code finished_list(struct finished_read *r, uint64_t after, bool *stop, uint64_t *last,
                               struct sluice_error *error)
{
    CLEANUP(memory_let_go) struct page *p = memory_zeroed(1, sizeof *p);
    enum sluice_code code = SLUICE_OK;
    p->after = after;
    p->first = after == 0;
    buf_init(&p->names, SIZE_MAX);
    *last = after;
    do {
        runner_inspect(r->runner, see_page, p);
        code = read_page(r, p, stop, last, error);
        if (p->len > 0) p->after = p->views[p->len - 1].seq;
        p->first = false;
    } while (!code && !*stop && p->len == PAGE);
    buf_done(&p->names);
    return code;
}
