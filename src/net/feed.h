// SPDX-License-Identifier: Apache-2.0
// Bytes on their way from one who writes now and then to one who reads when it can: an answer
// without an end. The reader is put to sleep when there is nothing, and woken when there is.
#pragma once

#include "base/bytes.h"

#include <pthread.h>
#include <sys/types.h>

struct feed {
    pthread_mutex_t lock;
    pthread_cond_t less;
    struct buf text;
    size_t sent; // of text
    bool ended;
    bool gone;
    bool asleep;
    void (*sleep)(void *reader); // both under the lock
    void (*wake)(void *reader);
    void *reader;
};

#define FEED_END  (-1) // everything was read, and nothing more comes
#define FEED_GONE (-2)

void feed_init(struct feed *f, size_t limit);
void feed_done(struct feed *f);
// How many bytes; 0: none now, and the reader was put to sleep.
ssize_t feed_read(struct feed *f, void *to, size_t max);
// Waits up to wait_ms for room. False: the reader is gone, or too slow.
bool feed_write(struct feed *f, struct bytes some, int64_t wait_ms);
void feed_end(struct feed *f);  // nothing more is written
void feed_lost(struct feed *f); // nothing more is read; a reader asleep is woken to hear that
bool feed_gone(struct feed *f);
