// SPDX-License-Identifier: Apache-2.0
#include "ops/signal_rows.h"

#include "base/check.h"
#include "base/memory.h"

static void set_text(struct sluice_signal_state *row, const struct signal_delivery *from,
                     const void *text)
{
    bool pending = from->view.state == SIGNAL_PENDING;
    *(pending ? &row->payload : &row->answer) = text;
    *(pending ? &row->payload_len : &row->answer_len) = from->text.len;
}

void signal_list_add_delivery(struct signal_list *l, const struct open_queue *q, uint32_t shard,
                              const struct signal_delivery *from, const char *token)
{
    struct sluice_signal_state *row = signal_list_add(l);
    signal_state_fill(row, queue_ref(q), shard, &from->view, token);
    if (from->kept) set_text(row, from, signal_list_keep(l, from->text));
    // The slot of a pending signal is kept, so its payload is damaged.
    if (!from->kept && from->view.state == SIGNAL_PENDING) row->code = SLUICE_CORRUPT;
}

// One block: the rows, then their texts.
static void attach(struct sluice_message *m, const struct open_queue *q, uint32_t shard,
                   const struct kept_signals *s, uint64_t seq)
{
    size_t len = 0, bytes = 0;
    for (size_t i = 0; i < s->len; i++) {
        if (s->rows[i].view.seq != seq) continue;
        len++;
        bytes += s->rows[i].text.len + 1;
    }
    if (len == 0) return;
    struct sluice_signal_state *rows = memory_new(len * sizeof *rows + bytes);
    char *at = (char *)(rows + len);
    m->signals = rows;
    for (size_t i = 0; i < s->len; i++) {
        if (s->rows[i].view.seq != seq) continue;
        struct sluice_signal_state *row = &rows[m->signals_len++];
        signal_state_fill(row, queue_ref(q), shard, &s->rows[i].view, m->token);
        if (s->rows[i].kept) set_text(row, &s->rows[i], text_append(&at, s->rows[i].text));
    }
}

void batch_add_signals(struct sluice_batch *batch, const struct open_queue *q, uint32_t shard,
                       const struct kept_reply *a)
{
    for (size_t i = 0; a->signals && i < batch->len; i++) {
        uint32_t at;
        uint64_t seq;
        if (!id_parse(queue_ref(q), batch->messages[i].id, &at, &seq, NULL))
            attach(&batch->messages[i], q, shard, a->signals, seq);
    }
}

struct signal_views {
    uint64_t seq;
    struct signal_view views[SIGNALS_OF_MESSAGE_MAX];
    size_t len;
};

static void see_signals(void *ctx, const struct machine *m, int64_t now)
{
    struct signal_views *s = ctx;
    (void)now;
    s->len = machine_signals_of(m, s->seq, s->views, SIGNALS_OF_MESSAGE_MAX);
}

static const void *copy_text(char **at, const void *text, size_t len)
{
    return text ? text_append(at, bytes_of(text, len)) : NULL;
}

// One block, as above.
static void attach_list(struct sluice_message *m, const struct sluice_signals *list)
{
    size_t bytes = 0;
    for (size_t i = 0; i < list->len; i++)
        bytes += list->rows[i].payload_len + list->rows[i].answer_len + 2;
    struct sluice_signal_state *rows = memory_new(list->len * sizeof *rows + bytes);
    char *at = (char *)(rows + list->len);
    for (size_t i = 0; i < list->len; i++) {
        rows[i] = list->rows[i];
        rows[i].payload = copy_text(&at, rows[i].payload, rows[i].payload_len);
        rows[i].answer = copy_text(&at, rows[i].answer, rows[i].answer_len);
    }
    m->signals = rows;
    m->signals_len = list->len;
}

enum sluice_code message_add_signals(struct sluice_message *m, struct open_queue *q, uint32_t shard,
                                     struct shard_runner *r, uint64_t seq, size_t left,
                                     struct sluice_error *error)
{
    CLEANUP(memory_let_go) struct signal_views *seen = NEW(struct signal_views);
    enum sluice_code code = SLUICE_OK;
    seen->seq = seq;
    runner_inspect(r, see_signals, seen);
    if (seen->len > 0) {
        struct signal_list *l = signal_list_new();
        code = signal_list_add_views(l, q, shard, r, seen->views, seen->len, NULL, &left, error);
        struct sluice_signals *list = signal_list_take(l);
        if (!code) attach_list(m, list);
        sluice_signals_free(list);
    }
    return code;
}

static bool is_of(const struct sluice_signal_state *row, const struct sluice_message *m)
{
    return row->code == SLUICE_OK && strcmp(row->token, m->token) == 0;
}

// One block: the rows, then their payloads.
static void attach_listed(struct sluice_message *m, const struct sluice_signals *list)
{
    size_t len = 0, bytes = 0;
    for (size_t i = 0; i < list->len; i++) {
        if (!is_of(&list->rows[i], m)) continue;
        len++;
        bytes += list->rows[i].payload_len + 1;
    }
    if (len == 0) return;
    struct sluice_signal_state *rows = memory_new(len * sizeof *rows + bytes);
    char *at = (char *)(rows + len);
    m->signals = rows;
    for (size_t i = 0; i < list->len; i++) {
        if (!is_of(&list->rows[i], m)) continue;
        struct sluice_signal_state *row = &rows[m->signals_len++];
        *row = list->rows[i];
        if (row->payload) row->payload = text_append(&at, bytes_of(row->payload, row->payload_len));
    }
}

void batch_add_listed(struct sluice_batch *batch, const struct sluice_signals *list)
{
    for (size_t i = 0; i < batch->len; i++)
        attach_listed(&batch->messages[i], list);
}

#define PIECE 64 // signals whose texts are read at a time

static void take_text(struct signal_list *l, const struct reason_text *from, size_t *left,
                      const void **text, size_t *len)
{
    if (!from->kept || from->text.len > *left) return;
    *left -= from->text.len;
    *text = signal_list_keep(l, from->text);
    *len = from->text.len;
}

static struct reason_place place_of(const struct op_place *p)
{
    return (struct reason_place){.slot = p->slot, .op = p->op, .index = p->index};
}

static enum sluice_code add_piece(struct signal_list *l, struct open_queue *q, uint32_t shard,
                                  struct shard_runner *r, const struct signal_view *views,
                                  size_t len, const char *token, size_t *left,
                                  struct sluice_error *error)
{
    struct reason_place places[2 * PIECE];
    struct shard_places wants = {.reasons = places};
    struct kept_reply answer;
    CHECK(len <= PIECE);
    for (size_t i = 0; i < len; i++) {
        if (views[i].carried.slot) places[wants.reasons_len++] = place_of(&views[i].carried);
        if (views[i].answer.slot) places[wants.reasons_len++] = place_of(&views[i].answer);
    }
    kept_reply_init(&answer);
    enum err err = wants.reasons_len > 0 ? runner_read(r, &wants, &answer) : ERR_OK;
    const struct reason_text *next = answer.reasons;
    for (size_t i = 0; !err && i < len; i++) {
        struct sluice_signal_state *row = signal_list_add(l);
        signal_state_fill(row, queue_ref(q), shard, &views[i], token);
        if (views[i].carried.slot) take_text(l, next++, left, &row->payload, &row->payload_len);
        if (views[i].answer.slot) take_text(l, next++, left, &row->answer, &row->answer_len);
    }
    enum sluice_code code =
        err ? refuse_why(error, err, q->row.name, answer.why ? answer.why : "") : SLUICE_OK;
    kept_reply_done(&answer);
    return code;
}

enum sluice_code signal_list_add_views(struct signal_list *l, struct open_queue *q, uint32_t shard,
                                       struct shard_runner *r, const struct signal_view *views,
                                       size_t len, const char *token, size_t *left,
                                       struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    for (size_t at = 0; !code && at < len; at += PIECE) {
        size_t some = len - at < PIECE ? len - at : PIECE;
        code = add_piece(l, q, shard, r, views + at, some, token, left, error);
    }
    return code;
}
