// SPDX-License-Identifier: Apache-2.0
// What the tests of a store in Redis share: the server as its operator sees it, and stores on it.
#pragma once

#include "../conformance/store/support.h"
#include "store/redis/redis.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define URL_MAX 512
#define LOG     "q/id/0/log"

// Sends one command to the server, past the store: words separated by spaces. to gets the reply, or
// the first text of a list.
void operator_says(const char *command, char *to, size_t to_len);
void operator_does(const char *command); // the reply must not be an error
void control(const char *word);          // with-redis control

// A store with a prefix that no test has used.
struct place {
    char prefix[S3_PREFIX_LEN];
    char url[URL_MAX];
};
void place_make(struct place *p, const char *settings); // settings: "" or "&name=value"
struct store *place_store(const struct place *p);
// Opens the URL, which must be refused with `want` and a sentence that contains `says`.
void refused(const char *url, enum err want, const char *says);

// A thread that waits in the store for the first slot of a log: sleep_in_store(struct sleeper *).
struct sleeper {
    struct store *s;
    char log[40];
    enum err e;
    pthread_t thread;
};
void *sleep_in_store(void *arg);

// Appends slot after slot, as a journal does: a slot in doubt is sent again until it is decided.
struct writer {
    struct store *s;
    _Atomic bool stop;
    _Atomic uint64_t done;
    enum err bad;
    uint64_t doubts;
    char why[STORE_WHY_MAX];
    pthread_t thread;
};

void *write_slots(void *arg); // a struct writer
// Waits until *done is the slot, or later.
void wait_for_slot(_Atomic uint64_t *done, uint64_t slot);
