// SPDX-License-Identifier: Apache-2.0
// Creates, changes, shows, lists, empties and deletes queues on a node. These calls are rare, so
// they use JSON. None of them has a request id. All except redrive and delete have the same result
// if they are repeated.
#include "client/client.h"

#include "base/memory.h"
#include "protocol/routes.h"

#include <inttypes.h>
#include <string.h>

static enum sluice_code do_plain(struct node_client *s, const char *queue, enum route_id id,
                                 struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    struct node_client *r = s;
    struct ask ask = {.call = id, .queue = queue, .until = client_until(r)};
    http_call_init(&call, NULL, NULL);
    return client_ask(r, &ask, &call, NULL, error);
}

enum sluice_code client_queue_pause(struct node_client *s, const char *queue,
                                    struct sluice_error *error)
{
    return do_plain(s, queue, ROUTE_PAUSE, error);
}

enum sluice_code client_queue_resume(struct node_client *s, const char *queue,
                                     struct sluice_error *error)
{
    return do_plain(s, queue, ROUTE_RESUME, error);
}

// A repeated request by name might delete the next queue of that name. So the request names the
// queue's id. If the id is not available (no permission, or a deletion stopped half-way), the
// request is sent once.
enum sluice_code client_queue_delete(struct node_client *s, const char *queue,
                                     struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    struct node_client *r = s;
    struct sluice_queue_info *info = NULL;
    struct queue_delete_in in = {0};
    bool again = false;
    enum sluice_code code = client_queue_show(s, queue, &info, error);
    if (code && code != SLUICE_NOT_FOUND && code != SLUICE_DENIED) return code;
    if (info) in.id = info->id;
    struct ask ask = {.call = ROUTE_QUEUE_DELETE,
                      .queue = queue,
                      .in = &in,
                      .same_if_twice = in.id,
                      .until = client_until(r)};
    http_call_init(&call, NULL, NULL);
    code = client_ask(r, &ask, &call, &again, error);
    sluice_queue_info_free(info);
    return code == SLUICE_NOT_FOUND && again ? SLUICE_OK : code; // an earlier attempt deleted it
}

// Writes a flat object. The node accepts dotted names, and strings for all values. If a setting is
// given twice, the last value counts.
static void write_settings(const struct sluice_setting *settings, size_t len, struct buf *to)
{
    struct json *o = json_new();
    for (size_t i = 0; i < len; i++)
        json_text(o, settings[i].key, settings[i].value ? settings[i].value : "");
    json_write(o, to);
}

// *status is the status of the answer. It is 0 if an earlier attempt may have been applied, because
// then the status says nothing.
static enum sluice_code put_settings(struct node_client *s, const char *queue, enum route_id id,
                                     const struct sluice_setting *settings, size_t len, int *status,
                                     struct sluice_error *error)
{
    bool again = false;
    struct node_client *r = s;
    LOCAL(http_call, call, NULL, NULL);
    LOCAL(buf, body, SIZE_MAX);
    write_settings(settings, len, &body);
    struct ask ask = {
        .call = id, .queue = queue, .body = buf_bytes(&body), .until = client_until(r)};
    enum sluice_code code = client_ask(r, &ask, &call, &again, error);
    *status = again ? 0 : call.status;
    return code;
}

enum sluice_code client_queue_create(struct node_client *s, const char *queue,
                                     const struct sluice_setting *settings, size_t len,
                                     struct sluice_error *error)
{
    int status;
    enum sluice_code code = put_settings(s, queue, ROUTE_QUEUE_PUT, settings, len, &status, error);
    if (!code) note_existed(error, status == 200);
    return code;
}

enum sluice_code client_queue_set(struct node_client *s, const char *queue,
                                  const struct sluice_setting *settings, size_t len,
                                  struct sluice_error *error)
{
    int status;
    return put_settings(s, queue, ROUTE_QUEUE_PATCH, settings, len, &status, error);
}

// Formats the values as for a queue in a store, where 2 is printed as "2.000". Settings of a newer
// node that this library does not know are left out.
static void take_settings(struct sluice_queue_info *info, const struct json_pairs *pairs)
{
    struct queue_config config;
    struct config_pair known;
    config_defaults(&config);
    for (size_t i = 0; i < pairs->len; i++)
        (void)queue_change_config(&config, &pairs->rows[i], 1, NULL);
    while (config_print(&config, info->settings_len, &known))
        info->settings_len++;
    info->settings = memory_zeroed(info->settings_len, sizeof *info->settings);
    for (size_t i = 0; config_print(&config, i, &known); i++)
        info->settings[i] = (struct sluice_setting){known.key, memory_text(known.value)};
}

enum sluice_code client_queue_show(struct node_client *s, const char *queue,
                                   struct sluice_queue_info **out, struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    struct node_client *r = s;
    struct ask ask = {.call = ROUTE_QUEUE_GET, .queue = queue, .until = client_until(r)};
    http_call_init(&call, NULL, NULL);
    enum sluice_code code = client_ask(r, &ask, &call, NULL, error);
    struct json *o = code ? NULL : client_json(&call, error);
    if (!o) return code ? code : SLUICE_CORRUPT;
    struct json_pairs pairs;
    struct json *settings = json_member(o, "settings");
    if (settings && json_pairs_of(settings, &pairs)) {
        struct sluice_queue_info *info = *out = NEW(struct sluice_queue_info);
        info->name = memory_text(queue);
        fields_take(o, &queue_answer, info);
        take_settings(info, &pairs);
        json_pairs_done(&pairs);
    } else {
        code = client_unreadable(&call, error);
    }
    json_free(o);
    return code;
}

static void add_name(struct sluice_names *list, const char *name)
{
    list->names = memory_resize(list->names, (list->len + 1) * sizeof *list->names);
    list->names[list->len++] = memory_text(name);
}

// Reads one page of names. `more` becomes true if other names follow.
static enum sluice_code list_some(struct node_client *r, struct sluice_names *list, bool *more,
                                  struct sluice_error *error)
{
    enum sluice_code code;
    struct queue_list_in in = {.names = true};
    if (list->len > 0) in.after = list->names[list->len - 1];
    struct ask ask = {.call = ROUTE_QUEUE_LIST, .in = &in};
    struct json *o = client_ask_json(r, &ask, &code, error);
    struct json *rows = o ? json_member(o, "queues") : NULL;
    if (!o) return code;
    bool is_list = rows && json_kind(rows) == JSON_KIND_LIST;
    size_t before = list->len;
    for (size_t i = 0; is_list && i < json_list_len(rows); i++) {
        struct json *row = json_list_at(rows, i);
        struct queue_row is = {0};
        fields_view(row, &queue_row_answer, &is);
        if (json_kind(row) == JSON_KIND_OBJECT) add_name(list, is.name);
    }
    const char *const *names = (const char *const *)list->names;
    bool moved = list->len > before && // a node that repeats itself must not cause an endless loop
                 (before == 0 || strcmp(names[list->len - 1], names[before - 1]) > 0);
    *more = moved && json_member(o, "more");
    json_free(o);
    return SLUICE_OK;
}

enum sluice_code client_queue_list(struct node_client *s, struct sluice_names **out,
                                   struct sluice_error *error)
{
    struct node_client *r = s;
    struct sluice_names *list = NEW(struct sluice_names);
    enum sluice_code code = SLUICE_OK;
    for (bool more = true; !code && more;)
        code = list_some(r, list, &more, error);
    if (code)
        sluice_names_free(list);
    else
        *out = list; // sorted by the node
    return code;
}

// Makes a call whose answer has one number.
static enum sluice_code ask_count(struct node_client *s, struct ask *ask, const char *name,
                                  uint64_t *out, struct sluice_error *error)
{
    enum sluice_code code;
    struct json *o = client_ask_json(s, ask, &code, error);
    struct json *value = o ? json_member(o, name) : NULL;
    bool is_number = value && json_kind(value) == JSON_KIND_NUMBER;
    if (o && out) *out = is_number ? (uint64_t)json_as_number(value) : 0;
    json_free(o);
    return code;
}

enum sluice_code client_queue_purge(struct node_client *s, const char *queue, int dead,
                                    uint64_t *purged, struct sluice_error *error)
{
    struct purge_in in = {.dead = dead};
    struct ask ask = {.call = ROUTE_PURGE, .queue = queue, .in = &in};
    return ask_count(s, &ask, "purged", purged, error);
}

enum sluice_code client_queue_upgrade(struct node_client *s, const char *queue, unsigned flags,
                                      struct sluice_upgrade *out, struct sluice_error *error)
{
    struct upgrade_in in = {.check = (flags & SLUICE_UPGRADE_CHECK) != 0,
                            .force = (flags & SLUICE_UPGRADE_FORCE) != 0};
    *out = (struct sluice_upgrade){0};
    struct ask ask = {.call = ROUTE_UPGRADE, .queue = queue, .in = &in};
    enum sluice_code code;
    struct json *o = client_ask_json(s, &ask, &code, error);
    if (o) fields_take(o, &upgrade_answer, out);
    json_free(o);
    return code;
}

// A repeated redrive of some messages would redrive twice as many, so it is sent once.
enum sluice_code client_redrive(struct node_client *s, const char *queue, const char *to,
                                uint32_t max, uint64_t *redriven, struct sluice_error *error)
{
    struct redrive_in in = {.to = to, .max = max};
    struct ask ask = {.call = ROUTE_REDRIVE, .queue = queue, .in = &in, .same_if_twice = max == 0};
    return ask_count(s, &ask, "redriven", redriven, error);
}

static enum sluice_code redrive_part(struct node_client *s, const char *queue, const char *to,
                                     const char *const *ids, size_t len,
                                     struct sluice_outcome *outcomes, struct sluice_error *error)
{
    enum sluice_code code;
    struct redrive_in in = {.to = to, .ids = {ids, len}};
    struct ask ask = {.call = ROUTE_REDRIVE, .queue = queue, .in = &in};
    struct json *o = client_ask_json(s, &ask, &code, error);
    struct json *rows = o ? json_member(o, "outcomes") : NULL;
    bool complete = rows && json_kind(rows) == JSON_KIND_LIST && json_list_len(rows) == len;
    if (o && !complete)
        code = refuse(error, ERR_CORRUPT, "store", "the node's answer has not %zu outcomes", len);
    for (size_t i = 0; i < len; i++) {
        outcomes[i] = (struct sluice_outcome){.code = code, .status = ""};
        if (complete) fields_take(json_list_at(rows, i), &outcome_answer, &outcomes[i]);
        if (!outcomes[i].code) outcomes[i].status = "redriven";
    }
    struct json *why = complete ? json_member(o, "error") : NULL;
    struct sluice_error first = {.code = SLUICE_OK};
    if (why) fields_take(why, &problem_answer, &first);
    if (first.code && error) *error = first;
    json_free(o);
    return first.code ? first.code : code;
}

enum sluice_code client_redrive_messages(struct node_client *s, const char *queue, const char *to,
                                         const char *const *ids, size_t len,
                                         struct sluice_outcome *outcomes,
                                         struct sluice_error *error)
{
    struct sluice_outcome *rows = outcomes ? outcomes : memory_zeroed(len + 1, sizeof *rows);
    enum sluice_code first = SLUICE_OK;
    size_t done = 0;
    do {
        size_t some = len - done < ROUTE_ITEMS_MAX ? len - done : ROUTE_ITEMS_MAX;
        enum sluice_code code =
            redrive_part(s, queue, to, ids + done, some, rows + done, first ? NULL : error);
        if (!first) first = code;
        done += some;
    } while (done < len);
    if (!outcomes) memory_free(rows);
    return first;
}

static void add_requests(struct node_client *r, size_t node, struct sluice_requests *out)
{
    CLEANUP(http_call_done) struct http_call call;
    struct node_out is = {0};
    struct ask ask = {.call = ROUTE_NODE, .prefer = 1 + node, .only = true};
    if (r->nodes.len == 1) ask.until = client_until(r);
    http_call_init(&call, NULL, NULL);
    struct json *o = client_ask(r, &ask, &call, NULL, NULL) ? NULL : client_json(&call, NULL);
    if (o) fields_take(o, &node_answer, &is);
    json_free(o);
    out->reads += is.charged.reads;
    out->writes += is.charged.writes;
    out->deletes += is.charged.deletes;
}

// The handle itself makes no store requests. The counts are those of the nodes that answer, for all
// of their clients.
void client_requests(struct node_client *r, struct sluice_requests *out)
{
    *out = (struct sluice_requests){0};
    for (size_t i = 0; i < r->nodes.len; i++)
        add_requests(r, i, out);
}

enum sluice_code client_stats(struct node_client *s, const char *queue, struct sluice_stats *out,
                              struct sluice_error *error)
{
    enum sluice_code code;
    struct ask ask = {.call = ROUTE_STATS, .queue = queue};
    struct json *o = client_ask_json(s, &ask, &code, error);
    *out = (struct sluice_stats){0};
    if (o) fields_take(o, &stats_answer, out);
    json_free(o);
    return code;
}

enum sluice_code client_workers(struct node_client *s, const char *queue, struct sluice_worker *out,
                                size_t max, size_t *len, struct sluice_error *error)
{
    enum sluice_code code;
    *len = 0;
    struct ask ask = {.call = ROUTE_WORKERS, .queue = queue};
    struct json *o = client_ask_json(s, &ask, &code, error);
    if (!o) return code;
    struct json *rows = json_member(o, "workers");
    bool is_list = rows && json_kind(rows) == JSON_KIND_LIST;
    for (size_t i = 0; is_list && i < json_list_len(rows) && *len < max; i++) {
        struct json *row = json_list_at(rows, i);
        if (json_kind(row) != JSON_KIND_OBJECT) continue;
        struct sluice_worker *w = &out[(*len)++];
        *w = (struct sluice_worker){0};
        fields_take(row, &worker_answer, w);
    }
    json_free(o);
    return SLUICE_OK;
}
