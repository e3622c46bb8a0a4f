// SPDX-License-Identifier: Apache-2.0
// Everything that clients of a world ever asked, and what they were told. An ask is one request id;
// each submission of it has its own ticket, which travels in the entry, so that the history tells
// which submission it carries.
#pragma once

#include "register.h"

enum ticket_kind { TICKET_OP, TICKET_SYNC, TICKET_OWN, TICKET_COORD, TICKET_TOUCH };

struct ticket {
    enum ticket_kind kind;
    uint32_t ask; // TICKET_OP
    uint32_t node;
    uint32_t life;
    int64_t deadline;
    uint64_t tail_then; // length of the history when it was submitted
    bool answered;
    bool orphan; // its handle crashed before it answered
    enum err err;
    // What the history says, filled in when an entry with it is committed.
    uint64_t slot; // 0: in no entry so far
    bool is_void;  // that entry has no effect
    enum err fold_err;
    int64_t fold_value;
};

struct ask {
    struct register_ask what;
    int64_t first_at;
    uint32_t tries;
    uint32_t effects; // how often it took effect
    bool open;        // a submission of it is waiting
    bool closed;      // answered for good, or given up
};

struct tickets {
    struct ticket *rows; // ticket n is rows[n - 1]
    size_t len;
    size_t cap;
    struct ask *asks;
    size_t asks_len;
    size_t asks_cap;
};

void tickets_init(struct tickets *t);
void tickets_done(struct tickets *t);
uint64_t tickets_push(struct tickets *t, const struct ticket *row); // its number
struct ticket *tickets_at(struct tickets *t, uint64_t ticket);      // NULL: no such
uint32_t asks_push(struct tickets *t, const struct ask *ask);
// The ask whose request id this is; the id carries its place. NULL: no ask has it.
struct ask *asks_find(struct tickets *t, const uint8_t request[REGISTER_REQUEST_LEN]);
void ask_name(struct ask *ask, uint32_t place, uint64_t chance); // makes the request id
