// SPDX-License-Identifier: Apache-2.0
#include "remote/waiting.h"

#include "remote/remote.h"

#include <string.h>

static void take_text(const struct json *row, const char *key, char *out, size_t room)
{
    struct json *value = json_member(row, key);
    if (!value || json_kind(value) != JSON_KIND_TEXT) return;
    struct bytes text = json_as_text(value);
    if (text.len < room && !memchr(text.data, 0, text.len)) memcpy(out, text.data, text.len);
}

static int64_t take_number(const struct json *row, const char *key)
{
    struct json *value = json_member(row, key);
    bool good = value && json_kind(value) == JSON_KIND_NUMBER && json_as_number(value) >= 0;
    return good ? json_as_number(value) : 0;
}

static void add_row(const struct json *from, struct waiting_list *out)
{
    struct waiting_row row = {.since = take_number(from, "since"),
                              .seen_at = take_number(from, "seenAt"),
                              .ago_ms = take_number(from, "agoMs")};
    int64_t receives = take_number(from, "receives"), capacity = take_number(from, "capacity");
    row.capacity = capacity <= WORKER_CAPACITY_MAX ? (uint32_t)capacity : 0;
    row.receives = receives < UINT32_MAX ? (uint32_t)receives : UINT32_MAX;
    struct json *relayed = json_member(from, "relayed");
    row.relayed = relayed && json_kind(relayed) == JSON_KIND_BOOL && json_as_bool(relayed);
    take_text(from, "queue", row.queue, sizeof row.queue);
    take_text(from, "name", row.name, sizeof row.name);
    take_text(from, "node", row.node, sizeof row.node);
    if (*row.queue && *row.name) waiting_list_add(out, &row);
}

bool remote_waiting_read(const struct http_call *call, struct waiting_list *out)
{
    struct sluice_error error;
    if (call->status != 200) return false;
    struct json *o = remote_json(call, &error);
    struct json *rows = o ? json_member(o, "workers") : NULL;
    bool good = rows && json_kind(rows) == JSON_KIND_LIST;
    size_t len = good ? json_list_len(rows) : 0;
    for (size_t i = 0; i < len && i < WAITING_ROWS_MAX; i++)
        if (json_kind(json_list_at(rows, i)) == JSON_KIND_OBJECT)
            add_row(json_list_at(rows, i), out);
    json_free(o);
    return good;
}
