// SPDX-License-Identifier: Apache-2.0
// Reads messages from a node (peek and show) in the compact encoding.
#include "remote/remote.h"

#include "wire/wire.h"

#include <string.h>

static enum sluice_code ask_batch(struct remote *r, struct ask *ask, struct sluice_batch **out,
                                  struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    ask->wire = ask->failures = true;
    ask->until = remote_until(r);
    http_call_init(&call, NULL, NULL);
    enum sluice_code code = remote_ask(r, ask, &call, NULL, error);
    if (!code && !wire_read_looked(buf_bytes(&call.body_in), out))
        code = remote_unreadable(&call, error);
    return code;
}

// An impossible id is not put into a path. If the queue does not exist either, that error is
// reported.
static enum sluice_code check_id(struct sluice *s, const char *queue, const char *id,
                                 struct sluice_error *error)
{
    size_t len = strlen(id);
    struct sluice_queue_info *info = NULL;
    if (len > 0 && len < SLUICE_ID_MAX && strspn(id, "0123456789abcdef-") == len) return SLUICE_OK;
    enum sluice_code code = remote_queue_show(s, queue, &info, error);
    if (code) return code;
    sluice_queue_info_free(info);
    return refuse(error, ERR_INVALID, "id",
                  "\"%.100s\" is not a message id; one looks like 3f9a01cc-0-17", id);
}

enum sluice_code remote_peek(struct sluice *s, const char *queue, const struct sluice_peek *options,
                             struct sluice_batch **out, struct sluice_error *error)
{
    struct remote *r = remote_of(s);
    enum sluice_code code = remote_check(r, queue, error);
    if (!code && options && options->after_id) code = check_id(s, queue, options->after_id, error);
    if (code) return code;
    struct peek_in in = {0};
    if (options) in = (struct peek_in){options->state, options->after_id, options->max};
    struct ask ask = {.call = CALL_PEEK, .queue = queue, .in = &in};
    return ask_batch(r, &ask, out, error);
}

enum sluice_code remote_show(struct sluice *s, const char *queue, const char *id,
                             struct sluice_batch **out, struct sluice_error *error)
{
    struct remote *r = remote_of(s);
    enum sluice_code code = remote_check(r, queue, error);
    if (!code) code = check_id(s, queue, id, error);
    if (code) return code;
    struct ask ask = {.call = CALL_SHOW, .queue = queue, .id = id};
    return ask_batch(r, &ask, out, error);
}
