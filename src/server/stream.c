// SPDX-License-Identifier: Apache-2.0
// GET /v1/stream: the events of several queues, or of all, as Server-Sent Events. The id of an
// event is the client's place in all its queues (stream_cursor.h), so that a client that comes back
// with Last-Event-ID, to any node, misses nothing and gets nothing twice.
#include "base/memory.h"
#include "base/text.h"
#include "queue/codec/event.h"
#include "server/hub.h"
#include "server/sse.h"

#include <stdlib.h>
#include <string.h>

struct stream_call {
    struct stream_request request;
    struct stream_queue *queues;
    struct stream_cursor cursor;
    bool resumes; // the client told a cursor
    bool now;
    uint32_t shards; // of all queues
};

static enum sluice_code take_types(struct stream_filter *f, const struct field_texts *names,
                                   struct sluice_error *error)
{
    f->all_types = names->len == 0;
    for (size_t i = 0; i < names->len; i++) {
        int kind = 0;
        while (kind < EVENT_COUNT && strcmp(event_name((enum event_kind)kind), names->rows[i]) != 0)
            kind++;
        if (kind == EVENT_COUNT) {
            *error = error_of(SLUICE_INVALID, "", "type", "\"%.60s\" is not a type of event",
                              names->rows[i]);
            return error->code;
        }
        f->types[kind] = true;
    }
    return SLUICE_OK;
}

static enum sluice_code take_names(struct stream_filter *f, const struct stream_in *in,
                                   struct sluice_error *error)
{
    if (in->workflow && !*in->workflow) {
        *error = error_of(SLUICE_INVALID, "", "workflow",
                          "workflow is empty; name one, or leave the parameter out");
        return error->code;
    }
    if (in->workflow) (void)text_copy(f->workflow, sizeof f->workflow, in->workflow);
    return in->message ? filter_message(in->message, f->message, error) : SLUICE_OK;
}

static enum sluice_code take_from(struct stream_call *c, const char *from,
                                  struct sluice_error *error)
{
    c->now = strcmp(from, "now") == 0;
    if (c->now || strcmp(from, "0") == 0) return SLUICE_OK;
    c->resumes = true;
    if (stream_cursor_read(from, &c->cursor)) return SLUICE_OK;
    *error = error_of(SLUICE_INVALID, "", "from",
                      "\"%.60s\" is not a place in this stream: the id of one of its events, now, "
                      "or 0",
                      from);
    return error->code;
}

enum sluice_code stream_queue_find(struct server *s, const char *name, struct stream_queue *out,
                                   struct sluice_error *error)
{
    struct sluice_queue_info *info = NULL;
    enum sluice_code code = sluice_queue_show(s->store, name, &info, error);
    if (code) return code;
    *out = (struct stream_queue){.shards = 1};
    (void)text_copy(out->name, sizeof out->name, name);
    (void)text_copy(out->life, sizeof out->life, info->id);
    for (size_t i = 0; i < info->settings_len; i++)
        if (strcmp(info->settings[i].key, "shards") == 0)
            out->shards = (uint32_t)strtoul(info->settings[i].value, NULL, 10);
    sluice_queue_info_free(info);
    return SLUICE_OK;
}

// A queue that the cursor does not have was created after the client left, so the stream begins
// with its first event. That is also true of another life of a name, where the client has missed
// the end of the one before.
static void place_queue(const struct stream_call *c, struct stream_queue *q)
{
    q->now = c->now;
    if (!c->resumes) return;
    q->places = stream_cursor_find(&c->cursor, q->life, q->shards);
    q->gap = !q->places && !c->request.all;
}

static enum sluice_code add_queue(struct stream_call *c, struct exchange *x, const char *name,
                                  struct sluice_error *error)
{
    struct stream_queue *q = &c->queues[c->request.len];
    enum sluice_code code = stream_queue_find(x->server, name, q, error);
    if (code == SLUICE_NOT_FOUND && c->request.all) return SLUICE_OK; // it was just deleted
    if (code) return code;
    c->shards += q->shards;
    if (c->shards > STREAM_SHARDS_MAX) {
        *error = error_of(SLUICE_LIMIT, "too-many-queues", "queue",
                          "the queues of a stream have at most %d shards together, and these have "
                          "more; name fewer queues",
                          STREAM_SHARDS_MAX);
        return error->code;
    }
    place_queue(c, q);
    c->request.len++;
    return SLUICE_OK;
}

static bool is_named_before(const struct field_texts *names, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(names->rows[i], names->rows[index]) == 0) return true;
    return false;
}

static enum sluice_code add_named(struct stream_call *c, struct exchange *x,
                                  const struct field_texts *names, struct sluice_error *error)
{
    enum sluice_code code = SLUICE_OK;
    c->queues = memory_zeroed(names->len, sizeof *c->queues);
    for (size_t i = 0; !code && i < names->len; i++)
        if (!is_named_before(names, i)) code = add_queue(c, x, names->rows[i], error);
    return code;
}

static enum sluice_code add_all(struct stream_call *c, struct exchange *x,
                                struct sluice_error *error)
{
    struct sluice_names *names = NULL;
    enum sluice_code code = sluice_queue_list(x->server->store, &names, error);
    if (code) return code;
    c->request.all = true;
    c->queues = memory_zeroed(names->len + 1, sizeof *c->queues);
    for (size_t i = 0; !code && i < names->len; i++)
        code = add_queue(c, x, names->names[i], error);
    sluice_names_free(names);
    return code;
}

static enum sluice_code build(struct stream_call *c, struct exchange *x, const struct stream_in *in,
                              struct sluice_error *error)
{
    // the header is newer than the URL
    const char *from = x->last_event ? x->last_event : in->from ? in->from : "now";
    struct stream_filter *f = &c->request.filter;
    enum sluice_code code = take_types(f, &in->types, error);
    if (!code) code = take_names(f, in, error);
    if (!code) code = take_from(c, from, error);
    if (code) return code;
    return in->queues.len > 0 ? add_named(c, x, &in->queues, error) : add_all(c, x, error);
}

static bool may_read(struct exchange *x, const struct stream_in *in)
{
    if (in->queues.len == 0) return auth_allow(x, SCOPE_READ, NULL);
    if (in->queues.len > STREAM_QUEUES_MAX)
        return refuse_request(x, SLUICE_LIMIT, "too-many-queues", "queue",
                              "a stream has at most %d queues, not %zu", STREAM_QUEUES_MAX,
                              in->queues.len);
    for (size_t i = 0; i < in->queues.len; i++)
        if (!auth_allow(x, SCOPE_READ, in->queues.rows[i])) return false;
    return true;
}

static bool is_rolled_out(struct exchange *x)
{
    if (atomic_load(&x->server->flags[CAPABILITY_STREAM]) != ROLLOUT_OFF) return true;
    return refuse_request(x, SLUICE_UNAVAILABLE, "off", "",
                          "/v1/stream is off at this node (flags.stream)");
}

void handle_stream(struct exchange *x)
{
    struct sluice_error error;
    struct stream_in in = {0};
    if (!read_request(x, &in) || !may_read(x, &in) || !is_rolled_out(x)) return;
    struct stream_call c = {.shards = 0};
    enum sluice_code code = build(&c, x, &in, &error);
    c.request.queues = c.queues;
    if (answer_unless(x, code, &error)) {
        if (x->head)
            answer_bytes(x, 200, "text/event-stream", NULL);
        else
            (void)hub_subscribe(x->server->hub, x, &c.request);
    }
    stream_cursor_done(&c.cursor);
    memory_free(c.queues);
}
