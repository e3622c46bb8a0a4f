// SPDX-License-Identifier: Apache-2.0
// JSON Schemas of the envelopes: a documented subset of JSON Schema 2020-12.
//
//   type                   a name or a list of names: object, array, string, integer, number,
//                          boolean, null
//   properties, required   of an object
//   additionalProperties   true or false; the default is true
//   items                  of an array
//   enum, const            of strings, integers, booleans and null
//   minimum, maximum       of an integer
//   minLength, maxLength   of a string, in bytes
//   format                 "date-time": RFC 3339 in UTC with milliseconds
//
// $schema, $id, $comment, title, description, default, examples and deprecated say nothing about
// values. A schema with any other keyword is refused, so that no rule is silently left out.
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "events/envelope.h"

#define SCHEMA_WHY_MAX   512
#define SCHEMA_TEXT_MAX  ((size_t)1 << 20)
#define SCHEMA_DEPTH_MAX 32

struct json;
struct schema;

// Reads a schema. INVALID: `why` says what is wrong and where. Free *out with schema_free.
MUST_USE enum err schema_parse(struct bytes text, struct schema **out, char why[SCHEMA_WHY_MAX]);
void schema_free(struct schema *s); // NULL is allowed
// True if the value has the form. Otherwise `why` says what is wrong and where.
bool schema_holds(const struct schema *s, const struct json *value, char why[SCHEMA_WHY_MAX]);

// How a schema changed.
//
// Events are kept in streams, and programs of two releases run at the same time. So an older
// consumer must understand newer events, and a newer consumer must understand older events. A
// change is additive only if both hold.
enum schema_change { SCHEMA_SAME, SCHEMA_ADDITIVE, SCHEMA_BREAKING };
const char *schema_change_name(enum schema_change change); // "same", "additive", "breaking"
// Called for each difference. `where` is a JSON pointer into the schema.
typedef void schema_report(void *ctx, enum schema_change change, const char *where,
                           const char *what);
// Returns the worst change. Texts that say nothing about values are not compared, except $id.
enum schema_change schema_compare(const struct schema *old, const struct schema *new,
                                  schema_report *report, void *ctx);

// The schemas of this program, by version and event type.
struct schema_set;
struct schema_text;
struct schema_set *schema_set_new(void);
// Of other texts, which it borrows. Each is a schema: it ends the process if one is not.
struct schema_set *schema_set_of(const struct schema_text *texts, size_t len);
void schema_set_free(struct schema_set *set); // NULL is allowed
// NULL: this program has none.
const struct schema *schema_set_find(const struct schema_set *set, uint32_t version,
                                     const char *type);

// For a publisher. True if the schema of the envelope's version and type accepts it. A type without
// a schema is refused. It looks at the struct, not at the text, and is fast.
bool schema_set_accepts(const struct schema_set *set, const struct envelope *e,
                        char why[SCHEMA_WHY_MAX]);
// For a consumer. Reads an envelope (envelope_read) and compares it with the schema of its version
// and type. A type that this program does not know has no schema, and is accepted.
MUST_USE enum err schema_set_read(const struct schema_set *set, struct bytes text,
                                  struct read_envelope *out, char why[SCHEMA_WHY_MAX]);

// The texts, made from schemas/ by tools/embed.
struct schema_text {
    uint32_t version;
    const char *type;
    const char *text;
};
extern const struct schema_text schema_texts[];
extern const size_t schema_texts_len;
