// SPDX-License-Identifier: Apache-2.0
// Makes structs of the table of calls from the bytes of an input, within the limits of their rows.
// So every encoding is written and read back with all its fields, whatever the input is.
#pragma once

#include "protocol/routes.h"

#define FILL_TEXTS 64
#define FILL_ITEMS 4

union any_struct { // any struct of the tables
    char bytes[1];
#define REQUEST(name, type, list) struct type name##_request;
    REQUEST_TABLES(REQUEST)
#undef REQUEST
#define ANSWER(schema, name, type, list) struct type name##_answer;
    ANSWER_TABLES(ANSWER)
    PART_TABLES(ANSWER)
#undef ANSWER
};

struct fill {
    struct reader in;
    char texts[FILL_TEXTS][32]; // what the structs point to
    size_t texts_len;
    struct sluice_header headers[FILL_ITEMS];
    const char *items[FILL_ITEMS];
};

// `fill` stays in place while the struct is used. Kinds that no table writes are left zero.
void fill_init(struct fill *fill, struct bytes input);
void fill_field(struct fill *fill, const struct field *f, union any_struct *out);
void fill_struct(struct fill *fill, const struct fields *table, union any_struct *out);
