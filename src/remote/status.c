// SPDX-License-Identifier: Apache-2.0
// Reads messages from a node (peek and show) in the compact encoding.
#include "remote/remote.h"

#include "wire/wire.h"

#include <stdio.h>
#include <string.h>

static enum sluice_code ask_batch(struct remote *r, const char *path, struct sluice_batch **out,
                                  struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    struct ask ask = {.kind = ASK_READ,
                      .method = "GET",
                      .path = path,
                      .wire = true,
                      .failures = true,
                      .until = remote_until(r)};
    http_call_init(&call, "GET", NULL);
    enum sluice_code code = remote_ask(r, &ask, &call, NULL, error);
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
    struct remote_path path = remote_path(queue, "/messages");
    char max[16];
    if (options && options->state) remote_query(&path, "state", options->state);
    if (options && options->after_id) remote_query(&path, "after", options->after_id);
    if (options && options->max > 0) {
        (void)snprintf(max, sizeof max, "%u", options->max);
        remote_query(&path, "max", max);
    }
    return ask_batch(r, path.text, out, error);
}

enum sluice_code remote_show(struct sluice *s, const char *queue, const char *id,
                             struct sluice_batch **out, struct sluice_error *error)
{
    struct remote *r = remote_of(s);
    char rest[SLUICE_ID_MAX + 16];
    enum sluice_code code = remote_check(r, queue, error);
    if (!code) code = check_id(s, queue, id, error);
    if (code) return code;
    (void)snprintf(rest, sizeof rest, "/messages/%s", id);
    struct remote_path path = remote_path(queue, rest);
    return ask_batch(r, path.text, out, error);
}
