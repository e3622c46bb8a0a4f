// SPDX-License-Identifier: Apache-2.0
// The XML documents S3 answers with. They come from outside: every length has a limit, a document
// type is refused (so nothing is ever expanded), what is not understood is passed over.
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_CODE_MAX    64
#define S3_MESSAGE_MAX 160
#define S3_TOKEN_TEXT  4096
#define S3_ROWS_MAX    1000

// An Error document, or the first Error of a DeleteResult.
struct s3_error {
    char code[S3_CODE_MAX];
    char message[S3_MESSAGE_MAX]; // printable
    char region[S3_CODE_MAX];     // where the bucket is, when the error is about that
};

struct s3_listed {
    size_t key_at; // in listing.keys, ended by 0
    uint64_t size;
    int64_t modified_ms;
};

struct s3_listing {
    struct buf keys;
    struct s3_listed *rows;
    size_t rows_len;
    bool more;
    char token[S3_TOKEN_TEXT]; // to go on with; "" when there is none
};

// All answer false when the document is not what was asked for, or past a limit.
bool s3_xml_error(struct bytes from, struct s3_error *out);

void s3_listing_init(struct s3_listing *l);
void s3_listing_done(struct s3_listing *l);
bool s3_xml_listing(struct bytes from, struct s3_listing *out); // clears it first
const char *s3_listed_key(const struct s3_listing *l, size_t row);

// errors: how many keys could not be deleted, a missing one not counted.
bool s3_xml_deleted(struct bytes from, struct s3_error *first, size_t *errors);

bool s3_xml_versioning(struct bytes from, bool *on);

// <Delete> with these keys, for POST ?delete=.
void s3_xml_put_delete(struct buf *to, const char *prefix, const char *const *keys, size_t count);
