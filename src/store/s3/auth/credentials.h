// SPDX-License-Identifier: Apache-2.0
// Who we are to an S3 store. The usual places in the usual order: the environment, the shared
// credentials and config files (with profiles), the container's metadata service, the machine's.
// What expires is fetched again before it does.
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

// What the profile's section says beside keys; "": nothing.
struct s3_profile {
    char region[S3_REGION_MAX];
    char endpoint[S3_URL_MAX]; // services s3 endpoint_url, else endpoint_url
    char ca_bundle[S3_URL_MAX];
};

struct s3_credentials;

// Borrows a client that uses no proxies and soon gives up connecting: metadata services are beside
// us or nowhere. Reads the environment and the files, once, and asks nobody. profile NULL:
// AWS_PROFILE, else "default"; a profile named here comes before keys in the environment, as with
// the AWS SDKs. ERR_INVALID: a named profile does not exist, a file is malformed (why names file
// and line), keys are half there, or a setting cannot be used; why names it. Never a secret in why
// or source.
MUST_USE enum err s3_credentials_new(struct http *direct, const char *profile,
                                     struct s3_credentials **out, char *why, size_t why_len);
void s3_credentials_free(struct s3_credentials *c); // wipes the secrets; NULL is fine
const struct s3_profile *s3_credentials_profile(const struct s3_credentials *c);
// The keys to sign with now; any thread. May ask a metadata service, STS or a program, one thread
// at a time; the others wait only if there are no good keys. ERR_UNAVAILABLE: it does not answer,
// and what we have is no longer good. ERR_DENIED: there are none anywhere (why says where was
// looked), or the service refuses. ERR_INVALID: a file that had keys is now malformed.
// now_ms: store time as well as it is known.
MUST_USE enum err s3_credentials_get(struct s3_credentials *c, int64_t now_ms, struct s3_keys *out,
                                     char *why, size_t why_len);
// The store refused the keys (ExpiredToken, InvalidAccessKeyId): fetch anew before the next use, if
// they came from a service or file. False: it would be no use, since they came from the environment
// or the source has already given the same ones again.
bool s3_credentials_refused(struct s3_credentials *c, const struct s3_keys *keys);
// "environment", "profile default in ~/.aws/credentials", "container", "instance role x": for
// doctor; no secret. Lives as long as c.
const char *s3_credentials_source(const struct s3_credentials *c);
