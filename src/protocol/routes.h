// SPDX-License-Identifier: Apache-2.0
// The table of calls: what the server answers and what a client may ask. protocol/list.h has the
// rows.
#pragma once

#include "protocol/fields.h"
#include "protocol/list.h"
#include "sluice_cluster.h"

#define CLIENT_TOKEN_MAX 512           // bytes of an access token
#define PEER_HEADER      "Sluice-Node" // the name of the node that answers

enum token_scope { SCOPE_NONE, SCOPE_READ, SCOPE_SEND, SCOPE_WORK, SCOPE_SIGNAL, SCOPE_ADMIN };
const char *scope_name(enum token_scope s); // "send"
struct json *scopes_json(unsigned scopes);  // a list of names; `scopes` has bits (1 << scope)

// The sentence of a row that was refused: of its reason ("lock-expired"), or of its code.
const char *refusal_text(const char *reason, enum sluice_code code);

enum route_repeat {
    REPEAT_READ, // it changes nothing
    REPEAT_SAME, // a repetition has the same result
    REPEAT_ID,   // it may be repeated with its request id
    REPEAT_ONCE, // it may not be repeated after it may have arrived
};

enum route_compact { // where it may have the compact encoding (wire.h)
    COMPACT_NOWHERE,
    COMPACT_ANSWER,
    COMPACT_BOTH, // in the request, too
};

struct route {
    const char *method;
    const char *pattern; // "/v1/queues/{queue}/messages/{id}"
    enum token_scope scope;
    // A path without a queue needs a token for all queues (queue=*), unless this is set: then a
    // token for any queue suffices, and the handler shows only what the token may read.
    bool any_queue;
    bool peer;       // for processes that can read the store; not part of the public interface
    bool blocks;     // the handler makes blocking calls: it runs on the pool
    size_t body_max; // limit of the request's body; SIZE_MAX: the node's limit; 0: it is ignored
    enum route_repeat repeat;
    enum route_compact compact;
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

enum route_id {
#define ROUTE_ID(id, name, ...) ROUTE_##id,
    ROUTE_LIST(ROUTE_ID)
#undef ROUTE_ID
        ROUTE_COUNT
};

extern const struct route route_table[ROUTE_COUNT];

#define MEMBER_TEXT                         const char *
#define MEMBER_BASE64                       struct bytes
#define MEMBER_NUMBER                       int64_t
#define MEMBER_SMALL                        uint32_t
#define MEMBER_DURATION                     int64_t
#define MEMBER_BOOL                         bool
#define MEMBER_HEADERS                      struct field_headers
#define MEMBER_TEXTS                        struct field_texts
#define MEMBER_NUMBERS                      struct field_numbers
#define MEMBER_LIST                         struct json *

#define ROUTE_MEMBER(in, kind, member, ...) MEMBER_##kind member;
#define ROUTE_STRUCT(name, list)                                                                   \
    struct name {                                                                                  \
        list(ROUTE_MEMBER, name)                                                                   \
    };
REQUEST_STRUCTS(ROUTE_STRUCT)
#undef ROUTE_STRUCT
#undef ROUTE_MEMBER

#define ROUTE_TABLE(name, in, list) extern const struct fields name##_fields;
REQUEST_TABLES(ROUTE_TABLE)
#undef ROUTE_TABLE

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

#define ROUTE_ANSWER(schema, name, in, list) extern const struct fields name##_answer;
ANSWER_TABLES(ROUTE_ANSWER)
PART_TABLES(ROUTE_ANSWER)
#undef ROUTE_ANSWER

// The fields of a struct in the order of the compact encoding.
struct compact_form {
    const struct field *rows;
    const uint8_t *order; // indexes of rows
    size_t len;
};
#define ROUTE_COMPACT(name, rows, list, order) extern const struct compact_form compact_##name;
COMPACT_TABLES(ROUTE_COMPACT)
#undef ROUTE_COMPACT

// The keys are those that the documentation lists. json_message_all has all keys of a message that
// a node sends, and json_message those that the command line prints.
struct json *json_message(const char *queue, const struct sluice_message *message);
struct json *json_message_all(const char *queue, const struct sluice_message *message);
struct json *json_event(const char *queue, const struct sluice_event *event);
