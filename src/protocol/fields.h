// SPDX-License-Identifier: Apache-2.0
// Reads JSON objects into structs, by a table of their fields. A member that is not in the table is
// an error that names it, and so is a value of the wrong kind.
#pragma once

#include "json/json.h"

#define FIELD_PATH_MAX 64

// Memory that lives until the exchange ends.
struct kept_texts {
    struct kept_block *blocks;
    struct json *json;
};
void *kept_new(struct kept_texts *k, size_t len);
void kept_done(struct kept_texts *k);

#define FIELD_KINDS(K)                                                                             \
    K(TEXT, "text")         /* const char *; without zero bytes */                                 \
    K(BASE64, "base64")     /* a pointer and its size_t length; NULL if the field is not given */  \
    K(NUMBER, "number")     /* int64_t, min .. max */                                              \
    K(INT, "number")        /* int, min .. max; one byte in the compact encoding */                \
    K(SMALL, "small")       /* uint32_t, min .. max */                                             \
    K(DURATION, "duration") /* int64_t ms, min .. max: a number, or "30s" */                       \
    K(MOMENT, "moment")     /* int64_t ms since 1970: a number, or "2027-01-31T12:00:00Z" */       \
    K(BOOL, "bool")         /* bool */                                                             \
    K(HEADERS, "headers")   /* struct field_headers: an object of strings */                       \
    K(TEXTS, "texts")       /* struct field_texts: a list of strings */                            \
    K(NUMBERS, "numbers")   /* struct field_numbers: a list of numbers, each min .. max */         \
    K(LIST, "list")         /* struct json *: a list of objects */                                 \
    K(ANY, "json")          /* any value, which the handler reads or writes; no member */          \
    /* only in answers: */                                                                         \
    K(CHARS, "chars")       /* char[] */                                                           \
    K(COUNT, "count")       /* uint64_t */                                                         \
    K(FLAG, "flag")         /* int, not 0: true */                                                 \
    K(CODE, "code")         /* enum sluice_code */                                                 \
    K(SCOPES, "scopes")     /* unsigned: a bit for each enum token_scope */                        \
    K(STATUS, "text")       /* const char *: one of the constants that sluice.h promises */        \
    K(KEPT_TEXT, "text")    /* const char *: NULL is not the same as "" */                         \
    K(FAILURE_KIND, "text") /* const char *: a constant of enum failure_kind */                    \
    K(REQUESTS, "requests") /* struct sluice_requests */                                           \
    K(BODY, "json")         /* like BASE64, inside a struct sluice_message */                      \
    K(PERCENT, "number")    /* int, -1: not given */                                               \
    K(WORD, "text")         /* const char *: a constant, a word of a signal */                     \
    K(DATA, "json")         /* a pointer and its size_t length: JSON, text, or else base64 */      \
    K(ORIGIN, "origin")     /* struct sluice_origin */                                             \
    K(SIGNALS, "signals")   /* const struct sluice_signal_state *, and its size_t length */        \
    K(FAILURES, "failures") /* const struct sluice_failure *, and its size_t length */

enum field_kind {
#define FIELD_KIND(id, name) FIELD_##id,
    FIELD_KINDS(FIELD_KIND)
#undef FIELD_KIND
        FIELD_KIND_COUNT
};

struct field_headers {
    const struct sluice_header *rows;
    size_t len;
};
struct field_texts {
    const char *const *rows;
    size_t len;
};

struct field_numbers {
    const uint32_t *rows;
    size_t len;
};

enum field_omit { // when a field is not written
    OMIT_NEVER,
    OMIT_ZERO,  // if it is NULL, 0, false or OK
    OMIT_EMPTY, // also if it is ""
    OMIT_NULL,  // never: "" is written as null
    OMIT_ALONE, // not by its own value: the writer decides
};

struct field {
    const char *name;
    enum field_kind kind;
    size_t at;   // offset in the struct
    size_t size; // of the member
    enum field_omit omit;
    int64_t min;
    int64_t max;       // of a number; else the bytes of a text or items of a list; 0: any number
    int64_t fallback;  // of a number or duration that is not given
    const char *about; // a sentence for api/openapi.json
};

struct fields {
    const struct field *rows;
    size_t len;
};
extern const struct fields no_fields;

// Writes the members of a struct into the object. JSON values cannot be written.
void fields_put(struct json *object, const struct fields *table, const void *in);
struct json *fields_json(const struct fields *table, const void *in); // a new object
// Reads an answer. Unknown members are ignored, because a newer node may send them. A member that
// is missing or of another kind leaves its place as it is. Texts are not read: nothing would own
// them.
void fields_take(const struct json *object, const struct fields *table, void *out);
// Reads a list of objects into rows of `size` bytes. Returns how many; the caller frees *out.
size_t fields_take_rows(struct json *o, const char *name, const struct fields *table, size_t size,
                        void **out);
// Like fields_take, and reads texts, too: they are views into the object. A text that is missing
// becomes "".
void fields_view(const struct json *object, const struct fields *table, void *out);

// `path` is "" or, for example, "messages[3]."; errors put it before the field's name. A null
// counts as a field that was not given. `out` points into the object and `kept`.
enum sluice_code fields_read(struct json *object, const char *path, const struct fields *table,
                             void *out, struct kept_texts *kept, struct sluice_error *error);
void fields_defaults(const struct fields *table, void *out); // the struct is zeroed otherwise
// Checks the limits of a request that was not JSON. A number that is 0 gets its default first.
enum sluice_code fields_check(const struct fields *table, void *in, struct sluice_error *error);
const struct field *fields_find(const struct fields *table, const char *name); // NULL: none
// Writes "name, other", for use in a sentence.
#define FIELD_NAMES_MAX 200
void fields_names(const struct fields *table, char out[static FIELD_NAMES_MAX]);
// The value of a kind that is a number or a truth value, at its place in a struct.
int64_t field_load(const struct field *f, const void *at);
void field_store(const struct field *f, void *at, int64_t value);
// Returns the value as a query has it. NULL: it is 0, false or not given.
#define FIELD_TEXT_MAX 24
const char *field_text(const struct field *f, const void *in, char out[static FIELD_TEXT_MAX]);
// Reads one value that was given as text, as in a query: numbers, durations, booleans and texts. A
// list of texts gets one more.
enum sluice_code field_read_text(const char *text, const struct field *field, void *out,
                                 struct kept_texts *kept, struct sluice_error *error);
