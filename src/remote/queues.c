// SPDX-License-Identifier: Apache-2.0
// Creates, changes, shows, lists, empties and deletes queues on a node. These calls are rare, so
// they use JSON. None of them has a request id. All except redrive and delete have the same result
// if they are repeated.
#include "remote/remote.h"

#include "base/memory.h"
#include "calls/calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define JSON_TYPE "application/json"

// Sends a request about a queue. `rest` follows the queue's name in the path. The answer is in
// call.
static enum sluice_code ask_queue(struct remote *r, const char *queue, const char *rest,
                                  struct ask *ask, struct http_call *call, bool *again,
                                  struct sluice_error *error)
{
    enum sluice_code code = remote_check(r, queue, error);
    if (code) return code;
    struct remote_path path = remote_path(queue, rest);
    ask->path = path.text;
    ask->until = remote_until(r);
    if (ask->body.len > 0) ask->type = JSON_TYPE;
    return remote_ask(r, ask, call, again, error);
}

// Returns what follows the queue's name in the path of a call.
static const char *rest_of(const struct call *c)
{
    return strchr(c->pattern, '}') + 1;
}

static enum sluice_code do_plain(struct sluice *s, const char *queue, enum call_id id,
                                 struct sluice_error *error)
{
    const struct call *c = &call_table[id];
    CLEANUP(http_call_done) struct http_call call;
    struct ask ask = {.kind = ASK_AGAIN, .method = c->method};
    http_call_init(&call, c->method, NULL);
    return ask_queue(remote_of(s), queue, rest_of(c), &ask, &call, NULL, error);
}

enum sluice_code remote_queue_pause(struct sluice *s, const char *queue, struct sluice_error *error)
{
    return do_plain(s, queue, CALL_PAUSE, error);
}

enum sluice_code remote_queue_resume(struct sluice *s, const char *queue,
                                     struct sluice_error *error)
{
    return do_plain(s, queue, CALL_RESUME, error);
}

// A repeated request by name might delete the next queue of that name. So the request names the
// queue's id. If the id is not available (no permission, or a deletion stopped half-way), the
// request is sent once.
enum sluice_code remote_queue_delete(struct sluice *s, const char *queue,
                                     struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    struct sluice_queue_info *info = NULL;
    struct ask ask = {.kind = ASK_ONCE, .method = "DELETE"};
    char rest[64] = "";
    bool again = false;
    enum sluice_code code = remote_queue_show(s, queue, &info, error);
    if (code && code != SLUICE_NOT_FOUND && code != SLUICE_DENIED) return code;
    if (!code) {
        ask.kind = ASK_AGAIN;
        (void)snprintf(rest, sizeof rest, "?id=%s", info->id);
        sluice_queue_info_free(info);
    }
    http_call_init(&call, "DELETE", NULL);
    code = ask_queue(remote_of(s), queue, rest, &ask, &call, &again, error);
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
static enum sluice_code put_settings(struct sluice *s, const char *queue, const char *method,
                                     const struct sluice_setting *settings, size_t len, int *status,
                                     struct sluice_error *error)
{
    bool again = false;
    CLEANUP(http_call_done) struct http_call call;
    CLEANUP(buf_done) struct buf body;
    http_call_init(&call, method, NULL);
    buf_init(&body, SIZE_MAX);
    write_settings(settings, len, &body);
    struct ask ask = {.kind = ASK_AGAIN, .method = method, .body = buf_bytes(&body)};
    enum sluice_code code = ask_queue(remote_of(s), queue, "", &ask, &call, &again, error);
    *status = again ? 0 : call.status;
    return code;
}

enum sluice_code remote_queue_create(struct sluice *s, const char *queue,
                                     const struct sluice_setting *settings, size_t len,
                                     struct sluice_error *error)
{
    int status;
    enum sluice_code code = put_settings(s, queue, "PUT", settings, len, &status, error);
    if (!code) note_existed(error, status == 200);
    return code;
}

enum sluice_code remote_queue_set(struct sluice *s, const char *queue,
                                  const struct sluice_setting *settings, size_t len,
                                  struct sluice_error *error)
{
    int status;
    return put_settings(s, queue, "PATCH", settings, len, &status, error);
}

static char *text_copy(const char *text)
{
    size_t len = strlen(text) + 1;
    return memcpy(memory_new(len), text, len);
}

static const char *text_at(struct json *o, const char *key)
{
    struct json *value = json_member(o, key);
    return value && json_kind(value) == JSON_KIND_TEXT ? (const char *)json_as_text(value).data
                                                       : "";
}

static int64_t number_at(struct json *o, const char *key)
{
    struct json *value = json_member(o, key);
    return value && json_kind(value) == JSON_KIND_NUMBER ? json_as_number(value) : 0;
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
        info->settings[i] = (struct sluice_setting){known.key, text_copy(known.value)};
}

static enum sluice_code read_info(struct json *o, const char *queue, const struct http_call *call,
                                  struct sluice_queue_info **out, struct sluice_error *error)
{
    struct json_pairs pairs;
    struct json *settings = json_member(o, "settings");
    if (!settings || !json_pairs_of(settings, &pairs)) return remote_unreadable(call, error);
    struct sluice_queue_info *info = NEW(struct sluice_queue_info);
    info->name = text_copy(queue);
    fields_take(o, &queue_answer, info);
    take_settings(info, &pairs);
    json_pairs_done(&pairs);
    *out = info;
    return SLUICE_OK;
}

enum sluice_code remote_queue_show(struct sluice *s, const char *queue,
                                   struct sluice_queue_info **out, struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    struct ask ask = {.kind = ASK_READ, .method = "GET"};
    http_call_init(&call, "GET", NULL);
    enum sluice_code code = ask_queue(remote_of(s), queue, "", &ask, &call, NULL, error);
    if (code) return code;
    struct json *o = remote_json(&call, error);
    if (!o) return SLUICE_CORRUPT;
    code = read_info(o, queue, &call, out, error);
    json_free(o);
    return code;
}

static void add_name(struct sluice_names *list, const char *name)
{
    list->names = memory_resize(list->names, (list->len + 1) * sizeof *list->names);
    list->names[list->len++] = text_copy(name);
}

// Reads one page of names. `more` becomes true if other names follow.
static enum sluice_code list_some(struct remote *r, struct sluice_names *list, bool *more,
                                  struct sluice_error *error)
{
    CLEANUP(http_call_done) struct http_call call;
    char path[64 + QUEUE_NAME_MAX] = "/v1/queues?names=1";
    if (list->len > 0)
        (void)snprintf(path, sizeof path, "/v1/queues?names=1&after=%.*s", QUEUE_NAME_MAX,
                       list->names[list->len - 1]);
    struct ask ask = {.kind = ASK_READ, .method = "GET", .path = path, .until = remote_until(r)};
    http_call_init(&call, "GET", NULL);
    enum sluice_code code = remote_ask(r, &ask, &call, NULL, error);
    if (code) return code;
    struct json *o = remote_json(&call, error), *rows = o ? json_member(o, "queues") : NULL;
    if (!o) return SLUICE_CORRUPT;
    bool is_list = rows && json_kind(rows) == JSON_KIND_LIST;
    size_t before = list->len;
    for (size_t i = 0; is_list && i < json_list_len(rows); i++) {
        struct json *row = json_list_at(rows, i);
        if (json_kind(row) == JSON_KIND_OBJECT) add_name(list, text_at(row, "name"));
    }
    const char *const *names = (const char *const *)list->names;
    bool moved = list->len > before && // a node that repeats itself must not cause an endless loop
                 (before == 0 || strcmp(names[list->len - 1], names[before - 1]) > 0);
    *more = moved && json_member(o, "more");
    json_free(o);
    return SLUICE_OK;
}

enum sluice_code remote_queue_list(struct sluice *s, struct sluice_names **out,
                                   struct sluice_error *error)
{
    struct remote *r = remote_of(s);
    struct sluice_names *list = NEW(struct sluice_names);
    enum sluice_code code = remote_check(r, NULL, error);
    for (bool more = true; !code && more;)
        code = list_some(r, list, &more, error);
    if (code)
        sluice_names_free(list);
    else
        *out = list; // sorted by the node
    return code;
}

// Makes a call whose answer is an object. `in` is its request struct; NULL if it has no fields. On
// NULL, code says why.
static struct json *ask_object(struct sluice *s, const char *queue, enum call_id id, const void *in,
                               enum ask_kind kind, enum sluice_code *code,
                               struct sluice_error *error)
{
    const struct call *c = &call_table[id];
    CLEANUP(http_call_done) struct http_call call;
    CLEANUP(buf_done) struct buf body;
    http_call_init(&call, c->method, NULL);
    buf_init(&body, SIZE_MAX);
    if (in) json_write(fields_json(c->body, in), &body);
    struct ask ask = {.kind = kind, .method = c->method, .body = buf_bytes(&body)};
    *code = ask_queue(remote_of(s), queue, rest_of(c), &ask, &call, NULL, error);
    if (*code) return NULL;
    struct json *o = remote_json(&call, error);
    if (!o) *code = SLUICE_CORRUPT;
    return o;
}

enum sluice_code remote_queue_purge(struct sluice *s, const char *queue, int dead, uint64_t *purged,
                                    struct sluice_error *error)
{
    enum sluice_code code;
    struct purge_in in = {.dead = dead};
    struct json *o = ask_object(s, queue, CALL_PURGE, &in, ASK_AGAIN, &code, error);
    if (o && purged) *purged = (uint64_t)number_at(o, "purged");
    json_free(o);
    return code;
}

// A repeated redrive would redrive twice as many messages, so it is sent once.
enum sluice_code remote_redrive(struct sluice *s, const char *queue, const char *to, uint32_t max,
                                uint64_t *redriven, struct sluice_error *error)
{
    enum sluice_code code;
    struct redrive_in in = {.to = to, .max = max};
    enum ask_kind kind = max > 0 ? ASK_ONCE : ASK_AGAIN;
    struct json *o = ask_object(s, queue, CALL_REDRIVE, &in, kind, &code, error);
    if (o && redriven) *redriven = (uint64_t)number_at(o, "redriven");
    json_free(o);
    return code;
}

// The handle itself makes no store requests. The counts are those of the node, for all of its
// clients.
void remote_requests(const struct sluice *s, struct sluice_requests *out)
{
    struct remote *r = remote_of((struct sluice *)(uintptr_t)s);
    CLEANUP(http_call_done) struct http_call call;
    struct ask ask = {
        .kind = ASK_READ, .method = "GET", .path = "/v1/node", .until = remote_until(r)};
    *out = (struct sluice_requests){0};
    http_call_init(&call, ask.method, NULL);
    if (remote_check(r, NULL, NULL) || remote_ask(r, &ask, &call, NULL, NULL)) return;
    struct json *o = remote_json(&call, NULL), *row = o ? json_member(o, "charged") : NULL;
    if (row) fields_take(row, &requests_answer, out);
    json_free(o);
}

enum sluice_code remote_stats(struct sluice *s, const char *queue, struct sluice_stats *out,
                              struct sluice_error *error)
{
    enum sluice_code code;
    *out = (struct sluice_stats){0};
    struct json *o = ask_object(s, queue, CALL_STATS, NULL, ASK_READ, &code, error);
    if (!o) return code;
    fields_take(o, &stats_answer, out);
    json_free(o);
    return SLUICE_OK;
}

enum sluice_code remote_workers(struct sluice *s, const char *queue, struct sluice_worker *out,
                                size_t max, size_t *len, struct sluice_error *error)
{
    enum sluice_code code;
    *len = 0;
    struct json *o = ask_object(s, queue, CALL_WORKERS, NULL, ASK_READ, &code, error);
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
