// SPDX-License-Identifier: Apache-2.0
// Reads messages from a node (peek, find and show) in the compact encoding.
#include "client/client.h"

#include "protocol/filter.h"
#include "protocol/wire.h"

#include <stdio.h>
#include <string.h>

#define FIND_QUERY_MAX 1200 // bytes; each may become three

// The answer's headers say how far the search came. An older node says nothing.
static void read_found(const struct http_call *call, struct sluice_found *out)
{
    struct bytes next = http_header(call, FOUND_NEXT_HEADER);
    struct bytes read = http_header(call, FOUND_READ_HEADER);
    unsigned long long messages = 0, bytes = 0;
    char text[64];
    (void)snprintf(text, sizeof text, "%.*s", (int)read.len, (const char *)read.data);
    if (sscanf(text, "messages=%llu; bytes=%llu", &messages, &bytes) != 2) messages = bytes = 0;
    *out = (struct sluice_found){.messages = messages, .bytes = bytes};
    (void)snprintf(out->next, sizeof out->next, "%.*s", (int)next.len, (const char *)next.data);
}

static enum sluice_code ask_batch(struct node_client *r, struct ask *ask, struct sluice_batch **out,
                                  struct sluice_found *found, struct sluice_error *error)
{
    ask->wire = true;
    ask->until = client_until(r);
    LOCAL(http_call, call, NULL, NULL);
    enum sluice_code code = client_ask(r, ask, &call, NULL, error);
    if (!code && !wire_read_looked(buf_bytes(&call.body_in), out))
        code = client_unreadable(&call, error);
    if (!code && found) read_found(&call, found);
    return code;
}

// An impossible id is not put into a path. If the queue does not exist either, that error is
// reported.
static enum sluice_code check_id(struct node_client *s, const char *queue, const char *id,
                                 struct sluice_error *error)
{
    size_t len = strlen(id);
    struct sluice_queue_info *info = NULL;
    if (len > 0 && len < SLUICE_ID_MAX && strspn(id, "0123456789abcdef-") == len) return SLUICE_OK;
    enum sluice_code code = client_queue_show(s, queue, &info, error);
    if (code) return code;
    sluice_queue_info_free(info);
    return refuse(error, ERR_INVALID, "id",
                  "\"%.100s\" is not a message id; one looks like 3f9a01cc-0-17", id);
}

// A filter that does not fit into the request would be left out, and all messages found.
static enum sluice_code check_filters(const struct sluice_find *f, struct sluice_error *error)
{
    size_t len = f->contains ? strlen(f->contains) : 0;
    for (size_t i = 0; i < f->headers_len; i++)
        len += strlen(f->headers[i].name) + strlen(f->headers[i].value) + sizeof "&header==";
    if (len <= FIND_QUERY_MAX) return SLUICE_OK;
    return refuse(error, ERR_INVALID, f->headers_len > 0 ? "header" : "contains",
                  "the texts to find have %zu bytes; a node takes %d", len, FIND_QUERY_MAX);
}

enum sluice_code client_find(struct node_client *s, const char *queue,
                             const struct sluice_find *what, struct sluice_batch **out,
                             struct sluice_found *found, struct sluice_error *error)
{
    const struct sluice_find all = {0};
    const struct sluice_find *f = what ? what : &all;
    struct sluice_found own;
    struct node_client *r = s;
    enum sluice_code code = client_check(r, queue, error);
    if (!code) code = filter_check(f, error);
    if (!code) code = check_filters(f, error);
    if (!code && f->after_id) code = check_id(s, queue, f->after_id, error);
    if (code) return code;
    LOCAL(buf, text, SIZE_MAX);
    const char *headers[SLUICE_FIND_HEADERS_MAX];
    size_t at[SLUICE_FIND_HEADERS_MAX];
    for (size_t i = 0; i < f->headers_len; i++) {
        at[i] = text.len;
        buf_put(&text, bytes_str(f->headers[i].name));
        buf_put_u8(&text, '=');
        buf_put(&text, bytes_str(f->headers[i].value));
        buf_put_u8(&text, 0);
    }
    for (size_t i = 0; i < f->headers_len; i++)
        headers[i] = (const char *)text.data + at[i];
    struct peek_in in = {.state = f->state,
                         .after = f->after_id,
                         .max = f->max,
                         .headers = {headers, f->headers_len},
                         .contains = f->contains && *f->contains ? f->contains : NULL,
                         .before = f->before,
                         .bytes = (int64_t)f->bytes_max};
    struct ask ask = {.call = ROUTE_PEEK, .queue = queue, .in = &in};
    return ask_batch(r, &ask, out, found ? found : &own, error);
}

enum sluice_code client_peek(struct node_client *s, const char *queue,
                             const struct sluice_peek *options, struct sluice_batch **out,
                             struct sluice_error *error)
{
    struct sluice_find what = {0};
    if (options)
        what = (struct sluice_find){
            .state = options->state, .after_id = options->after_id, .max = options->max};
    return client_find(s, queue, &what, out, NULL, error);
}

enum sluice_code client_show(struct node_client *s, const char *queue, const char *id,
                             struct sluice_batch **out, struct sluice_error *error)
{
    struct node_client *r = s;
    enum sluice_code code = client_check(r, queue, error);
    if (!code) code = check_id(s, queue, id, error);
    if (code) return code;
    struct ask ask = {.call = ROUTE_SHOW, .queue = queue, .id = id};
    return ask_batch(r, &ask, out, NULL, error);
}
