// SPDX-License-Identifier: Apache-2.0
// Cancels messages through a node.
#include "remote/remote.h"

#include "base/memory.h"
#include "os/entropy.h"

#include <string.h>

// Returns a constant string: the library promises that a status is one.
static const char *status_of(const struct json *row)
{
    struct json *v = json_member(row, "status");
    bool purged = v && json_kind(v) == JSON_KIND_TEXT &&
                  strcmp((const char *)json_as_text(v).data, "purged") == 0;
    return purged ? "purged" : "cancelled";
}

static enum sluice_code cancel_part(struct sluice *s, const char *queue, const struct cancel_in *in,
                                    struct sluice_outcome *outcomes, struct sluice_error *error)
{
    enum sluice_code code;
    size_t len = in->ids.len;
    struct sluice_request request;
    entropy_fill(request.bytes, sizeof request.bytes);
    struct ask ask = {.call = CALL_CANCEL, .queue = queue, .in = in, .request = &request};
    struct json *o = remote_ask_json(remote_of(s), &ask, &code, error);
    struct json *rows = o ? json_member(o, "outcomes") : NULL;
    bool told = rows && json_kind(rows) == JSON_KIND_LIST && json_list_len(rows) == len;
    if (o && !told)
        code = refuse(error, ERR_CORRUPT, "store", "the node's answer has not %zu outcomes", len);
    for (size_t i = 0; i < len; i++) {
        outcomes[i] = (struct sluice_outcome){.code = code, .status = ""};
        if (told) fields_take(json_list_at(rows, i), &outcome_answer, &outcomes[i]);
        if (told && !outcomes[i].code) outcomes[i].status = status_of(json_list_at(rows, i));
    }
    struct json *why = told ? json_member(o, "error") : NULL;
    struct sluice_error first = {.code = SLUICE_OK};
    if (why) fields_take(why, &problem_answer, &first);
    if (first.code && error) *error = first;
    json_free(o);
    return first.code ? first.code : code;
}

enum sluice_code remote_cancel(struct sluice *s, const char *queue, const char *const *ids,
                               size_t len, const char *reason, struct sluice_outcome *outcomes,
                               struct sluice_error *error)
{
    struct sluice_outcome *rows = outcomes ? outcomes : memory_zeroed(len + 1, sizeof *rows);
    enum sluice_code first = SLUICE_OK;
    for (size_t done = 0, some; done < len; done += some) {
        some = len - done < CALL_ITEMS_MAX ? len - done : CALL_ITEMS_MAX;
        struct cancel_in in = {.ids = {ids + done, some}, .reason = reason};
        enum sluice_code code = cancel_part(s, queue, &in, rows + done, first ? NULL : error);
        if (!first) first = code;
    }
    if (!outcomes) memory_free(rows);
    return first;
}
