// SPDX-License-Identifier: Apache-2.0
// Acting on single messages: cancel and signals.
#include "ops/signals.h"
#include "ops/collect.h"
#include "ops/ops.h"
#include "protocol/wire.h"
#include "server/inside.h"

#include <stdio.h>
#include <string.h>

// Returns whether the call failed for all messages alike, before the fold decided about one.
static bool failed_whole(const struct sluice_outcome *rows, size_t len, enum sluice_code code)
{
    for (size_t i = 0; i < len; i++)
        if (rows[i].code != code || *rows[i].reason) return false;
    return code != SLUICE_OK;
}

struct outcomes_result {
    size_t len;
    struct sluice_outcome rows[];
};

static struct request_origin act_on(struct exchange *x, size_t len, answer_fn *answer)
{
    struct outcomes_result *r;
    struct request_origin as = act(x, sizeof *r + len * sizeof *r->rows, answer);
    r = x->result;
    r->len = len;
    return as;
}

// counted: the name of the number of messages that it was done to; NULL: none.
static void answer_outcomes(struct exchange *x, const struct async_answer *a, const char *counted)
{
    const struct outcomes_result *r = x->result;
    if (x->single ? a->code != SLUICE_OK : failed_whole(r->rows, r->len, a->code)) {
        answer_error(x, a->error);
        return;
    }
    if (x->single) {
        answer_json(x, 200, fields_json(&outcome_answer, r->rows));
        return;
    }
    struct json *o = json_new();
    int64_t done = 0;
    for (size_t i = 0; i < r->len; i++)
        done += r->rows[i].code == SLUICE_OK;
    if (counted) json_number(o, counted, done);
    struct async_answer rest = {.outcomes = r->rows, .len = r->len};
    json_take(o, "outcomes", outcomes_json(&rest));
    if (a->code) json_take(o, "error", problem_json(err_http((enum err)a->code), a->error));
    answer_json(x, 200, o);
}

static void answer_cancelled(struct exchange *x, const struct async_answer *a)
{
    answer_outcomes(x, a, "cancelled");
}

static void cancel(struct exchange *x, const char *const *ids, size_t len, const char *reason)
{
    struct request_origin as = act_on(x, len, answer_cancelled);
    struct outcomes_result *r = x->result;
    (void)start_cancel(&as, x->queue, ids, len, reason, r->rows, NULL);
}

void handle_cancel(struct exchange *x)
{
    struct cancel_in in = {0};
    if (!read_request(x, &in)) return;
    if (in.ids.len == 0)
        (void)refuse_request(x, SLUICE_INVALID, "", "ids", "ids is empty: give at least one id");
    else
        cancel(x, in.ids.rows, in.ids.len, in.reason);
}

void handle_cancel_one(struct exchange *x)
{
    struct cancel_in in = {0};
    if (!read_request(x, &in)) return;
    const char **id = kept_new(&x->kept, sizeof *id);
    *id = x->id;
    x->single = true;
    cancel(x, id, 1, in.reason);
}

// Answers with the rows. If there are none, nothing was done.
static void answer_signals(struct exchange *x, const struct async_answer *a)
{
    struct sluice_signals *out = *(struct sluice_signals **)x->result;
    const struct sluice_error *error = a->error;
    enum sluice_code code = a->code;
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
    struct sluice_signal *what = kept_new(&x->kept, sizeof *what);
    *what = (struct sluice_signal){.kind = in.kind,
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
        const char **id = kept_new(&x->kept, sizeof *id);
        *id = x->id;
        what->ids = id;
        what->ids_len = 1;
        x->single = true;
    }
    struct request_origin as = act(x, sizeof(struct sluice_signals *), answer_signals);
    (void)start_signal(&as, x->queue, what, as.request, x->result, NULL);
}

bool collect_ask_running(struct exchange *x, struct collect_poll *poll,
                         struct collected_list **asked)
{
    struct sluice_error error = {.code = SLUICE_OK};
    struct request_origin as = {.engine = x->server->engine,
                                .request = x->has_request ? &x->request : NULL,
                                .token = auth_secret(x)};
    if (!auth_allow(x, SCOPE_SIGNAL, x->queue)) return false;
    *asked = collected_new();
    enum sluice_code code = collect_ask(&as, x->queue, poll, *asked, &error);
    collect_go_on(poll, *asked);
    if (!code) return true;
    collected_free(*asked);
    *asked = NULL;
    return answer_unless(x, code, &error);
}

void handle_signal_withdraw(struct exchange *x)
{
    struct withdraw_in in = {0};
    if (!read_request(x, x->signal ? NULL : &in)) return;
    const char *signal = x->signal ? x->signal : in.signal;
    const char *message = x->signal ? x->id : in.message;
    x->single = x->signal != NULL;
    struct request_origin as = act(x, sizeof(struct sluice_signals *), answer_signals);
    (void)start_signal_withdraw(&as, x->queue, signal, message, x->result, NULL);
}

void handle_signals(struct exchange *x)
{
    struct signals_in in = {0};
    if (!read_request(x, &in)) return;
    struct signals_query want = {.message = *x->id ? x->id : in.message,
                                 .workflow = x->workflow,
                                 .worker = x->named,
                                 .max = in.max};
    struct request_origin as = act(x, sizeof(struct sluice_signals *), answer_signals);
    (void)signals_list(&as, x->queue, &want, x->result, NULL);
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

static void answer_settled(struct exchange *x, const struct async_answer *a)
{
    answer_outcomes(x, a, NULL);
}

void handle_signals_ack(struct exchange *x)
{
    struct json *root = read_json(x);
    size_t len;
    if (!root || !read_query(x, &no_fields, NULL)) return;
    const struct sluice_signal_answer *answers = read_answers(x, root, &len);
    if (!answers) return;
    struct request_origin as = act_on(x, len, answer_settled);
    struct outcomes_result *r = x->result;
    (void)start_signals_ack(&as, x->queue, answers, len, r->rows, NULL);
}
