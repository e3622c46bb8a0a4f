// SPDX-License-Identifier: Apache-2.0
// The workers that joined with a handle. Calls of such a worker are its heartbeats.
#pragma once

#include "api/handle.h"

struct registered_workers;
void registered_free(struct registered_workers *j); // NULL is allowed
// The worker is about to receive: makes a heartbeat if it joined and one is due.
void registered_note_receive(struct sluice *s, const char *queue, const char *worker);
// How long one receive of the worker may wait, so that the next beat is not late. 0: any time.
int64_t registered_wait_max(struct sluice *s, const char *queue, const char *worker);
void registered_note_renew(struct sluice *s, const char *queue); // all workers of the queue
// Copies the name and the instance of a worker of the queue that joined with this handle. worker:
// which one; NULL: any. Returns false if there is none.
bool registered_name(struct sluice *s, const char *queue, const char *worker,
                     char name[WORKER_NAME_MAX + 1], uint64_t *instance);
