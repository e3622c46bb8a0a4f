// SPDX-License-Identifier: Apache-2.0
// A send as often as it takes: into a full queue with backpressure=block it is made again until
// there is room. Who waits in between, and how, is the caller's business.
#pragma once

#include "local/inside.h"

struct send_attempts;

#define FULL_NAP_MIN_MS 5 // between two tries
#define FULL_NAP_MAX_MS 200

// The first try. SLUICE_LIMIT with a trip: there was no room, and it is worth trying again; what is
// lent to it is lent until its end. Without one that was all. sent has a row for each message.
enum sluice_code send_attempts_begin(struct sluice *s, const char *queue,
                                     const struct sluice_send *messages, size_t len,
                                     const struct sluice_request *request, struct sluice_sent *sent,
                                     struct sluice_error *error, struct send_attempts **out);
// One whose first try was made elsewhere, as one op with that id: sent says what came of it. NULL:
// the queue is gone, as error says.
struct send_attempts *send_attempts_resume(struct sluice *s, const char *queue,
                                           const struct sluice_send *messages, size_t len,
                                           const struct sluice_request *request,
                                           struct sluice_sent *sent, struct sluice_error *error);
enum sluice_code send_attempts_again(struct send_attempts *t); // SLUICE_LIMIT: still none
bool send_attempts_saw_plenty(
    const struct send_attempts *t);              // of room, so that others need not be careful
void send_attempts_end(struct send_attempts *t); // NULL is fine
