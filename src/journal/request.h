// SPDX-License-Identifier: Apache-2.0
// The store requests of pure code, and their responses. The driver performs a request with the call
// of the same name in store/store.h. The simulator performs it in its simulated store.
#pragma once

#include "base/bytes.h"
#include "base/cost.h"
#include "base/err.h"
#include "base/interval.h"

enum request_kind {
    REQUEST_APPEND,   // key: the log; first: the slot; body
    REQUEST_READ_LOG, // key: the log; first: the slot to start at; limit: bytes at most
    REQUEST_EXTENTS,  // key: the log; first: the slot to start at; limit: rows
    REQUEST_DROP,     // key: the log; first..last
    REQUEST_PUT_NEW,  // key, body
    REQUEST_GET,      // key
    REQUEST_LIST,     // key: the prefix; after; limit: rows
    REQUEST_SEAL,     // key: the log
    REQUEST_DELETE,   // key; or, with a body, the keys in it, a zero byte after each
};

// The views are valid until the response with this id was passed back, or until the owner of the
// request is freed.
struct request {
    uint64_t id;
    enum request_kind kind;
    bool background; // no caller waits for it
    bool grows;      // append: adds messages, which a store that is nearly full refuses
    bool fresh;      // an earlier answer was wrong: use a fresh connection (store_distrust)
    const char *key;
    const char *after; // NULL: from the first key
    uint64_t first;
    uint64_t last;
    size_t limit;
    struct bytes body;
};

struct response_row {
    const char *key; // list
    uint64_t first;  // extents, read_log
    uint64_t last;
    struct interval modified;
    struct bytes body; // read_log
};

// The views need to be valid only during the call that passes the response.
struct response {
    uint64_t id;
    enum err err;
    struct interval time; // the store's clock at some moment while it served the request
    struct bytes body;    // get
    const struct response_row *rows;
    size_t rows_len;
    bool more;  // list, extents
    bool tight; // the store is nearly full
    struct cost cost;
    const char *why; // a sentence about the failure; NULL: none
};
