// SPDX-License-Identifier: Apache-2.0
// The connections of a server, and until when each is to have said what is expected of it.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define LINE_PEER_MAX 64

struct line {
    struct line *next, *before;
    int fd;
    void *owner;              // the server's own, as is ...
    uint64_t seat;            // ... where its hang-up is looked for (hangup.h); 0: nowhere yet
    _Atomic int64_t deadline; // clock_boot_ms; 0: none
    char peer[LINE_PEER_MAX]; // the other end's address
};

struct lines {
    pthread_mutex_t lock;
    struct line *first;
};

void lines_init(struct lines *l);
void lines_done(struct lines *l); // there must be none left
struct line *line_new(struct lines *l, int fd, int64_t within_ms);
void line_free(struct lines *l, struct line *line);     // before its socket is closed
void line_expect(struct line *line, int64_t within_ms); // 0: nothing
void lines_cut_late(struct lines *l); // ends those whose time is up; their owner finds them closed
