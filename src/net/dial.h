// SPDX-License-Identifier: Apache-2.0
// Connects sockets to servers.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define DIAL_NO_NAME (-1) // in place of an errno value: the host's name is not known

// Begins to connect to an address. Returns a socket that does not block, or -1 with the errno value
// in *number. Once it is writable, dial_result returns how it ended.
int dial_begin(const struct sockaddr *to, socklen_t len, int *number);
int dial_result(int fd); // 0, or an errno value

// Connect until `until` (clock_boot_ms). They return a socket that does not block, or -1 with the
// errno value or DIAL_NO_NAME in *number.
int dial_host(const char *host, const char *port, int64_t until, int *number);
int dial_path(const char *path, int64_t until, int *number); // a Unix socket

bool dial_poll(int fd, short events, int64_t until); // false: not ready at `until`
// Why there is no connection, as "connection refused". 0: nothing is known.
const char *dial_words(int number, char *words, size_t len);
