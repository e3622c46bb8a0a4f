// SPDX-License-Identifier: Apache-2.0
#include "protocol/waiting_list.h"

#include "base/array.h"
#include "base/check.h"
#include "base/memory.h"
#include "json/json.h"

#include <stdlib.h>
#include <string.h>

void waiting_list_add(struct waiting_list *l, const struct waiting_row *row)
{
    *ARRAY_ADD(l->rows, l->len, l->room) = *row;
    CHECK(l->len <= l->room);
}

void waiting_list_done(struct waiting_list *l)
{
    memory_free(l->rows);
    *l = (struct waiting_list){0};
}

static int compare_worker(const struct waiting_row *a, const struct waiting_row *b)
{
    int order = strcmp(a->queue, b->queue);
    return order ? order : strcmp(a->name, b->name);
}

// Rows of a worker are consecutive: first those of its own node.
static int compare_row(const void *left, const void *right)
{
    const struct waiting_row *a = left, *b = right;
    int order = compare_worker(a, b);
    if (order) return order;
    return a->relayed != b->relayed ? (a->relayed ? 1 : -1) : strcmp(a->node, b->node);
}

// The same node may have answered twice, so its receives are not added up.
static void join(struct waiting_row *to, const struct waiting_row *from, bool same_node)
{
    if (same_node)
        to->receives = from->receives > to->receives ? from->receives : to->receives;
    else
        to->receives += from->receives;
    if (from->since < to->since) to->since = from->since;
    if (from->ago_ms < to->ago_ms) to->ago_ms = from->ago_ms;
    if (to->capacity == 0 || (from->capacity > 0 && from->seen_at > to->seen_at))
        to->capacity = from->capacity;
    if (from->seen_at <= to->seen_at) return;
    to->seen_at = from->seen_at;
    memcpy(to->node, from->node, sizeof to->node);
}

void waiting_list_tidy(struct waiting_list *l)
{
    size_t kept = 0;
    char node[NODE_SHOWN_MAX] = ""; // of the row that was joined last
    if (l->len > 0) qsort(l->rows, l->len, sizeof *l->rows, compare_row);
    for (size_t i = 0; i < l->len; i++) {
        const struct waiting_row *row = &l->rows[i];
        struct waiting_row *last = kept > 0 ? &l->rows[kept - 1] : NULL;
        bool same = last && compare_worker(last, row) == 0;
        // What another node passed on is in that node's row.
        if (same && row->relayed && !last->relayed) continue;
        if (same)
            join(last, row, strcmp(node, row->node) == 0);
        else
            l->rows[kept++] = *row;
        memcpy(node, row->node, sizeof node);
    }
    CHECK(kept <= l->len);
    l->len = kept;
}

// The first row whose queue is not before this one, or, with `after`, that is after it.
static size_t bound(const struct waiting_list *l, const char *queue, bool after)
{
    size_t from = 0, to = l->len;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = strcmp(l->rows[middle].queue, queue);
        if (order < 0 || (after && order == 0))
            from = middle + 1;
        else
            to = middle;
    }
    CHECK(from <= l->len);
    return from;
}

size_t waiting_list_count(const struct waiting_list *l, const char *queue)
{
    return bound(l, queue, true) - bound(l, queue, false);
}

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

bool waiting_list_read(struct bytes body, struct waiting_list *out)
{
    CLEANUP(json_let_go) struct json *o = json_read_object(body);
    struct json *rows = o ? json_member(o, "workers") : NULL;
    bool good = rows && json_kind(rows) == JSON_KIND_LIST;
    size_t len = good ? json_list_len(rows) : 0;
    for (size_t i = 0; i < len && i < WAITING_ROWS_MAX; i++)
        if (json_kind(json_list_at(rows, i)) == JSON_KIND_OBJECT)
            add_row(json_list_at(rows, i), out);
    return good;
}
