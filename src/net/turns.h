// SPDX-License-Identifier: Apache-2.0
// So many may be under way at once; the others wait in line, first come, first served.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct turns {
    pthread_mutex_t lock;
    size_t free;
    struct turn_waiter *first; // NULL while a turn is free
    struct turn_waiter *last;
};

void turns_init(struct turns *t, size_t count);
void turns_done(struct turns *t);
bool turns_take(struct turns *t, int64_t wait_ms); // false: the time passed first
bool turns_take_free(struct turns *t);             // false: it would have to wait
void turns_give(struct turns *t);                  // back, to the one who waits longest
