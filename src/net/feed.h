// SPDX-License-Identifier: Apache-2.0
// A bounded buffer between a writer thread and a reader that must not block: the body of an endless
// answer. The feed suspends the reader when the buffer is empty and resumes it at the next write.
#pragma once

#include "base/bytes.h"

#include <pthread.h>
#include <sys/types.h>

struct feed {
    pthread_mutex_t lock;
    pthread_cond_t less; // signalled when the buffer was emptied
    struct buf text;
    size_t sent;                 // bytes of text that were read
    bool ended;                  // the writer has ended
    bool gone;                   // the reader has ended
    bool asleep;                 // the reader is suspended
    void (*sleep)(void *reader); // suspends and resumes the reader; both run under the lock
    void (*wake)(void *reader);
    void *reader;
};

#define FEED_END  (-1) // everything was read, and the writer has ended
#define FEED_GONE (-2)

void feed_init(struct feed *f, size_t limit);
void feed_done(struct feed *f);
// Returns the number of bytes, FEED_END or FEED_GONE. 0: the buffer was empty, and the reader is
// suspended.
ssize_t feed_read(struct feed *f, void *to, size_t max);
// Waits up to wait_ms for space. Returns false if the reader has ended or is too slow.
bool feed_write(struct feed *f, struct bytes some, int64_t wait_ms);
void feed_end(struct feed *f);  // the writer has ended
void feed_lost(struct feed *f); // the reader has ended; a suspended reader is resumed
bool feed_gone(struct feed *f);
size_t feed_pending(struct feed *f); // bytes that the reader has not read
