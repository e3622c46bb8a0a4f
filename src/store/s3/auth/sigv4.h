// SPDX-License-Identifier: Apache-2.0
// AWS Signature Version 4, as pure text work: what goes into the Authorization header.
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

// What is signed. Headers are those that are to be signed beside host, x-amz-date,
// x-amz-content-sha256 (for "s3" alone) and x-amz-security-token (with a session token), which are
// added here: the caller sends them with the same values.
struct sigv4_request {
    const char *method;
    const char *host;               // with the port when it is not the scheme's own
    const char *path;               // not encoded, starts with '/'
    const struct sigv4_pair *query; // not encoded, in any order
    size_t query_len;
    const struct sigv4_pair *headers;
    size_t headers_len;
    const char *region;
    const char *service; // "s3"; others want a path normalised and encoded twice, which this does
                         // not do: only paths that stay the same, as "/" does
    int64_t time_ms;     // since 1970
    const char *payload_sha256; // hex, or "UNSIGNED-PAYLOAD"
};

// The pieces a client needs. Each buffer is text with a closing 0 that its length does not count.
struct sigv4_signed {
    struct buf target;        // the encoded path and the sorted, encoded query: "/a%20b?delete="
    struct buf authorization; // the value of the header
    char date[17];            // the value of x-amz-date
    struct buf canonical;     // for tests and for explaining a refused signature; it holds the
                              // session token
};

void sigv4_signed_init(struct sigv4_signed *s);
void sigv4_signed_done(struct sigv4_signed *s);
void sigv4_sign(const struct sigv4_request *r, const struct sigv4_keys *keys,
                struct sigv4_signed *out);
