// SPDX-License-Identifier: Apache-2.0
// Errors as answers: application/problem+json (RFC 9457) with the engine's code, or an error in the
// compact encoding.
#include "base/err.h"
#include "base/nearly.h"
#include "protocol/wire.h"
#include "queues/queues.h"
#include "server/inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ERROR_BYTES_MAX 4096

__attribute__((format(printf, 4, 0))) static struct sluice_error
error_with(enum sluice_code code, const char *reason, const char *field, const char *format,
           va_list words)
{
    struct sluice_error e = {.code = code};
    (void)snprintf(e.reason, sizeof e.reason, "%s", reason);
    (void)snprintf(e.field, sizeof e.field, "%s", field);
    (void)vsnprintf(e.message, sizeof e.message, format, words);
    return e;
}

struct sluice_error error_of(enum sluice_code code, const char *reason, const char *field,
                             const char *format, ...)
{
    va_list words;
    va_start(words, format);
    struct sluice_error e = error_with(code, reason, field, format, words);
    va_end(words);
    return e;
}

bool refuse_request(struct exchange *x, enum sluice_code code, const char *reason,
                    const char *field, const char *format, ...)
{
    va_list words;
    va_start(words, format);
    struct sluice_error e = error_with(code, reason, field, format, words);
    va_end(words);
    return answer_unless(x, code, &e);
}

bool answer_unless(struct exchange *x, enum sluice_code code, const struct sluice_error *error)
{
    if (code) answer_error(x, error);
    return code == SLUICE_OK;
}

struct json *problem_json(int status, const struct sluice_error *e)
{
    struct json *o = json_new();
    json_text(o, "type", "about:blank");
    bool path = strcmp(e->reason, "unknown-path") == 0;
    json_text(o, "title", path ? "no such path" : err_title((enum err)e->code));
    json_number(o, "status", status);
    struct sluice_error shown = *e;
    if (strcmp(e->field, "request") == 0) // it was sent as a header
        (void)snprintf(shown.field, sizeof shown.field, "%s", REQUEST_HEADER);
    if (!*e->message)
        (void)snprintf(shown.message, sizeof shown.message, "%s", sluice_code_text(e->code));
    fields_put(o, &problem_answer, &shown);
    return o;
}

void answer_problem(struct exchange *x, int status, const struct sluice_error *error,
                    const struct httpd_pair *extra)
{
    struct buf body;
    buf_init(&body, ERROR_BYTES_MAX);
    if (x->wire_out)
        wire_put_error(&body, error);
    else
        json_write(problem_json(status, error), &body);
    struct httpd_pair headers[2] = {
        {"Cache-Control", "no-store"}}; // a missing queue may be created
    if (extra) headers[1] = *extra;
    struct httpd_answer a = {.status = status,
                             .type = x->wire_out ? WIRE_TYPE : PROBLEM_TYPE,
                             .headers = headers,
                             .headers_len = extra ? 2 : 1};
    answer_with(x, &a, &body);
}

// Names the queue that a mistyped name probably means. It names only what the token may read, and
// asks no store: a queue that the node has not opened is not found.
static void add_meant(struct exchange *x, struct sluice_error *e)
{
    struct open_queue **queues = NULL;
    const char *queue = x->target.queue;
    size_t at = strlen(e->message);
    if (strcmp(e->reason, "unknown-queue") != 0 || strcmp(e->field, "queue") != 0 || !queue) return;
    size_t len = queues_hold(x->server->engine, &queues);
    for (size_t i = 0; i < len; i++) {
        const char *name = queues[i]->row.name;
        if (!nearly_same(name, queue) || !auth_may(x, SCOPE_READ, name)) continue;
        (void)snprintf(e->message + at, sizeof e->message - at, "; did you mean %s?", name);
        break;
    }
    queues_let_go(queues, len);
}

void answer_error(struct exchange *x, const struct sluice_error *error)
{
    static const struct httpd_pair soon = {"Retry-After", "1"};
    struct sluice_error own = *error;
    // If the store denies the node access, the client can only wait.
    if (own.code == SLUICE_DENIED && strcmp(own.field, "store") == 0) own.code = SLUICE_UNAVAILABLE;
    if (own.code == SLUICE_NOT_FOUND) add_meant(x, &own);
    bool full = strcmp(own.reason, NO_ROOM) == 0;
    bool again = own.code == SLUICE_LIMIT || own.code == SLUICE_UNAVAILABLE || full;
    METRICS_ADD(&x->server->metrics, no_room, full);
    answer_problem(x, err_http((enum err)own.code), &own, again ? &soon : NULL);
}
