// SPDX-License-Identifier: Apache-2.0
#include "local/signal_list.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

#define PIECE 64 // signals whose texts are read at a time

struct signal_text {
    struct signal_text *next;
    char text[];
};

struct signal_list {
    struct sluice_signals list; // first: sluice_signals_free frees the builder
    size_t cap;
    struct signal_text *texts;
    struct bytes input; // owned; empty unless it came from a node
};

struct signal_list *signal_list_new(void)
{
    return NEW(struct signal_list);
}

struct sluice_signal_state *signal_list_add(struct signal_list *l)
{
    if (l->list.len == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 4;
        l->list.rows = memory_resize(l->list.rows, l->cap * sizeof *l->list.rows);
    }
    struct sluice_signal_state *row = &l->list.rows[l->list.len++];
    *row = (struct sluice_signal_state){.kind = "", .state = ""};
    return row;
}

const void *signal_list_keep(struct signal_list *l, struct bytes text)
{
    struct signal_text *t = memory_new(sizeof *t + text.len + 1);
    if (text.len > 0) memcpy(t->text, text.data, text.len);
    t->text[text.len] = '\0';
    t->next = l->texts;
    l->texts = t;
    return t->text;
}

void signal_list_own(struct signal_list *l, struct bytes input)
{
    CHECK(!l->input.data);
    l->input = input;
}

size_t signal_list_len(const struct signal_list *l)
{
    return l->list.len;
}

struct sluice_signals *signal_list_take(struct signal_list *l)
{
    return &l->list;
}

void sluice_signals_free(struct sluice_signals *list)
{
    struct signal_list *l = (struct signal_list *)list;
    if (!l) return;
    while (l->texts) {
        struct signal_text *t = l->texts;
        l->texts = t->next;
        memory_free(t);
    }
    bytes_free(l->input);
    memory_free(l->list.rows);
    memory_free(l);
}

void signal_id_print(const struct request_id *id, char out[static SLUICE_SIGNAL_ID_MAX])
{
    *digits_put_hex(out, id->bytes, sizeof id->bytes) = '\0';
}

enum sluice_code signal_id_parse(const char *text, struct request_id *out,
                                 struct sluice_error *error)
{
    bool hex = text && digits_read_hex(text, out->bytes, sizeof out->bytes);
    if (hex && request_id_set(out)) return SLUICE_OK;
    if (!text || !*text)
        return refuse(error, ERR_INVALID, "signal",
                      "signal is missing: the id of a signal has 32 hex digits");
    return refuse(error, ERR_INVALID, "signal",
                  "\"%.100s\" is not the id of a signal, which has 32 hex digits%s", text,
                  hex ? ", not all of them 0" : "");
}

void signal_state_fill(struct sluice_signal_state *row, const struct open_queue *q, uint32_t shard,
                       const struct signal_view *v, const char *token)
{
    *row = (struct sluice_signal_state){.code = SLUICE_OK};
    signal_id_print(&v->id, row->id);
    id_print(q, shard, v->seq, row->message);
    (void)snprintf(row->token, sizeof row->token, "%s", token ? token : "");
    row->number = v->number;
    row->kind = signal_kind_name(v->kind);
    row->state = signal_state_name(v->state);
    row->deliveries = v->deliveries;
    row->sent_at = v->sent_at;
    row->until = v->until;
    row->ended_at = v->ended_at;
}

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
                                  struct shard_runner *d, const struct signal_view *views,
                                  size_t len, const char *token, size_t *left,
                                  struct sluice_error *error)
{
    struct reason_place places[2 * PIECE];
    struct shard_wants wants = {.reasons = places};
    struct runner_answer answer;
    CHECK(len <= PIECE);
    for (size_t i = 0; i < len; i++) {
        if (views[i].carried.slot) places[wants.reasons_len++] = place_of(&views[i].carried);
        if (views[i].answer.slot) places[wants.reasons_len++] = place_of(&views[i].answer);
    }
    runner_answer_init(&answer);
    enum err err = wants.reasons_len > 0 ? runner_read(d, &wants, &answer) : ERR_OK;
    const struct reason_text *next = answer.reasons;
    for (size_t i = 0; !err && i < len; i++) {
        struct sluice_signal_state *row = signal_list_add(l);
        signal_state_fill(row, q, shard, &views[i], token);
        if (views[i].carried.slot) take_text(l, next++, left, &row->payload, &row->payload_len);
        if (views[i].answer.slot) take_text(l, next++, left, &row->answer, &row->answer_len);
    }
    enum sluice_code code =
        err ? refuse_why(error, err, q->row.name, answer.why ? answer.why : "") : SLUICE_OK;
    runner_answer_done(&answer);
    return code;
}

enum sluice_code signal_list_add_views(struct signal_list *l, struct open_queue *q, uint32_t shard,
                                       struct shard_runner *d, const struct signal_view *views,
                                       size_t len, const char *token, size_t *left,
                                       struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    for (size_t at = 0; !code && at < len; at += PIECE) {
        size_t some = len - at < PIECE ? len - at : PIECE;
        code = add_piece(l, q, shard, d, views + at, some, token, left, error);
    }
    return code;
}
