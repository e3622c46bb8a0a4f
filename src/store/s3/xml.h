// SPDX-License-Identifier: Apache-2.0
// The XML documents of S3. They come from outside: every length has a limit, a document type is
// refused so that no entity is expanded, and unknown elements are skipped.
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
    char region[S3_CODE_MAX];     // the bucket's region, if the error is about it
};

struct s3_list_row {
    size_t key_at; // offset in listing.keys; the key ends with 0
    uint64_t size;
    int64_t modified_ms;
};

struct s3_listing {
    struct buf keys;
    struct s3_list_row *rows;
    size_t rows_len;
    bool more;
    char token[S3_TOKEN_TEXT]; // continuation token for the next page; "": none
};

// All readers return false if the document has another root or exceeds a limit.
bool s3_xml_error(struct bytes from, struct s3_error *out);

void s3_listing_init(struct s3_listing *l);
void s3_listing_done(struct s3_listing *l);
bool s3_xml_listing(struct bytes from, struct s3_listing *out); // clears *out first
const char *s3_listed_key(const struct s3_listing *l, size_t row);

// errors: the number of keys that could not be deleted. A missing key does not count.
bool s3_xml_deleted(struct bytes from, struct s3_error *first, size_t *errors);

bool s3_xml_versioning(struct bytes from, bool *on);

// Writes a <Delete> document with these keys, for POST ?delete=.
void s3_xml_put_delete(struct buf *to, const char *prefix, const char *const *keys, size_t count);
