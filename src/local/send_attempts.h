// SPDX-License-Identifier: Apache-2.0
// A send that is repeated: into a full queue with backpressure=block, it is tried again until there
// is space. The caller waits between two tries.
#pragma once

#include "local/inside.h"

struct send_attempts;

#define FULL_PAUSE_MIN_MS 5 // the pause between two tries
#define FULL_PAUSE_MAX_MS 200

// The first try. SLUICE_LIMIT with *out set: the queue is full, and the send can be tried again.
// The arguments stay borrowed until send_attempts_end. With *out NULL, the result is final. sent
// has a row for each message.
enum sluice_code send_attempts_begin(struct sluice *s, const char *queue,
                                     const struct sluice_send *messages, size_t len,
                                     const struct sluice_request *request, struct sluice_sent *sent,
                                     struct sluice_error *error, struct send_attempts **out);
// A send whose first try was submitted as one op with this request id (async_runner_send). sent has
// the results of that try. NULL: the queue cannot be opened, and error says why.
struct send_attempts *send_attempts_resume(struct sluice *s, const char *queue,
                                           const struct sluice_send *messages, size_t len,
                                           const struct sluice_request *request,
                                           struct sluice_sent *sent, struct sluice_error *error);
enum sluice_code send_attempts_again(struct send_attempts *t); // SLUICE_LIMIT: still full
// Whether the queue has much space, so that several sends may try at once.
bool send_attempts_saw_space(const struct send_attempts *t);
void send_attempts_end(struct send_attempts *t); // NULL is fine
