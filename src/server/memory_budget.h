// SPDX-License-Identifier: Apache-2.0
// What the answers of a node may take together, from the moment their messages are read out of the
// store until a client has read them. A quarter is for small answers: whoever asks for little is
// answered while others do not read what is large.
//
// A part is some of it that one answer has: bytes, 0 at first, kept by the caller for the calls
// below.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUDGET_SMALL ((size_t)256 << 10) // a part up to this is small

struct memory_budget {
    size_t max;
    _Atomic size_t small; // what small parts take
    _Atomic size_t large; // the others; changes under the lock
    pthread_mutex_t lock;
    pthread_cond_t freed;
};

void budget_init(struct memory_budget *r, size_t max);
void budget_done(struct memory_budget *r);
size_t budget_used(const struct memory_budget *r);
// What one answer is cut to; one that cannot be is let through when no other large one is there.
size_t budget_share(const struct memory_budget *r);
// Whether a small one would find its part.
bool budget_left(const struct memory_budget *r);
// Makes the part so large, or waits up to wait_ms for that. False: it is as it was.
bool budget_take(struct memory_budget *r, size_t *part, size_t bytes, int64_t wait_ms);
// Makes the part so large in any case: it is there already, or is given back.
void budget_set(struct memory_budget *r, size_t *part, size_t bytes);
