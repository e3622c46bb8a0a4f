// SPDX-License-Identifier: Apache-2.0
// The memory that all answers of a node may take together. An answer counts from the moment its
// messages are read from the store until the client has read it. A quarter is reserved for small
// answers, so that these are served while other clients do not read their large ones.
//
// A part is what one answer holds: a number of bytes, 0 at first. The caller keeps it and passes it
// to the functions below.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_SMALL ((size_t)256 << 10) // a part up to this is small

struct memory_budget {
    size_t max;
    _Atomic size_t small; // bytes of the small parts
    _Atomic size_t large; // bytes of the other parts; changes under the lock
    pthread_mutex_t lock;
    pthread_cond_t freed;
};

void budget_init(struct memory_budget *r, size_t max);
void budget_done(struct memory_budget *r);
size_t budget_used(const struct memory_budget *r);
// The size to which one answer is cut. An answer that cannot be cut is admitted when there is no
// other large one.
size_t budget_share(const struct memory_budget *r);
// Returns whether there is memory for a small part.
bool budget_left(const struct memory_budget *r);
// Enlarges the part to this size; waits up to wait_ms. Returns false if the part stays as it was.
bool budget_take(struct memory_budget *r, size_t *part, size_t bytes, int64_t wait_ms);
// Sets the size of the part without a check: for memory that is in use already, or was freed.
void budget_set(struct memory_budget *r, size_t *part, size_t bytes);
