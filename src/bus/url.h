// SPDX-License-Identifier: Apache-2.0
// The URL of a bus, parsed (bus.h has its form).
#pragma once

#include "bus/bus.h"

#define BUS_SERVERS_MAX 16
#define BUS_SERVER_MAX  288 // "tls://host:port", with the zero

struct bus_url {
    bool tls;
    char servers[BUS_SERVERS_MAX][BUS_SERVER_MAX];
    size_t servers_len;
    struct bus_limits limits;
};

// ERR_INVALID: why says what is wrong. It never has a part of a password.
MUST_USE enum err bus_url_read(const char *url, struct bus_url *out, char why[static BUS_WHY_MAX]);
