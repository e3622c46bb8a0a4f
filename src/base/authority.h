// SPDX-License-Identifier: Apache-2.0
// The authority of a URL: "host", "host:port", "[address]" or "[address]:port".
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct authority {
    struct bytes host; // without brackets; may be empty
    struct bytes port; // its digits; data is NULL if no colon is there
    uint16_t number;   // of the port
    bool bracketed;    // the host is in brackets, as an IPv6 address must be
};

// False: a bracket has no other one, a colon follows the port's, or the port is no number from 0 to
// 65535. The host can be any text.
bool authority_split(struct bytes text, struct authority *out);

// The host is not empty and can be a name, or in brackets an address.
bool authority_has_host(const struct authority *a);

// What stands between "://" and the first of / ? #, without "user@". Without "://": from the start.
struct bytes authority_of(const char *url);
