// SPDX-License-Identifier: Apache-2.0
// Asks the running messages of a collect. A signal has up to SIGNAL_TARGETS_MAX messages, so there
// are several questions if there are more.
#include "ops/collect.h"
#include "ops/ops.h"

#include <string.h>

// A repeat of the request asks the same questions, so each has an id of its own.
static struct sluice_request request_of(const struct request_origin *as, size_t question)
{
    struct sluice_request request = *as->request;
    request.bytes[sizeof request.bytes - 1] ^= (uint8_t)question;
    return request;
}

static enum sluice_code ask(const struct request_origin *as, const char *queue,
                            const struct sluice_signal *what, struct collected_list *out,
                            struct sluice_error *error)
{
    struct sluice_request request;
    if (as->request) request = request_of(as, out->signals.len);
    struct sluice_signals *rows = NULL;
    struct sluice_error why = {.code = SLUICE_OK};
    enum sluice_code code =
        start_signal(as, queue, what, as->request ? &request : NULL, &rows, &why);
    size_t before = out->asked.len;
    for (size_t i = 0; rows && i < rows->len; i++)
        if (rows->rows[i].code == SLUICE_OK)
            collected_add_id(out, &out->asked, rows->rows[i].message);
    if (out->asked.len > before) collected_add_id(out, &out->signals, rows->id);
    // Messages that are not running are not asked. The poll finds what else is wrong.
    bool none = code == SLUICE_CONFLICT || code == SLUICE_NOT_FOUND;
    bool answered = rows || none;
    sluice_signals_free(rows);
    if (!code || answered) return SLUICE_OK;
    if (error) *error = why;
    return code;
}

enum sluice_code collect_ask(const struct request_origin *as, const char *queue,
                             const struct collect_poll *poll, struct collected_list *out,
                             struct sluice_error *error)
{
    struct sluice_signal what = {.kind = "ask",
                                 .workflow = poll->workflow,
                                 .payload = poll->ask ? poll->ask : "",
                                 .payload_len = poll->ask ? strlen(poll->ask) : 0,
                                 .when_idle = "refuse"};
    enum sluice_code code = collect_check(poll, error);
    if (!code && poll->workflow) return ask(as, queue, &what, out, error);
    for (size_t at = 0; !code && at < poll->len; at += what.ids_len) {
        size_t left = poll->len - at;
        what.ids = poll->ids + at;
        what.ids_len = left < SIGNAL_TARGETS_MAX ? left : SIGNAL_TARGETS_MAX;
        code = ask(as, queue, &what, out, error);
    }
    return code;
}

void collect_go_on(struct collect_poll *poll, const struct collected_list *before)
{
    poll->running = false;
    poll->ask = NULL;
    poll->signals = before->signals.rows;
    poll->signals_len = before->signals.len;
    poll->asked = before->asked.rows;
    poll->asked_len = before->asked.len;
}
