// SPDX-License-Identifier: Apache-2.0
// Keys from the services that a container or a machine in the cloud finds beside itself, and from
// STS for a web identity. Each call asks the service anew.
#pragma once

#include "store/s3/auth/secret.h"

struct s3_container {
    char url[S3_URL_MAX];        // "": there is none
    char token[S3_TOKEN_MAX];    // sent as Authorization; "": none
    char token_file[S3_URL_MAX]; // read before every request, since it changes; "": none
};

struct s3_instance {
    char endpoint[S3_URL_MAX]; // "": switched off
    bool v1_off;
};

struct s3_web_identity {
    char endpoint[S3_URL_MAX];
    char role_arn[S3_URL_MAX];
    char session[S3_KEY_MAX];
    char token_file[S3_URL_MAX];
};

// What the environment says. ERR_INVALID: a setting that cannot be used; why names it.
MUST_USE enum err s3_container_find(struct s3_container *to, char *why, size_t why_len);
MUST_USE enum err s3_instance_find(struct s3_instance *to, char *why, size_t why_len);
// A plain-text request with a token in it may go only to this machine and the two services' fixed
// addresses; https may go anywhere.
bool s3_container_url_ok(const char *url);

// ERR_UNAVAILABLE: no answer, or none that makes sense. ERR_DENIED: it answers that there are none.
MUST_USE enum err s3_container_fetch(struct http *direct, const struct s3_container *from,
                                     struct s3_fetched *out, char *why, size_t why_len);
// ERR_NOT_FOUND: nothing listens there, so this is no such machine, or it has no role.
MUST_USE enum err s3_instance_fetch(struct http *direct, const struct s3_instance *from,
                                    struct s3_fetched *out, char *why, size_t why_len);
MUST_USE enum err s3_web_identity_fetch(struct http *client, const struct s3_web_identity *from,
                                        struct s3_fetched *out, char *why, size_t why_len);
