// SPDX-License-Identifier: Apache-2.0
// The calls of courier.h where a connection needs more than a socket, TLS above all: by libcurl, on
// threads of which there are only so many. One that finds none free is not taken.
#pragma once

#include "net/http_async.h"

struct http_tls_pool;

struct http_tls_pool *http_tls_pool_new(const struct http_config *config, size_t threads_max);
void http_tls_pool_free(struct http_tls_pool *l); // NULL is fine; no call may be under way

// False: all are busy; nothing was done, and done is not called. It cannot be cancelled.
bool http_tls_pool_do(struct http_tls_pool *l, struct http_async_call *call);
