// SPDX-License-Identifier: Apache-2.0
// The calls of courier.h where a connection needs more than a socket, TLS above all: by libcurl, on
// threads of which there are only so many. One that finds none free is not taken.
#pragma once

#include "net/courier.h"

struct lanes;

struct lanes *lanes_new(const struct http_config *config, size_t threads_max);
void lanes_free(struct lanes *l); // NULL is fine; no call may be under way

// False: all are busy; nothing was done, and done is not called. It cannot be cancelled.
bool lanes_do(struct lanes *l, struct courier_call *call);
