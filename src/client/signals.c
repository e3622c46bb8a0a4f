// SPDX-License-Identifier: Apache-2.0
// Cancels messages and sends signals through a node. Answers about signals come in the compact
// encoding, so their bytes stay as they are.
#include "client/client.h"

#include "base/memory.h"
#include "os/entropy.h"
#include "protocol/wire.h"

#include <string.h>

#define ACK_BYTES_MAX ((size_t)4 << 20) // of answers in one request, unless one is larger

// Reads "outcomes" and "error". False: there are not as many outcomes.
static bool take_outcomes(const struct json *o, struct sluice_outcome *outcomes, size_t len,
                          struct sluice_error *first)
{
    struct json *rows = o ? json_member(o, "outcomes") : NULL;
    if (!rows || json_kind(rows) != JSON_KIND_LIST || json_list_len(rows) != len) return false;
    for (size_t i = 0; i < len; i++) {
        outcomes[i] = (struct sluice_outcome){.code = SLUICE_CORRUPT, .status = ""};
        fields_take(json_list_at(rows, i), &outcome_answer, &outcomes[i]);
    }
    struct json *why = json_member(o, "error");
    if (why) fields_take(why, &problem_answer, first);
    return true;
}

// Returns a constant string: the library promises that a status is one.
static const char *status_of(const struct json *o, size_t index)
{
    struct json *v = json_member(json_list_at(json_member(o, "outcomes"), index), "status");
    bool purged = v && json_kind(v) == JSON_KIND_TEXT &&
                  strcmp((const char *)json_as_text(v).data, "purged") == 0;
    return purged ? "purged" : "cancelled";
}

static enum sluice_code cancel_part(struct node_client *s, const char *queue,
                                    const struct cancel_in *in, struct sluice_outcome *outcomes,
                                    struct sluice_error *error)
{
    enum sluice_code code;
    size_t len = in->ids.len;
    struct sluice_request request;
    entropy_fill(request.bytes, sizeof request.bytes);
    struct ask ask = {.call = ROUTE_CANCEL, .queue = queue, .in = in, .request = &request};
    struct json *o = client_ask_json(s, &ask, &code, error);
    struct sluice_error first = {.code = SLUICE_OK};
    bool complete = take_outcomes(o, outcomes, len, &first);
    if (o && !complete)
        code = refuse(error, ERR_CORRUPT, "store", "the node's answer has not %zu outcomes", len);
    for (size_t i = 0; i < len; i++) {
        if (!complete) outcomes[i] = (struct sluice_outcome){.code = code, .status = ""};
        if (complete && !outcomes[i].code) outcomes[i].status = status_of(o, i);
    }
    if (first.code && error) *error = first;
    json_free(o);
    return first.code ? first.code : code;
}

enum sluice_code client_cancel(struct node_client *s, const char *queue, const char *const *ids,
                               size_t len, const char *reason, struct sluice_outcome *outcomes,
                               struct sluice_error *error)
{
    struct sluice_outcome *rows = outcomes ? outcomes : memory_zeroed(len + 1, sizeof *rows);
    enum sluice_code first = SLUICE_OK;
    for (size_t done = 0, some; done < len; done += some) {
        some = len - done < ROUTE_ITEMS_MAX ? len - done : ROUTE_ITEMS_MAX;
        struct cancel_in in = {.ids = {ids + done, some}, .reason = reason};
        enum sluice_code code = cancel_part(s, queue, &in, rows + done, first ? NULL : error);
        if (!first) first = code;
    }
    if (!outcomes) memory_free(rows);
    return first;
}

// Makes a call whose answer has the rows of signals. ask->in: its query or its body.
static enum sluice_code ask_signals(struct node_client *r, struct ask *ask,
                                    struct sluice_signals **out, struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    CLEANUP(buf_done) struct buf body;
    const struct fields *fields = route_table[ask->call].body;
    struct sluice_signals *list;
    struct sluice_error first = {.code = SLUICE_OK};
    http_call_init(&call, NULL, NULL);
    buf_init(&body, SIZE_MAX);
    if (fields) json_write(fields_json(fields, ask->in), &body);
    ask->body = buf_bytes(&body);
    ask->wire_answer = true;
    ask->until = client_until(r);
    enum sluice_code code = client_ask(r, ask, &call, NULL, error);
    if (code) return code;
    if (!wire_read_signals(buf_bytes(&call.body_in), &list, &first))
        return client_unreadable(&call, error);
    if (first.code && error) *error = first;
    if (out) *out = list;
    if (!out) sluice_signals_free(list);
    return first.code;
}

enum sluice_code client_signal(struct node_client *s, const char *queue,
                               const struct sluice_signal *what,
                               const struct sluice_request *request, struct sluice_signals **out,
                               struct sluice_error *error)
{
    struct op_signal op;
    struct sluice_request id;
    if (out) *out = NULL;
    enum sluice_code code = signal_check(what, &op, error); // the same sentences as on a store
    if (code) return code;
    entropy_fill(id.bytes, sizeof id.bytes);
    struct signal_in in = {.kind = what->kind,
                           .ids = {what->ids, what->ids_len},
                           .workflow = what->workflow,
                           .worker = what->worker,
                           .payload = bytes_of(what->payload, what->payload_len),
                           .ttl = what->ttl_ms,
                           .when_idle = what->when_idle,
                           .on_lock_end = what->on_lock_end,
                           .reason = what->reason,
                           .grace = what->grace_ms,
                           .now = what->now,
                           .then = what->then};
    struct ask ask = {
        .call = ROUTE_SIGNAL, .queue = queue, .in = &in, .request = request ? request : &id};
    return ask_signals(s, &ask, out, error);
}

enum sluice_code client_signal_withdraw(struct node_client *s, const char *queue,
                                        const char *signal, const char *message,
                                        struct sluice_signals **out, struct sluice_error *error)
{
    struct withdraw_in in = {.signal = signal, .message = message};
    struct sluice_request id;
    entropy_fill(id.bytes, sizeof id.bytes);
    struct ask ask = {.call = ROUTE_WITHDRAW, .queue = queue, .in = &in, .request = &id};
    if (out) *out = NULL;
    return ask_signals(s, &ask, out, error);
}

enum sluice_code client_signals(struct node_client *s, const char *queue, const char *message,
                                uint32_t max, struct sluice_signals **out,
                                struct sluice_error *error)
{
    struct signals_in in = {.message = message, .max = max};
    struct ask ask = {.call = ROUTE_SIGNALS, .queue = queue, .in = &in};
    *out = NULL;
    return ask_signals(s, &ask, out, error);
}

static void put_answers(struct buf *to, const struct sluice_signal_answer *answers, size_t len)
{
    struct json *o = json_new(), *list = json_list_new();
    for (size_t i = 0; i < len; i++) {
        const struct sluice_signal_answer *a = &answers[i];
        struct signal_ack_in in = {.token = a->token,
                                   .number = a->number,
                                   .decline = a->decline != 0,
                                   .answer = bytes_of(a->answer, a->answer_len)};
        json_list_take(list, fields_json(&signal_ack_row_fields, &in));
    }
    json_take(o, "signals", list);
    json_write(o, to);
}

static enum sluice_code ack_part(struct node_client *s, const char *queue,
                                 const struct sluice_signal_answer *answers, size_t len,
                                 struct sluice_outcome *outcomes, struct sluice_error *error)
{
    struct node_client *r = s;
    struct sluice_request id;
    entropy_fill(id.bytes, sizeof id.bytes);
    LOCAL(http_call, call, NULL, NULL);
    LOCAL(buf, body, SIZE_MAX);
    put_answers(&body, answers, len);
    struct ask ask = {.call = ROUTE_SIGNALS_ACK,
                      .queue = queue,
                      .body = buf_bytes(&body),
                      .request = &id,
                      .until = client_until(r)};
    enum sluice_code code = client_ask(r, &ask, &call, NULL, error);
    struct json *o = code ? NULL : client_json(&call, error);
    if (!code && !o) code = SLUICE_CORRUPT;
    struct sluice_error first = {.code = SLUICE_OK};
    if (!take_outcomes(o, outcomes, len, &first) && !code) code = client_unreadable(&call, error);
    for (size_t i = 0; i < len; i++) {
        if (code) outcomes[i] = (struct sluice_outcome){.code = code, .status = ""};
        if (!outcomes[i].code) outcomes[i].status = answers[i].decline ? "declined" : "acked";
    }
    if (first.code && error) *error = first;
    json_free(o);
    return first.code ? first.code : code;
}

// How many answers fit into one request.
static size_t part_len(const struct sluice_signal_answer *answers, size_t len)
{
    size_t count = 0, bytes = 0;
    while (count < len && count < ROUTE_ITEMS_MAX) {
        bytes += answers[count].answer_len;
        if (count > 0 && bytes > ACK_BYTES_MAX) break;
        count++;
    }
    return count;
}

enum sluice_code client_signals_ack(struct node_client *s, const char *queue,
                                    const struct sluice_signal_answer *answers, size_t len,
                                    struct sluice_outcome *outcomes, struct sluice_error *error)
{
    enum sluice_code first = signal_answers_check(answers, len, error);
    if (first) return first;
    struct sluice_outcome *rows = outcomes ? outcomes : memory_zeroed(len + 1, sizeof *rows);
    for (size_t done = 0, some; done < len; done += some) {
        some = part_len(answers + done, len - done);
        enum sluice_code code =
            ack_part(s, queue, answers + done, some, rows + done, first ? NULL : error);
        if (!first) first = code;
    }
    if (!outcomes) memory_free(rows);
    return first;
}
