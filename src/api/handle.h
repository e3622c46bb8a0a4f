// SPDX-License-Identifier: Apache-2.0
// The handle of sluice.h: an engine on a store, or a client of a node, and what the handle itself
// remembers.
#pragma once

#include "ops/ops.h"

struct node_client;

struct sluice {
    struct engine *engine;                         // NULL: the handle is a client
    struct node_client *client;                    // NULL: it is an engine
    pthread_mutex_t lock;                          // guards the making of what follows
    struct registered_workers *_Atomic registered; // workers that joined with it (workers.c)
    struct signal_marks *_Atomic signals_seen;     // the last signal of each token; NULL: none
};

// sluice_open on an open store, which it takes. url: the store's name in errors.
enum sluice_code handle_open_take(struct store *store, const char *url,
                                  const struct sluice_options *options, struct sluice **out,
                                  struct sluice_error *error);
struct pool_share *handle_parallel(const struct sluice *s); // for os/parallel.h

// dispatch_<name>: the call of that name on the store or at the node.
#define DISPATCH_CALL(result, public, made, name, params, args) result dispatch_##name params;
LIBRARY_CALLS(DISPATCH_CALL, struct sluice *s)
#undef DISPATCH_CALL
