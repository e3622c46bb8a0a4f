// SPDX-License-Identifier: Apache-2.0
#include "protocol/signal_list.h"

#include "base/array.h"
#include "base/check.h"
#include "base/digits.h"
#include "base/memory.h"
#include "base/text.h"
#include "protocol/errors.h"

#include <string.h>

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
    struct sluice_signal_state *row = ARRAY_ADD(l->list.rows, l->list.len, l->cap);
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

void signal_state_fill(struct sluice_signal_state *row, struct queue_ref q, uint32_t shard,
                       const struct signal_view *v, const char *token)
{
    *row = (struct sluice_signal_state){.code = SLUICE_OK};
    signal_id_print(&v->id, row->id);
    id_print(q, shard, v->seq, row->message);
    (void)text_copy(row->token, sizeof row->token, token ? token : "");
    row->number = v->number;
    row->kind = signal_kind_name(v->kind);
    row->state = signal_state_name(v->state);
    row->deliveries = v->deliveries;
    row->sent_at = v->sent_at;
    row->until = v->until;
    row->ended_at = v->ended_at;
}
