// SPDX-License-Identifier: Apache-2.0
// Reads messages by state, content or id.
#include "base/text.h"
#include "ops/ops.h"

#include "base/memory.h"
#include "ops/async.h"
#include "ops/failures.h"
#include "ops/finished.h"
#include "ops/look.h"
#include "ops/signal_rows.h"
#include "protocol/filter.h"
#include "queues/bodies.h"

#include <string.h>

#define PEEK_MAX   10000
#define PEEK_BYTES ((uint64_t)16 << 20) // of bodies in one answer, unless the first has more
#define PIECE      64                   // messages that are read at a time
#define FIND_BYTES ((uint64_t)16 << 20) // that a search reads if the caller does not say
#define FIND_PAGE  4096                 // messages that a search lists at a time

// Messages that were read under the runner's lock. The workers' names are copied. The bodies are
// read later.
struct peek_rows {
    enum message_state state; // peek: messages in this state ...
    uint64_t after;           // ... whose number is higher
    uint64_t seq;             // show: the message; 0: peek
    size_t max;
    struct message_view *views;
    size_t len;
    struct buf names;
    struct failure_rows failures;
    struct progress_view *progress; // of each view; at 0: none
    int64_t now;
    enum err err;
    struct finished_view finished; // show, if err is ERR_CONFLICT
    bool ended;                    // it is known how
};

static void keep_name(uint8_t **at, struct bytes *name)
{
    if (name->len == 0) return;
    memcpy(*at, name->data, name->len);
    name->data = *at;
    *at += name->len;
}

static void keep_names(struct peek_rows *s)
{
    size_t total = s->finished.worker.len;
    for (size_t i = 0; i < s->len; i++)
        total += s->views[i].worker.len;
    uint8_t *at = buf_grow(&s->names, total);
    for (size_t i = 0; i < s->len; i++)
        keep_name(&at, &s->views[i].worker);
    keep_name(&at, &s->finished.worker);
}

static void read_messages(void *ctx, const struct machine *m, int64_t now)
{
    struct peek_rows *s = ctx;
    s->now = now;
    if (s->seq != 0) {
        s->err = machine_find(m, s->seq, now, s->views);
        s->len = s->err ? 0 : 1;
        s->ended = s->err == ERR_CONFLICT && machine_finished(m, s->seq, now, &s->finished);
    } else {
        s->len = machine_list(m, s->state, s->after, now, s->views, s->max);
    }
    for (size_t i = 0; i < s->len; i++)
        if (s->views[i].state == STATE_LOCKED)
            (void)machine_progress(m, s->views[i].seq, &s->progress[i]);
    keep_names(s);
    failures_see(&s->failures, m, now, s->views, s->len, s->seq != 0);
}

static void seen_init(struct peek_rows *s, size_t max)
{
    *s = (struct peek_rows){.max = max,
                            .views = memory_zeroed(max, sizeof *s->views),
                            .progress = memory_zeroed(max, sizeof *s->progress)};
    buf_init(&s->names, SIZE_MAX);
    failures_init(&s->failures, max);
}

static void seen_done(struct peek_rows *s)
{
    memory_free(s->views);
    memory_free(s->progress);
    buf_done(&s->names);
    failures_done(&s->failures);
}

// A look at messages: those of a state, or one.
struct peek_batch {
    struct look look; // first
    struct sluice_find want;
    struct sluice_found *found;
    struct sluice_found own_found; // the memory of it, if the caller has none
    struct sluice_batch **out;
    uint64_t bytes_max;       // that a search reads
    char last[SLUICE_ID_MAX]; // the message that it read last
    const char *id;           // of the message to show
    enum message_state state;
    int outcome; // of finished messages; as in struct finished_read
    size_t max;
    uint64_t after; // in the first shard: the messages behind this one; or the one to show
    struct batch_builder *batch;
    uint64_t left;                // bytes of bodies that may still be added
    struct answer_budget *budget; // NULL: unlimited
    uint64_t taken;               // bytes of the budget that are reserved
    struct sluice_error *error;
};

// How many of them fit. The first message of a batch always does.
static size_t count_fitting(struct peek_batch *h, const struct delivery *deliveries, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint64_t need = message_body_len(&deliveries[i].message);
        if (need > h->left && (i > 0 || batch_len(h->batch) > 0)) return i;
        h->left -= need < h->left ? need : h->left;
    }
    return len;
}

// Reserves memory for these messages and `more` bytes. If the batch has messages already, it does
// not wait for memory.
static bool take_budget(struct peek_batch *h, const struct delivery *deliveries, size_t len,
                        uint64_t more)
{
    if (!h->budget) return true;
    h->taken += batch_weight(deliveries, len) + more;
    return h->budget->take(h->budget, h->taken, batch_len(h->batch) == 0);
}

static enum sluice_code add_fetched(struct peek_batch *h, const struct message_view *views,
                                    size_t len, const struct delivery *deliveries)
{
    CLEANUP(memory_let_go) enum err *errs = memory_zeroed(len, sizeof *errs);
    bodies_add(h->batch, h->look.queue, h->look.at, h->look.runner, deliveries, views, len, errs);
    enum sluice_code code = SLUICE_OK;
    for (size_t i = 0; !code && i < len; i++) {
        char id[SLUICE_ID_MAX];
        if (!errs[i] || errs[i] == ERR_NOT_FOUND) continue; // NOT_FOUND: finished meanwhile
        id_print(queue_ref(h->look.queue), h->look.at, views[i].seq, id);
        code = refuse(h->error, errs[i], "body", "message %s: its body %s", id,
                      errs[i] == ERR_CORRUPT ? "is missing or damaged" : "could not be read");
    }
    return code;
}

// The texts that come with messages first .. first + len - 1: the reasons of their failures, then
// the texts of their progress. The caller frees the list.
static struct reason_place *texts_of(const struct peek_rows *seen, size_t first, size_t len,
                                     size_t *failures, struct shard_places *wants)
{
    struct reason_place *places = failures_reasons(&seen->failures, first, len, failures);
    places = memory_resize(places, (*failures + len + 1) * sizeof *places);
    wants->reasons_len = *failures;
    for (size_t i = first; i < first + len; i++) {
        const struct op_place *at = &seen->progress[i].text;
        if (seen->progress[i].at == 0) continue;
        places[wants->reasons_len++] =
            (struct reason_place){.slot = at->slot, .op = at->op, .index = at->index};
    }
    wants->reasons = places;
    return places;
}

static void set_progress(struct peek_batch *h, struct sluice_message *m,
                         const struct progress_view *p, const struct reason_text *text)
{
    m->percent = p->percent;
    m->progress_at = p->at;
    if (text->kept) m->progress = batch_keep(h->batch, text->text);
}

// Adds the failures and the progress to messages first .. first + len - 1 of `seen`, which have
// their bodies. The texts are those of texts_of: `progress` is where the progress begins.
static void add_texts(struct peek_batch *h, const struct peek_rows *seen, size_t first, size_t len,
                      size_t batch_first, const struct reason_text *texts, size_t progress)
{
    const struct reason_text *reasons = texts;
    struct sluice_batch *batch = batch_take(h->batch);
    for (size_t i = first; i < first + len; i++) {
        char id[SLUICE_ID_MAX];
        id_print(queue_ref(h->look.queue), h->look.at, seen->views[i].seq, id);
        struct sluice_message *m = batch_first < batch->len ? &batch->messages[batch_first] : NULL;
        bool there = m && strcmp(m->id, id) == 0;
        failures_attach(&seen->failures, i, &reasons, there ? m : NULL);
        bool has = seen->progress[i].at != 0;
        if (there && has) set_progress(h, m, &seen->progress[i], &texts[progress]);
        if (has) progress++;
        if (there) batch_first++;
    }
}

static void note_read(struct peek_batch *h, const struct delivery *d, size_t len)
{
    h->found->messages += len;
    for (size_t i = 0; i < len; i++)
        h->found->bytes += message_body_len(&d[i].message) + d[i].message.headers.len;
}

// *added: how many of the messages fit.
static enum sluice_code add_piece(struct peek_batch *h, const struct peek_rows *seen, size_t first,
                                  size_t len, size_t *added)
{
    const struct message_view *views = seen->views + first;
    struct place places[PIECE];
    for (size_t i = 0; i < len; i++)
        places[i] = views[i].place;
    struct shard_places wants = {.places = places, .places_len = len};
    size_t failures;
    struct reason_place *reasons = texts_of(seen, first, len, &failures, &wants);
    LOCAL(kept_reply, answer);
    enum err err = runner_read(h->look.runner, &wants, &answer);
    enum sluice_code code = SLUICE_OK;
    if (err)
        code = refuse_why(h->error, err, h->look.queue->row.name, answer.why ? answer.why : "");
    *added = err ? 0 : count_fitting(h, answer.deliveries, len);
    note_read(h, answer.deliveries, *added);
    uint64_t more = failures_weight(&seen->failures, first, *added, &answer);
    if (*added > 0 && !take_budget(h, answer.deliveries, *added, more)) {
        *added = 0;
        if (batch_len(h->batch) == 0) code = refuse_budget(h->error);
    }
    size_t before = batch_len(h->batch);
    if (*added > 0) code = add_fetched(h, views, *added, answer.deliveries);
    if (*added > 0) add_texts(h, seen, first, *added, before, answer.reasons, failures);
    h->left -= more < h->left ? more : h->left;
    memory_free(reasons);
    return code;
}

// *all: whether all messages fit.
static enum sluice_code add_bodies(struct peek_batch *h, const struct peek_rows *seen, bool *all)
{
    enum sluice_code code = SLUICE_OK;
    *all = true;
    for (size_t at = 0; !code && *all && at < seen->len;) {
        size_t some = seen->len - at < PIECE ? seen->len - at : PIECE, added;
        code = add_piece(h, seen, at, some, &added);
        *all = added == some;
        at += some;
    }
    return code;
}

static enum sluice_code parse_state(const char *text, enum message_state *out,
                                    struct sluice_error *error)
{
    static const enum message_state shown[] = {STATE_READY, STATE_DELAYED, STATE_LOCKED, STATE_DEAD,
                                               STATE_OUTBOUND};
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        *out = shown[i];
        if (!text || strcmp(text, message_state_name(shown[i])) == 0) return SLUICE_OK;
    }
    return refuse(error, ERR_INVALID, "state",
                  "state \"%.40s\" is not one of ready, delayed, locked, dead, outbound, finished, "
                  "processed, dead-lettered, purged, redriven, cancelled",
                  text);
}

static struct finished_read finished_reader(struct peek_batch *h)
{
    return (struct finished_read){.queue = h->look.queue,
                                  .shard = h->look.at,
                                  .runner = h->look.runner,
                                  .batch = h->batch,
                                  .max = h->max,
                                  .want = &h->want,
                                  .outcome = h->outcome,
                                  .filtered = filter_is_given(&h->want),
                                  .found = h->found,
                                  .bytes_max = h->bytes_max,
                                  .left = &h->left,
                                  .budget = h->budget,
                                  .taken = &h->taken};
}

static enum sluice_code finished_shard(struct look *l, struct sluice_error *error)
{
    struct peek_batch *h = (struct peek_batch *)l;
    uint64_t last;
    h->error = error;
    struct finished_read reader = finished_reader(h);
    uint64_t after = l->at == l->first ? h->after : 0;
    enum sluice_code code = finished_list(&reader, after, &l->enough, &last, error);
    if (last > 0) id_print(queue_ref(l->queue), l->at, last, h->last);
    if (l->enough) (void)text_copy(h->found->next, sizeof h->found->next, h->last);
    return code;
}

static enum sluice_code peek_begin(struct look *l, struct open_queue *q, struct sluice_error *error)
{
    struct peek_batch *h = (struct peek_batch *)l;
    enum sluice_code code = SLUICE_OK;
    bool finished = h->want.state && finished_state(h->want.state, &h->outcome);
    if (finished) l->shard = finished_shard;
    if (!finished) code = parse_state(h->want.state, &h->state, error);
    if (code || !h->want.after_id) return code;
    return id_parse(queue_ref(q), h->want.after_id, &l->first, &h->after, error);
}

// A batch that is not complete is continued after its last message.
static void note_next(struct peek_batch *h)
{
    const struct sluice_batch *batch = batch_take(h->batch);
    const char *last = batch->len > 0 ? batch->messages[batch->len - 1].id : "";
    (void)text_copy(h->found->next, sizeof h->found->next, last);
}

static enum sluice_code peek_shard(struct look *l, struct sluice_error *error)
{
    struct peek_batch *h = (struct peek_batch *)l;
    struct peek_rows seen;
    bool all;
    h->error = error;
    seen_init(&seen, h->max - batch_len(h->batch));
    seen.state = h->state;
    seen.after = l->at == l->first ? h->after : 0;
    runner_inspect(l->runner, read_messages, &seen);
    enum sluice_code code = add_bodies(h, &seen, &all);
    seen_done(&seen);
    l->enough = !all || batch_len(h->batch) == h->max;
    if (!code && l->enough) note_next(h);
    return code;
}

static void end(struct look *l, struct local_call *c)
{
    struct peek_batch *h = (struct peek_batch *)l;
    if (call_code(c))
        sluice_batch_free(batch_take(h->batch));
    else
        *h->out = batch_take(h->batch);
}

static struct peek_batch *peek_new(const struct request_origin *as, size_t max,
                                   struct sluice_batch **out)
{
    struct peek_batch *h = NEW(struct peek_batch);
    h->look.end = end;
    h->look.owned = true;
    h->max = max;
    h->batch = batch_new(max);
    h->budget = as->async ? as->async->budget : NULL;
    h->out = out;
    *out = NULL;
    return h;
}

enum sluice_code ops_peek(struct engine *e, const char *queue, const struct sluice_peek *options,
                          struct sluice_batch **out, struct sluice_error *error)
{
    const struct sluice_peek none = {0};
    const struct sluice_peek *o = options ? options : &none;
    struct sluice_find what = {.state = o->state, .after_id = o->after_id, .max = o->max};
    return ops_find(e, queue, &what, out, NULL, error);
}

// One message of a search: it is added if it is found. *stop: it has no room any more.
static enum sluice_code find_one(struct peek_batch *h, const struct peek_rows *seen, size_t index,
                                 const struct delivery *d, bool *stop)
{
    uint64_t before = h->taken;
    *stop = false;
    if (!filter_matches(&h->want, d)) return SLUICE_OK;
    *stop = count_fitting(h, d, 1) == 0;
    if (!*stop && !take_budget(h, d, 1, 0)) {
        *stop = batch_len(h->batch) > 0;
        if (!*stop) return refuse_budget(h->error);
    }
    if (*stop) return SLUICE_OK;
    size_t len = batch_len(h->batch);
    enum sluice_code code = add_fetched(h, &seen->views[index], 1, d);
    if (code || batch_len(h->batch) == len) return code;
    const struct sluice_message *m = &batch_take(h->batch)->messages[len];
    if (filter_matches_body(&h->want, bytes_of(m->body, m->body_len))) return SLUICE_OK;
    h->left += m->body_len;
    h->taken = before;
    batch_drop_last(h->batch); // a large body, which is read only here
    return SLUICE_OK;
}

// *at: the index of the first message that was not read.
static enum sluice_code find_piece(struct peek_batch *h, const struct peek_rows *seen, size_t *at,
                                   size_t len, bool *stop)
{
    struct place places[PIECE];
    for (size_t i = 0; i < len; i++)
        places[i] = seen->views[*at + i].place;
    struct shard_places wants = {.places = places, .places_len = len};
    size_t first = *at, batch_first = batch_len(h->batch);
    size_t failures;
    struct reason_place *reasons = texts_of(seen, first, len, &failures, &wants);
    LOCAL(kept_reply, answer);
    enum err err = runner_read(h->look.runner, &wants, &answer);
    enum sluice_code code = SLUICE_OK;
    if (err)
        code = refuse_why(h->error, err, h->look.queue->row.name, answer.why ? answer.why : "");
    for (size_t i = 0; !code && !*stop && i < len; i++) {
        code = find_one(h, seen, *at, &answer.deliveries[i], stop);
        if (code || *stop) break;
        note_read(h, &answer.deliveries[i], 1);
        ++*at;
        *stop = batch_len(h->batch) == h->max || h->found->bytes >= h->bytes_max;
    }
    if (!code) add_texts(h, seen, first, *at - first, batch_first, answer.reasons, failures);
    memory_free(reasons);
    return code;
}

// Reads the messages of a page. *after: the last one that was read.
static enum sluice_code find_page(struct peek_batch *h, const struct peek_rows *seen,
                                  uint64_t *after, bool *stop)
{
    enum sluice_code code = SLUICE_OK;
    for (size_t at = 0; !code && !*stop && at < seen->len;) {
        size_t some = seen->len - at < PIECE ? seen->len - at : PIECE;
        code = find_piece(h, seen, &at, some, stop);
        if (at > 0) *after = seen->views[at - 1].seq;
    }
    return code;
}

static enum sluice_code find_shard(struct look *l, struct sluice_error *error)
{
    struct peek_batch *h = (struct peek_batch *)l;
    uint64_t after = l->at == l->first ? h->after : 0;
    enum sluice_code code = SLUICE_OK;
    h->error = error;
    for (bool more = true; !code && more && !l->enough;) {
        struct peek_rows seen;
        seen_init(&seen, FIND_PAGE);
        seen.state = h->state;
        seen.after = after;
        runner_inspect(l->runner, read_messages, &seen);
        code = find_page(h, &seen, &after, &l->enough);
        more = seen.len == FIND_PAGE;
        seen_done(&seen);
    }
    if (after > 0) id_print(queue_ref(l->queue), l->at, after, h->last);
    if (l->enough) (void)text_copy(h->found->next, sizeof h->found->next, h->last);
    return code;
}

static enum sluice_code check_find(struct look *l, struct sluice_error *error)
{
    const struct sluice_find *f = &((struct peek_batch *)l)->want;
    if (f->bytes_max > SLUICE_FIND_BYTES_MAX)
        return refuse(error, ERR_INVALID, "bytesMax", "bytesMax is %llu; at most %llu are allowed",
                      (unsigned long long)f->bytes_max, (unsigned long long)SLUICE_FIND_BYTES_MAX);
    return filter_check(f, error);
}

enum sluice_code start_find(const struct request_origin *as, const char *queue,
                            const struct sluice_find *what, struct sluice_batch **out,
                            struct sluice_found *found, struct sluice_error *error)
{
    const struct sluice_find all = {0};
    const struct sluice_find *o = what ? what : &all;
    size_t max = o->max == 0 ? 10 : o->max < PEEK_MAX ? o->max : PEEK_MAX;
    struct peek_batch *h = peek_new(as, max, out);
    h->look.check = check_find;
    h->look.begin = peek_begin;
    h->look.shard = filter_is_given(o) ? find_shard : peek_shard;
    h->want = *o;
    h->found = found ? found : &h->own_found;
    *h->found = (struct sluice_found){0};
    h->bytes_max = o->bytes_max > 0 ? o->bytes_max : FIND_BYTES;
    h->left = h->budget && h->budget->most < PEEK_BYTES ? h->budget->most : PEEK_BYTES;
    return look_at_queue(as, queue, &h->look, error);
}

// The machine keeps no record of a finished message, but for some time how it ended.
static enum sluice_code add_finished(struct peek_batch *h, const struct peek_rows *seen)
{
    struct finished_read reader = finished_reader(h);
    struct finished_view view = seen->finished;
    view.seq = seen->seq;
    return finished_add(&reader, &view, seen->ended, h->error);
}

// If the node has no memory for the texts of the signals, they come without.
static enum sluice_code add_signals(struct peek_batch *h)
{
    struct sluice_batch *batch = batch_take(h->batch);
    size_t left = take_budget(h, NULL, 0, SHOWN_SIGNALS_BYTES) ? SHOWN_SIGNALS_BYTES : 0;
    return message_add_signals(&batch->messages[0], h->look.queue, h->look.at, h->look.runner,
                               h->after, left, h->error);
}

static enum sluice_code show_begin(struct look *l, struct open_queue *q, struct sluice_error *error)
{
    struct peek_batch *h = (struct peek_batch *)l;
    return id_parse(queue_ref(q), h->id, &l->first, &h->after, error);
}

static void see_one(struct peek_rows *s, struct shard_runner *r, uint64_t seq)
{
    seen_init(s, 1);
    s->seq = seq;
    runner_inspect(r, read_messages, s);
}

static enum sluice_code show_shard(struct look *l, struct sluice_error *error)
{
    struct peek_batch *h = (struct peek_batch *)l;
    struct peek_rows seen;
    enum sluice_code code = SLUICE_OK;
    bool all;
    h->error = error;
    l->enough = true;
    see_one(&seen, l->runner, h->after);
    bool finished = seen.err == ERR_CONFLICT;
    if (seen.err && !finished)
        code = refuse(error, ERR_NOT_FOUND, "id", "queue %s has no message %s", l->queue->row.name,
                      h->id);
    if (!seen.err) code = add_bodies(h, &seen, &all);
    bool ended = !code && batch_len(h->batch) == 0;
    if (ended && !finished) { // meanwhile
        seen_done(&seen);
        see_one(&seen, l->runner, h->after);
    }
    if (ended) code = add_finished(h, &seen);
    if (!code) code = add_signals(h);
    seen_done(&seen);
    return code;
}

enum sluice_code start_show(const struct request_origin *as, const char *queue, const char *id,
                            struct sluice_batch **out, struct sluice_error *error)
{
    struct peek_batch *h = peek_new(as, 1, out);
    h->look.begin = show_begin;
    h->look.shard = show_shard;
    h->id = id;
    h->found = &h->own_found;
    return look_at_queue(as, queue, &h->look, error);
}
