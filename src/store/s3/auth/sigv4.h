// SPDX-License-Identifier: Apache-2.0
// AWS Signature Version 4: builds the text of the Authorization header. It does no I/O.
#pragma once

#include "base/bytes.h"

struct sigv4_keys {
    const char *access_key;
    const char *secret_key;
    const char *session_token; // NULL or "": none
};

struct sigv4_pair {
    const char *name;
    const char *value;
};

// The request to sign. headers are signed in addition to host, x-amz-date, x-amz-content-sha256
// (for "s3" only) and x-amz-security-token (with a session token). The signer adds these four; the
// caller sends them with the same values.
struct sigv4_request {
    const char *method;
    const char *host;               // with the port unless it is the scheme's default
    const char *path;               // not encoded, starts with '/'
    const struct sigv4_pair *query; // not encoded, in any order
    size_t query_len;
    const struct sigv4_pair *headers;
    size_t headers_len;
    const char *region;
    // "s3". Other services need a path that is normalised and encoded twice, which the signer does
    // not do. For them only a path that stays the same, such as "/", works.
    const char *service;
    int64_t time_ms;            // since 1970
    const char *payload_sha256; // hex, or "UNSIGNED-PAYLOAD"
};

// The parts that a client sends. Each buffer is text with a final 0 that its length does not count.
struct sigv4_signature {
    struct buf target;        // encoded path and sorted, encoded query: "/a%20b?delete="
    struct buf authorization; // the value of the header
    char date[17];            // the value of x-amz-date
    struct buf canonical;     // for tests and diagnosis; holds the session token
};

void sigv4_signed_init(struct sigv4_signature *s);
void sigv4_signed_done(struct sigv4_signature *s);
void sigv4_sign(const struct sigv4_request *r, const struct sigv4_keys *keys,
                struct sigv4_signature *out);
