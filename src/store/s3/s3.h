// SPDX-License-Identifier: Apache-2.0
// A bucket of an S3-compatible store, or a prefix in one.
//
//   s3://bucket/prefix?endpoint=http://127.0.0.1:8000&region=eu-west-1&pathStyle=1&profile=name
//     &caBundle=/path&maxPutsPerSecond=50&timeoutMs=30000
//
// What the URL leaves out comes from the environment (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
// AWS_REGION, AWS_DEFAULT_REGION, AWS_PROFILE, AWS_CA_BUNDLE) and the profile's config file.
#pragma once

#include "store/store.h"

// For tests; NULL: all zero.
struct s3_options {
    int64_t (*wall_ms)(
        void); // the machine's calendar clock, used only until the store told its time
};

// Sends nothing: keys are fetched, where a service holds them, when the first request needs them,
// and a call without any is answered ERR_DENIED. ERR_INVALID: the URL, a setting, a profile; why
// names it.
MUST_USE enum err store_s3_open(const char *url, const struct s3_options *options,
                                struct store **out, char *why, size_t why_len);

bool store_is_s3(const struct store *s);

// What there is to know about the bucket behind a handle, for people. No secret is in it.
struct s3_facts {
    char endpoint[400];
    char bucket[64];
    char region[64];
    char credentials[256]; // where the keys came from
    bool versioned; // what is deleted is kept, and paid for, until a lifecycle rule removes it
};

// One request, for the versioning; the other fields are set whatever it answers. The answer is
// that of any call. ERR_INVALID: not a bucket.
MUST_USE enum err store_s3_facts(struct store *s, struct s3_facts *out, struct store_answer *a);
