// SPDX-License-Identifier: Apache-2.0
// Creates listening sockets and parses their addresses.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reserves an address. host is an address ("127.0.0.1", "::1"), not a name. Port 0 chooses a free
// port. *bound is set to the port. Returns the socket, or a negative number with the reason in
// `why`. The system refuses clients of this port until listen_begin.
int listen_bind(const char *host, uint16_t port, uint16_t *bound, char *why, size_t why_len);
// Clients can connect from here on. Returns false with the reason in `why`: another process bound
// the same port at the same time, and listens already. host: for the reason.
bool listen_begin(int fd, const char *host, char *why, size_t why_len);
// Returns whether only this machine can reach the address.
bool listen_is_loopback(const char *host);
// Accepts "127.0.0.1:7333", "[::1]:7333" and ":7333" (every IPv4 address). Returns false for any
// other text.
#define LISTEN_HOST_MAX 64
bool listen_parse(const char *text, char host[LISTEN_HOST_MAX], uint16_t *port);
