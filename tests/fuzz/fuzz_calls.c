// SPDX-License-Identifier: Apache-2.0
// The fields of every request and answer, by the table of calls. What a reader accepts is written
// and read again.
#include "base/check.h"
#include "calls/calls.h"
#include "fuzz.h"

#include <string.h>

#define STRUCT_MAX 1024

union place { // a request or answer struct, aligned
    char bytes[STRUCT_MAX];
    max_align_t align;
};

static bool is_written(enum field_kind kind)
{
    return kind == FIELD_TEXT || kind == FIELD_NUMBER || kind == FIELD_DURATION ||
           kind == FIELD_BOOL;
}

static void same_request(const struct field *f, const union place *a, const union place *b)
{
    const char *left = a->bytes + f->at, *right = b->bytes + f->at;
    if (f->kind == FIELD_BOOL)
        CHECK(*left == *right);
    else if (f->kind != FIELD_TEXT)
        CHECK(memcmp(left, right, sizeof(int64_t)) == 0);
    else if (*(const char *const *)left)
        CHECK(strcmp(*(const char *const *)left, *(const char *const *)right) == 0);
}

static void try_request(struct json *in, const struct fields *table)
{
    union place first = {0}, again = {0};
    struct kept_texts kept = {0};
    struct sluice_error error;
    bool good = fields_read(in, "", table, &first, &kept, &error) == SLUICE_OK;
    // The field is empty if it is unknown and has no name.
    if (!good) CHECK(error.code == SLUICE_INVALID && *error.message);
    for (size_t i = 0; i < table->len; i++)
        good = good && is_written(table->rows[i].kind);
    if (good) {
        struct json *written = fields_json(table, &first);
        CHECK(fields_read(written, "", table, &again, &kept, &error) == SLUICE_OK);
        for (size_t i = 0; i < table->len; i++)
            same_request(&table->rows[i], &first, &again);
        json_free(written);
    }
    kept_done(&kept);
}

static void same_answer(const struct field *f, const union place *a, const union place *b)
{
    const char *left = a->bytes + f->at, *right = b->bytes + f->at;
    if (f->kind == FIELD_CHARS)
        CHECK(memchr(left, 0, f->size));
    else if (f->kind == FIELD_TEXT)
        CHECK(strcmp(*(const char *const *)left, *(const char *const *)right) == 0);
    else if (f->kind != FIELD_ORIGIN) // it has texts
        CHECK(memcmp(left, right, f->size) == 0);
}

static void try_answer(struct json *in, const struct fields *table)
{
    union place first = {0}, again = {0};
    fields_view(in, table, &first);
    struct json *written = fields_json(table, &first);
    fields_view(written, table, &again);
    for (size_t i = 0; i < table->len; i++)
        same_answer(&table->rows[i], &first, &again);
    json_free(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char why[128];
    struct json *in = json_parse((const char *)data, len, why, sizeof why);
    if (in && json_kind(in) == JSON_KIND_OBJECT) {
#define REQUEST(name, type, list) try_request(in, &name##_fields);
        REQUEST_TABLES(REQUEST)
#undef REQUEST
#define ANSWER(schema, name, type, list) try_answer(in, &name##_answer);
        ANSWER_TABLES(ANSWER)
        PART_TABLES(ANSWER)
#undef ANSWER
    }
    json_free(in);
    return 0;
}
