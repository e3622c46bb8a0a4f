// SPDX-License-Identifier: Apache-2.0
// Sends one request to a node until it is answered. Decides which requests may be repeated, and
// whether a request without an answer may have been applied.
#include "remote/remote.h"

#include "base/check.h"
#include "base/digits.h"
#include "net/http_plain.h"
#include "net/http_text.h"
#include "os/clock.h"
#include "os/entropy.h"
#include "owner/forward.h"
#include "owner/peer.h"
#include "wire/wire.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 1000
#define GRACE_MS     1000 // a node whose time runs out together with ours can still answer
#define ANSWER_MAX   ((size_t)1 << 30)

int64_t remote_until(const struct remote *r)
{
    return clock_boot_ms() + r->handle.timeout_ms;
}

enum sluice_code remote_check(const struct remote *r, const char *queue, struct sluice_error *error)
{
    if (!fork_guard_same(&r->guard))
        return refuse(error, ERR_INVALID, "",
                      "this handle was opened before fork; open another one in the child");
    return queue ? queue_check_name(queue, error) : SLUICE_OK;
}

// Each request calls this several times. snprintf would take longer than the rest of the request.
static void join(char *to, size_t size, const char *const *parts)
{
    size_t at = 0;
    for (; *parts; parts++) {
        size_t len = strlen(*parts);
        CHECK(len < size - at);
        memcpy(to + at, *parts, len);
        at += len;
    }
    to[at] = '\0';
}

struct remote_path remote_path(const char *queue, const char *rest)
{
    struct remote_path path; // a queue's name needs no encoding
    join(path.text, sizeof path.text, (const char *const[]){"/v1/queues/", queue, rest, NULL});
    return path;
}

void remote_query(struct remote_path *path, const char *name, const char *value)
{
    static const char unreserved[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
    size_t at = strlen(path->text), start = at;
    if (at + strlen(name) + 3 * strlen(value) + 3 > sizeof path->text) return;
    at += (size_t)snprintf(path->text + at, sizeof path->text - at,
                           "%c%s=", memchr(path->text, '?', start) ? '&' : '?', name);
    for (; *value; value++)
        at += (size_t)snprintf(path->text + at, sizeof path->text - at,
                               strchr(unreserved, *value) ? "%c" : "%%%02X", (unsigned char)*value);
}

static void add_line(struct ask_head *head, const char *line)
{
    CHECK(head->lines_len < ASK_HEADERS_MAX);
    head->lines[head->lines_len++] = line;
}

static void print_request(const struct sluice_request *request, char text[ASK_REQUEST_MAX])
{
    static const char name[] = "Sluice-Request: ";
    static_assert(sizeof name + 2 * sizeof request->bytes <= ASK_REQUEST_MAX,
                  "the buffer is large enough");
    memcpy(text, name, sizeof name);
    *digits_put_hex(text + sizeof name - 1, request->bytes, sizeof request->bytes) = '\0';
}

void ask_head_make(const struct remote *r, const struct ask *ask, struct ask_head *head)
{
    head->lines_len = 0;
    join(head->url, sizeof head->url, (const char *const[]){r->url, ask->path, NULL});
    if (r->authorization[0]) add_line(head, r->authorization);
    if (r->forwards) add_line(head, PEER_FORWARDED ": client");
    if (ask->wire)
        add_line(head, ask->failures ? "Accept: " WIRE_TYPE_FAILURES : "Accept: " WIRE_TYPE);
    if (ask->type) {
        join(head->content_type, sizeof head->content_type,
             (const char *const[]){"Content-Type: ", ask->type, NULL});
        add_line(head, head->content_type);
    }
    if (ask->request) {
        print_request(ask->request, head->request);
        add_line(head, head->request);
    }
}

static bool type_is(const struct http_call *call, const char *type)
{
    struct bytes told = http_header(call, "content-type");
    size_t len = strlen(type);
    return told.len >= len && strncasecmp((const char *)told.data, type, len) == 0;
}

static void take_text(struct json *o, const char *key, char *to, size_t len)
{
    struct json *value = json_member(o, key);
    if (!value || json_kind(value) != JSON_KIND_TEXT) return;
    (void)snprintf(to, len, "%s", (const char *)json_as_text(value).data);
}

static bool code_named(const char *name, enum sluice_code *out)
{
    for (int code = SLUICE_INVALID; code <= SLUICE_DENIED; code++) {
        if (strcmp(name, sluice_code_name((enum sluice_code)code)) != 0) continue;
        *out = (enum sluice_code)code;
        return true;
    }
    return false;
}

static bool read_problem(struct bytes body, struct sluice_error *out)
{
    char why[128], name[32] = "";
    struct json *o = json_parse((const char *)body.data, body.len, why, sizeof why);
    if (o && json_kind(o) == JSON_KIND_OBJECT) {
        take_text(o, "code", name, sizeof name);
        take_text(o, "reason", out->reason, sizeof out->reason);
        take_text(o, "field", out->field, sizeof out->field);
        take_text(o, "detail", out->message, sizeof out->message);
    }
    json_free(o);
    return code_named(name, &out->code);
}

// The answer is not from a node: a proxy or another server sent it.
static void report_status(const struct http_call *call, struct sluice_error *out)
{
    int status = call->status;
    enum err err = status == 401 || status == 403                                     ? ERR_DENIED
                   : status == 413 || status == 429                                   ? ERR_LIMIT
                   : status == 500 || status == 502 || status == 503 || status == 504 ? ERR_UNKNOWN
                                                                                      : ERR_INVALID;
    char place[HTTP_PLACE_MAX] = "";
    if (call->url) http_place(call->url, place);
    bool secure = call->url && strncmp(call->url, "https:", 6) == 0;
    (void)refuse(out, err, "store",
                 err == ERR_INVALID ? "http%s://%s answered %d and is not a Sluice node; check the "
                                      "URL (a node listens on 7333 by default)"
                                    : "http%s://%s answered %d, but not like a Sluice node",
                 secure ? "s" : "", place, status);
}

enum sluice_code ask_read_error(const struct http_call *call, struct sluice_error *out)
{
    struct bytes body = buf_bytes(&call->body_in);
    *out = (struct sluice_error){.code = SLUICE_OK};
    bool read = false;
    if (type_is(call, WIRE_TYPE))
        read = wire_read_error(body, out) && out->code != SLUICE_OK;
    else if (body.len > 0)
        read = read_problem(body, out);
    if (!read) report_status(call, out);
    return out->code;
}

enum sluice_code remote_unreadable(const struct http_call *call, struct sluice_error *error)
{
    return refuse(error, ERR_CORRUPT, "store", "cannot read the node's answer of %zu bytes",
                  call->body_in.len);
}

struct json *remote_json(const struct http_call *call, struct sluice_error *error)
{
    struct bytes body = buf_bytes(&call->body_in);
    char why[128];
    struct json *o = json_parse((const char *)body.data, body.len, why, sizeof why);
    if (o && json_kind(o) == JSON_KIND_OBJECT) return o;
    json_free(o);
    (void)remote_unreadable(call, error);
    return NULL;
}

void remote_pause(unsigned tries, int64_t until)
{
    int64_t most = tries < 7 ? (int64_t)PAUSE_MIN_MS << tries : PAUSE_MAX_MS;
    int64_t left = until - clock_boot_ms();
    if (most > left) most = left;
    if (most <= 0) return;
    int64_t ms = (int64_t)(entropy_u64() % (uint64_t)most) + 1;
    struct timespec pause = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

// Classifies the end of one attempt. `maybe` becomes true if the attempt may have taken effect.
static enum sluice_code classify_answer(const struct ask *ask, const struct http_call *call,
                                        bool *maybe, struct sluice_error *out)
{
    *maybe = false;
    switch (call->end) {
    case HTTP_NOT_SENT:
        return refuse(out, ERR_UNAVAILABLE, "store", "%s", call->why);
    case HTTP_LOST:
        *maybe = ask->kind != ASK_READ;
        return refuse(out, *maybe ? ERR_UNKNOWN : ERR_UNAVAILABLE, "store", "%s", call->why);
    case HTTP_TOO_LONG:
        return refuse(out, ERR_LIMIT, "store", "%s", call->why);
    case HTTP_ANSWERED:
        break;
    }
    if (call->status >= 200 && call->status < 300) return SLUICE_OK;
    enum sluice_code code = ask_read_error(call, out);
    *maybe = code == SLUICE_UNKNOWN && ask->kind != ASK_READ;
    if (code == SLUICE_UNKNOWN && !*maybe) code = out->code = SLUICE_UNAVAILABLE;
    return code;
}

static enum sluice_code give_up(const struct sluice_error *last, bool maybe,
                                struct sluice_error *error)
{
    enum sluice_code code = maybe ? code_repeated(last->code) : last->code;
    if (error) *error = *last;
    if (error) error->code = code;
    return code;
}

enum sluice_code remote_ask(struct remote *r, const struct ask *ask, struct http_call *call,
                            bool *again, struct sluice_error *error)
{
    struct ask_head head;
    struct sluice_error last;
    bool maybe = false;
    ask_head_make(r, ask, &head);
    call->method = ask->method;
    call->url = head.url;
    call->headers = head.lines;
    call->headers_len = head.lines_len;
    call->body = ask->body;
    call->body_max = ANSWER_MAX;
    enum sluice_code code;
    for (unsigned tries = 0;; tries++) {
        bool this_one;
        int64_t left = ask->until - clock_boot_ms();
        // An earlier part of the same call may have used all the time.
        if (ask->until != 0 && left <= 0 && tries == 0) {
            code = refuse(&last, ERR_UNAVAILABLE, "store",
                          "the time limit was reached before the request was sent");
            break;
        }
        call->timeout_ms = (left > 0 ? left : 0) + ask->wait_ms + GRACE_MS;
        if (r->patience_ms > 0) call->timeout_ms = r->patience_ms + ask->wait_ms;
        if (r->plain_http)
            http_plain_do(r->plain_http, call);
        else
            http_do(r->http, call);
        code = classify_answer(ask, call, &this_one, &last);
        if (again) *again = maybe;
        maybe = maybe || this_one;
        // A further attempt would meet the same certificate. If that attempt timed out, its error
        // would replace the one that names the certificate.
        bool over = (code != SLUICE_UNAVAILABLE && code != SLUICE_UNKNOWN) || call->untrusted;
        if (over || r->patience_ms > 0 || (this_one && ask->kind == ASK_ONCE)) break;
        remote_pause(tries, ask->until);
        if (clock_boot_ms() >= ask->until) break;
    }
    call->url = NULL; // it points into head, which ends here
    call->headers = NULL;
    call->headers_len = 0;
    return code ? give_up(&last, maybe, error) : SLUICE_OK;
}
