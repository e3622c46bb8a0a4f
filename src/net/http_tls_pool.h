// SPDX-License-Identifier: Apache-2.0
// Performs calls of http_async.h that need TLS or a proxy, with libcurl on a bounded number of
// threads. If no thread is free, the call is refused.
#pragma once

#include "net/http_async.h"

struct http_tls_pool;

struct http_tls_pool *http_tls_pool_new(const struct http_config *config, size_t threads_max);
void http_tls_pool_free(struct http_tls_pool *l); // NULL is fine; no call may be under way

// Returns false if all threads are busy: nothing was done, and done is not called. A call cannot be
// cancelled.
bool http_tls_pool_do(struct http_tls_pool *l, struct http_async_call *call);
