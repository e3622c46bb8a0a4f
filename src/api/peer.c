// SPDX-License-Identifier: Apache-2.0
#include "api/peer.h"

#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_MAX    1400
#define ANSWER_MAX ((size_t)64 << 10)

struct http *peer_http(void)
{
    const char *ca = getenv("SLUICE_CA");
    struct http_config config = {.ca_file = ca && *ca ? ca : NULL, .connect_ms = PEER_ASK_MS};
    return http_new(&config);
}

static bool get(struct http *http, struct http_call *call, const char *url, int64_t wait_ms)
{
    call->url = url;
    call->timeout_ms = wait_ms;
    call->body_max = ANSWER_MAX;
    http_do(http, call);
    return call->end == HTTP_ANSWERED && call->status == 200;
}

bool peer_is_there(struct http *http, const char *url, const char *name, int64_t wait_ms)
{
    CLEANUP(http_call_done) struct http_call call;
    char at[URL_MAX];
    http_call_init(&call, "GET", NULL);
    (void)snprintf(at, sizeof at, "%s/healthz", url);
    if (!get(http, &call, at, wait_ms)) return false;
    struct bytes told = http_header(&call, PEER_HEADER);
    if (!name) return told.len > 0;
    return told.len == strlen(name) && memcmp(told.data, name, told.len) == 0;
}

static bool has_id(struct bytes body, const char *id)
{
    char why[128];
    struct json *o = json_parse((const char *)body.data, body.len, why, sizeof why);
    struct json *told = o && json_kind(o) == JSON_KIND_OBJECT ? json_member(o, "id") : NULL;
    bool same = told && json_kind(told) == JSON_KIND_TEXT &&
                strcmp((const char *)json_as_text(told).data, id) == 0;
    json_free(o);
    return same;
}

enum peer peer_serves(struct http *http, const char *url, const char *authorization,
                      const char *queue, const char *id)
{
    CLEANUP(http_call_done) struct http_call call;
    char at[URL_MAX];
    http_call_init(&call, "GET", NULL);
    // A queue's name has no character that needs encoding.
    (void)snprintf(at, sizeof at, "%s/v1/queues/%s", url, queue);
    call.headers = &authorization;
    call.headers_len = *authorization ? 1 : 0;
    bool there = get(http, &call, at, PEER_ASK_MS);
    if (there && has_id(buf_bytes(&call.body_in), id)) return PEER_SERVES;
    return call.end == HTTP_ANSWERED ? PEER_DECLINES : PEER_AWAY;
}
