// SPDX-License-Identifier: Apache-2.0
// The table of calls: what the server answers and what a client may ask. calls/list.h has the rows.
#pragma once

#include "calls/fields.h"
#include "calls/list.h"
#include "sluice_cluster.h"

enum token_scope { SCOPE_NONE, SCOPE_READ, SCOPE_SEND, SCOPE_WORK, SCOPE_SIGNAL, SCOPE_ADMIN };
const char *scope_name(enum token_scope s); // "send"
struct json *scopes_json(unsigned scopes);  // a list of names; `scopes` has bits (1 << scope)

// The sentence of a row that was refused: of its reason ("lock-expired"), or of its code.
const char *refusal_text(const char *reason, enum sluice_code code);

enum call_repeat {
    REPEAT_READ, // it changes nothing
    REPEAT_SAME, // a repetition has the same result
    REPEAT_ID,   // it may be repeated with its request id
    REPEAT_ONCE, // it may not be repeated after it may have arrived
};

enum call_compact { // where it may have the compact encoding (src/wire)
    COMPACT_NOWHERE,
    COMPACT_ANSWER,
    COMPACT_BOTH, // in the request, too
};

struct call {
    const char *method;
    const char *pattern; // "/v1/queues/{queue}/messages/{id}"
    enum token_scope scope;
    // A path without a queue needs a token for all queues (queue=*), unless this is set: then a
    // token for any queue suffices, and the handler shows only what the token may read.
    bool any_queue;
    bool peer;       // for processes that can read the store; not part of the public interface
    bool blocks;     // the handler makes blocking calls: it runs on the pool
    size_t body_max; // limit of the request's body; SIZE_MAX: the node's limit; 0: it is ignored
    enum call_repeat repeat;
    enum call_compact compact;
    const struct fields *query; // NULL: none
    const struct fields *body;  // NULL: none
    // for api/openapi.json
    const char *operation, *tag, *summary;
    const char *takes;  // the schema of the request's body
    const char *answer; // the schema of the answer; NULL: api/openapi.base.json has the answer
    const char *about;  // says what the answer is
    int status;         // of the answer; 0: 200
    bool conflicts;     // it may answer CONFLICT
    bool fences;        // it may answer FENCED
};

enum call_id {
#define CALL_ID(id, name, ...) CALL_##id,
    CALL_LIST(CALL_ID)
#undef CALL_ID
        CALL_COUNT
};

extern const struct call call_table[CALL_COUNT];

#define MEMBER_TEXT                        const char *
#define MEMBER_BASE64                      struct bytes
#define MEMBER_NUMBER                      int64_t
#define MEMBER_SMALL                       uint32_t
#define MEMBER_DURATION                    int64_t
#define MEMBER_BOOL                        bool
#define MEMBER_HEADERS                     struct field_headers
#define MEMBER_TEXTS                       struct field_texts
#define MEMBER_NUMBERS                     struct field_numbers
#define MEMBER_LIST                        struct json *

#define CALL_MEMBER(in, kind, member, ...) MEMBER_##kind member;
#define CALL_STRUCT(name, list)                                                                    \
    struct name {                                                                                  \
        list(CALL_MEMBER, name)                                                                    \
    };
REQUEST_STRUCTS(CALL_STRUCT)
#undef CALL_STRUCT
#undef CALL_MEMBER

#define CALL_TABLE(name, in, list) extern const struct fields name##_fields;
REQUEST_TABLES(CALL_TABLE)
#undef CALL_TABLE

struct queue_row { // of the answer of GET /v1/queues
    const char *name;
    unsigned scopes; // bits (1 << scope)
    enum sluice_code code;
    const char *detail, *id, *dead_letter_queue;
    int paused;
};

struct node_out { // the answer of GET /v1/node
    const char *flags;
    const char *node, *version, *store, *address;
    uint64_t queues, waiting, uptime_ms;
    struct sluice_requests charged;
};

#define CALL_ANSWER(schema, name, in, list) extern const struct fields name##_answer;
ANSWER_TABLES(CALL_ANSWER)
PART_TABLES(CALL_ANSWER)
#undef CALL_ANSWER

// The fields of a struct in the order of the compact encoding.
struct compact {
    const struct field *rows;
    const uint8_t *order; // indexes of rows
    size_t len;
};
#define CALL_COMPACT(name, rows, list, order) extern const struct compact compact_##name;
COMPACT_TABLES(CALL_COMPACT)
#undef CALL_COMPACT

// The keys are those that the documentation lists. json_message_all has all keys of a message that
// a node sends, and json_message those that the command line prints.
struct json *json_message(const char *queue, const struct sluice_message *message);
struct json *json_message_all(const char *queue, const struct sluice_message *message);
struct json *json_event(const char *queue, const struct sluice_event *event);
