// SPDX-License-Identifier: Apache-2.0
// Parses an s3:// URL and finds the address of the bucket.
//
//   s3://bucket/prefix?endpoint=http://127.0.0.1:8000&region=eu-west-1&pathStyle=1
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_BUCKET_MAX  63
#define S3_PREFIX_MAX  480 // prefix, '/' and our longest key fit into S3's limit of 1,024 bytes
#define S3_SETTING_MAX 1024
#define S3_HOST_MAX    320
#define S3_REGION_TEXT 64
#define S3_TIMEOUT_MS  30000
#define S3_TIMEOUT_MAX 600000
#define S3_PUTS_MAX    1000000

enum s3_style { S3_STYLE_AUTO, S3_STYLE_PATH, S3_STYLE_HOST };

struct s3_url {
    char bucket[S3_BUCKET_MAX + 1];
    char prefix[S3_PREFIX_MAX + 1]; // without slashes at its ends; "": the whole bucket
    char endpoint[S3_SETTING_MAX];  // "": not set, as for the next fields
    char region[S3_REGION_TEXT];
    char profile[S3_SETTING_MAX];
    char ca_bundle[S3_SETTING_MAX];
    enum s3_style style;
    int64_t puts_per_second; // 0: no limit
    int64_t timeout_ms;
};

// Returns ERR_INVALID; why names the part, its value and a right value.
MUST_USE enum err s3_url_parse(const char *url, struct s3_url *out, char *why, size_t why_len);

// Where requests are sent.
struct s3_place {
    bool https;
    bool path_style;        // the bucket is in the path, not in the host
    bool aws;               // the host was built from the region
    char host[S3_HOST_MAX]; // as it is signed; with the port unless it is the scheme's default
    char region[S3_REGION_TEXT];
    char bucket[S3_BUCKET_MAX + 1];
};

// endpoint "": AWS in that region. region "": us-east-1.
MUST_USE enum err s3_place_find(const struct s3_url *url, const char *endpoint, const char *region,
                                struct s3_place *out, char *why, size_t why_len);
// The store reported that the bucket is in another region. Returns false if that region is the
// current one or is not the name of a region.
bool s3_place_move(struct s3_place *p, const char *region);
