// SPDX-License-Identifier: Apache-2.0
// The schemas of this program, found by version and event type. A publisher looks at each event, so
// the rules that an envelope can break are taken out of the trees once: which fields are required,
// and which statuses are allowed.
#include "base/check.h"
#include "base/memory.h"
#include "events/schema_inside.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// The fields that an envelope can lack. Empty texts and zeros are not printed.
struct presence {
    const char *name;
    bool in_payload;
    bool (*has)(const struct envelope *e);
};

#define HAS_TEXT(path, id)                                                                         \
    static bool has_##id(const struct envelope *e)                                                 \
    {                                                                                              \
        return *e->path != '\0';                                                                   \
    }
#define HAS_NUMBER(path, id)                                                                       \
    static bool has_##id(const struct envelope *e)                                                 \
    {                                                                                              \
        return e->path > 0;                                                                        \
    }
HAS_TEXT(node_id, node_id)
HAS_TEXT(queue, queue)
HAS_TEXT(task_id, task_id)
HAS_TEXT(workflow_id, workflow_id)
HAS_TEXT(ordering_key, ordering_key)
HAS_NUMBER(sequence, sequence)
HAS_NUMBER(attempt, attempt)
HAS_TEXT(payload.status, status)
HAS_TEXT(payload.reason, reason)
HAS_TEXT(payload.worker, worker)
HAS_NUMBER(payload.fence, fence)
HAS_NUMBER(payload.until, until)
HAS_NUMBER(payload.order, order)
HAS_NUMBER(payload.count, count)
HAS_NUMBER(payload.first, first)
HAS_NUMBER(payload.last, last)
HAS_NUMBER(payload.epoch, epoch)
HAS_TEXT(payload.node, node)
HAS_TEXT(payload.signal, signal)
HAS_TEXT(payload.signal_kind, signal_kind)
HAS_TEXT(payload.from.queue, from)

static const struct presence presences[] = {
    {"node_id", false, has_node_id},
    {"queue", false, has_queue},
    {"shard", false, has_queue}, // printed together
    {"task_id", false, has_task_id},
    {"workflow_id", false, has_workflow_id},
    {"ordering_key", false, has_ordering_key},
    {"sequence", false, has_sequence},
    {"attempt", false, has_attempt},
    {"status", true, has_status},
    {"reason", true, has_reason},
    {"worker", true, has_worker},
    {"fence", true, has_fence},
    {"until", true, has_until},
    {"order", true, has_order},
    {"count", true, has_count},
    {"first", true, has_first},
    {"last", true, has_last},
    {"epoch", true, has_epoch},
    {"node", true, has_node},
    {"signal", true, has_signal},
    {"signal_kind", true, has_signal_kind},
    {"from", true, has_from},
};
#define PRESENCES (sizeof presences / sizeof *presences)
static_assert(PRESENCES <= 32, "a mask has 32 bits");

struct row {
    const struct schema_text *text;
    struct schema *schema;
    uint32_t required;           // a bit for each row of presences
    const struct json *statuses; // the enum of payload.status; NULL: any
};

struct schema_set {
    struct row *rows;
    size_t len;
};

static const struct json *property(const struct json *schema, const char *name)
{
    const struct json *all = schema ? json_member(schema, "properties") : NULL;
    return all ? json_member(all, name) : NULL;
}

static void row_fill(struct row *row)
{
    const struct json *tree = row->schema->tree, *payload = property(tree, "payload");
    const struct json *status = property(payload, "status");
    for (size_t i = 0; i < PRESENCES; i++) {
        const struct json *of = presences[i].in_payload ? payload : tree;
        if (of && schema_requires(of, presences[i].name)) row->required |= 1u << i;
    }
    row->statuses = status ? json_member(status, "enum") : NULL;
}

struct schema_set *schema_set_new(void)
{
    return schema_set_of(schema_texts, schema_texts_len);
}

struct schema_set *schema_set_of(const struct schema_text *texts, size_t len)
{
    struct schema_set *set = NEW(struct schema_set);
    char why[SCHEMA_WHY_MAX];
    set->len = len;
    set->rows = memory_zeroed(set->len, sizeof *set->rows);
    for (size_t i = 0; i < set->len; i++) {
        struct row *row = &set->rows[i];
        row->text = &texts[i];
        enum err err = schema_parse(bytes_str(row->text->text), &row->schema, why);
        CHECK(err == ERR_OK); // the build has checked those of this program
        row_fill(row);
    }
    return set;
}

void schema_set_free(struct schema_set *set)
{
    if (!set) return;
    for (size_t i = 0; i < set->len; i++)
        schema_free(set->rows[i].schema);
    memory_free(set->rows);
    memory_free(set);
}

static const struct row *find(const struct schema_set *set, uint32_t version, const char *type)
{
    if (version == 0) version = ENVELOPE_VERSION;
    for (size_t i = 0; i < set->len; i++) {
        const struct row *row = &set->rows[i];
        if (row->text->version == version && strcmp(row->text->type, type) == 0) return row;
    }
    return NULL;
}

const struct schema *schema_set_find(const struct schema_set *set, uint32_t version,
                                     const char *type)
{
    const struct row *row = find(set, version, type);
    return row ? row->schema : NULL;
}

static bool status_allowed(const struct row *row, const char *status)
{
    if (!row->statuses || !*status) return true;
    for (size_t i = 0; i < json_list_len(row->statuses); i++)
        if (bytes_equal(json_as_text(json_list_at(row->statuses, i)), bytes_str(status)))
            return true;
    return false;
}

bool schema_set_accepts(const struct schema_set *set, const struct envelope *e,
                        char why[SCHEMA_WHY_MAX])
{
    const struct row *row = find(set, e->schema_version, e->event_type);
    if (!row) {
        (void)snprintf(why, SCHEMA_WHY_MAX, "version %u of %.100s has no schema in this program",
                       e->schema_version ? e->schema_version : ENVELOPE_VERSION, e->event_type);
        return false;
    }
    for (size_t i = 0; i < PRESENCES; i++) {
        if (!(row->required & 1u << i) || presences[i].has(e)) continue;
        (void)snprintf(why, SCHEMA_WHY_MAX, "%s: %s is missing",
                       presences[i].in_payload ? "/payload" : "/", presences[i].name);
        return false;
    }
    if (status_allowed(row, e->payload.status)) return true;
    (void)snprintf(why, SCHEMA_WHY_MAX, "/payload/status: \"%.60s\" is none of the allowed values",
                   e->payload.status);
    return false;
}

enum err schema_set_read(const struct schema_set *set, struct bytes text, struct read_envelope *out,
                         char why[SCHEMA_WHY_MAX])
{
    char wrong[ENVELOPE_WHY_MAX] = "";
    enum err err = envelope_read(text, out, wrong);
    if (err) {
        (void)snprintf(why, SCHEMA_WHY_MAX, "%s", wrong);
        return err;
    }
    const struct row *row = find(set, out->envelope.schema_version, out->envelope.event_type);
    if (!row || schema_holds(row->schema, out->tree, why)) return ERR_OK;
    return ERR_INVALID;
}
