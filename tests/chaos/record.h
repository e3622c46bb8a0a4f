// SPDX-License-Identifier: Apache-2.0
// Reads the event streams from before the first message to after the last and keeps every event.
// Reads them once more at the end, to see that they are the same.
#pragma once

#include "shared_record.h"

#include <pthread.h>

enum happening { ENQUEUED, CLAIMED, PROCESSED, RETRYING, DEAD, RELEASED, EXPIRED, OTHER };

struct record {
    uint64_t event; // hash of its id
    uint64_t position;
    char message[40];
    enum happening what;
};

struct recorder {
    struct sluice *store;
    enum lane lane;
    _Atomic bool finish; // all other processes have stopped: read to the end
    struct sluice_events *events;
    pthread_t thread;
    struct record *rows;
    size_t len;
    size_t cap;
    bool listens;
    char problem[256]; // "" when there is none
};

bool recorder_start(struct recorder *r, struct sluice *store, enum lane lane);
void recorder_finish(struct recorder *r); // waits for it
void recorder_done(struct recorder *r);
// Does a new reader of the stream hear the same, from wherever it begins? Else problem says what.
bool recorder_agrees(struct recorder *r);
