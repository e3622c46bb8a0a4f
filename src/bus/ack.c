// SPDX-License-Identifier: Apache-2.0
#include "bus/ack.h"

#include "json/json.h"
#include "json/raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    int64_t code;
    enum err err;
} errors[] = {
    {10037, ERR_NOT_FOUND}, // no message found
    {10059, ERR_NOT_FOUND}, // stream not found
    {10039, ERR_DENIED},    // JetStream is not enabled for the account
    {10076, ERR_DENIED},    // JetStream is not enabled
    {10058, ERR_CONFLICT},  // the name is in use, with another configuration
    {10060, ERR_CONFLICT},  // another stream than expected
    {10065, ERR_CONFLICT},  // another stream has the subjects
    {10070, ERR_CONFLICT},  // another last message id than expected
    {10071, ERR_CONFLICT},  // another last sequence than expected
    {10074, ERR_CONFLICT},  // replicas need a cluster
    {10052, ERR_CONFLICT},  // the configuration of the stream is not valid
    {10023, ERR_LIMIT},     // resources
    {10047, ERR_LIMIT},     // storage
    {10028, ERR_LIMIT},     // memory
    {10054, ERR_LIMIT},     // the message is too large
    {10077, ERR_LIMIT},     // the store failed, for example because the stream is full
};

enum err bus_error_of(int64_t code)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == code) return errors[i].err;
    return ERR_UNAVAILABLE;
}

static int64_t number_of(const struct json *object, const char *key)
{
    struct json *value = json_member(object, key);
    return value && json_kind(value) == JSON_KIND_NUMBER ? json_as_number(value) : -1;
}

static void read_error(const struct json *error, struct bus_ack *out, char why[static BUS_WHY_MAX])
{
    struct json *text = json_member(error, "description");
    out->err = bus_error_of(number_of(error, "err_code"));
    if (text && json_kind(text) == JSON_KIND_TEXT)
        (void)snprintf(why, BUS_WHY_MAX, "%.200s", (const char *)json_as_text(text).data);
}

// The usual answer, without a tree: there is one for every event.
static bool read_usual(struct bytes body, struct bus_ack *out)
{
    struct bytes key, value;
    uint64_t sequence = 0;
    bool plain = json_raw_ok(body) && body.len > 0 && body.data[0] == '{';
    if (!plain) return false;
    for (struct json_walk w = json_walk_of(body); plain && json_walk_next(&w, &key, &value);) {
        if (bytes_equal(key, bytes_str("error"))) return false;
        if (bytes_equal(key, bytes_str("duplicate")))
            out->duplicate = bytes_equal(value, bytes_str("true"));
        if (!bytes_equal(key, bytes_str("seq"))) continue;
        for (size_t i = 0; i < value.len && plain; i++) {
            plain = value.data[i] >= '0' && value.data[i] <= '9' && sequence < INT64_MAX / 10 - 9;
            sequence = sequence * 10 + (uint64_t)(value.data[i] - '0');
        }
    }
    out->sequence = sequence;
    out->err = ERR_OK;
    return plain && sequence > 0;
}

void bus_ack_read(struct bytes body, struct bus_ack *out, char why[static BUS_WHY_MAX])
{
    char wrong[BUS_WHY_MAX];
    *out = (struct bus_ack){.tag = out->tag, .err = ERR_UNKNOWN, .why = why};
    why[0] = 0;
    if (read_usual(body, out)) return;
    struct json *answer = json_parse((const char *)body.data, body.len, wrong, sizeof wrong);
    bool object = answer && json_kind(answer) == JSON_KIND_OBJECT;
    struct json *error = object ? json_member(answer, "error") : NULL;
    int64_t sequence = object ? number_of(answer, "seq") : -1;
    *out = (struct bus_ack){.tag = out->tag, .err = ERR_UNKNOWN, .why = why};
    why[0] = 0;
    if (error && json_kind(error) == JSON_KIND_OBJECT) {
        read_error(error, out, why);
    } else if (sequence > 0) {
        struct json *twice = json_member(answer, "duplicate");
        out->err = ERR_OK;
        out->sequence = (uint64_t)sequence;
        out->duplicate = twice && json_kind(twice) == JSON_KIND_BOOL && json_as_bool(twice);
    } else {
        (void)snprintf(why, BUS_WHY_MAX,
                       "the bus answered with something that is no acknowledgement");
    }
    json_free(answer);
}

bool bus_ack_subject(const char *subject, const char *inbox, uint64_t *sender, uint64_t *tag)
{
    size_t len = strlen(inbox);
    if (!subject || strncmp(subject, inbox, len) != 0 || subject[len] != '.') return false;
    const char *from = subject + len + 1;
    char *end = NULL;
    *sender = strtoull(from, &end, 10);
    if (end == from || *end != '-') return false;
    from = end + 1;
    *tag = strtoull(from, &end, 10);
    return end != from && *end == 0;
}
