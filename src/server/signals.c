// SPDX-License-Identifier: Apache-2.0
// Acting on single messages: cancel.
#include "local/cancel.h"
#include "server/inside.h"

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
