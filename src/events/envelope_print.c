// SPDX-License-Identifier: Apache-2.0
// Prints envelopes. The publisher prints each event, so this file writes the JSON text itself and
// builds no tree.
#include "events/envelope.h"

#include "base/check.h"
#include "base/digits.h"
#include "base/moment.h"
#include "json/json.h"

#include <string.h>

static void put_chars(struct buf *to, const char *text)
{
    buf_put(to, bytes_str(text));
}

static void put_escape(struct buf *to, uint8_t c)
{
    char text[8];
    if (c == '"' || c == '\\')
        (void)snprintf(text, sizeof text, "\\%c", c);
    else
        (void)snprintf(text, sizeof text, "\\u%04x", c);
    put_chars(to, text);
}

// Returns the length of the UTF-8 sequence at the front, or 0 if the first byte begins none.
static size_t sequence_len(struct bytes text)
{
    size_t len = 1, max = text.len < 4 ? text.len : 4;
    while (len < max && !utf8_ok(text.data, len))
        len++;
    return utf8_ok(text.data, len) ? len : 0;
}

static void put_quoted(struct buf *to, const char *text)
{
    size_t len = strlen(text), start = 0;
    bool good = utf8_ok(text, len);
    put_chars(to, "\"");
    for (size_t i = 0; i < len;) {
        uint8_t c = (uint8_t)text[i];
        size_t n = c < 0x80 || good ? 1 : sequence_len(bytes_of(text + i, len - i));
        if (c >= ' ' && c != '"' && c != '\\' && n > 0) {
            i += n;
            continue;
        }
        buf_put(to, bytes_of(text + start, i - start));
        if (n > 0)
            put_escape(to, c);
        else
            put_chars(to, "\xef\xbf\xbd");
        start = ++i;
    }
    buf_put(to, bytes_of(text + start, len - start));
    put_chars(to, "\"");
}

// Writes members of one object; the first has no comma before it.
struct members {
    struct buf *to;
    bool some;
};

static void put_key(struct members *m, const char *key)
{
    put_chars(m->to, m->some ? ",\"" : "\"");
    put_chars(m->to, key);
    put_chars(m->to, "\":");
    m->some = true;
}

static void put_string(struct members *m, const char *key, const char *value)
{
    put_key(m, key);
    put_quoted(m->to, value);
}

static void put_some(struct members *m, const char *key, const char *value)
{
    if (*value) put_string(m, key, value);
}

static void put_number(struct members *m, const char *key, uint64_t value)
{
    char text[DIGITS_MAX];
    put_key(m, key);
    buf_put(m->to, bytes_of(text, (size_t)(digits_put(text, value) - text)));
}

static void put_nonzero(struct members *m, const char *key, uint64_t value)
{
    if (value > 0) put_number(m, key, value);
}

static void put_time(struct members *m, const char *key, int64_t ms)
{
    char text[MOMENT_LEN + 1];
    put_key(m, key);
    put_chars(m->to, "\"");
    buf_put(m->to, bytes_of(text, (size_t)(moment_put(text, ms) - text)));
    put_chars(m->to, "\"");
}

static void put_origin(struct members *outer, const struct envelope_origin *from)
{
    struct members m = {.to = outer->to};
    if (!*from->queue) return;
    put_key(outer, "from");
    put_chars(m.to, "{");
    put_string(&m, "queue", from->queue);
    put_some(&m, "task_id", from->task_id);
    put_some(&m, "reason", from->reason);
    put_some(&m, "worker", from->worker);
    put_nonzero(&m, "retries", from->retries);
    put_nonzero(&m, "attempts", from->attempts);
    if (from->died_at > 0) put_time(&m, "died_at", from->died_at);
    put_chars(m.to, "}");
}

static void put_payload(struct members *outer, const struct envelope_payload *p)
{
    struct members m = {.to = outer->to};
    put_key(outer, "payload");
    put_chars(m.to, "{");
    put_some(&m, "status", p->status);
    put_some(&m, "reason", p->reason);
    put_some(&m, "worker", p->worker);
    put_nonzero(&m, "fence", p->fence);
    if (p->until > 0) put_time(&m, "until", p->until);
    put_nonzero(&m, "order", p->order);
    put_nonzero(&m, "count", p->count);
    put_some(&m, "signal", p->signal);
    put_some(&m, "signal_kind", p->signal_kind);
    put_nonzero(&m, "first", p->first);
    put_nonzero(&m, "last", p->last);
    put_nonzero(&m, "epoch", p->epoch);
    put_some(&m, "node", p->node);
    put_origin(&m, &p->from);
    put_chars(m.to, "}");
}

void envelope_print(const struct envelope *e, struct buf *to)
{
    struct members m = {.to = to};
    CHECK(*e->event_id && *e->event_type);
    put_chars(to, "{");
    put_string(&m, "event_id", e->event_id);
    put_string(&m, "event_type", e->event_type);
    put_number(&m, "schema_version", e->schema_version ? e->schema_version : ENVELOPE_VERSION);
    put_time(&m, "timestamp", e->timestamp);
    put_some(&m, "node_id", e->node_id);
    put_some(&m, "queue", e->queue);
    if (*e->queue) put_number(&m, "shard", e->shard);
    put_some(&m, "task_id", e->task_id);
    put_some(&m, "workflow_id", e->workflow_id);
    put_some(&m, "ordering_key", e->ordering_key);
    put_nonzero(&m, "sequence", e->sequence);
    put_nonzero(&m, "attempt", e->attempt);
    put_payload(&m, &e->payload);
    put_chars(to, "}");
}
