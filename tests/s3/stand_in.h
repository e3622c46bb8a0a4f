// SPDX-License-Identifier: Apache-2.0
// An HTTP server on loopback that stands in for the services that hand out keys. It answers what it
// was told to, request by request line, and counts.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct stand_in;

struct stand_in *stand_in_new(void);
void stand_in_free(struct stand_in *s);
const char *stand_in_url(const struct stand_in *s); // "http://127.0.0.1:port"

// what: "GET /path". Replaces an earlier answer; the count goes on. Unknown requests get a 404.
void stand_in_answer(struct stand_in *s, const char *what, int status, const char *body);
// Without this header line the answer is 401. NULL: none is wanted.
void stand_in_require(struct stand_in *s, const char *what, const char *header);
// Requests are read and not answered until it is called with false, which answers them.
void stand_in_hang(struct stand_in *s, const char *what, bool hang);
int stand_in_count(struct stand_in *s, const char *what);
// Waits until that many have come; false after ten seconds.
bool stand_in_await(struct stand_in *s, const char *what, int count);
// The last request to it, headers and body.
void stand_in_last(struct stand_in *s, const char *what, char *to, size_t size);
