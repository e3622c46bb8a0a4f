// SPDX-License-Identifier: Apache-2.0
// Makes the tables from the lists of protocol/list.h.
#include "protocol/routes.h"

#include "queue/codec/reason.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define ROW(in, kind_, member, name_, min_, max_, fallback_, about_)                               \
    {.name = name_,                                                                                \
     .kind = FIELD_##kind_,                                                                        \
     .at = offsetof(struct in, member),                                                            \
     .size = sizeof(((struct in *)NULL)->member),                                                  \
     .omit = OMIT_ZERO,                                                                            \
     .min = min_,                                                                                  \
     .max = max_,                                                                                  \
     .fallback = fallback_,                                                                        \
     .about = about_},
#define TABLE(name, in, list)                                                                      \
    static const struct field name##_rows[] = {list(ROW, in)};                                     \
    const struct fields name##_fields = {name##_rows, sizeof name##_rows / sizeof *name##_rows};
REQUEST_TABLES(TABLE)

#define ANSWER_ROW(in, kind_, member, name_, omit_, about_)                                        \
    {.name = name_,                                                                                \
     .kind = FIELD_##kind_,                                                                        \
     .at = offsetof(struct in, member),                                                            \
     .size = sizeof(((struct in *)NULL)->member),                                                  \
     .omit = omit_,                                                                                \
     .about = about_},
#define ANSWER_TABLE(schema, name, in, list)                                                       \
    static const struct field name##_answer_rows[] = {list(ANSWER_ROW, in)};                       \
    const struct fields name##_answer = {name##_answer_rows,                                       \
                                         sizeof name##_answer_rows / sizeof *name##_answer_rows};
ANSWER_TABLES(ANSWER_TABLE)
PART_TABLES(ANSWER_TABLE)

// A kind with two members has its length right after its pointer.
#define PAIRED(in, member)                                                                         \
    static_assert(offsetof(struct in, member##_len) ==                                             \
                      offsetof(struct in, member) + sizeof(void *),                                \
                  "a pointer and its length are neighbours")
PAIRED(sluice_send, body);
PAIRED(sluice_send, headers);
PAIRED(sluice_message, body);
PAIRED(sluice_message, headers);
PAIRED(sluice_message, failures);
PAIRED(sluice_message, signals);
PAIRED(sluice_message, result);
PAIRED(sluice_ack, result);
PAIRED(sluice_signal_state, payload);
PAIRED(sluice_signal_state, answer);

#define COMPACT_INDEX(name, kind, member, ...) name##_##member##_at,
#define COMPACT_AT(name, member)               name##_##member##_at
#define COMPACT(name, rows, list, order)                                                           \
    enum { list(COMPACT_INDEX, name) };                                                            \
    static const uint8_t name##_order[] = {order(COMPACT_AT, name)};                               \
    const struct compact_form compact_##name = {rows, name##_order, sizeof name##_order};
COMPACT_TABLES(COMPACT)

#define ROUTE(id, name_, ...) [ROUTE_##id] = {__VA_ARGS__},
const struct route route_table[ROUTE_COUNT] = {ROUTE_LIST(ROUTE)};

const char *scope_name(enum token_scope s)
{
    static const char *const names[] = {
        [SCOPE_NONE] = "none", [SCOPE_READ] = "read",     [SCOPE_SEND] = "send",
        [SCOPE_WORK] = "work", [SCOPE_SIGNAL] = "signal", [SCOPE_ADMIN] = "admin"};
    return names[s];
}

const char *refusal_text(const char *reason, enum sluice_code code)
{
    for (enum reason r = REASON_NONE + 1; r < REASON_COUNT; r++)
        if (strcmp(reason_name(r), reason) == 0) return reason_text(r);
    return sluice_code_text(code);
}
