// SPDX-License-Identifier: Apache-2.0
// Creates listening sockets and parses their addresses.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// host is an address ("127.0.0.1", "::1"), not a name. Port 0 chooses a free port. *bound is set to
// the port. Returns the socket, or a negative number with the reason in `why`.
int listen_at(const char *host, uint16_t port, uint16_t *bound, char *why, size_t why_len);
// Returns whether only this machine can reach the address.
bool listen_is_loopback(const char *host);
// Accepts "127.0.0.1:7333", "[::1]:7333" and ":7333" (every IPv4 address). Returns false for any
// other text.
#define LISTEN_HOST_MAX 64
bool listen_parse(const char *text, char host[LISTEN_HOST_MAX], uint16_t *port);
