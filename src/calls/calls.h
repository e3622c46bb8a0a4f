// SPDX-License-Identifier: Apache-2.0
// The table of calls: what the server answers and what a client may ask. calls/list.h has the rows.
#pragma once

#include "calls/fields.h"
#include "calls/list.h"

enum token_scope { SCOPE_NONE, SCOPE_READ, SCOPE_SEND, SCOPE_WORK, SCOPE_ADMIN };
const char *scope_name(enum token_scope s); // "send"

enum call_repeat {
    REPEAT_READ, // it changes nothing
    REPEAT_SAME, // a repetition has the same result
    REPEAT_ID,   // it may be repeated with its request id
    REPEAT_ONCE, // it may not be repeated after it may have arrived
};

struct call {
    const char *method;
    const char *pattern; // "/v1/queues/{queue}/messages/{id}"
    enum token_scope scope;
    bool blocks;     // the handler makes blocking calls: it runs on the pool
    size_t body_max; // limit of the request's body; SIZE_MAX: the node's limit; 0: it is ignored
    enum call_repeat repeat;
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
#define MEMBER_DURATION                    int64_t
#define MEMBER_BOOL                        bool
#define MEMBER_HEADERS                     struct field_headers
#define MEMBER_TEXTS                       struct field_texts
#define MEMBER_JSON                        struct json *

#define CALL_MEMBER(in, kind, member, ...) MEMBER_##kind member;
#define CALL_STRUCT(name, list)                                                                    \
    struct name##_in {                                                                             \
        list(CALL_MEMBER, name)                                                                    \
    };
REQUEST_STRUCTS(CALL_STRUCT)
#undef CALL_STRUCT
#undef CALL_MEMBER

#define CALL_TABLE(name, in, list) extern const struct fields name##_fields;
REQUEST_TABLES(CALL_TABLE)
#undef CALL_TABLE

#define CALL_ANSWER(schema, name, in, list) extern const struct fields name##_answer;
ANSWER_TABLES(CALL_ANSWER)
#undef CALL_ANSWER
