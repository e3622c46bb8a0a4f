// SPDX-License-Identifier: Apache-2.0
// Acting on single messages: cancel and signals.
#include "local/signals.h"
#include "local/cancel.h"
#include "local/collect.h"
#include "server/inside.h"
#include "wire/wire.h"

#include <stdio.h>
#include <string.h>

static struct acting acting_of(const struct exchange *x)
{
    return (struct acting){.request = x->has_request ? &x->request : NULL, .token = auth_secret(x)};
}

// Returns whether the call failed for all messages alike, before the fold decided about one.
static bool failed_whole(const struct sluice_outcome *rows, size_t len, enum sluice_code code)
{
    for (size_t i = 0; i < len; i++)
        if (rows[i].code != code || *rows[i].reason) return false;
    return code != SLUICE_OK;
}

void handle_cancel(struct exchange *x)
{
    struct cancel_in in = {0};
    struct sluice_error error = {.code = SLUICE_OK};
    if (!read_request(x, &in)) return;
    if (in.ids.len == 0) {
        (void)refuse_request(x, SLUICE_INVALID, "", "ids", "ids is empty: give at least one id");
        return;
    }
    struct acting as = acting_of(x);
    struct sluice_outcome *rows = kept_new(&x->kept, in.ids.len * sizeof *rows);
    enum sluice_code code = cancel_messages(x->server->store, x->queue, in.ids.rows, in.ids.len,
                                            in.reason, &as, rows, &error);
    if (failed_whole(rows, in.ids.len, code)) {
        answer_error(x, &error);
        return;
    }
    struct json *o = json_new();
    int64_t done = 0;
    for (size_t i = 0; i < in.ids.len; i++)
        done += rows[i].code == SLUICE_OK;
    json_number(o, "cancelled", done);
    struct async_answer rest = {.outcomes = rows, .len = in.ids.len};
    json_take(o, "outcomes", outcomes_json(&rest));
    if (code) json_take(o, "error", problem_json(err_http((enum err)code), &error));
    answer_json(x, 200, o);
}

void handle_cancel_one(struct exchange *x)
{
    struct cancel_in in = {0};
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_outcome outcome;
    const char *id = x->id;
    if (!read_request(x, &in)) return;
    struct acting as = acting_of(x);
    enum sluice_code code =
        cancel_messages(x->server->store, x->queue, &id, 1, in.reason, &as, &outcome, &error);
    if (answer_unless(x, code, &error)) answer_json(x, 200, fields_json(&outcome_answer, &outcome));
}

// Answers with the rows. If `out` is NULL, nothing was done.
static void answer_signals(struct exchange *x, struct sluice_signals *out, enum sluice_code code,
                           const struct sluice_error *error)
{
    if (!out || (x->single && code)) {
        sluice_signals_free(out);
        answer_error(x, error);
        return;
    }
    if (x->wire_out) {
        struct buf body;
        buf_init(&body, SIZE_MAX);
        wire_put_signals(&body, out, code ? error : NULL);
        sluice_signals_free(out);
        answer_bytes(x, 200, WIRE_TYPE, &body);
        return;
    }
    struct json *o = fields_json(&signal_id_answer, out), *list = json_list_new();
    for (size_t i = 0; i < out->len; i++)
        json_list_take(list, fields_json(&signal_answer, &out->rows[i]));
    json_take(o, "signals", list);
    if (code) json_take(o, "error", problem_json(err_http((enum err)code), error));
    sluice_signals_free(out);
    answer_json(x, 200, o);
}

void handle_signal(struct exchange *x)
{
    struct signal_in in = {.ttl = -1, .grace = -1};
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_signals *out = NULL;
    const char *id = x->id;
    if (!read_request(x, &in) ||
        !read_value(x, x->kept.json, httpd_body(x->http), "payload", &in.payload))
        return;
    if (in.ttl == 0) {
        (void)refuse_request(x, SLUICE_INVALID, "", "ttl",
                             "ttl must be between 1ms and 7d, not 0ms");
        return;
    }
    if (in.now && in.grace >= 0) {
        (void)refuse_request(x, SLUICE_INVALID, "", "now", "give now or grace, not both");
        return;
    }
    struct sluice_signal what = {.kind = in.kind,
                                 .ids = in.ids.rows,
                                 .ids_len = in.ids.len,
                                 .workflow = x->workflow ? x->workflow : in.workflow,
                                 .worker = x->named ? x->named : in.worker,
                                 .payload = in.payload.data,
                                 .payload_len = in.payload.len,
                                 .ttl_ms = in.ttl > 0 ? in.ttl : 0,
                                 .when_idle = in.when_idle,
                                 .on_lock_end = in.on_lock_end,
                                 .reason = in.reason,
                                 .grace_ms = in.grace > 0 ? in.grace : 0,
                                 .now = in.now || in.grace == 0,
                                 .then = in.then};
    if (*x->id) {
        what.ids = &id;
        what.ids_len = 1;
        x->single = true;
    }
    struct acting as = acting_of(x);
    enum sluice_code code = signal_send(x->server->store, x->queue, &what, &as, &out, &error);
    answer_signals(x, out, code, &error);
}

bool collect_ask_running(struct exchange *x, struct collect_poll *poll, struct collected **asked)
{
    struct sluice_error error = {.code = SLUICE_OK};
    struct acting as = acting_of(x);
    if (!auth_allow(x, SCOPE_SIGNAL, x->queue)) return false;
    *asked = collected_new();
    enum sluice_code code = collect_ask(x->server->store, x->queue, poll, &as, *asked, &error);
    collect_go_on(poll, *asked);
    if (!code) return true;
    collected_free(*asked);
    *asked = NULL;
    return answer_unless(x, code, &error);
}

void handle_signal_withdraw(struct exchange *x)
{
    struct withdraw_in in = {0};
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_signals *out = NULL;
    if (!read_request(x, x->signal ? NULL : &in)) return;
    const char *signal = x->signal ? x->signal : in.signal;
    const char *message = x->signal ? x->id : in.message;
    struct acting as = acting_of(x);
    x->single = x->signal != NULL;
    enum sluice_code code =
        signal_withdraw(x->server->store, x->queue, signal, message, &as, &out, &error);
    answer_signals(x, out, code, &error);
}

void handle_signals(struct exchange *x)
{
    struct signals_in in = {0};
    struct sluice_error error = {.code = SLUICE_OK};
    struct sluice_signals *out = NULL;
    if (!read_request(x, &in)) return;
    struct signals_wanted want = {.message = *x->id ? x->id : in.message,
                                  .workflow = x->workflow,
                                  .worker = x->named,
                                  .max = in.max};
    enum sluice_code code = signals_list(x->server->store, x->queue, &want, &out, &error);
    answer_signals(x, out, code, &error);
}

static bool read_answer(struct exchange *x, struct json *object, const char *path,
                        struct bytes text, struct sluice_signal_answer *out)
{
    struct signal_ack_in in = {0};
    if (!read_object(x, object, path, &signal_ack_row_fields, &in) ||
        !read_value(x, object, text, "answer", &in.answer))
        return false;
    if (!in.token || in.number == 0)
        return refuse_request(x, SLUICE_INVALID, "", in.token ? "number" : "token",
                              "%s%s is missing: an answer has a token and a number", path,
                              in.token ? "number" : "token");
    *out = (struct sluice_signal_answer){.token = in.token,
                                         .number = in.number,
                                         .decline = in.decline,
                                         .answer = in.answer.data,
                                         .answer_len = in.answer.len};
    return true;
}

// Returns the answers, which the exchange keeps. NULL: the request was answered.
static struct sluice_signal_answer *read_answers(struct exchange *x, struct json *root, size_t *len)
{
    struct json *list = json_member(root, "signals");
    x->single = !list;
    *len = list && json_kind(list) == JSON_KIND_LIST ? json_list_len(list) : 1;
    struct sluice_signal_answer *rows = kept_new(&x->kept, (*len + 1) * sizeof *rows);
    if (x->single) return read_answer(x, root, "", httpd_body(x->http), rows) ? rows : NULL;
    struct signal_ack_in in = {0};
    if (!read_object(x, root, "", &signal_ack_fields, &in)) return NULL;
    if (!in.signals || in.token || in.number > 0 || in.answer.data || *len == 0) {
        (void)refuse_request(x, SLUICE_INVALID, "", "signals",
                             "give one answer, or signals: a list of answers");
        return NULL;
    }
    for (size_t i = 0; i < *len; i++) {
        char path[FIELD_PATH_MAX];
        struct json *one = json_list_at(list, i);
        (void)snprintf(path, sizeof path, "signals[%zu].", i);
        if (json_kind(one) != JSON_KIND_OBJECT) {
            (void)refuse_request(x, SLUICE_INVALID, "", "signals",
                                 "signals[%zu] is %s; it should be an object", i,
                                 json_kind_name(json_kind(one)));
            return NULL;
        }
        if (!read_answer(x, one, path, BYTES_EMPTY, &rows[i])) return NULL;
    }
    return rows;
}

void handle_signals_ack(struct exchange *x)
{
    struct sluice_error error = {.code = SLUICE_OK};
    struct json *root = read_json(x);
    size_t len;
    if (!root || !read_query(x, &no_fields, NULL)) return;
    const struct sluice_signal_answer *answers = read_answers(x, root, &len);
    if (!answers) return;
    struct acting as = acting_of(x);
    struct sluice_outcome *rows = kept_new(&x->kept, (len + 1) * sizeof *rows);
    enum sluice_code code =
        signals_settle(x->server->store, x->queue, answers, len, &as, rows, &error);
    if (x->single ? code != SLUICE_OK : failed_whole(rows, len, code)) {
        answer_error(x, &error);
        return;
    }
    if (x->single) {
        answer_json(x, 200, fields_json(&outcome_answer, &rows[0]));
        return;
    }
    struct json *o = json_new();
    struct async_answer rest = {.outcomes = rows, .len = len};
    json_take(o, "outcomes", outcomes_json(&rest));
    if (code) json_take(o, "error", problem_json(err_http((enum err)code), &error));
    answer_json(x, 200, o);
}
