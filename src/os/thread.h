// SPDX-License-Identifier: Apache-2.0
// A thread that serves one object until that ends, for example an event loop. Work that comes and
// goes runs on os/thread_pool.h instead.
#pragma once

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>

// Why a call failed with ERR_LIMIT, for a person.
#define THREAD_REFUSED                                                                             \
    "the process cannot create a thread; see the limits of its user and of its control group"

struct thread {
    pthread_t id;
    bool made;
};

// Signals are blocked in the thread: they are for the program's own threads. ERR_LIMIT: the system
// refuses a thread, and nothing runs.
MUST_USE enum err thread_start(struct thread *t, void *(*run)(void *), void *arg);
void thread_join(struct thread *t); // waits for its end; does nothing if it was not made
