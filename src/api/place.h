// SPDX-License-Identifier: Apache-2.0
// The forms of a store's URL. A backend is its folder and one row of PLACE_LIST.
#pragma once

#include "sluice.h"

#include <stdbool.h>

struct store;

// What a scheme supports.
enum place_trait {
    PLACE_PATH = 1,   // the rest of the URL is the path of a directory
    PLACE_BUCKET = 2, // it is a bucket of an S3-compatible store
    PLACE_NODE = 4,   // a node offers the store: place_open cannot open it
};

// The columns are: the prefix of the URL, its part of PLACE_FORMS, its traits, the function that
// checks the URL, and the function that opens the store. A URL without a scheme is a path.
#define PLACE_LIST(X)                                                                              \
    X("", "a path, ", PLACE_PATH, check_path, open_directory)                                      \
    X("file://", "", PLACE_PATH, check_path, open_directory)                                       \
    X("s3://", "s3://bucket/prefix, ", PLACE_BUCKET, store_s3_check, store_s3_open)                \
    X("redis://", "redis://host, ", 0, store_redis_check, store_redis_open)                        \
    X("rediss://", "", 0, store_redis_check, store_redis_open)                                     \
    X("redis+unix://", "", 0, store_redis_check, store_redis_open)                                 \
    X("redis+sentinel://", "", 0, store_redis_check, store_redis_open)                             \
    X("redis+cluster://", "", 0, store_redis_check, store_redis_open)                              \
    X("rediss+sentinel://", "", 0, store_redis_check, store_redis_open)                            \
    X("rediss+cluster://", "", 0, store_redis_check, store_redis_open)                             \
    X("mem:", "", 0, check_memory, open_memory)                                                    \
    X("http://", "or a node's http://host", PLACE_NODE, check_node, NULL)                          \
    X("https://", "", PLACE_NODE, check_node, NULL)

// The forms, as help and errors list them.
#define PLACE_FORM(prefix, form, traits, check, open) form
#define PLACE_FORMS                                   PLACE_LIST(PLACE_FORM)

// Checks the form of a store's URL; it opens nothing. The URL of a node is refused too. Returns
// SLUICE_OK or SLUICE_INVALID.
enum sluice_code place_check(const char *url, struct sluice_error *error);
// Opens the store of a URL that is not a node's. It is neither probed nor metered.
enum sluice_code place_open(const char *url, struct store **out, struct sluice_error *error);
// Returns whether the URL's scheme has the trait. A URL that is NULL or has no known scheme has
// none.
bool place_is(const char *url, enum place_trait trait);
// Returns the path of a store in the file system. Returns NULL if the URL has another scheme, or a
// relative path after file://.
const char *place_path(const char *url);
