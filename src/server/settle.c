// SPDX-License-Identifier: Apache-2.0
// ack, fail, release and renew: settles locks by their tokens.
#include "protocol/wire.h"
#include "server/inside.h"

#include <stdio.h>
#include <string.h>

struct json *outcomes_json(const struct async_answer *a)
{
    struct json *list = json_list_new();
    for (size_t i = 0; i < a->len; i++)
        json_list_take(list, fields_json(&outcome_answer, &a->outcomes[i]));
    return list;
}

// Returns whether the store, or a reused request id, failed all tokens alike, or the call got to
// none of them.
static bool failed_whole(const struct exchange *x, const struct async_answer *a)
{
    if (x->single || a->len == 0) return a->code != SLUICE_OK;
    bool reused = strcmp(a->error->reason, "request-reused") == 0;
    if (a->code != SLUICE_UNAVAILABLE && a->code != SLUICE_UNKNOWN && a->code != SLUICE_CORRUPT &&
        !reused)
        return false;
    for (size_t i = 0; i < a->len; i++)
        if (a->outcomes[i].code != a->code) return false;
    return true;
}

static void answer_outcomes(struct exchange *x, const struct async_answer *a)
{
    if (x->wire_out) {
        struct buf body;
        buf_init(&body, SIZE_MAX);
        wire_put_outcomes(&body, a->outcomes, a->len, a->error);
        answer_bytes(x, 200, WIRE_TYPE, &body);
        return;
    }
    if (x->single) {
        answer_json(x, 200, fields_json(&outcome_answer, &a->outcomes[0]));
        return;
    }
    struct json *o = json_new();
    json_take(o, "outcomes", outcomes_json(a));
    answer_json(x, 200, o);
}

static void settled(struct async_call *async, const struct async_answer *a)
{
    struct exchange *x = (struct exchange *)async;
    struct server *s = x->server;
    metrics_settled(x, a);
    if (failed_whole(x, a))
        answer_error(x, a->error);
    else
        answer_outcomes(x, a);
    call_end(s);
}

static void settle(struct exchange *x, const struct settle_in *in,
                   const struct settle_lists *carried)
{
    struct settle what = {.kind = x->outcome,
                          .tokens = in->tokens.rows,
                          .len = in->tokens.len,
                          .wait_ms = in->wait,
                          .reason = in->reason,
                          .acks = x->outcome == SETTLE_ACK ? carried->acks : NULL,
                          .renewals = x->outcome == SETTLE_RENEW ? carried->renewals : NULL,
                          .request = x->has_request ? &x->request : NULL};
    x->async.done = settled;
    x->async.token = auth_secret(x);
    call_begin(x->server);
    async_settle(x->server->engine, x->queue, &what, &x->async);
}

static bool check_tokens(struct exchange *x, const struct settle_in *in)
{
    int given = (in->token != NULL) + (in->tokens.rows != NULL) + (in->rows != NULL);
    if (given == 1) return true;
    return refuse_request(x, SLUICE_INVALID, "", "token", "give one token, or tokens: a list");
}

// It would not be clear which of several tokens carries it.
static bool check_carries(struct exchange *x, const char *name, bool given)
{
    if (!given || x->single) return true;
    const char *list = x->outcome == SETTLE_ACK ? "acks" : "renewals";
    return refuse_request(x, SLUICE_INVALID, "", name, "%s is for one token; give token, or %s",
                          name, list);
}

// What one lock carries. text: of the object.
static bool read_carried(struct exchange *x, struct json *object, struct bytes text,
                         struct settle_in *in, struct sluice_ack *ack,
                         struct sluice_renewal *renewal)
{
    if (!read_value(x, object, text, "result", &in->result)) return false;
    *ack = (struct sluice_ack){
        .result = in->result.data, .result_len = in->result.len, .content_type = in->result_type};
    *renewal = (struct sluice_renewal){.has_progress = in->progress >= 0,
                                       .percent = in->progress >= 0 ? (int)in->progress : 0,
                                       .text = in->progress_text};
    return true;
}

static bool read_row(struct exchange *x, struct json *list, size_t index, const char **token,
                     struct sluice_ack *ack, struct sluice_renewal *renewal)
{
    bool acks = x->outcome == SETTLE_ACK;
    const char *name = acks ? "acks" : "renewals";
    struct settle_in in = {.progress = -1};
    struct json *one = json_list_at(list, index);
    char path[FIELD_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s[%zu].", name, index);
    if (json_kind(one) != JSON_KIND_OBJECT)
        return refuse_request(x, SLUICE_INVALID, "", name, "%s[%zu] is %s; it should be an object",
                              name, index, json_kind_name(json_kind(one)));
    if (!read_object(x, one, path, acks ? &ack_row_fields : &renewal_fields, &in) ||
        !read_carried(x, one, BYTES_EMPTY, &in, ack, renewal))
        return false;
    *token = in.token;
    return in.token || refuse_request(x, SLUICE_INVALID, "", "token", "%stoken is missing", path);
}

// The exchange keeps the rows.
static bool read_rows(struct exchange *x, struct settle_in *in, struct settle_lists *carried)
{
    size_t len = json_list_len(in->rows);
    const char **tokens = kept_new(&x->kept, (len + 1) * sizeof *tokens);
    carried->acks = kept_new(&x->kept, (len + 1) * sizeof *carried->acks);
    carried->renewals = kept_new(&x->kept, (len + 1) * sizeof *carried->renewals);
    for (size_t i = 0; i < len; i++)
        if (!read_row(x, in->rows, i, &tokens[i], &carried->acks[i], &carried->renewals[i]))
            return false;
    in->tokens = (struct field_texts){tokens, len};
    return true;
}

static void settle_json(struct exchange *x)
{
    struct settle_in in = {.progress = -1};
    struct sluice_ack ack;
    struct sluice_renewal renewal;
    if (!read_request(x, &in) || !check_tokens(x, &in)) return;
    x->single = in.token != NULL;
    if (x->single) in.tokens = (struct field_texts){&in.token, 1};
    if (!read_carried(x, x->kept.json, httpd_body(x->http), &in, &ack, &renewal) ||
        !check_carries(x, "result", ack.result || ack.content_type) ||
        !check_carries(x, "progress", renewal.has_progress || renewal.text))
        return;
    struct settle_lists carried = {.acks = ack.result || ack.content_type ? &ack : NULL,
                                   .renewals =
                                       renewal.has_progress || renewal.text ? &renewal : NULL};
    if (!in.rows || read_rows(x, &in, &carried)) settle(x, &in, &carried);
}

static void settle_wire(struct exchange *x)
{
    struct settle_in in;
    struct settle_lists carried;
    if (!read_query(x, &no_fields, NULL)) return;
    if (!wire_read_settle(httpd_body(x->http), &in, &carried)) {
        (void)refuse_request(x, SLUICE_INVALID, "malformed", "body",
                             "the body is not a list of tokens in the encoding %s", WIRE_TYPE);
        return;
    }
    if (check_fields(x, &in)) settle(x, &in, &carried);
    compact_texts_done(&in.tokens);
    wire_carried_done(&carried);
}

void handle_settle(struct exchange *x)
{
    static const enum settle_kind kinds[ROUTE_COUNT] = {[ROUTE_ACK] = SETTLE_ACK,
                                                        [ROUTE_FAIL] = SETTLE_FAIL,
                                                        [ROUTE_RELEASE] = SETTLE_RELEASE,
                                                        [ROUTE_RENEW] = SETTLE_RENEW};
    x->outcome = kinds[x->route->row - route_table];
    if (x->outcome == SETTLE_RENEW) present_note(x);
    if (x->wire_in)
        settle_wire(x);
    else
        settle_json(x);
}
