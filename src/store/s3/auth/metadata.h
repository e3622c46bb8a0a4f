// SPDX-License-Identifier: Apache-2.0
// Fetches keys from the metadata services of a container or a cloud instance, and from STS for a
// web identity. Each call sends new requests.
#pragma once

#include "store/s3/auth/secret.h"

struct s3_container {
    char url[S3_URL_MAX];        // "": no container service
    char token[S3_TOKEN_MAX];    // sent as Authorization; "": none
    char token_file[S3_URL_MAX]; // read before every request, because it changes; "": none
};

struct s3_instance {
    char endpoint[S3_URL_MAX]; // "": disabled
    bool v1_off;
};

struct s3_web_identity {
    char endpoint[S3_URL_MAX];
    char role_arn[S3_URL_MAX];
    char session[S3_KEY_MAX];
    char token_file[S3_URL_MAX];
};

// Read the environment. Return ERR_INVALID for a setting that cannot be used; why names it.
MUST_USE enum err s3_container_find(struct s3_container *to, char *why, size_t why_len);
MUST_USE enum err s3_instance_find(struct s3_instance *to, char *why, size_t why_len);
// Returns whether a token may be sent to this URL. https is allowed to any host. Plain http is
// allowed only to this machine and to the fixed addresses of the two services.
bool s3_container_url_ok(const char *url);

// ERR_UNAVAILABLE: no answer, or a malformed one. ERR_DENIED: the service answers that it has no
// keys.
MUST_USE enum err s3_container_fetch(struct http *direct, const struct s3_container *from,
                                     struct s3_source_answer *out, char *why, size_t why_len);
// ERR_NOT_FOUND: no service listens there, so this is not a cloud instance, or the instance has no
// role.
MUST_USE enum err s3_instance_fetch(struct http *direct, const struct s3_instance *from,
                                    struct s3_source_answer *out, char *why, size_t why_len);
MUST_USE enum err s3_web_identity_fetch(struct http *client, const struct s3_web_identity *from,
                                        struct s3_source_answer *out, char *why, size_t why_len);
