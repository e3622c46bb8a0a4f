// SPDX-License-Identifier: Apache-2.0
// Forwards the calls of a direct handle to the shard's owner, if there is an owner that answers.
// The owner commits the ops of many callers in one entry, and direct writers would only compete
// with it. send, receive, ack, fail, release and renew are forwarded. Every other call is done
// directly.
//
// A forwarded call can be done directly at any moment, with the same request id, so it takes effect
// once. So an owner that died delays a call by a second at most. The handle then does not use it
// for a while.
#pragma once

#include "local/transport.h"

#include <stdbool.h>

struct forward;

// The forwarding state of a handle. Returns NULL if the options or SLUICE_FORWARD turn forwarding
// off.
struct forward *forward_new(const struct sluice_options *options);
void forward_free(struct forward *f); // NULL is allowed

// Returns true if the answer is the queue's own decision. Otherwise its cause is the network, a
// limit of the node, or the store as the node sees it. None of these binds a process that can write
// directly.
bool forward_is_final(enum sluice_code code, const struct sluice_error *why);
// The result of a repeated call while an earlier attempt with the same id may still take effect
// (err_repeated). A row with a reason was decided by an entry and stays. The rows may be NULL.
enum sluice_code code_repeated(enum sluice_code code);
void sent_repeated(struct sluice_sent *sent, size_t len);
void outcomes_repeated(struct sluice_outcome *outcomes, size_t len);
