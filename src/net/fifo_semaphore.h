// SPDX-License-Identifier: Apache-2.0
// A counting semaphore whose waiters are served in the order of their arrival.
#pragma once

#include "base/list.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fifo_semaphore {
    pthread_mutex_t lock;
    size_t free;
    struct list waiters; // none while `free` is above 0
};

void fifo_semaphore_init(struct fifo_semaphore *t, size_t count);
void fifo_semaphore_done(struct fifo_semaphore *t);
bool fifo_semaphore_take(struct fifo_semaphore *t, int64_t wait_ms); // false: the time passed first
bool fifo_semaphore_take_free(struct fifo_semaphore *t);             // false: it would have to wait
void fifo_semaphore_give(struct fifo_semaphore *t); // passes it to the first waiter
