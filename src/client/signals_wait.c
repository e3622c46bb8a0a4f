// SPDX-License-Identifier: Apache-2.0
// Waits for signals and outcomes through a node.
#include "client/client.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "protocol/signal_list.h"
#include "protocol/wire.h"

// Signals are in the compact encoding: payloads may be any bytes.
static enum sluice_code take_signals(struct node_client *r, struct ask *ask,
                                     struct sluice_signals **out, struct sluice_error *error)
{
    struct sluice_error first = {.code = SLUICE_OK};
    LOCAL(http_call, call, NULL, NULL);
    *out = NULL;
    enum sluice_code code = client_ask(r, ask, &call, NULL, error);
    if (!code && !wire_read_signals(buf_bytes(&call.body_in), out, &first))
        code = client_unreadable(&call, error);
    return code;
}

enum sluice_code client_signals_poll(struct node_client *s, const char *queue,
                                     const struct signals_poll *poll, struct sluice_signals **out,
                                     struct sluice_error *error)
{
    struct node_client *r = s;
    enum sluice_code code = client_check(r, queue, error);
    *out = NULL;
    if (code) return code;
    LOCAL(buf, body, SIZE_MAX);
    struct signals_receive_in in = {.tokens = {poll->tokens, poll->len}, .wait = poll->wait_ms};
    in.after.rows = poll->after;
    wire_put_poll(&body, &in);
    struct ask ask = {.call = ROUTE_SIGNALS_RECEIVE,
                      .queue = queue,
                      .wire = true,
                      .body = buf_bytes(&body),
                      .until = client_until(r),
                      .wait_ms = poll->wait_ms};
    ask.prefer = 1 + nodes_for_tokens(&r->nodes, queue, poll->tokens, poll->len);
    return take_signals(r, &ask, out, error);
}

static bool is_pending(const struct sluice_signals *list)
{
    for (size_t i = 0; i < list->len; i++)
        if (list->rows[i].ended_at == 0) return true;
    return false;
}

// The node waits up to RECEIVE_WAIT_MAX_MS, so a longer wait is several requests.
enum sluice_code client_signal_wait(struct node_client *s, const char *queue, const char *signal,
                                    const char *message, int64_t wait_ms,
                                    struct sluice_signals **out, struct sluice_error *error)
{
    struct node_client *r = s;
    struct request_id id;
    enum sluice_code code = client_check(r, queue, error);
    if (!code) code = signal_id_parse(signal, &id, error);
    *out = NULL;
    int64_t until = clock_boot_ms() + (wait_ms > 0 ? wait_ms : 0);
    for (; !code;) {
        int64_t left = until - clock_boot_ms();
        struct signal_wait_in in = {.signal = signal, .message = message};
        in.wait = left < 0 ? 0 : left < RECEIVE_WAIT_MAX_MS ? left : RECEIVE_WAIT_MAX_MS;
        struct ask ask = {.call = ROUTE_SIGNAL_WAIT,
                          .queue = queue,
                          .in = &in,
                          .wire_answer = true,
                          .until = client_until(r),
                          .wait_ms = in.wait};
        code = take_signals(r, &ask, out, error);
        if (code || left <= RECEIVE_WAIT_MAX_MS || !is_pending(*out)) break;
        sluice_signals_free(*out);
        *out = NULL;
    }
    return code;
}

enum sluice_code client_collect_poll(struct node_client *s, const char *queue,
                                     const struct collect_poll *poll, struct collected_list **out,
                                     struct sluice_error *error)
{
    struct node_client *r = s;
    LOCAL(http_call, call, NULL, NULL);
    LOCAL(buf, body, SIZE_MAX);
    *out = NULL;
    struct collect_in in = {.ids = {poll->ids, poll->len},
                            .workflow = poll->workflow,
                            .wait = poll->wait_ms,
                            .all = poll->all,
                            .position = poll->position,
                            .running = poll->running,
                            .ask = poll->ask,
                            .signals = {poll->signals, poll->signals_len},
                            .asked = {poll->asked, poll->asked_len}};
    struct sluice_request request; // a repeat asks the same questions
    entropy_fill(request.bytes, sizeof request.bytes);
    json_write(fields_json(&collect_fields, &in), &body);
    struct ask ask = {.call = ROUTE_COLLECT,
                      .queue = queue,
                      .wire_answer = true,
                      .body = buf_bytes(&body),
                      .request = poll->running ? &request : NULL,
                      .until = client_until(r),
                      .wait_ms = poll->wait_ms};
    enum sluice_code code = client_check(r, queue, error);
    if (!code) code = client_ask(r, &ask, &call, NULL, error);
    if (!code && !wire_read_collected(buf_bytes(&call.body_in), out))
        code = client_unreadable(&call, error);
    return code;
}
