// SPDX-License-Identifier: Apache-2.0
// The fields of every request and answer, by the table of calls. What a reader accepts is written
// and read again. So is a struct that is made of the input's bytes.
#include "base/check.h"
#include "fill.h"
#include "fuzz.h"
#include "protocol/routes.h"

#include <string.h>

static bool is_written(enum field_kind kind)
{
    return kind == FIELD_TEXT || kind == FIELD_NUMBER || kind == FIELD_DURATION ||
           kind == FIELD_SMALL || kind == FIELD_INT || kind == FIELD_BOOL;
}

static void same_request(const struct field *f, const union any_struct *a,
                         const union any_struct *b)
{
    const char *left = a->bytes + f->at, *right = b->bytes + f->at;
    if (f->kind == FIELD_BOOL)
        CHECK(*left == *right);
    else if (f->kind != FIELD_TEXT)
        CHECK(memcmp(left, right, f->size) == 0);
    else if (*(const char *const *)left)
        CHECK(strcmp(*(const char *const *)left, *(const char *const *)right) == 0);
}

// Writes the struct, if all its fields can be written, and reads it again.
static void write_request(const struct fields *table, const union any_struct *first)
{
    union any_struct again = {0};
    struct kept_texts kept = {0};
    struct sluice_error error;
    for (size_t i = 0; i < table->len; i++)
        if (!is_written(table->rows[i].kind)) return;
    struct json *written = fields_json(table, first);
    CHECK(fields_read(written, "", table, &again, &kept, &error) == SLUICE_OK);
    for (size_t i = 0; i < table->len; i++)
        same_request(&table->rows[i], first, &again);
    json_free(written);
    kept_done(&kept);
}

static void try_request(struct json *in, const struct fields *table)
{
    union any_struct first = {0};
    struct kept_texts kept = {0};
    struct sluice_error error;
    bool good = fields_read(in, "", table, &first, &kept, &error) == SLUICE_OK;
    union any_struct checked = first; // what a reader accepts is within the limits
    if (good) CHECK(fields_check(table, &checked, &error) == SLUICE_OK);
    // The field is empty if it is unknown and has no name.
    if (!good) CHECK(error.code == SLUICE_INVALID && *error.message);
    if (good) write_request(table, &first);
    kept_done(&kept);
}

static void same_answer(const struct field *f, const union any_struct *a, const union any_struct *b)
{
    const char *left = a->bytes + f->at, *right = b->bytes + f->at;
    if (f->kind == FIELD_CHARS)
        CHECK(memchr(left, 0, f->size));
    else if (f->kind == FIELD_TEXT)
        CHECK(strcmp(*(const char *const *)left, *(const char *const *)right) == 0);
    else if (f->kind != FIELD_ORIGIN && f->kind != FIELD_ANY) // one has texts, one is not read
        CHECK(memcmp(left, right, f->size) == 0);
}

static void write_answer(const struct fields *table, const union any_struct *first)
{
    union any_struct again = {0};
    struct json *written = fields_json(table, first);
    fields_view(written, table, &again);
    for (size_t i = 0; i < table->len; i++)
        same_answer(&table->rows[i], first, &again);
    json_free(written);
}

static void try_answer(struct json *in, const struct fields *table)
{
    union any_struct first = {0};
    fields_view(in, table, &first);
    write_answer(table, &first);
}

static void make_request(struct bytes in, const struct fields *table)
{
    union any_struct first = {0};
    struct fill fill;
    struct sluice_error error;
    fill_init(&fill, in);
    fill_struct(&fill, table, &first);
    union any_struct checked = first;
    CHECK(fields_check(table, &checked, &error) == SLUICE_OK);
    write_request(table, &first);
}

// A field that an answer's reader leaves out is not compared, so it is not made either.
static bool is_read(enum field_kind kind)
{
    return kind == FIELD_TEXT || kind == FIELD_CHARS || kind == FIELD_NUMBER ||
           kind == FIELD_COUNT || kind == FIELD_SMALL || kind == FIELD_INT || kind == FIELD_FLAG ||
           kind == FIELD_CODE;
}

static void make_answer(struct bytes in, const struct fields *table)
{
    union any_struct first = {0};
    struct fill fill;
    fill_init(&fill, in);
    fields_view(NULL, table, &first); // texts that are not made are ""
    for (size_t i = 0; i < table->len; i++)
        if (is_read(table->rows[i].kind)) fill_field(&fill, &table->rows[i], &first);
    write_answer(table, &first);
}

static const struct fields *const requests[] = {
#define REQUEST(name, type, list) &name##_fields,
    REQUEST_TABLES(REQUEST)
#undef REQUEST
};
static const struct fields *const answers[] = {
#define ANSWER(schema, name, type, list) &name##_answer,
    ANSWER_TABLES(ANSWER) PART_TABLES(ANSWER)
#undef ANSWER
};
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

// The first byte chooses the tables, so that one input costs one of each.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char why[128];
    if (len < 1) return 0;
    const struct fields *request = requests[data[0] % COUNT_OF(requests)];
    const struct fields *answer = answers[data[0] % COUNT_OF(answers)];
    struct bytes input = bytes_of(data + 1, len - 1);
    struct json *in = json_parse((const char *)input.data, input.len, why, sizeof why);
    if (in && json_kind(in) == JSON_KIND_OBJECT) {
        try_request(in, request);
        try_answer(in, answer);
    }
    json_free(in);
    make_request(input, request);
    make_answer(input, answer);
    return 0;
}
