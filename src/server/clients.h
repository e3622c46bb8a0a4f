// SPDX-License-Identifier: Apache-2.0
// Places that the clients of a node share: to wait in, to be streamed to. One client may have all
// of them while no other wants any. When all are taken, a client that has fewer than another gets
// one of that other's.
//
// A client is a number: a keyed hash of its token's name, or of its address. The owner of a table
// also has a lock for it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENTS_BUCKETS 512

// One thing that a client has. Embed it, zeroed.
struct share {
    struct share *next, *before; // of the same client, the oldest first
    struct client *client;       // NULL: it is none at present
};

struct client {
    struct client *next; // of its bucket
    uint64_t key;
    size_t len; // places
    struct share *first, *last;
    // server/call_pool.c
    size_t running;
    bool queued;
    struct client *next_queued;
};

struct clients {
    struct client *buckets[CLIENTS_BUCKETS];
    size_t max; // places
    size_t len; // of them are taken
};

// Takes a place for the client. False: there is none for it. *lost: NULL, or the newest place of
// the client that has the most: it was taken away for this one, and its owner is to end what it
// stands for.
bool share_take(struct clients *c, struct share *p, uint64_t key, struct share **lost);
void share_give(struct clients *c, struct share *p); // one that was lost may be given back, too

// The client with this key; made when it is not there.
struct client *client_of(struct clients *c, uint64_t key);
void client_forget(struct clients *c, struct client *one); // if it has nothing
