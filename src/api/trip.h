// SPDX-License-Identifier: Apache-2.0
// A send as often as it takes: into a full queue with backpressure=block it is made again until
// there is room. Who waits in between, and how, is the caller's business.
#pragma once

#include "api/inside.h"

struct trip;

#define ROOM_NAP_MIN_MS 5 // between two tries
#define ROOM_NAP_MAX_MS 200

// The first try. SLUICE_LIMIT with a trip: there was no room, and it is worth trying again; what is
// lent to it is lent until its end. Without one that was all. sent has a row for each message.
enum sluice_code trip_begin(struct sluice *s, const char *queue, const struct sluice_send *messages,
                            size_t len, const struct sluice_request *request,
                            struct sluice_sent *sent, struct sluice_error *error,
                            struct trip **out);
// One whose first try was made elsewhere, as one op with that id: sent says what came of it. NULL:
// the queue is gone, as error says.
struct trip *trip_resume(struct sluice *s, const char *queue, const struct sluice_send *messages,
                         size_t len, const struct sluice_request *request, struct sluice_sent *sent,
                         struct sluice_error *error);
enum sluice_code trip_again(struct trip *t); // SLUICE_LIMIT: still none
bool trip_saw_plenty(const struct trip *t);  // of room, so that others need not be careful
void trip_end(struct trip *t);               // NULL is fine
