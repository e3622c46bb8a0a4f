// SPDX-License-Identifier: Apache-2.0
// Reads envelopes. A table has the fields. What the table does not name is ignored, so a newer
// publisher may add fields.
#include "events/envelope.h"

#include "base/moment.h"
#include "json/json.h"
#include "json/weigh.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 16

struct field {
    const char *name;
    enum { FIELD_TEXT, FIELD_TIME, FIELD_NUMBER, FIELD_NUMBER32 } kind;
    bool required; // and not empty
    size_t at;     // offset in the struct
    size_t max;    // bytes of a text; 0: as many as the envelope may have
};

#define FIELD(type, member, kind, required)                                                        \
    {                                                                                              \
#member, kind, required, offsetof(struct type, member), 0                                  \
    }
#define NAME(type, member, max, required)                                                          \
    {                                                                                              \
#member, FIELD_TEXT, required, offsetof(struct type, member), max                          \
    }

static const struct field envelope_fields[] = {
    NAME(envelope, event_id, ENVELOPE_ID_MAX - 1, true),
    NAME(envelope, event_type, SUBJECT_NAME_MAX, true),
    FIELD(envelope, timestamp, FIELD_TIME, true),
    FIELD(envelope, node_id, FIELD_TEXT, false),
    NAME(envelope, queue, SUBJECT_NAME_MAX, false),
    FIELD(envelope, shard, FIELD_NUMBER32, false),
    FIELD(envelope, task_id, FIELD_TEXT, false),
    NAME(envelope, workflow_id, SUBJECT_TOKEN_MAX, false),
    NAME(envelope, ordering_key, ENVELOPE_KEY_MAX - 1, true),
    FIELD(envelope, sequence, FIELD_NUMBER, false),
    FIELD(envelope, attempt, FIELD_NUMBER32, false),
};
static const struct field payload_fields[] = {
    FIELD(envelope_payload, status, FIELD_TEXT, false),
    FIELD(envelope_payload, reason, FIELD_TEXT, false),
    FIELD(envelope_payload, worker, FIELD_TEXT, false),
    FIELD(envelope_payload, fence, FIELD_NUMBER, false),
    FIELD(envelope_payload, until, FIELD_TIME, false),
    FIELD(envelope_payload, order, FIELD_NUMBER, false),
    FIELD(envelope_payload, count, FIELD_NUMBER, false),
    FIELD(envelope_payload, first, FIELD_NUMBER, false),
    FIELD(envelope_payload, last, FIELD_NUMBER, false),
    FIELD(envelope_payload, epoch, FIELD_NUMBER, false),
    FIELD(envelope_payload, node, FIELD_TEXT, false),
    FIELD(envelope_payload, signal, FIELD_TEXT, false),
    FIELD(envelope_payload, signal_kind, FIELD_TEXT, false),
};
static const struct field origin_fields[] = {
    FIELD(envelope_origin, queue, FIELD_TEXT, true),
    FIELD(envelope_origin, task_id, FIELD_TEXT, false),
    FIELD(envelope_origin, reason, FIELD_TEXT, false),
    FIELD(envelope_origin, worker, FIELD_TEXT, false),
    FIELD(envelope_origin, retries, FIELD_NUMBER, false),
    FIELD(envelope_origin, attempts, FIELD_NUMBER, false),
    FIELD(envelope_origin, died_at, FIELD_TIME, false),
};

#define LEN_OF(table) (sizeof(table) / sizeof *(table))

__attribute__((format(printf, 2, 3))) static enum err refuse(char *why, const char *format, ...)
{
    va_list rest;
    va_start(rest, format);
    (void)vsnprintf(why, ENVELOPE_WHY_MAX, format, rest);
    va_end(rest);
    return ERR_INVALID;
}

static enum err refuse_kind(char *why, const char *name, const struct json *value,
                            const char *right)
{
    return refuse(why, "%s is %s, not %s", name, json_kind_name(json_kind(value)), right);
}

static enum err take_text(const char *name, const struct json *value, size_t max, const char **out,
                          char *why)
{
    if (json_kind(value) != JSON_KIND_TEXT) return refuse_kind(why, name, value, "a string");
    struct bytes text = json_as_text(value);
    if (max > 0 && text.len > max)
        return refuse(why, "%s has %zu bytes; at most %zu are allowed", name, text.len, max);
    if (text.len > 0 && memchr(text.data, 0, text.len))
        return refuse(why, "%s contains a zero byte", name);
    *out = (const char *)text.data;
    return ERR_OK;
}

static enum err take_time(const char *name, const struct json *value, int64_t *out, char *why)
{
    const char *text = "";
    enum err err = take_text(name, value, 0, &text, why);
    if (err || moment_read_exact(bytes_str(text), out)) return err;
    return refuse(why, "%s \"%.40s\" is not a time such as 2030-01-31T12:00:00.000Z", name, text);
}

static enum err take_number(const char *name, const struct json *value, int64_t max, int64_t *out,
                            char *why)
{
    if (json_kind(value) != JSON_KIND_NUMBER)
        return refuse_kind(why, name, value, "a whole number");
    *out = json_as_number(value);
    if (*out >= 0 && *out <= max) return ERR_OK;
    return refuse(why, "%s %lld is not in 0 .. %lld", name, (long long)*out, (long long)max);
}

static enum err take_field(const struct field *f, const struct json *value, void *to, char *why)
{
    void *at = (char *)to + f->at;
    int64_t number = 0;
    enum err err = ERR_OK;
    switch (f->kind) {
    case FIELD_TEXT:
        return take_text(f->name, value, f->max, at, why);
    case FIELD_TIME:
        return take_time(f->name, value, at, why);
    case FIELD_NUMBER:
        err = take_number(f->name, value, INT64_MAX, &number, why);
        *(uint64_t *)at = (uint64_t)number;
        return err;
    default:
        err = take_number(f->name, value, UINT32_MAX, &number, why);
        *(uint32_t *)at = (uint32_t)number;
        return err;
    }
}

static enum err take_fields(const struct field *fields, size_t len, const struct json *object,
                            void *to, char *why)
{
    for (size_t i = 0; i < len; i++) {
        const struct field *f = &fields[i];
        const struct json *value = json_member(object, f->name);
        if (!value && f->required) return refuse(why, "%s is missing", f->name);
        enum err err = value ? take_field(f, value, to, why) : ERR_OK;
        if (err) return err;
        bool empty = f->kind == FIELD_TEXT && !**(const char **)((char *)to + f->at);
        if (f->required && empty) return refuse(why, "%s is empty", f->name);
    }
    return ERR_OK;
}

static enum err take_version(const struct json *tree, struct envelope *e, char *why)
{
    int64_t version = 0;
    const struct json *value = json_member(tree, "schema_version");
    if (!value) return refuse(why, "schema_version is missing");
    enum err err = take_number("schema_version", value, UINT32_MAX, &version, why);
    if (err) return err;
    if (version == 0) return refuse(why, "schema_version 0 is not a version; the first is 1");
    e->schema_version = (uint32_t)version;
    if (version <= ENVELOPE_VERSION) return ERR_OK;
    return refuse(why,
                  "schema_version %lld is not known here; this program reads versions up to %d: "
                  "upgrade it, or subscribe to the subjects of version %d",
                  (long long)version, ENVELOPE_VERSION, ENVELOPE_VERSION);
}

static enum err take_payload(const struct json *tree, struct envelope_payload *p, char *why)
{
    const struct json *payload = json_member(tree, "payload");
    if (!payload) return refuse(why, "payload is missing");
    if (json_kind(payload) != JSON_KIND_OBJECT)
        return refuse_kind(why, "payload", payload, "an object");
    enum err err = take_fields(payload_fields, LEN_OF(payload_fields), payload, p, why);
    const struct json *from = json_member(payload, "from");
    if (err || !from) return err;
    if (json_kind(from) != JSON_KIND_OBJECT)
        return refuse_kind(why, "payload.from", from, "an object");
    return take_fields(origin_fields, LEN_OF(origin_fields), from, &p->from, why);
}

static enum err take_envelope(const struct json *tree, struct envelope *e, char *why)
{
    if (json_kind(tree) != JSON_KIND_OBJECT)
        return refuse_kind(why, "the envelope", tree, "an object");
    enum err err = take_version(tree, e, why);
    if (!err) err = take_fields(envelope_fields, LEN_OF(envelope_fields), tree, e, why);
    return err ? err : take_payload(tree, &e->payload, why);
}

enum err envelope_read(struct bytes text, struct read_envelope *out, char why[ENVELOPE_WHY_MAX])
{
    *out = (struct read_envelope){.envelope = envelope_empty()};
    out->envelope.schema_version = 0;
    if (text.len > ENVELOPE_MAX)
        return refuse(why, "the envelope has %zu bytes; at most %zu are allowed", text.len,
                      ENVELOPE_MAX);
    if (json_weigh((const char *)text.data, text.len).depth > DEPTH_MAX)
        return refuse(why, "the envelope nests deeper than %d", DEPTH_MAX);
    char wrong[256];
    out->tree = json_parse((const char *)text.data, text.len, wrong, sizeof wrong);
    if (!out->tree) return refuse(why, "the envelope is not JSON: %s", wrong);
    return take_envelope(out->tree, &out->envelope, why);
}

void envelope_in_done(struct read_envelope *in)
{
    if (in->tree) json_free(in->tree);
    *in = (struct read_envelope){.envelope = envelope_empty()};
}
