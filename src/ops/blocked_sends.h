// SPDX-License-Identifier: Apache-2.0
// Sends to a full queue with backpressure=block. They wait in a line, in the order in which they
// began, without a thread. One of them tries at a time, several while there is plenty of space. A
// send that comes later waits behind them.
#pragma once

#include "base/err.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct local_call;
struct blocked_sends;
struct open_queue;
struct engine;

// The line of a queue. Under the lock of the handle's lines.
struct send_line {
    size_t blocked;   // sends that wait or try
    size_t trying;    // of them, those that try
    size_t width;     // how many may try at once; 0 counts as 1
    int64_t pause_ms; // the present pause
    int64_t try_at;   // its end, clock_boot_ms
};

// The place of one send. All zeros: it is in no line.
struct blocked_place {
    struct list_link link;
    uint64_t number; // rises with every send; 0: none yet
    bool blocked;    // it waits or tries
    bool tries;
    bool last;
};

// The lines of a handle.
MUST_USE enum err blocked_sends_new(struct engine *e, struct blocked_sends **out);
void blocked_sends_stop(
    struct blocked_sends *l); // every send that waits gives up, and has ended; NULL is fine
void blocked_sends_free(struct blocked_sends *l); // after blocked_sends_stop; NULL is fine

// The place of a send that begins now. Returns whether others wait for space in its queue.
bool blocked_send_enter(struct local_call *c);
void blocked_send_wait(struct local_call *c); // call_note_resumed follows
// The send has ended. plenty: it found more space than a few sends take.
void blocked_send_leave(struct local_call *c, bool plenty);
size_t blocked_sends_count(struct engine *e,
                           const char *queue); // sends of this queue that wait or try
