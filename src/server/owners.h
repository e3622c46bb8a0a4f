// SPDX-License-Identifier: Apache-2.0
// Tells clients of several nodes which node owns each shard (protocol/owner_map.h), so that their
// next calls go there. The line of a queue is made at most ten times a second.
#pragma once

#include "net/httpd.h"
#include "protocol/owner_map.h"

struct exchange;

struct owners_cache;
struct owners_cache *owners_shown_new(void);
void owners_shown_free(struct owners_cache *o); // NULL is fine

#define OWNERS_HEADERS_MAX 8
// Adds the header to the answer of a request that asks for it. `headers` has room for the headers
// of the answer and one more; the answer points to it afterwards.
void owners_add(struct exchange *x, struct httpd_answer *a,
                struct httpd_pair headers[OWNERS_HEADERS_MAX]);
