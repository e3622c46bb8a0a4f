// SPDX-License-Identifier: Apache-2.0
// The URL of a bus, parsed (bus.h has its form).
#pragma once

#include "bus/bus.h"

#define BUS_SERVERS_MAX 16
#define BUS_SERVER_MAX  288 // "tls://host:port", with the zero
#define BUS_PREFIX_MAX  32

struct bus_url {
    bool tls;
    char servers[BUS_SERVERS_MAX][BUS_SERVER_MAX];
    size_t servers_len;
    struct bus_limits limits;
    char prefix[BUS_PREFIX_MAX + 1]; // [A-Za-z0-9_-]*; "": none
};

// A subject, filter or stream as the server knows it. Returns false if it is too long.
bool bus_url_subject(const struct bus_url *u, const char *subject, char *out, size_t out_len);
bool bus_url_stream(const struct bus_url *u, const char *stream, char *out, size_t out_len);
// The caller's form of a subject of the server.
const char *bus_url_own(const struct bus_url *u, const char *subject);

// ERR_INVALID: why says what is wrong. It never has a part of a password.
MUST_USE enum err bus_url_read(const char *url, struct bus_url *out, char why[static BUS_WHY_MAX]);
