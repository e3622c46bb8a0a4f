// SPDX-License-Identifier: Apache-2.0
// Private to the owner's side: owner.c (the steps of a round) and owner_box.c (the box of a
// worker).
#pragma once

#include "mailbox/owner.h"

// A ticket that was delivered, until it is not listed any more.
struct box_ticket {
    struct lock_ref ref;
    uint64_t round; // in which it was last seen
};

struct box {
    char name[MAILBOX_BOX_MAX + 1];
    uint64_t instance;
    struct bytes worker; // owned; empty: not known yet
    uint64_t in_next;    // the number of the next object
    uint64_t in_first;   // the oldest object that may exist
    uint64_t in_seen;    // the worker has read up to here
    uint64_t out_seen;   // the newest object that was handled
    uint64_t *handled;   // objects that were handled and are not deleted yet
    size_t handled_len, handled_cap;
    bool reports; // an object was handled since the last write
    bool registered;
    int64_t newest_at; // store time of its newest object, or of its registration
    uint64_t untaken;  // the newest round in which it had delivered tickets that were not taken
    uint64_t served;   // the round in which tickets were last delivered
    int64_t beat_at;   // when its registration was last renewed
    struct buf rows;   // not written yet
    uint32_t rows_len;
    struct box_ticket *tickets;
    size_t tickets_len, tickets_cap;
};

struct round_read {
    size_t box;
    uint64_t number;
    struct interval modified;
    bool done;
    bool missing;
};

struct round_op {
    size_t read;
    struct op op; // owned payload
    bool answered;
};

struct round_write {
    size_t box;
    uint64_t number;
    struct buf object;
};

// It can outlast a round.
struct round_delete {
    char box[MAILBOX_BOX_MAX + 1];
    enum mailbox_way way;
    uint64_t number;
};

struct mailbox_owner {
    char prefix[MAILBOX_KEY_MAX];
    struct queue_id queue;
    uint32_t shard;
    struct interval now;
    uint64_t round;
    uint32_t room;        // workers that may have delivered tickets that are not taken yet
    uint32_t untaken;     // that have some, in this round
    int64_t in_listed_at; // TIME_UNKNOWN: never
    bool slow;            // the last round was
    int64_t marked_at;    // TIME_UNKNOWN: never
    struct box **boxes;   // by name
    size_t boxes_len, boxes_cap;
    struct round_read *reads;
    size_t reads_len, reads_cap;
    struct round_op *ops;
    size_t ops_len, ops_cap;
    struct round_write *writes;
    size_t writes_len, writes_cap;
    struct round_delete *deletes;
    size_t deletes_len, deletes_cap;
};

// Makes space for one more element of an array.
void *owner_grow(void *array, size_t len, size_t *cap, size_t size);
#define OWNER_GROW(array, len, cap) ((array) = owner_grow((array), (len), &(cap), sizeof *(array)))

size_t box_need(struct mailbox_owner *o, const char *name);            // its index; makes it
struct box *box_find(const struct mailbox_owner *o, const char *name); // NULL: there is none
struct box *box_of(struct mailbox_owner *o, struct bytes worker, uint64_t instance);
void box_free(struct box *b);
bool box_has_handled(const struct box *b, uint64_t number);
void box_handled(struct box *b, uint64_t number);
struct box_ticket *box_ticket_find(struct box *b, const struct lock_ref *ref);
// Drops delivered tickets that were not seen in this round: they were taken, or are over.
void box_tickets_drop(struct box *b, uint64_t round);
