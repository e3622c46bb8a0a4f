// SPDX-License-Identifier: Apache-2.0
// A lock that the end of a scope releases, also at an early return.
//
//     LOCKED(&s->lock);
//
// The lock is held from this line to the end of the block that it stands in. A callback, a blocking
// call or the release of the memory of the lock comes after that block. A wait for a condition may
// stand inside it.
#pragma once

#include "base/bytes.h"

#include <pthread.h>

static inline pthread_mutex_t *mutex_take(pthread_mutex_t *lock)
{
    (void)pthread_mutex_lock(lock);
    return lock;
}

static inline void mutex_release(pthread_mutex_t **lock)
{
    (void)pthread_mutex_unlock(*lock);
}

#define LOCK_NAMED(lock, name) CLEANUP(mutex_release) pthread_mutex_t *name = mutex_take(lock)
#define LOCK_LINE(lock, line)  LOCK_NAMED(lock, lock_of_line_##line)
#define LOCK_HERE(lock, line)  LOCK_LINE(lock, line)
#define LOCKED(lock)           LOCK_HERE(lock, __LINE__)
