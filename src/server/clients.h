// SPDX-License-Identifier: Apache-2.0
// Divides a limited number of places among the clients of a node: waiting receives, event streams,
// calls that wait for a thread. One client may have all places while no other client wants one.
// When all are taken, a client that has fewer places takes one from the client that has the most.
//
// A client is a number: a keyed hash of its token's name or of its address. The owner of a table
// also has the lock for it.
#pragma once

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENTS_BUCKETS 512

// One place of a client. Embed it, zeroed.
struct share {
    struct list_link link; // among the client's places
    struct client *client; // NULL: it is not a place at present
};

struct client {
    struct client *next; // in its bucket
    uint64_t key;
    size_t len;         // number of its places
    struct list places; // the oldest first
};

struct clients {
    struct client *buckets[CLIENTS_BUCKETS];
    size_t max; // number of places
    size_t len; // places that are taken
};

// Takes a place for the client. Returns false if there is none for it. *lost is NULL, or the newest
// place of the client that had the most: this call took it away, and its owner must end what holds
// it.
bool share_take(struct clients *c, struct share *p, uint64_t key, struct share **lost);
void share_give(struct clients *c, struct share *p); // also accepts a place that was lost
