// SPDX-License-Identifier: Apache-2.0
#include "ops/collect_answers.h"
#include "base/text.h"
#include "ops/signal_rows.h"

#include "base/check.h"
#include "base/memory.h"

#include <stdlib.h>

#define PIECE     32 // answers that are read at a time
#define PIECE_MAX ((size_t)PIECE * SIGNAL_ANSWER_MAX)

// A message that was asked.
struct asked_row {
    uint64_t seq;
    bool known;   // one of the questions is known
    bool in_part; // ... and has ended: its view is among those of the part
};

struct asked_part {
    const struct collect_answers *answers;
    struct asked_row *rows; // by number
    size_t len;
    struct signal_view *ended; // one for each row at most
    size_t ended_len;
};

static int by_seq(const void *a, const void *b)
{
    const struct asked_row *x = a, *y = b;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

static struct asked_row *row_of(const struct asked_part *p, uint64_t seq)
{
    struct asked_row key = {.seq = seq};
    return bsearch(&key, p->rows, p->len, sizeof key, by_seq);
}

// All signals with this id. The caller frees them.
static struct signal_view *views_of(const struct machine *m, const struct request_id *id,
                                    size_t *len)
{
    struct signal_view *views = NULL;
    size_t cap = 512;
    do {
        cap *= 2;
        views = memory_resize(views, cap * sizeof *views);
        *len = machine_signals_with(m, id, views, cap);
    } while (*len == cap);
    return views;
}

static void see_answers(void *ctx, const struct machine *m, int64_t now)
{
    struct asked_part *p = ctx;
    (void)now;
    for (size_t i = 0; i < p->answers->questions_len; i++) {
        size_t len;
        struct signal_view *views = views_of(m, &p->answers->questions[i], &len);
        for (size_t k = 0; k < len; k++) {
            struct asked_row *row = row_of(p, views[k].seq);
            if (!row || row->known) continue;
            row->known = true;
            if (views[k].state == SIGNAL_PENDING) continue;
            CHECK(p->ended_len < p->len);
            p->ended[p->ended_len++] = views[k];
        }
        memory_free(views);
    }
}

// It ended too long ago, or was never sent.
static void add_unknown(struct collect_answers *a, const char *id)
{
    struct sluice_signal_state *row = signal_list_add(a->list);
    row->code = SLUICE_NOT_FOUND;
    (void)text_copy(row->reason, sizeof row->reason, reason_name(REASON_UNKNOWN_SIGNAL));
    (void)text_copy(row->message, sizeof row->message, id);
}

// Those that do not fit come with the next poll.
static void read_texts(struct collect_answers *a, struct open_queue *q, uint32_t shard,
                       struct asked_part *p, struct shard_runner *r, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    for (size_t at = 0; !code && at < p->ended_len && a->left >= PIECE_MAX; at += PIECE) {
        size_t len = p->ended_len - at < PIECE ? p->ended_len - at : PIECE;
        code =
            signal_list_add_views(a->list, q, shard, r, p->ended + at, len, NULL, &a->left, error);
        for (size_t i = at; i < at + len; i++)
            row_of(p, p->ended[i].seq)->in_part = true;
    }
}

// By number, each once.
static void sort_rows(struct asked_part *p)
{
    size_t len = 0;
    qsort(p->rows, p->len, sizeof *p->rows, by_seq);
    for (size_t i = 0; i < p->len; i++)
        if (len == 0 || p->rows[len - 1].seq != p->rows[i].seq) p->rows[len++] = p->rows[i];
    p->len = len;
}

void collect_answers(struct collect_answers *a, struct open_queue *q, const struct listen_part *p,
                     struct shard_runner *r, struct sluice_error *error)
{
    struct asked_part part = {.answers = a,
                              .rows = memory_zeroed(p->what.len, sizeof *part.rows),
                              .ended = memory_zeroed(p->what.len, sizeof *part.ended)};
    for (size_t i = 0; i < p->what.len; i++)
        if (p->asks[i].after & LISTEN_ANSWER) part.rows[part.len++].seq = p->asks[i].ref.seq;
    if (part.len > 0) {
        sort_rows(&part);
        runner_inspect(r, see_answers, &part);
        read_texts(a, q, p->shard, &part, r, error);
    }
    for (size_t i = 0; i < part.len; i++) {
        char id[SLUICE_ID_MAX];
        if (part.rows[i].in_part) continue;
        id_print(queue_ref(q), p->shard, part.rows[i].seq, id);
        if (part.rows[i].known)
            collected_add_id(a->out, &a->out->asked, id);
        else
            add_unknown(a, id);
    }
    memory_free(part.rows);
    memory_free(part.ended);
}
