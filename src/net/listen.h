// SPDX-License-Identifier: Apache-2.0
// A socket that listens.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// host is an address ("127.0.0.1", "::1"), not a name; port 0 chooses a free one, and *bound is
// which. Negative: why says what is wrong.
int listen_at(const char *host, uint16_t port, uint16_t *bound, char *why, size_t why_len);
// Whether only this machine can reach what listens there.
bool listen_is_loopback(const char *host);
// "127.0.0.1:7333", "[::1]:7333", ":7333" (every address). False: it is none of these.
#define LISTEN_HOST_MAX 64
bool listen_parse(const char *text, char host[LISTEN_HOST_MAX], uint16_t *port);
