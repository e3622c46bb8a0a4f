// SPDX-License-Identifier: Apache-2.0
// The keys for an S3 store. The sources are those of the AWS SDKs, in their order: the environment,
// the shared credentials and config files (with profiles), the container's metadata service, the
// instance's metadata service. Keys that expire are fetched again before they expire.
#pragma once

#include "base/err.h"
#include "net/http.h"

#define S3_KEY_MAX    256
#define S3_TOKEN_MAX  8192
#define S3_REGION_MAX 64
#define S3_URL_MAX    1024

struct s3_keys {
    char access_key[S3_KEY_MAX];
    char secret_key[S3_KEY_MAX];
    char session_token[S3_TOKEN_MAX]; // "": none
};

// Settings of the profile other than keys; "": not set.
struct s3_profile {
    char region[S3_REGION_MAX];
    char endpoint[S3_URL_MAX]; // endpoint_url of services s3, else endpoint_url
    char ca_bundle[S3_URL_MAX];
};

struct s3_credentials;

// Borrows an HTTP client that uses no proxy and has a short connect timeout: a metadata service is
// either near or absent. Reads the environment and the files once and sends no request.
//
// profile NULL: AWS_PROFILE, else "default". A profile that is named here comes before keys in the
// environment, as in the AWS SDKs.
//
// Returns ERR_INVALID if a named profile does not exist, a file is malformed, one of two keys is
// missing, or a setting cannot be used. why names it, and for a file also the line. Neither why nor
// the source contains a secret.
MUST_USE enum err s3_credentials_new(struct http *direct, const char *profile,
                                     struct s3_credentials **out, char *why, size_t why_len);
void s3_credentials_free(struct s3_credentials *c); // wipes the secrets; accepts NULL
const struct s3_profile *s3_credentials_profile(const struct s3_credentials *c);
// Returns the keys to sign with now. Any thread may call it. It may call a metadata service, STS or
// a program, in one thread at a time. Other threads wait only if there are no valid keys.
// now_ms: store time, or the best estimate of it.
// ERR_UNAVAILABLE: the source does not answer, and the keys in memory are no longer valid.
// ERR_DENIED: no source has keys (why lists the sources), or the service refuses.
// ERR_INVALID: a file that had keys is now malformed.
MUST_USE enum err s3_credentials_get(struct s3_credentials *c, int64_t now_ms, struct s3_keys *out,
                                     char *why, size_t why_len);
// The store refused the keys (ExpiredToken, InvalidAccessKeyId). If they came from a service or a
// file, they are fetched again before the next use. Returns false if that is useless: the keys came
// from the environment, or the source has already returned the same keys again.
bool s3_credentials_refused(struct s3_credentials *c, const struct s3_keys *keys);
// The source for doctor: "environment", "profile default in ~/.aws/credentials", "container",
// "instance role x". It contains no secret and is valid until s3_credentials_free.
const char *s3_credentials_source(const struct s3_credentials *c);
