// SPDX-License-Identifier: Apache-2.0
#include "protocol/send_check.h"

#include "base/memory.h"
#include "protocol/batch.h"
#include "protocol/call_arguments.h"
#include "protocol/errors.h"
#include "queue/codec/labels.h"

#include <inttypes.h>
#include <string.h>

struct bytes text_or_empty(const char *t)
{
    return t ? bytes_str(t) : BYTES_EMPTY;
}

static enum sluice_code too_long(struct sluice_error *error, const char *field, size_t len,
                                 size_t max)
{
    return refuse(error, ERR_INVALID, field, "%s has %zu bytes; at most %zu are allowed", field,
                  len, max);
}

static enum sluice_code check_labels(const char *text, struct sluice_error *error)
{
    struct labels labels;
    struct labels_error why;
    if (!labels_parse(bytes_str(text), &labels, &why)) return SLUICE_OK;
    return refuse(error, ERR_INVALID, "requires",
                  "requires \"%.100s\" is not possible at byte %zu; %s", text, why.at, why.text);
}

static enum sluice_code check_message(const struct sluice_send *m, struct sluice_error *error)
{
    const struct {
        const char *name, *value;
        size_t max;
    } texts[] = {{"group", m->group, MESSAGE_GROUP_MAX},
                 {"dedup", m->dedup, MESSAGE_DEDUP_MAX},
                 {"contentType", m->content_type, MESSAGE_CONTENT_TYPE_MAX},
                 {"workflow", m->workflow, MESSAGE_WORKFLOW_MAX}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (text_or_empty(texts[i].value).len > texts[i].max)
            return too_long(error, texts[i].name, strlen(texts[i].value), texts[i].max);
    if (m->body_len > BODY_BYTES_MAX) return too_long(error, "body", m->body_len, BODY_BYTES_MAX);
    if (m->priority < 0 || m->priority > MESSAGE_PRIORITY_MAX)
        return refuse(error, ERR_INVALID, "priority", "priority %d is not in 0..%d", m->priority,
                      MESSAGE_PRIORITY_MAX);
    if (m->delay_ms < 0 || m->delay_ms > DELAY_MAX_MS || m->due < 0)
        return refuse(error, ERR_INVALID, "delay", "a delay of %" PRId64 " ms is not possible",
                      m->delay_ms);
    if (m->delay_ms > 0 && m->due > 0)
        return refuse(error, ERR_INVALID, "delay", "give a delay or a due time, not both");
    if (m->workflow_last && text_or_empty(m->workflow).len == 0)
        return refuse(error, ERR_INVALID, "workflowLast",
                      "workflowLast needs a workflow that the message belongs to");
    return m->needs ? check_labels(m->needs, error) : SLUICE_OK;
}

enum sluice_code headers_encode(const struct sluice_send *m, struct buf *out,
                                struct sluice_error *error)
{
    for (size_t i = 0; i < m->headers_len; i++) {
        if (!m->headers[i].name || m->headers[i].name[0] == 0)
            return refuse(error, ERR_INVALID, "headers", "a header has no name");
        headers_put(out, text_or_empty(m->headers[i].name), text_or_empty(m->headers[i].value));
    }
    if (out->bad)
        return refuse(error, ERR_INVALID, "headers", "the headers have more than %zu bytes",
                      MESSAGE_HEADERS_MAX);
    return SLUICE_OK;
}

enum sluice_code sends_check(const struct sluice_send *messages, size_t len,
                             struct sluice_error *error)
{
    LOCAL(buf, headers, MESSAGE_HEADERS_MAX);
    for (size_t i = 0; i < len; i++) {
        buf_clear(&headers);
        enum sluice_code code = check_message(&messages[i], error);
        if (!code) code = headers_encode(&messages[i], &headers, error);
        if (code) return code;
    }
    return SLUICE_OK;
}

static size_t text_len(const char *t)
{
    return t ? strlen(t) + 1 : 0;
}

static const char *copy_text(char **at, const char *t)
{
    return t ? text_append(at, bytes_str(t)) : NULL;
}

static size_t copy_len(const struct sluice_send *m)
{
    size_t len = sizeof *m + m->headers_len * sizeof *m->headers + m->body_len +
                 text_len(m->group) + text_len(m->dedup) + text_len(m->content_type) +
                 text_len(m->workflow) + text_len(m->needs);
    for (size_t i = 0; i < m->headers_len; i++)
        len += text_len(m->headers[i].name) + text_len(m->headers[i].value);
    return len;
}

// The messages, then their headers, then all texts and bodies.
struct sluice_send *sends_copy(const struct sluice_send *messages, size_t len)
{
    size_t bytes = 0, headers = 0;
    for (size_t i = 0; i < len; i++) {
        bytes += copy_len(&messages[i]);
        headers += messages[i].headers_len;
    }
    struct sluice_send *rows = memory_new(bytes);
    struct sluice_header *header = (struct sluice_header *)(rows + len);
    char *at = (char *)(header + headers);
    for (size_t i = 0; i < len; i++) {
        struct sluice_send *m = &rows[i];
        *m = messages[i];
        m->group = copy_text(&at, m->group);
        m->dedup = copy_text(&at, m->dedup);
        m->content_type = copy_text(&at, m->content_type);
        m->workflow = copy_text(&at, m->workflow);
        m->needs = copy_text(&at, m->needs);
        for (size_t k = 0; k < m->headers_len; k++)
            header[k] = (struct sluice_header){copy_text(&at, m->headers[k].name),
                                               copy_text(&at, m->headers[k].value)};
        m->headers = header;
        header += m->headers_len;
        if (m->body_len > 0) memcpy(at, m->body, m->body_len);
        m->body = at;
        at += m->body_len;
    }
    return rows;
}
