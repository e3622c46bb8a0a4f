// SPDX-License-Identifier: Apache-2.0
// A bucket of an S3-compatible store, or a prefix in one.
//
//   s3://bucket/prefix?endpoint=http://127.0.0.1:8000&region=eu-west-1&pathStyle=1&profile=name
//     &caBundle=/path&maxPutsPerSecond=50&timeoutMs=30000
//
// If the URL does not have a setting, it comes from the environment (AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL, AWS_REGION, AWS_DEFAULT_REGION, AWS_PROFILE, AWS_CA_BUNDLE), else from the
// config file's profile.
#pragma once

#include "store/store.h"

// For tests; NULL means all zero.
struct s3_options {
    // The machine's calendar clock, used only until the store has reported its time.
    int64_t (*wall_ms)(void);
};

// Checks the form of the URL. Returns ERR_INVALID with a sentence.
MUST_USE enum err store_s3_check(const char *url, char *why, size_t why_len);
// Sends no request. If a service holds the keys, the first request fetches them. If no keys are
// found, each call returns ERR_DENIED. Returns ERR_INVALID for a wrong URL, setting or profile, and
// why names it.
MUST_USE enum err store_s3_open(const char *url, struct store **out, char *why, size_t why_len);
MUST_USE enum err store_s3_open_with(const char *url, const struct s3_options *options,
                                     struct store **out, char *why, size_t why_len);

bool store_is_s3(const struct store *s);

// Facts about the bucket of a handle, for display. It holds no secret.
struct s3_facts {
    char endpoint[400];
    char bucket[64];
    char region[64];
    char credentials[256]; // the source of the keys
    // The bucket keeps, and charges for, deleted objects until a lifecycle rule removes them.
    bool versioned;
};

// Sends one request, for the versioning. The other fields are set even if it fails. Returns the
// errors of any call, and ERR_INVALID if the store is not a bucket.
MUST_USE enum err store_s3_facts(struct store *s, struct s3_facts *out, struct store_answer *a);
