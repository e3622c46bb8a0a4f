// SPDX-License-Identifier: Apache-2.0
// What the stress test does to the server of its bucket: faults on the way there, and kill -9.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct server;

// The server that tests/servers/with-radosgw started. From now on this process and its children
// reach it through a proxy.
struct server *server_new(uint64_t seed); // NULL: there is none
// The server that tests/servers/with-redis started. It meets no faults, only kill -9.
struct server *server_of_redis(void);  // NULL: there is none
void server_free(struct server *s);    // NULL is fine
void server_trouble(struct server *s); // requests meet faults
void server_calm(struct server *s);    // no longer; returns when the last one is over
bool server_kill(struct server *s);    // and start, each false when it could not be done
bool server_start(struct server *s);
void server_describe(const struct server *s, uint64_t commits);
